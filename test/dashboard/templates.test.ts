import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { flaws } from '../support/axe.ts'
import { openPage, signIn } from '../support/browser.ts'
import { visit } from '../support/dashboard.ts'
import { API_KEY, startTestApp } from '../support/app.ts'
import { createPreviews } from '#src/servers/dashboard/pages/template-draft.ts'
import { diffLines } from '#src/servers/dashboard/pages/template-versions.ts'
import { sampleJson } from '#src/servers/dashboard/pages/template-samples.ts'

const app = await startTestApp(t)
const visitor = await visit(app)

const make = async (fields: Record<string, unknown>) =>
  (await app.request('POST', '/api/templates', { body: { name: 'Receipt', html: '<p>Hello</p>', ...fields } })).body
const get = async (id: string) => (await app.request('GET', `/api/templates/${id}`)).body
/** What a browser would send of the form on a page, with `changes`. */
function fieldsOf (page: string, changes: Record<string, string> = {}): Record<string, string> {
  const form = /<form[^>]*class="template-form"[^]*?<\/form>/.exec(page)![0]
  const plain = (text: string) =>
    text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&quot;', '"').replaceAll('&#39;', "'").replaceAll(
      '&amp;',
      '&'
    )
  const inputs = [...form.matchAll(/<input (?:type="(?:hidden|text)" )?[^>]*?name="([^"]+)"[^>]*?value="([^"]*)"/g)]
    .filter(([tag]) => !tag.includes('checkbox') || tag.includes('checked'))
  const areas = [...form.matchAll(/<textarea [^>]*?name="([^"]+)"[^>]*>\n([^]*?)<\/textarea>/g)]
  const choices = [
    ...form.matchAll(/<select [^>]*?name="([^"]+)"[^>]*>[^]*?<option(?: value="([^"]*)")? selected>([^<]*)</g)
  ].map(([tag, name, value, text]) => [tag, name, value ?? text])
  return {
    ...Object.fromEntries(
      [...inputs, ...areas, ...choices].map(([, name, value]) => [name!, plain(value!).replaceAll('\n', '\r\n')])
    ),
    ...changes
  }
}

t.test('before there is one, the list says what it is for', async t => {
  const { status, html } = await visitor.get('/dashboard/templates')
  t.equal(status, 200)
  t.match(html, 'No templates yet')
  t.match(html, '&quot;template_id&quot;:&quot;tpl_…&quot;')
})

