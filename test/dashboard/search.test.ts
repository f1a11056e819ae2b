import t from 'tap'
import { visit } from '../support/dashboard.ts'
import { startHookSink } from '../support/hook-sink.ts'
import { startTestApp } from '../support/app.ts'
import { until } from '../support/wait.ts'

const app = await startTestApp(t)
const sink = await startHookSink()
t.teardown(() => sink.stop())
const me = await visit(app)
const stranger = await visit(app, await app.newAccountKey())

const search = async (who: typeof me, id: string) => (await who.get(`/dashboard/emails?q=${encodeURIComponent(id)}`)).to

t.test('the search finds an email, an event, a delivery and a template by its id', async t => {
  const { body: { id: endpoint } } = await app.request('POST', '/api/webhooks', {
    body: { url: sink.url, events: ['email.delivered'] }
  })
  const { body: { id: template } } = await app.request('POST', '/api/templates', {
    body: { name: 'Greeting', subject: 'Hello', text: 'Hello' }
  })
  const { body: { id: email } } = await app.send()
  const [request] = await sink.waitFor(requests => requests.length === 1)
  const event = JSON.parse(request!.body.toString()).id as string
  const list = () => me.get(`/dashboard/webhooks/deliveries?event=${event}`)
  let delivery = ''
  await until(async () => {
    delivery = /\/dashboard\/webhooks\/deliveries\/(whd_\w+)"/.exec((await list()).html)?.[1] ?? ''
    return delivery !== ''
  })
  const cases = [
    [email, `/dashboard/emails/${email}`],
    [` ${email} `, `/dashboard/emails/${email}`],
    [event, `/dashboard/emails/${email}`],
    [delivery, `/dashboard/webhooks/deliveries/${delivery}`],
    [template, `/dashboard/templates/${template}`]
  ] as const
  for (const [id, page] of cases) {
    t.equal(await search(me, id), page, id)
    t.equal((await me.get(page)).status, 200)
    t.equal(await search(stranger, id), null, `${id} is nothing to another account`)
  }
  t.match((await me.get(`/dashboard/emails/${email}`)).html, 'The built-in mail catcher keeps it. Nobody else gets it.')
  t.notMatch((await me.get(`/dashboard/emails/${email}`)).html, 'The relay')

  const { body: test } = await app.request('POST', `/api/webhooks/${endpoint}/test`)
  await sink.waitFor(requests => requests.length === 2)
  const made = JSON.parse(sink.requests[1]!.body.toString()).id as string
  await until(async () => await search(me, made) === `/dashboard/webhooks/deliveries?event=${made}`)
  t.ok(test !== null, 'a test event has no email: its deliveries are shown')
  for (const id of ['em_none', 'ev_01m7ysevjmwmdcr41jq5rymhkp', 'whd_none', 'tpl_none', 'em_', 'EM_1']) {
    const { status, html } = await me.get(`/dashboard/emails?q=${id}`)
    t.equal(status, 200, id)
    t.match(html, 'No results', 'what is no id of anything is searched for')
  }
})

t.test('a replayed delivery says so in lists, and shows every attempt of all its runs', async t => {
  sink.answers((_request, index) => ({ status: index % 2 === 0 ? 200 : 204 }))
  const before = sink.requests.length
  const { body: { id: email } } = await app.send({ subject: 'Again' })
  await sink.waitFor(requests => requests.length === before + 1)
  const list = async () => (await me.get(`/dashboard/webhooks/deliveries?email=${email}`)).html
  await until(async () => (await list()).includes('badge good">delivered'))
  t.notMatch(await list(), 'replayed')
  const id = /\/dashboard\/webhooks\/deliveries\/(whd_\w+)"/.exec(await list())![1]!
  t.match((await me.get(`/dashboard/webhooks/deliveries/${id}`)).html, /<dt>Attempts<\/dt><dd>1<\/dd>/)
  t.equal((await me.post(`/dashboard/webhooks/deliveries/${id}/replay`)).status, 303)
  await sink.waitFor(requests => requests.length === before + 2)
  await until(async () => (await list()).includes('>replayed<'))
  t.match(await list(), /data-name="Attempts">1<br><span class="hint">of the replay<\/span>/)
  await until(async () =>
    /<dt>Attempts<\/dt><dd>2, 1 of them in the last replay<\/dd>/.test(
      (await me.get(`/dashboard/webhooks/deliveries/${id}`)).html
    )
  )
  const { html } = await me.get(`/dashboard/webhooks/deliveries/${id}`)
  t.equal([...html.matchAll(/<details id="request-/g)].length, 2)
  t.match(html, />replayed</)
})
