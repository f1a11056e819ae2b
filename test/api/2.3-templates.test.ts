import t from 'tap'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { createLog } from '#src/base/log.ts'
import { createPool } from '#src/postgres/pool.ts'
import { TEMPLATES_MAX } from '#streams/template/decide.ts'
import { newRenderBudget } from '#src/content/mustache.ts'
import { FROM, startTestApp, type TestApp } from '../support/app.ts'
import { openSecondServices } from '../support/second-services.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'

const { natsUrl } = freshAccount()
const databaseUrl = await freshDatabase(t)
const app = await startTestApp(t, { natsUrl, databaseUrl })
const second = await startTestApp(t, { natsUrl, databaseUrl, env: { JETPOST_ROLES: 'api' } })

/** A full key that no window stops, on all nodes. */
async function freeKey (options: { account?: string } = {}): Promise<string> {
  const { id, secret } = await app.newKey({}, options)
  await app.limitKey(id, { 'templates:create': 100_000, 'emails:send': 100_000, other: 100_000 })
  return secret
}
const key = await freeKey()

const ask = (method: string, path: string, body?: unknown, at: TestApp = app) =>
  at.request(method, `/api/templates${path}`, { key, body })
const make = async (fields: Record<string, unknown>, at: TestApp = app) => {
  const made = await ask('POST', '', { name: 'A template', ...fields }, at)
  if (made.status !== 201) throw new Error(JSON.stringify(made.body))
  return storedOf(made.body) as { id: string, version: number, created_at: string }
}
/** A saved template as it is read again: only who saves it is warned. */
function storedOf ({ warnings: _warnings, ...stored }: Record<string, unknown>) {
  return stored
}
const send = (template: string, fields: Record<string, unknown> = {}, at: TestApp = app) =>
  at.request('POST', '/api/emails', {
    key,
    body: { from: FROM, to: 'ada@example.com', template_id: template, ...fields }
  })
const faultsOf = (body: { details: Array<{ field: string, code: string }> }) =>
  Object.fromEntries(body.details.map(({ field, code }) => [field, code]))

t.test('2.3 a template is created, and read with all its fields, on any node at once', async t => {
  const fields = {
    name: 'Receipt',
    subject: 'Order {{order}}',
    html: '<p>{{#items}}{{title}}{{/items}}</p>',
    text: 'Order {{order}}',
    variables: [{ name: 'order', type: 'string', required: true }, {
      name: 'items',
      type: 'list',
      fallback: [{ title: 'none' }]
    }]
  }
  const made = await ask('POST', '', fields)
  t.equal(made.status, 201)
  t.match(made.body, {
    id: /^tpl_[0-9a-z]{26}$/,
    version: 1,
    created_at: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
    updated_at: made.body.created_at
  })
  t.equal(made.headers.get('location'), `/api/templates/${made.body.id}`)
  const variables = [{ name: 'order', type: 'string', required: true, fallback: null }, {
    name: 'items',
    type: 'list',
    required: false,
    fallback: [{ title: 'none' }]
  }]
  const { id, version, created_at: at } = made.body
  const stored = { ...fields, variables, layout_id: null, id, version, created_at: at, updated_at: at }
  t.strictSame(made.body, { ...stored, warnings: [] })
  t.strictSame((await ask('GET', `/${id}`, undefined, second)).body, stored)
  const least = await ask('POST', '', { name: 'x', text: 't' })
  t.match(least.body, { subject: null, html: null, text: 't', variables: [], layout_id: null })
})