t.test('a template is written, previewed while typing, saved, sent, and arrives', async t => {
  const { page, complaints } = await openPage(t, app.url)
  await signIn(page, API_KEY)
  await page.goto('/dashboard/templates/new')
  await page.getByLabel('Name', { exact: true }).fill('Receipt')
  await page.getByLabel('Subject').fill('Order {{order}}')
  await page.getByLabel('HTML').fill('<h1>Thank you, {{name}}</h1><p>{{note}}</p>')
  await page.getByLabel('Name of new variable 1').fill('order')
  await page.getByLabel('new variable 1 is required').check()
  await page.getByLabel('Name of new variable 2').fill('name')
  await page.getByLabel('Fallback of new variable 2').fill('friend')
  const frame = page.frameLocator('#preview iframe')
  await frame.getByRole('heading', { name: 'Thank you, friend' }).waitFor()
  await page.locator('#preview-missing', { hasText: 'order, note' }).waitFor()
  await page.getByLabel('Sample variables').fill('{"order": "1042", "name": "<b>Ada</b>", "note": "Ink"}')
  await frame.getByRole('heading', { name: 'Thank you, <b>Ada</b>' }).waitFor()
  await page.locator('#preview-subject', { hasText: 'Order 1042' }).waitFor()
  t.equal(await page.locator('#preview-missing').count(), 0)

  const before = await page.locator('#preview iframe').getAttribute('src')
  await page.getByLabel('Text', { exact: true }).fill('Thanks, {{name}}')
  await page.locator('#preview-text', { hasText: 'Thanks, <b>Ada</b>' }).waitFor()
  t.equal(
    await page.locator('#preview iframe').getAttribute('src'),
    before,
    'a frame whose HTML is the same is not drawn again'
  )

  await page.getByLabel('HTML').fill('<h1>Thank you, {{name}}</h1>\n{{#note}}<p>never closed')
  await page.getByText('HTML must be valid Mustache. Line 2: {{#note}} is never closed.').waitFor()
  await page.getByRole('button', { name: 'Create template' }).click()
  await page.getByRole('alert').getByText('HTML must be valid Mustache. Line 2').waitFor()
  t.equal(await page.getByLabel('Subject').inputValue(), 'Order {{order}}', 'what was typed is still there')
  t.equal(await page.getByLabel('Name of order').inputValue(), 'order')

  await page.getByLabel('HTML').fill('<h1>Thank you, {{name}}</h1><p>{{note}}</p>')
  await page.getByRole('button', { name: 'Create template' }).click()
  await page.getByText('Template created. Send emails with its id.').waitFor()
  const id = page.url().split('/').at(-1)!
  t.match(await get(id), {
    version: 1,
    name: 'Receipt',
    subject: 'Order {{order}}',
    html: '<h1>Thank you, {{name}}</h1><p>{{note}}</p>',
    text: 'Thanks, {{name}}',
    layout_id: null,
    variables: [{ name: 'order', type: 'string', required: true, fallback: null }, {
      name: 'name',
      type: 'string',
      required: false,
      fallback: 'friend'
    }]
  })
  t.match(
    JSON.parse(await page.getByLabel('Sample variables').inputValue()),
    { order: '1042', note: 'Ink' },
    'its sample variables are remembered'
  )

  await page.getByLabel('HTML').fill('<h1>Many thanks, {{name}}</h1><p>{{note}}</p>')
  const asking = page.waitForEvent('dialog')
  const leaving = page.getByRole('link', { name: 'Cancel' }).click()
  const asked = await asking
  t.equal(asked.type(), 'beforeunload', 'what is typed is not lost by a click')
  await asked.dismiss()
  await leaving
  await page.getByLabel('Subject').press('Enter')
  await page.getByText('Saved as version 2.').waitFor()
  await page.getByLabel('From', { exact: true }).fill('shop@sandbox.jetpost.test')
  await page.getByLabel('To', { exact: true }).fill('grace@example.com')
  t.strictSame(await flaws(page), [])
  await page.getByRole('button', { name: 'Save and send a test' }).click()
  await page.waitForURL('**/dashboard/emails/em_*')
  await app.settled(page.url().split('/').at(-1)!, 'delivered')
  const mail = await app.caught('grace@example.com')
  t.equal(mail.subject, 'Order 1042')
  t.match(mail.html, '<h1>Many thanks, &lt;b&gt;Ada&lt;/b&gt;</h1><p>Ink</p>')
  t.equal((await get(id)).version, 2)
  t.strictSame(complaints, [])
})

/** Somewhere else: what it was asked for. */
async function openElsewhere (t: { teardown(end: () => void): void }): Promise<{ url: string, asked: string[] }> {
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(request.url!)
    response.writeHead(200, { 'content-type': 'image/gif' }).end()
  }).listen(0, '127.0.0.1')
  t.teardown(() => void server.close().closeAllConnections())
  await once(server, 'listening')
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked }
}

