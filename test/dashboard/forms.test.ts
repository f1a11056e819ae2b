import t from 'tap'
import { visit } from '../support/dashboard.ts'
import { lockTables } from '../support/held-projection.ts'
import { FROM, startTestApp } from '../support/app.ts'
import { openOwnNats } from '../support/own-nats.ts'
import { freshDatabase } from '../support/servers.ts'
import { until } from '../support/wait.ts'

const nats = await openOwnNats(t)
const databaseUrl = await freshDatabase(t)
const app = await startTestApp(t, { natsUrl: nats.natsUrl, databaseUrl })
const me = await visit(app)

const make = async () =>
  (await app.request('POST', '/api/templates', { body: { name: 'Receipt', html: '<p>Hello</p>' } })).body.id as string
const stored = async (id: string) => (await app.request('GET', `/api/templates/${id}`)).body
const onceIn = (html: string) => /name="once" value="([^"]+)"/.exec(html)![1]!
const DEEP = `${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}`

t.test('a form that NATS does not accept comes back with its fields, and is sent once when sent again', async t => {
  const template = await make()
  const leaving = await visit(app)
  const mail = {
    once: onceIn((await me.get('/dashboard/emails/new')).html),
    from: FROM,
    to: 'ada@example.com',
    subject: 'Once only',
    text: 'A long letter'
  }
  const { body: { id } } = await app.send()
  const typed = {
    version: '1',
    name: 'Receipt',
    html: '<p>Long thought about</p>',
    samples: '{}',
    from: FROM,
    to: 'grace@example.com'
  }
  nats.freeze()
  const [sent, made, saved, tried, domain, suppressed, forgotten, again, left] = await Promise.all([
    me.post('/dashboard/emails/new', mail),
    me.post('/dashboard/templates', typed),
    me.post(`/dashboard/templates/${template}`, typed),
    me.post(`/dashboard/templates/${template}/test`, typed),
    me.post('/dashboard/domains', { name: 'typed.example' }),
    me.post('/dashboard/suppressions', { address: 'typed@example.com', reason: 'complaint' }),
    me.post('/dashboard/erasures', { address: 'typed@example.com', confirmation: 'typed@example.com' }),
    me.post(`/dashboard/emails/${id}/retry`),
    leaving.post('/dashboard/sign-out')
  ])
  nats.thaw()
  t.strictSame([sent, made, saved, tried, domain, suppressed, forgotten, again, left].map(({ status }) => status), [
    422,
    422,
    422,
    422,
    422,
    422,
    422,
    503,
    503
  ])
  t.match(sent.html, 'Send the form again in a moment: it is never done twice.')
  t.match(sent.html, /A long letter<\/textarea>/)
  t.match(sent.html, /<form [^>]* data-guard data-typed>/)
  for (const { html } of [made, saved, tried]) {
    t.match(html, /&lt;p&gt;Long thought about&lt;\/p&gt;<\/textarea>/)
    t.match(html, 'What you typed is still here.')
  }
  for (const { html } of [domain, suppressed, forgotten]) {
    t.match(html, /value="typed(@example\.com|\.example)"/)
    t.match(html, 'What you typed is still here.')
  }
  t.match(tried.html, 'value="grace@example.com"')
  t.match(saved.html, `action="/dashboard/templates/${template}"`)
  t.notMatch(again.html, 'Mail is still sent')
  t.match(left.html, 'The change may have been made. Check before you try again.')
  const fields = { ...mail, once: onceIn(sent.html) }
  t.equal(fields.once, mail.once)
  await until(async () => (await me.post('/dashboard/emails/new', fields)).status === 303)
  await me.post('/dashboard/emails/new', fields)
  t.equal((await app.request('GET', '/api/emails?q=Once%20only')).body.data.length, 1)
})

t.test('while PostgreSQL does not answer, emails are sent and templates are saved', async t => {
  const id = await make()
  const client = await lockTables(t, databaseUrl, 'email_states, templates, template_versions')
  const blank = await me.get('/dashboard/emails/new')
  t.equal(blank.status, 200)
  t.match(blank.html, /<input [^>]*id="field-template_id"/)
  const mail = { once: onceIn(blank.html), from: FROM, to: 'nobody', subject: 'Hello', text: 'Hello' }
  t.match(await me.post('/dashboard/emails/new', mail), { status: 422, html: /id="field-to-fault"/ })
  t.match(await me.post('/dashboard/emails/new', { ...mail, to: 'ada@example.com' }), {
    status: 303,
    to: /emails\/em_/
  })
  const typed = { version: '1', name: 'Receipt', html: '<p>{{/a}}</p>', samples: '{}' }
  t.match(await me.post(`/dashboard/templates/${id}`, typed), {
    status: 422,
    html: /HTML must be valid Mustache. Line 1/
  })
  t.match(await me.post(`/dashboard/templates/${id}`, { ...typed, html: '<p>New</p>' }), { status: 303 })
  await client.query('rollback')
  await until(async () => (await stored(id)).version === 2)
  t.equal((await stored(id)).html, '<p>New</p>')
})

t.test('a test that is refused where its template is saved keeps its addresses', async t => {
  const { html } = await me.post(`/dashboard/templates/${await make()}/test`, {
    version: '1',
    name: 'Receipt',
    html: '<p>{{/a}}</p>',
    samples: '{}',
    from: FROM,
    to: 'grace@example.com'
  })
  t.match(html, 'HTML must be valid Mustache. Line 1')
  t.match(html, 'value="grace@example.com"')
})

t.test('a forged form is refused, and breaks nothing', async t => {
  const mail = { from: FROM, to: 'ada@example.com', subject: 'Hello', text: 'Hello' }
  t.equal((await me.post('/dashboard/emails/new', { ...mail, once: 'a\u0000b' })).status, 303)
  t.match(await me.post('/dashboard/emails/new', { ...mail, variables: DEEP }), {
    status: 422,
    html: /Variables must be a JSON object/
  })
  const template = { name: 'Deep', html: 'x', samples: DEEP }
  t.match(await me.post('/dashboard/templates/preview', template), {
    status: 200,
    html: /Sample variables must be a JSON object/
  })
  const fallback = { 'variables.0.name': 'a', 'variables.0.type': 'object', 'variables.0.fallback': DEEP }
  t.match(await me.post('/dashboard/templates', { ...template, ...fallback }), {
    status: 422,
    html: /The fallback of a must be JSON of its type/
  })
  for (const path of ['emails/%2e%2e', 'emails/%2E', 'templates/%2e%2e/versions', 'webhooks/%2e%2e']) {
    t.match(
      await app.speak(
        `GET /dashboard/${path} HTTP/1.1\r\nHost: ${
          new URL(app.url).host
        }\r\nCookie: ${me.cookie}\r\nConnection: close\r\n\r\n`
      ),
      /^HTTP\/1\.1 404/,
      path
    )
  }
})
