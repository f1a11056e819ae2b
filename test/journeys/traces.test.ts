import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { API_KEY, FROM, startTestApp, type TestApp } from '../support/app.ts'
import { startHookSink } from '../support/hook-sink.ts'
import { logIn, submit } from '../support/submission-peer.ts'

/** A span as OTLP has it in JSON. */
interface Span {
  name: string
  traceId: string
  spanId: string
  parentSpanId?: string
  attributes: Array<{ key: string, value: Record<string, unknown> }>
}

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const CLIENT_SPAN = 'b7ad6b7169203331'
/** Of a client whose own request is traced, or is not. */
const traceparent = (flags: '00' | '01') => `00-${TRACE}-${CLIENT_SPAN}-${flags}`

async function listen (answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, '127.0.0.1')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  await new Promise(resolve => server.once('listening', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** What a collector got: spans, and all text. */
async function startCollector (): Promise<{ url: string, spans: Span[], texts: string[] }> {
  const spans: Span[] = []
  const texts: string[] = []
  const url = await listen(async (request, response) => {
    let text = ''
    for await (const part of request.setEncoding('utf8')) text += part
    texts.push(text)
    const { resourceSpans } = JSON.parse(text)
    for (const { scopeSpans } of resourceSpans) for (const scope of scopeSpans) spans.push(...scope.spans)
    response.setHeader('content-type', 'application/json').end('{}')
  })
  return { url, spans, texts }
}

const attributesOf = (span: Span) =>
  Object.fromEntries(span.attributes.map(({ key, value }) => [key, Object.values(value)[0]]))

/** No request of its own begins a trace: those of other tests in this process would. */
const traced = async (url: string) =>
  await startTestApp(t, { env: { OTEL_EXPORTER_OTLP_ENDPOINT: `${url}/`, OTEL_TRACES_SAMPLER_ARG: '0' } })

const sendTraced = async (app: TestApp, header: string, to: string) =>
  await app.request('POST', '/api/emails', {
    headers: { traceparent: header },
    body: { from: FROM, to, subject: 'Traced', text: 'Hello' }
  })

t.test('one trace shows an email from its request to its callback', async t => {
  const collector = await startCollector()
  const hooks = await startHookSink()
  t.teardown(() => hooks.stop())
  const app = await traced(collector.url)
  await app.request('POST', '/api/webhooks', { body: { url: hooks.url, events: ['email.delivered'] } })

  const { status, body: { id } } = await sendTraced(app, traceparent('01'), 'lovelace@example.com')
  t.equal(status, 202)
  const [callback] = await hooks.waitFor(requests => requests.length > 0)
  await app.stop()

  const named = (name: string) => collector.spans.filter(span => span.name === name && span.traceId === TRACE)
  const [request, ...otherRequests] = named('POST /api/emails')
  t.equal(otherRequests.length, 0)
  t.equal(request!.parentSpanId, CLIENT_SPAN, 'the request is below the client')
  t.match(attributesOf(request!), { 'http.route': '/api/emails', 'http.response.status_code': 202 })
  for (const name of ['append', 'SMTP', 'POST']) {
    t.same(named(name).map(span => span.parentSpanId), [request!.spanId], `${name} is below the request`)
  }
  t.match(attributesOf(named('SMTP')[0]!), { 'jetpost.email': id, 'jetpost.status': 'delivered' })
  t.match(attributesOf(named('POST')[0]!), { 'server.address': '127.0.0.1', 'http.response.status_code': 200 })
  t.equal(callback!.headers.traceparent, `00-${TRACE}-${named('POST')[0]!.spanId}-01`, 'the receiver can go on')
  // A name that no id, made of hex digits, can hold by chance.
  t.notMatch(collector.texts.join(), /lovelace|example\.com/, 'no address, no domain of a recipient')
})

t.test('a mail that comes by SMTP begins a trace', async t => {
  const collector = await startCollector()
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, JETPOST_SUBMISSION_PORT: '0' }
  const app = await startTestApp(t, { env })
  const peer = await logIn(app.submissionPort!, API_KEY)
  const raw = `From: ${FROM}\r\nTo: ada@example.com\r\nSubject: Traced\r\n\r\nHello\r\n`
  const [, id] = /queued as (em_\w+)/.exec(await submit(peer, FROM, ['ada@example.com'], raw))!
  peer.socket.destroy()
  await app.settled(id!, 'delivered')
  await app.stop()
  const sent = collector.spans.find(span => span.name === 'SMTP' && attributesOf(span)['jetpost.email'] === id)!
  const above = collector.spans.find(({ spanId }) => spanId === sent.parentSpanId)
  t.match(above, { name: 'SMTP submission', traceId: sent.traceId })
})

t.test('a request that its client does not trace leaves no span', async t => {
  const collector = await startCollector()
  const hooks = await startHookSink()
  t.teardown(() => hooks.stop())
  const app = await traced(collector.url)
  await app.request('POST', '/api/webhooks', { body: { url: hooks.url, events: ['email.delivered'] } })
  for (const header of [traceparent('00'), 'garbage', `00-${'0'.repeat(32)}-${CLIENT_SPAN}-01`]) {
    t.equal((await sendTraced(app, header, 'ada@example.com')).status, 202, header)
  }
  const callbacks = await hooks.waitFor(requests => requests.length === 3)
  await app.stop()
  t.same(callbacks.map(({ headers }) => headers.traceparent), [undefined, undefined, undefined])
  t.equal(collector.spans.length, 0)
})

t.test('mail goes out, and a stop ends, while the collector does not answer', async t => {
  let asked = 0
  const app = await traced(await listen(() => void asked++))
  const { body: { id } } = await sendTraced(app, traceparent('01'), 'ada@example.com')
  await app.settled(id, 'delivered')
  await app.stop()
  t.ok(asked > 0)
})