t.test('a preview of hostile HTML runs nothing, and reaches neither the page nor the world', async t => {
  const elsewhere = await openElsewhere(t)
  const hostile = `<script>parent.document.title = 'taken'; top.location = '${elsewhere.url}'</script>
<img src=x onerror="parent.document.title = 'taken'"><svg onload="top.document.title = 'taken'"></svg>
<a href="/dashboard/sessions" target="_top" id="out">out</a>
<a href="javascript:parent.document.title='taken'" target="_self" id="script">script</a>
<meta http-equiv="refresh" content="0;url=${elsewhere.url}"><base href="${elsewhere.url}/">
<form action="/dashboard/sign-out" method="post"><button id="send">send</button></form>
<img src="${elsewhere.url}/p.gif"><link rel="stylesheet" href="${elsewhere.url}/s.css">
<style>body{background:url(${elsewhere.url}/b.png)}</style><p id="end">the end</p>`
  const { id } = await make({
    name: '<img src=x onerror=alert(1)>',
    subject: '</strong><script>alert(1)</script>',
    html: hostile,
    text: '</pre><script>alert(1)</script>'
  })
  const { page } = await openPage(t, app.url)
  const dialogs: string[] = []
  page.on('dialog', async dialog => {
    dialogs.push(dialog.message())
    await dialog.dismiss()
  })
  await signIn(page, API_KEY)
  await page.goto(`/dashboard/templates/${id}`)
  const frame = page.frameLocator('#preview iframe')
  await frame.locator('#end').waitFor()
  await frame.locator('#script').click()
  await frame.locator('#send').click()
  await frame.locator('#out').click()
  await page.getByLabel('Name', { exact: true }).fill('Tame')
  await page.locator('#preview-text', { hasText: '</pre><script>' }).waitFor()
  t.equal(new URL(page.url()).pathname, `/dashboard/templates/${id}`)
  t.equal(await page.title(), '<img src=x onerror=alert(1)> · Jetpost')
  t.strictSame(dialogs, [])
  t.strictSame(elsewhere.asked, [])
  const src = await page.locator('#preview iframe').getAttribute('src')
  const alone = await visitor.get(src!)
  t.equal(alone.status, 404, 'and no other session is shown it')
  await page.getByLabel('Load remote images in the preview').check()
  await page.frameLocator('#preview iframe[src$="?images=1"]').locator('#end').waitFor()
  for (const endMs = Date.now() + 5000; elsewhere.asked.length < 2 && Date.now() < endMs;) await page.waitForTimeout(20)
  t.strictSame(
    elsewhere.asked.toSorted(),
    ['/b.png', '/p.gif'],
    'pictures, and nothing but pictures, once they are asked for'
  )
})

t.test('a save that changes nothing makes no version, and line ends stay as they were', async t => {
  const made = await make({
    html: '<p>\r\n{{name}}</p>\r\n',
    text: 'a\nb',
    variables: [{ name: 'name', type: 'string', fallback: '' }, {
      name: 'list',
      type: 'list',
      fallback: [1, { a: null }]
    }]
  })
  const { html } = await visitor.get(`/dashboard/templates/${made.id}`)
  const fields = fieldsOf(html)
  t.match(fields, { 'variables.0.fallback': '""', 'variables.1.fallback': '[1,{"a":null}]' })
  const same = await visitor.post(`/dashboard/templates/${made.id}`, fields)
  t.match(same, { status: 303, to: `/dashboard/templates/${made.id}` })
  const { warnings: _warnings, ...stored } = made
  t.strictSame(await get(made.id), stored)
  await visitor.post(`/dashboard/templates/${made.id}`, { ...fields, subject: 'Hello {{name}}' })
  t.match(await get(made.id), {
    version: 2,
    subject: 'Hello {{name}}',
    html: made.html,
    text: made.text,
    variables: made.variables
  })
  const late = await visitor.post(`/dashboard/templates/${made.id}`, { ...fields, subject: 'Late' })
  t.equal(late.status, 422)
  t.match(late.html, 'Version 2 was saved after you opened this page')
  await visitor.post(`/dashboard/templates/${made.id}`, fieldsOf(late.html))
  t.match(await get(made.id), { version: 3, subject: 'Late' }, 'unless it is said again')
})

t.test('a preview names what it cannot show, and shows the rest', async t => {
  const preview = async (fields: Record<string, string>) =>
    (await visitor.post('/dashboard/templates/preview', { samples: '{}', ...fields })).html
  t.match(await preview({}), 'The preview appears here while you type')
  const big = await preview({ html: 'x'.repeat(300_000), text: 'still here' })
  t.match(big, 'HTML must be at most 256 kB.')
  t.match(big, 'still here')
  t.notMatch(big, '<iframe')
  const endless = await preview({
    html: `{{#a}}${'x'.repeat(1000)}{{/a}}`,
    samples: JSON.stringify({ a: Array.from({ length: 5000 }, () => 1) })
  })
  t.match(endless, /box warn/)
  t.match(await preview({ html: 'x', layout_id: 'tpl_none' }), 'The layout tpl_none does not exist')
  t.match(await preview({ html: 'x', samples: '[]' }), 'Sample variables must be a JSON object')
  const typed = { html: '{{n}}', 'variables.0.name': 'n', 'variables.0.type': 'number' }
  t.match(await preview({ ...typed, samples: '{"n":"seven"}' }), 'Sample variables: Variable n must be a number.')
  t.equal((await visitor.post('/dashboard/templates/preview', { csrf: 'x', html: 'x' })).status, 403)
})