t.test('2.3 all faults of a template are named at once', async t => {
  const wrong = await ask('POST', '', {
    name: '',
    subjct: 'x',
    subject: 'a\nb',
    html: '<p>\n{{#a}}',
    text: 7,
    layout_id: 'tpl_none',
    variables: [{ name: 'a', type: 'string', fallback: 1 }, { name: 'a', type: 'number' }]
  })
  t.equal(wrong.status, 422)
  t.strictSame(faultsOf(wrong.body), {
    name: 'too_short',
    subjct: 'unknown_field',
    subject: 'invalid_characters',
    html: 'invalid_syntax',
    text: 'invalid_value',
    layout_id: 'template_not_found',
    'variables[0].fallback': 'invalid_type',
    'variables[1].name': 'not_unique'
  })
  t.match(
    wrong.body.details.find(({ field }: { field: string }) => field === 'html').message,
    /Line 2: {{#a}} is never closed/
  )
  t.strictSame(faultsOf((await ask('POST', '', { name: 'x' })).body), { html: 'required' })
  t.strictSame(faultsOf((await ask('POST', '', {})).body), { name: 'required', html: 'required' })
  t.strictSame(faultsOf((await ask('POST', '', { name: 7, html: null, text: null })).body), {
    name: 'invalid_value',
    html: 'required'
  })
  t.equal((await ask('POST', '', [])).status, 422)
  t.strictSame(
    faultsOf(
      (await ask('POST', '', {
        name: 'x',
        html: 'é'.repeat(131_073),
        text: 'x'.repeat(131_073),
        subject: 'x'.repeat(999)
      })).body
    ),
    {
      html: 'too_long',
      text: 'too_long',
      subject: 'too_long'
    }
  )
  const declared = (variable: unknown) => ask('POST', '', { name: 'x', text: 't', variables: [variable] })
  for (
    const variable of [
      { name: 'a b', type: 'string' },
      { name: 'a.b', type: 'string' },
      { name: 'a', type: 'date' },
      { name: 'a' },
      { name: 'a', type: 'string', default: 1 },
      7
    ]
  ) {
    t.equal((await declared(variable)).status, 422, JSON.stringify(variable))
  }
  t.equal(
    (await ask('POST', '', {
      name: 'x',
      text: 't',
      variables: Array.from({ length: 101 }, (_, i) => ({ name: `v${i}`, type: 'string' }))
    })).status,
    422
  )
})

t.test('2.3 a change makes the next version, and versions stay as they were', async t => {
  const first = await make({ subject: 'one', html: '<p>one</p>', text: 'one' })
  const path = `/${first.id}`
  const changed = await ask('PATCH', path, { subject: 'two', text: null, variables: [{ name: 'a', type: 'object' }] })
  t.match(changed, {
    status: 200,
    body: {
      id: first.id,
      version: 2,
      name: 'A template',
      subject: 'two',
      html: '<p>one</p>',
      text: null,
      created_at: first.created_at
    }
  })
  t.strictSame((await ask('GET', path, undefined, second)).body, storedOf(changed.body))
  t.strictSame((await ask('GET', `${path}?version=1`, undefined, second)).body, first)
  t.strictSame((await ask('GET', `${path}?version=2`)).body, storedOf(changed.body))
  t.strictSame((await ask('PATCH', path, {})).body, changed.body, 'nothing said')
  t.strictSame(
    (await ask('PATCH', path, {
      subject: 'two',
      text: null,
      variables: [{ name: 'a', type: 'object', required: false }]
    })).body,
    changed.body,
    'nothing new said'
  )
  t.match((await ask('PATCH', path, { name: 'Another' })).body, { version: 3, name: 'Another', subject: 'two' })
  const versions = await ask('GET', `${path}/versions`)
  t.strictSame(
    versions.body.data.map(({ version, name, subject }: Record<string, unknown>) => [version, name, subject]),
    [[3, 'Another', 'two'], [2, 'A template', 'two'], [1, 'A template', 'one']]
  )
  t.strictSame(Object.keys(versions.body.data[0]), ['version', 'name', 'subject', 'created_at'])
  for (const version of [4, 999_999_999]) {
    t.equal((await ask('GET', `${path}?version=${version}`)).status, 404, String(version))
  }
  for (const query of ['version=0', 'version=x', 'version=1&version=2', 'v=1']) {
    t.equal((await ask('GET', `${path}?${query}`)).status, 422, query)
  }
})

t.test('2.3 a change must leave a whole template', async t => {
  const { id } = await make({ html: 'x' })
  t.strictSame(faultsOf((await ask('PATCH', `/${id}`, { html: null })).body), { html: 'required' })
  t.strictSame(faultsOf((await ask('PATCH', `/${id}`, { html: '{{', name: null, layout_id: 'x' })).body), {
    name: 'invalid_value',
    html: 'invalid_syntax',
    layout_id: 'template_not_found'
  })
  t.strictSame(faultsOf((await ask('PATCH', `/${id}`, { name: ' ', text: '{{' })).body), {
    name: 'invalid_characters',
    text: 'invalid_syntax'
  })
  t.match((await ask('GET', `/${id}`)).body, { version: 1 })
  t.match((await ask('PATCH', `/${id}`, { html: null, text: 'y' })).body, { version: 2, html: null, text: 'y' })
})

t.test('2.3 changes that meet are made one after the other, or told', async t => {
  const { id } = await make({ html: 'x' })
  const variables = (n: number) => ({ variables: [{ name: `v${n}`, type: 'string' }] })
  const changes = [{ name: 'n' }, { subject: 's' }, { text: 't' }, { html: 'h' }, variables(1), { subject: 's2' }]
  const answers = await Promise.all(
    changes.map((change, i) => ask('PATCH', `/${id}`, change, i % 2 === 0 ? app : second))
  )
  const done = answers.filter(({ status }) => status === 200)
  for (const { status, body } of answers) {
    t.ok(status === 200 || (status === 409 && body.code === 'conflict'), String(status))
  }
  t.ok(done.length > 0)
  t.strictSame(done.map(({ body }) => body.version).sort(), done.map((_answer, i) => i + 2), 'each its own version')
  const last = done.toSorted((a, b) => b.body.version - a.body.version)[0]!.body
  t.strictSame((await ask('GET', `/${id}`)).body, storedOf(last))
  for (const [i, { status }] of answers.entries()) {
    const [[field, value]] = Object.entries(changes[i]!) as [[string, unknown]]
    if (status === 200 && field !== 'subject') t.match(last, { [field]: value }, `${field} is not lost`)
  }
})

t.test('2.3 lists are newest first, a page at a time, without bodies', async t => {
  const secret = await app.newAccountKey()
  const own = (path: string, body?: unknown) =>
    app.request(body === undefined ? 'GET' : 'POST', `/api/templates${path}`, { key: secret, body })
  t.strictSame((await own('')).body, { data: [], has_more: false, next_cursor: null })
  const ids: string[] = []
  for (let i = 0; i < 5; i++) ids.unshift((await own('', { name: `t${i}`, html: 'x' })).body.id)
  const first = (await own('?limit=2')).body
  t.strictSame(Object.keys(first.data[0]), [
    'id',
    'version',
    'name',
    'subject',
    'layout_id',
    'created_at',
    'updated_at'
  ])
  await own('', { name: 'newer', html: 'x' })
  const next = (await own(`?limit=2&cursor=${first.next_cursor}`)).body
  const last = (await own(`?limit=2&cursor=${next.next_cursor}`)).body
  t.strictSame([...first.data, ...next.data, ...last.data].map(({ id }) => id), ids)
  t.match(last, { has_more: false, next_cursor: null })
  for (const query of ['?limit=0', '?limit=101', '?cursor=x', '?name=x']) t.equal((await own(query)).status, 422, query)
  t.strictSame(faultsOf((await own('?limit=0&cursor=x&name=x')).body), {
    limit: 'invalid_value',
    cursor: 'invalid_cursor',
    name: 'unknown_field'
  })
  const versions = `/${ids[0]}/versions`
  t.match((await own(`${versions}?limit=1`)).body, { data: [{ version: 1 }], has_more: false })
  t.strictSame(faultsOf((await own(`${versions}?cursor=x&limit=x`)).body), {
    limit: 'invalid_value',
    cursor: 'invalid_cursor'
  })
})

t.test('2.3 a deleted template is gone for reads, changes and mail', async t => {
  const { id } = await make({ subject: 's', html: 'x' })
  t.equal((await send(id)).status, 202)
  t.equal((await ask('DELETE', `/${id}`)).status, 204)
  const after = await send(id, {}, second)
  t.equal(after.status, 422)
  t.strictSame(faultsOf(after.body), { template_id: 'template_not_found' })
  const gone = [
    ask('GET', `/${id}`, undefined, second),
    ask('GET', `/${id}?version=1`),
    ask('GET', `/${id}/versions`),
    ask('PATCH', `/${id}`, { name: 'x' }),
    ask('DELETE', `/${id}`, undefined, second),
    ask('POST', `/${id}/preview`, {})
  ]
  for (const answer of await Promise.all(gone)) t.match(answer, { status: 404, body: { error: 'Not found' } })
})

t.test('2.3 a preview renders as mail would be, and names what is missing', async t => {
  const { id } = await make({
    subject: 'Hi {{name}}\u0020{{x}}',
    html: '<p>{{name}} {{#items}}{{title}}{{price}}{{/items}}{{>footer}}</p>',
    text: '{{name}}',
    variables: [{ name: 'name', type: 'string', fallback: 'you & me' }, {
      name: 'order',
      type: 'number',
      required: true
    }]
  })
  const preview = (body: unknown) => ask('POST', `/${id}/preview`, body)
  t.strictSame((await preview({ variables: { items: [{ title: '<i>' }], x: 'a\r\nb' } })).body, {
    version: 1,
    subject: 'Hi you & me a b',
    html: '<p>you &amp; me &lt;i&gt;</p>',
    text: 'you & me',
    missing: ['order', 'price', '>footer'],
    unknown: []
  })
  t.match((await preview({ variables: { order: 1, nmae: 'x' } })).body, {
    missing: ['x', '>footer'],
    unknown: ['nmae']
  })
  t.match((await preview({})).body, { subject: 'Hi you & me', missing: ['order', 'x', '>footer'] })
  await ask('PATCH', `/${id}`, { html: null, variables: [] })
  t.match((await preview({ variables: { name: 'Ada' } })).body, { version: 2, html: null, text: 'Ada' })
  t.match((await preview({ version: 1, variables: { name: 'Ada', order: 1, x: '' } })).body, {
    version: 1,
    html: '<p>Ada </p>',
    missing: ['>footer']
  })
  t.equal((await preview({ version: 3 })).status, 404)
  t.strictSame(faultsOf((await preview({ version: 1, variables: { order: 'one', name: [] } })).body), {
    'variables.name': 'invalid_type',
    'variables.order': 'invalid_type'
  })
  t.match(
    await ask('POST', `/${id}/preview`),
    { status: 200, body: { version: 2, text: '', missing: ['name'] } },
    'without a body'
  )
  for (const body of [{ variables: [] }, { version: 0 }, { version: '1' }, { vars: {} }, []]) {
    t.equal((await preview(body)).status, 422, JSON.stringify(body))
  }
})

t.test('2.3 mail is rendered from the newest version, in its layout', async t => {
  const layout = await make({
    subject: 'never',
    html: '<html><body>{{{content}}}<i>{{foot}}</i></body></html>',
    variables: [{ name: 'foot', type: 'string', fallback: 'R&D' }]
  })
  const template = await make({
    subject: 'Order {{order}}',
    html: '<p>{{name}}: {{{raw}}}</p>',
    text: '{{name}}',
    layout_id: layout.id
  })
  const sent = await send(template.id, {
    to: 'in-layout@example.com',
    track: { opens: false, clicks: false },
    variables: { order: '7\r\nBcc: eve@example.com', name: 'Tom & Jerry', raw: '<b>!</b>' }
  })
  t.equal(sent.status, 202)
  await app.settled(sent.body.id, 'delivered')
  const mail = await app.caught('in-layout@example.com')
  t.equal(mail.subject, 'Order 7 Bcc: eve@example.com')
  t.match(mail.html, '<html><body><p>Tom &amp; Jerry: <b>!</b></p><i>R&amp;D</i></body></html>')
  t.match(mail.text, 'Tom & Jerry')
  t.notOk(mail.bcc)

  for (let round = 1; round <= 5; round++) {
    t.equal(
      (await ask(
        'PATCH',
        `/${template.id}`,
        { html: `<p>round ${round}</p>`, text: null },
        round % 2 === 0 ? app : second
      )).status,
      200
    )
    const again = await send(
      template.id,
      { to: `round${round}@example.com`, subject: 'My own' },
      round % 2 === 0 ? second : app
    )
    await app.settled(again.body.id, 'delivered')
    const next = await app.caught(`round${round}@example.com`)
    t.match(next.html, `<p>round ${round}</p>`)
    t.equal(next.subject, 'My own')
  }
})

t.test('2.3 mail that lacks a variable is refused, and all of them are named', async t => {
  const variables = [{ name: 'a', type: 'string', required: true }, { name: 'b', type: 'number', required: true }, {
    name: 'c',
    type: 'list',
    fallback: []
  }, { name: 'd', type: 'boolean' }]
  const layout = await make({ html: '{{{content}}}', variables: [{ name: 'e', type: 'object', required: true }] })
  const { id } = await make({ subject: 's', html: '{{a}}', variables, layout_id: layout.id })
  const refused = await send(id, { variables: { b: '1', c: 'x', d: null } })
  t.equal(refused.status, 422)
  t.strictSame(faultsOf(refused.body), {
    'variables.a': 'missing_variable',
    'variables.b': 'invalid_type',
    'variables.c': 'invalid_type',
    'variables.e': 'missing_variable'
  })
  t.equal((await send(id, { variables: { a: '', b: 0, e: {} } })).status, 202)
})

t.test('2.3 mail that would grow without end, or has no subject, is refused', async t => {
  const { id } = await make({ subject: '{{s}}', html: '{{#a}}{{#a}}{{#a}}x{{/a}}{{/a}}{{/a}}' })
  t.strictSame(faultsOf((await send(id, { variables: { s: 's', a: Array.from({ length: 1000 }, () => 1) } })).body), {
    template_id: 'template_failed'
  })
  t.strictSame(faultsOf((await send(id, { variables: { s: 'x'.repeat(999) } })).body), {
    template_id: 'template_failed'
  })
  t.strictSame(faultsOf((await send(id)).body), { 'variables.s': 'undeclared_variable' })
  t.strictSame(faultsOf((await send(id, { variables: { s: '' } })).body), { subject: 'subject_required' })
  t.equal((await send(id, { subject: 'own' })).status, 202)
  const preview = await ask('POST', `/${id}/preview`, { variables: { s: 'x'.repeat(999) } })
  t.match(preview.body, { details: [{ code: 'template_failed', message: /998/ }] })
})

t.test("2.3 what is left of a request's budget bounds what its templates make", async t => {
  const { templates } = await openSecondServices(t, natsUrl)
  const { id } = await make({ html: '{{{a}}}' })
  const budget = newRenderBudget()
  const variables = { a: 'x'.repeat(2 * 1024 * 1024) }
  for (let i = 0; i < 10; i++) t.match(await templates.render(FIRST_ACCOUNT, { id, variables }, budget), { version: 1 })
  t.match(await templates.render(FIRST_ACCOUNT, { id, variables }, budget), {
    code: 'template_failed',
    message: 'template_id must name a template that renders. The rendered bodies of one request have over 20 MB in all.'
  })
  t.match(await templates.render(FIRST_ACCOUNT, { id, variables }), { version: 1 }, 'another request has its own')
})

t.test('2.3 a layout holds {{{content}}} and has none itself', async t => {
  const plain = await make({ html: 'no content' })
  const layout = await make({ html: '<main>{{{content}}}</main>', text: '-- {{{content}}}' })
  const inner = await make({ html: '{{{content}}}', layout_id: layout.id })
  for (const id of [plain.id, inner.id]) {
    t.strictSame(faultsOf((await ask('POST', '', { name: 'x', html: 'x', layout_id: id })).body), {
      layout_id: 'not_a_layout'
    })
  }
  const other = await make({ html: '{{{content}}}' })
  t.strictSame(faultsOf((await ask('PATCH', `/${other.id}`, { layout_id: other.id })).body), {
    layout_id: 'not_a_layout'
  }, 'nor is it its own')
  for (const id of ['tpl_none', 'x', 'tpl_>', '', `${layout.id}.x`]) {
    t.strictSame(faultsOf((await ask('PATCH', `/${plain.id}`, { layout_id: id })).body), {
      layout_id: 'template_not_found'
    }, id)
  }
  const gone = await make({ html: '{{{content}}}' })
  await ask('DELETE', `/${gone.id}`)
  t.strictSame(faultsOf((await ask('PATCH', `/${plain.id}`, { layout_id: gone.id })).body), {
    layout_id: 'template_not_found'
  })
})

t.test('2.3 a layout in use stays one: 409', async t => {
  const layout = await make({ html: '{{{content}}}' })
  const another = await make({ html: '{{{content}}}' })
  const user = await make({ html: 'x', layout_id: layout.id })
  const refused = [
    ask('DELETE', `/${layout.id}`, undefined, second),
    ask('PATCH', `/${layout.id}`, { layout_id: another.id }),
    ask('PATCH', `/${layout.id}`, { html: 'x' }),
    ask('PATCH', `/${layout.id}`, { text: 'without' })
  ]
  for (const answer of await Promise.all(refused)) t.match(answer, { status: 409, body: { code: 'template_in_use' } })
  t.match((await ask('PATCH', `/${layout.id}`, { html: '<b>{{{content}}}</b>' })).body, { version: 2 })
  t.equal((await ask('POST', `/${user.id}/preview`, {})).body.html, '<b>x</b>')
  await ask('PATCH', `/${user.id}`, { layout_id: null })
  t.match((await ask('PATCH', `/${layout.id}`, { html: 'x' })).body, { version: 3 })
  t.equal((await ask('DELETE', `/${layout.id}`)).status, 204)
})

t.test("2.3 another account's template is not there", async t => {
  const { id } = await make({ subject: 's', html: '{{{content}}}' })
  const foreign = await app.newAccountKey()
  const answers = await Promise.all([
    app.request('GET', `/api/templates/${id}`, { key: foreign }),
    app.request('GET', `/api/templates/${id}/versions`, { key: foreign }),
    app.request('PATCH', `/api/templates/${id}`, { key: foreign, body: { name: 'mine' } }),
    app.request('DELETE', `/api/templates/${id}`, { key: foreign }),
    app.request('POST', `/api/templates/${id}/preview`, { key: foreign, body: {} })
  ])
  for (const answer of answers) t.match(answer, { status: 404, body: { error: 'Not found' } })
  const mail = await app.request('POST', '/api/emails', {
    key: foreign,
    body: { from: FROM, to: 'a@example.com', template_id: id }
  })
  t.strictSame(faultsOf(mail.body), { template_id: 'template_not_found' })
  const layout = await app.request('POST', '/api/templates', {
    key: foreign,
    body: { name: 'x', html: 'x', layout_id: id }
  })
  t.strictSame(faultsOf(layout.body), { layout_id: 'template_not_found' })
  t.match((await ask('GET', `/${id}`)).body, { version: 1, name: 'A template' })
})

t.test('2.3 ids of another shape are not there', async t => {
  for (const id of ['tpl_none', 'x', '*', '%3E', 'tpl_%2A', `tpl_${'a'.repeat(65)}`, 'tpl_A', '%00']) {
    for (
      const [method, path, body] of [['GET', '', undefined], ['PATCH', '', {}], ['DELETE', '', undefined], [
        'POST',
        '/preview',
        {}
      ], ['GET', '/versions', undefined]] as const
    ) {
      t.equal((await ask(method, `/${id}${path}`, body)).status, 404, `${method} ${id}${path}`)
    }
    t.strictSame(
      faultsOf((await send(decodeURIComponent(id))).body),
      { template_id: 'template_not_found' },
      `mail with ${id}`
    )
  }
})

t.test('2.3 reading and writing are scopes of their own', async t => {
  const { id } = await make({ html: 'x' })
  const { secret: reader } = await app.newKey({ scopes: ['templates:read'] })
  const { secret: writer } = await app.newKey({ scopes: ['templates:write', 'emails:send'] })
  const forbidden = { status: 403, body: { error: 'Insufficient API key permissions' } }
  const reads = [['GET', ''], ['GET', `/${id}`], ['GET', `/${id}/versions`], ['POST', `/${id}/preview`, {}]] as const
  const writes = [['POST', '', { name: 'x', html: 'x' }], ['PATCH', `/${id}`, { name: 'x' }], [
    'DELETE',
    `/${id}`
  ]] as const
  for (const [method, path, body] of reads) {
    t.match(await app.request(method, `/api/templates${path}`, { key: writer, body }), forbidden, `${method} ${path}`)
  }
  for (const [method, path, body] of writes) {
    t.match(await app.request(method, `/api/templates${path}`, { key: reader, body }), forbidden, `${method} ${path}`)
  }
  for (const [method, path, body] of reads) {
    t.equal(
      (await app.request(method, `/api/templates${path}`, { key: reader, body })).status,
      200,
      `${method} ${path}`
    )
  }
  for (const [method, path, body] of writes) {
    t.match(
      (await app.request(method, `/api/templates${path}`, { key: writer, body })).status,
      /20[014]/,
      `${method} ${path}`
    )
  }
})

t.test('2.3 the largest template is stored, read and sent', async t => {
  // Quotes and line ends are two bytes each in JSON.
  const html = '"\n'.repeat(128 * 1024)
  const text = '\\\t'.repeat(64 * 1024)
  const variables = Array.from(
    { length: 100 },
    (_, i) => ({ name: `v${i}`, type: 'string', fallback: 'x'.repeat(500) })
  )
  const { id } = await make({ subject: 'é'.repeat(998), html, text, variables })
  const { body } = await ask('GET', `/${id}`, undefined, second)
  t.ok(body.html === html && body.text === text)
  t.equal((await send(id, { subject: 's' })).status, 202)
  t.match((await ask('PATCH', `/${id}`, { name: 'again' })).body, { version: 2 })
})

t.test('2.3 an account has at most 10,000 templates', async t => {
  const database = createPool(databaseUrl, createLog('silent'))
  const secret = await app.newAccountKey()
  const create = () => app.request('POST', '/api/templates', { key: secret, body: { name: 'x', html: 'x' } })
  const { body: first } = await create()
  t.equal((await app.request('GET', `/api/templates/${first.id}`, { key: secret })).status, 200, 'it is in the view')
  await database.query(
    `insert into templates (id, account, version, seq)
    select 'tpl_fill' || n, (select account from templates where id = $1), 1, n from generate_series(2, $2::int) n`,
    [first.id, TEMPLATES_MAX]
  )
  t.match(await create(), { status: 409, body: { code: 'too_many_templates' } })
  await database.query("delete from templates where id = 'tpl_fill2'")
  t.equal((await create()).status, 201)
  await database.end()
})

t.test('2.3 templates are made, changed and sent while PostgreSQL is away', async t => {
  const alone = await startTestApp(t, {
    natsUrl,
    databaseUrl: 'postgres://nobody@127.0.0.1:1/none',
    env: { JETPOST_ROLES: 'api' }
  })
  const layout = await make({ html: '<b>{{{content}}}</b>' }, alone)
  const template = await make({ subject: 's', html: 'x', layout_id: layout.id }, alone)
  t.match(await ask('PATCH', `/${template.id}`, { html: 'y' }, alone), { status: 200, body: { version: 2 } })
  const sent = await send(template.id, { to: 'without-a-view@example.com' }, alone)
  t.equal(sent.status, 202)
  await app.settled(sent.body.id, 'delivered')
  t.match((await app.caught('without-a-view@example.com')).html, '<b>y</b>')
  t.match(
    await ask('DELETE', `/${layout.id}`, undefined, alone),
    { status: 503, body: { code: 'projection_unavailable' } },
    'whether it is in use cannot be told'
  )
  t.match(await ask('GET', `/${template.id}`, undefined, alone), {
    status: 503,
    body: { code: 'projection_unavailable' }
  })
  t.equal((await ask('DELETE', `/${template.id}`, undefined, alone)).status, 204)
})
