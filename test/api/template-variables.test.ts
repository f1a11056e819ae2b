import t from 'tap'
import { FROM, startTestApp } from '../support/app.ts'

const app = await startTestApp(t)
const { id: keyId, secret: key } = await app.newKey({})
await app.limitKey(keyId, { 'templates:create': 100_000, 'emails:send': 100_000, other: 100_000 })

const ask = (method: string, path: string, body?: unknown) =>
  app.request(method, `/api/templates${path}`, { key, body })
const make = async (fields: Record<string, unknown>): Promise<{ id: string }> => {
  const made = await ask('POST', '', { name: 'A template', ...fields })
  if (made.status !== 201) throw new Error(JSON.stringify(made.body))
  return made.body
}
const send = (template: string, fields: Record<string, unknown> = {}) =>
  app.request('POST', '/api/emails', {
    key,
    body: { from: FROM, to: 'ada@example.com', template_id: template, ...fields }
  })
const faultsOf = (body: { details: Array<{ field: string, code: string }> }) =>
  Object.fromEntries(body.details.map(({ field, code }) => [field, code]))
const warningsOf = (body: { warnings: Array<{ field: string, code: string }> }) =>
  body.warnings.map(({ field, code }) => `${field} ${code}`)

t.test('a variable that is misspelt is refused at send, in the template or in the email', async t => {
  const { id } = await make({ subject: 'Hello {{name}}', html: '<p>{{nmae}}</p>' })
  const misspelt = await send(id, { variables: { name: 'Ada' } })
  t.equal(misspelt.status, 422)
  t.strictSame(misspelt.body.details, [{
    field: 'variables.nmae',
    code: 'undeclared_variable',
    message: 'variables.nmae is used by the template, and must be given or declared (did you mean `name`?).'
  }])
  await ask('PATCH', `/${id}`, { html: '<p>{{name}}</p>' })
  const unknown = await send(id, { variables: { name: 'Ada', nmae: 'Ada', other: { any: [1] } } })
  t.equal(unknown.status, 422)
  t.strictSame(unknown.body.details, [
    {
      field: 'variables.nmae',
      code: 'unknown_variable',
      message: 'variables.nmae must be a variable of the template (did you mean `variables.name`?).'
    },
    {
      field: 'variables.other',
      code: 'unknown_variable',
      message: 'variables.other must be a variable of the template.'
    }
  ])
  t.strictSame(faultsOf((await send(id, { variables: { nmae: 'Ada' } })).body), {
    'variables.name': 'undeclared_variable',
    'variables.nmae': 'unknown_variable'
  }, 'both at once')
  const batch = await app.request('POST', '/api/emails/batch', {
    key,
    body: {
      mode: 'permissive',
      emails: ['name', 'nmae'].map(name => ({
        from: FROM,
        to: 'ada@example.com',
        template_id: id,
        variables: { [name]: 'Ada' }
      }))
    }
  })
  t.match(batch.body.data, [{ status: 'queued' }, { details: [{ code: 'undeclared_variable' }, {}] }])
  t.equal((await send(id, { variables: { name: 'Ada' } })).status, 202)
})

t.test('what may be left out is not refused: fallbacks, declared variables, sections', async t => {
  const html = '{{greeting}} {{optional}} {{#coupon}}Use {{code}}{{/coupon}}{{^coupon}}None today{{/coupon}}' +
    '{{#items}}{{title}} {{note}}{{/items}} {{customer.middle_name}}'
  const { id } = await make({
    subject: '{{order}}',
    html,
    variables: [
      { name: 'greeting', type: 'string', fallback: 'Hello' },
      { name: 'optional', type: 'string' },
      { name: 'items', type: 'list' },
      { name: 'customer', type: 'object' }
    ]
  })
  const fine = [
    { order: '7' },
    { order: '7', items: [], customer: {} },
    { order: '7', items: [{ title: 'Ink' }], coupon: null },
    { order: null, coupon: { code: 'SPRING' } }
  ]
  for (const variables of fine) {
    t.equal((await send(id, { subject: 's', variables })).status, 202, JSON.stringify(variables))
  }
  t.equal((await send(id, { subject: 'own' })).status, 202, "with a subject of its own, the template's is not rendered")
  t.strictSame(faultsOf((await send(id, { variables: { coupon: true } })).body), {
    'variables.order': 'undeclared_variable',
    'variables.code': 'undeclared_variable'
  })
  const { id: loose } = await make({ subject: 's', html: '{{#items}}{{title}}{{note}}{{/items}}' })
  const items = [{ title: 'Ink' }, { title: 'Pen', note: 'blue' }]
  t.equal((await send(loose, { variables: { items } })).status, 202, 'one item has it')
  t.strictSame(faultsOf((await send(loose, { variables: { items: items.slice(0, 1) } })).body), {
    'variables.note': 'undeclared_variable'
  })
})

t.test('who saves a template is warned of what looks like a mistake', async t => {
  const variables = [{ name: 'name', type: 'string' }, { name: 'items', type: 'list' }, {
    name: 'new',
    type: 'boolean'
  }]
  const made = await ask('POST', '', {
    name: 'x',
    subject: '{{name}}',
    html: '{{nmae}}{{#itmes}}{{title}}{{/itmes}}{{#items}}{{title}}{{/items}}{{#new}}{{badge}}{{/new}}{{>foot}}',
    variables: [...variables, { name: 'never', type: 'string' }]
  })
  t.equal(made.status, 201)
  t.strictSame(made.body.warnings, [
    {
      field: 'html',
      code: 'undeclared_variable',
      message: 'html uses {{nmae}}, which is not declared: an email that does not give it is refused ' +
        '(did you mean `name`?).'
    },
    {
      field: 'html',
      code: 'undeclared_variable',
      message: 'html uses {{#itmes}}, which is not declared: it counts as false where an email does not give it ' +
        '(did you mean `items`?).'
    },
    {
      field: 'html',
      code: 'undeclared_variable',
      message: 'html uses {{badge}}, which is not declared: an email that does not give it is refused.'
    },
    {
      field: 'html',
      code: 'no_partials',
      message: 'html uses {{>foot}}: templates have no partials, so it is left empty.'
    },
    { field: 'variables[3]', code: 'unused_variable', message: 'variables declares never, which nothing uses.' }
  ])
  const path = `/${made.body.id}`
  const better = await ask('PATCH', path, { html: '{{#items}}{{title}}{{/items}}{{#new}}!{{/new}}' })
  t.strictSame(warningsOf(better.body), ['variables[3] unused_variable'])
  t.strictSame(warningsOf((await ask('PATCH', path, {})).body), ['variables[3] unused_variable'], 'nothing changed')
  t.strictSame(warningsOf((await ask('PATCH', path, { variables })).body), [])

  const layout = await ask('POST', '', {
    name: 'Layout',
    html: '{{{content}}}{{never}}{{company}}',
    variables: [{ name: 'company', type: 'string' }, { name: 'spare', type: 'string' }]
  })
  t.strictSame(warningsOf(layout.body), ['html undeclared_variable'], 'what a layout declares, others may use')
  const inside = {
    layout_id: layout.body.id,
    html: '{{company}}{{spare}}',
    variables: [{ name: 'never', type: 'string' }]
  }
  t.strictSame(warningsOf((await ask('PATCH', path, inside)).body), ['subject undeclared_variable'])
})