t.test('previews are kept for their session alone, briefly, and never too many', async t => {
  let nowMs = 0
  const previews = createPreviews(() => nowMs)
  const id = previews.keep('ses_a', '<p>1</p>')
  t.equal(previews.keep('ses_a', '<p>1</p>'), id, 'the same HTML is the same frame')
  t.equal(previews.take('ses_a', id), '<p>1</p>')
  t.equal(previews.take('ses_b', id), null)
  t.not(previews.keep('ses_b', '<p>1</p>'), id)
  for (let i = 0; i < 10; i++) previews.keep('ses_a', `<p>more ${i}</p>`)
  t.equal(previews.take('ses_a', id), null, 'the oldest goes')
  const last = previews.keep('ses_a', 'last')
  nowMs = 11 * 60_000
  t.equal(previews.take('ses_a', last), null, 'and so does what is old')
  const big = Array.from({ length: 40 }, (_, i) => previews.keep(`ses_${i}`, `${i}`.padEnd(1_000_000)))
  const kept = big.filter((one, i) => previews.take(`ses_${i}`, one) !== null)
  t.equal(kept.length, 33, '64 MB, at two bytes a character')
  const many = Array.from({ length: 600 }, (_, i) => previews.keep(`ses_m${i}`, `${i}`))
  t.equal(many.filter((one, i) => previews.take(`ses_m${i}`, one) !== null).length, 500)
})

t.test('sample variables fit the places of a template and its declarations', async t => {
  const html = '{{name}} {{customer.city}} {{#items}}{{title}}: {{price}}{{/items}} {{#tags}}{{.}}{{/tags}} ' +
    '{{#isNew}}!{{/isNew}} {{^none}}{{left}}{{/none}} {{{content}}} {{__proto__}}'
  const variables = [
    { name: 'order', type: 'string' as const, required: true, fallback: null },
    { name: 'count', type: 'number' as const, required: false, fallback: 3 },
    { name: 'items', type: 'list' as const, required: true, fallback: null },
    { name: 'flag', type: 'boolean' as const, required: true, fallback: null }
  ]
  t.strictSame(
    Object.entries(JSON.parse(sampleJson({ subject: 'Order {{order}}', html, text: '{{#broken', variables }))),
    [
      ['order', '1042'],
      ['name', 'Ada Lovelace'],
      ['customer', { city: 'London' }],
      ['items', [{ title: 'Ink', price: '3.10' }]],
      ['tags', ['one', 'two']],
      ['isNew', true],
      ['left', 'Example left'],
      ['__proto__', 'Example proto'],
      ['count', 3],
      ['flag', true]
    ]
  )
})

t.test('no sample is the name of its variable, and a layout has samples, too', async t => {
  const names = ['order', 'firstName', 'last_name', 'company', 'email', 'reset-link', 'code', 'Example', 'x', 'Ink']
  const html = names.map(name => `{{${name}}}`).join('')
  const variables = names.map(name => ({ name, type: 'string' as const, required: true, fallback: null }))
  for (const declared of [[], variables]) {
    const samples = JSON.parse(sampleJson({ subject: 'Your order {{order}}', html, text: null, variables: declared }))
    t.strictSame(Object.keys(samples), names)
    for (const name of names) t.not(samples[name].toLowerCase(), name.toLowerCase())
    t.equal(samples.order, '1042')
  }
  const layout = { subject: '{{never}}', html: '{{{content}}}{{footer}}', text: null, variables: variables.slice(3, 4) }
  t.strictSame(JSON.parse(sampleJson({ subject: null, html: 'x', text: null, variables: [] }, layout)), {
    footer: 'Example footer',
    company: 'Analytical Engines Ltd'
  })
})

t.test('a test from untouched samples is sent, and reads as a mail would', async t => {
  const { id: layoutId } = await make({ html: '<main>{{{content}}}</main>{{footer}}' })
  const { id } = await make({ subject: 'Your order {{order}}', html: '<p>Hello {{name}}</p>', layout_id: layoutId })
  const { html } = await visitor.get(`/dashboard/templates/${id}`)
  const sent = await visitor.post(`/dashboard/templates/${id}/test`, fieldsOf(html))
  t.equal(sent.status, 303, sent.html)
  const email = (await app.request('GET', `/api/emails/${sent.to!.split('/').at(-1)}`)).body
  t.equal(email.subject, 'Your order 1042')
  t.match((await app.request('GET', `/api/emails/${email.id}/content`)).body.html, /Hello Ada Lovelace.*Example footer/)
})

t.test('the editor names undeclared and unused variables, and samples that are none', async t => {
  const variables = [{ name: 'name', type: 'string' }, { name: 'unused', type: 'string' }]
  const { id } = await make({ html: '<p>Hello {{nmae}}{{name}}</p>', variables })
  const { html } = await visitor.get(`/dashboard/templates/${id}`)
  t.match(
    html,
    'html uses {{nmae}}, which is not declared: an email that does not give it is refused (did you mean `name`?).'
  )
  t.match(html, 'variables declares unused, which nothing uses.')
  const samples = JSON.stringify({ name: 'Ada', nmae: '', nam: 'Ada' })
  const wrong = await visitor.post('/dashboard/templates/preview', { ...fieldsOf(html), samples })
  t.match(
    wrong.html,
    'Sample variables: Variable nam must be a variable of the template (did you mean name?).'
  )
  const mended = await visitor.post('/dashboard/templates/preview', {
    ...fieldsOf(html),
    html: '<p>{{name}}{{unused}}</p>',
    samples: '{}'
  })
  t.notMatch(mended.html, 'preview-warnings')
})

t.test('a diff keeps the lines that both texts share', async t => {
  const told = (before: string, after: string) =>
    diffLines(before, after).map(({ sign, text }) => sign + text).join('|')
  t.equal(told('a\nb\nc', 'a\nB\nc'), ' a|-b|+B| c')
  t.equal(told('', 'a'), '+a')
  t.equal(told('a\nb\nc\nd', 'b\nx\nd'), '-a| b|-c|+x| d')
  t.equal(told('same', 'same'), ' same')
  const long = (mark: string) => Array.from({ length: 2000 }, (_, i) => `${mark}${i}`).join('\n')
  t.equal(diffLines(long('a'), long('b')).length, 4000)
})

t.test('faults come back with the form', async t => {
  const { id, version } = await make({})
  const fields = {
    version: String(version),
    name: 'x'.repeat(201),
    subject: '',
    html: '<p>{{/a}}</p>',
    text: '',
    samples: '{}',
    'variables.0.name': 'a b',
    'variables.0.type': 'string',
    'variables.0.fallback': '',
    'variables.3.name': 'late',
    'variables.3.type': 'number',
    'variables.3.fallback': '7'
  }
  const bad = await visitor.post(`/dashboard/templates/${id}`, fields)
  t.equal(bad.status, 422)
  t.match(bad.html, 'Name must have at most 200 characters.')
  t.match(bad.html, /id="variable-0-fault">Variable \(entry 1\) name must have 1 to 100 letters/)
  t.match(bad.html, 'HTML must be valid Mustache. Line 1: {{/a}} closes nothing.')
  t.match(bad.html, /name="variables\.1\.name" value="late"/)
  const json = await visitor.post(`/dashboard/templates/${id}`, { ...fields, 'variables.3.fallback': 'seven' })
  t.equal(
    json.html.split('The fallback of late must be JSON of its type.').length - 1,
    2,
    'above the form and at its row'
  )
  t.match(json.html, />\nseven<\/textarea>/)
  const test = await visitor.post(`/dashboard/templates/${id}/test`, {
    version: String(version),
    name: 'Fine',
    html: '<p>{{a}}</p>',
    samples: '[1]',
    from: 'x@nobody.example',
    to: 'ada@example.com'
  })
  t.match(test.html, 'Sample variables must be a JSON object')
  const sender = await visitor.post(`/dashboard/templates/${id}/test`, fieldsOf(test.html, { samples: '{}' }))
  t.equal(sender.status, 422)
  t.match(sender.html, 'value="x@nobody.example"')
  t.equal((await visitor.get('/dashboard/templates/tpl_none')).status, 404)
})

t.test('versions are compared, shown and restored', async t => {
  const { id } = await make({ name: 'Letter', subject: 'One', html: '<p>a</p>\n<p>b</p>\n<p>c</p>' })
  await app.request('PATCH', `/api/templates/${id}`, {
    body: { subject: 'Two', html: '<p>a</p>\n<p>B</p>\n<p>c</p>', variables: [{ name: 'who', type: 'string' }] }
  })
  const list = await visitor.get(`/dashboard/templates/${id}/versions`)
  t.match(list.html, /Version 2<\/a> <span class="badge good">newest/)
  const first = await visitor.get(`/dashboard/templates/${id}/versions/1`)
  t.match(first.html, 'From version 1 to version 2')
  t.match(first.html, '<del>− &lt;p&gt;b&lt;/p&gt;\n</del>')
  t.match(first.html, '<ins>+ &lt;p&gt;B&lt;/p&gt;\n</ins>')
  t.match((await visitor.get(`/dashboard/templates/${id}/versions/2`)).html, 'From version 1 to version 2')
  for (const version of ['3', '0', 'x']) {
    t.equal((await visitor.get(`/dashboard/templates/${id}/versions/${version}`)).status, 404)
  }
  t.match(await visitor.post(`/dashboard/templates/${id}/versions/1/restore`), {
    status: 303,
    to: `/dashboard/templates/${id}`
  })
  t.match(await get(id), { version: 3, subject: 'One', html: '<p>a</p>\n<p>b</p>\n<p>c</p>', variables: [] })
  t.match((await visitor.get('/dashboard/templates')).html, /Letter<\/a>/)
})

t.test('a layout is chosen, previewed around the template, and kept from being deleted', async t => {
  const layout = await make({ name: 'Frame', html: '<header>Shop</header>{{{content}}}' })
  const { id, version } = await make({ name: 'Inside' })
  t.match(
    (await visitor.get(`/dashboard/templates/${id}`)).html,
    new RegExp(`<option value="${layout.id}">Frame</option>`)
  )
  const preview = await visitor.post('/dashboard/templates/preview', {
    html: '<p>Hello</p>',
    layout_id: layout.id,
    samples: '{}'
  })
  const src = /src="([^"]+)"/.exec(preview.html)![1]!
  const framed = await visitor.get(src)
  t.match(framed.html, '<header>Shop</header><p>Hello</p>')
  t.match(framed.headers.get('content-security-policy'), /^sandbox .*default-src 'none'/)
  t.notMatch(framed.headers.get('content-security-policy'), /allow-scripts|allow-same-origin|https:/)
  await visitor.post(`/dashboard/templates/${id}`, {
    version: String(version),
    name: 'Inside',
    html: '<p>Hello</p>',
    layout_id: layout.id
  })
  t.equal((await get(id)).layout_id, layout.id)
  const kept = await visitor.post(`/dashboard/templates/${layout.id}/delete`)
  t.equal(kept.status, 409)
  t.match(kept.html, 'Other templates use this one as their layout.')
  t.match(await visitor.post(`/dashboard/templates/${id}/delete`), { status: 303, to: '/dashboard/templates' })
  t.equal((await visitor.get(`/dashboard/templates/${id}`)).status, 404)
})

t.test('another account sees none of it', async t => {
  const { id } = await make({})
  const other = await visit(app, await app.newAccountKey())
  for (const path of ['', '/versions', '/versions/1']) {
    t.equal((await other.get(`/dashboard/templates/${id}${path}`)).status, 404, path)
  }
  for (const path of ['', '/test', '/delete', '/versions/1/restore']) {
    t.equal(
      (await other.post(`/dashboard/templates/${id}${path}`, { name: 'Mine', html: 'x', version: '1' })).status,
      404,
      path
    )
  }
  t.match((await other.get('/dashboard/templates')).html, 'No templates yet')
})
