import { spawnSync } from 'node:child_process'
import { createHmac } from 'node:crypto'
import t from 'tap'
import { readDispatchCursor } from '#src/actions/delivery.ts'
import { changeWebhook, deleteWebhook, testWebhook } from '#src/actions/webhook.ts'
import { sleep } from '#src/base/backoff.ts'
import { lastSequenceUnder } from '#src/nats/get.ts'
import type { AnyFact } from '#streams/catalog.ts'
import { Refusal } from '#streams/define.ts'
import { GAPS_S } from '#streams/delivery/decide.ts'
import { webhookPartitionOf } from '#streams/subjects.ts'
import { startHookSink, type HookRequest, type HookSink } from '../support/hook-sink.ts'
import { openHookRig, type HookRig } from '../support/hook-rig.ts'
import type { Ending } from '../support/servers.ts'
import { nextMs, until } from '../support/wait.ts'

const attemptsIn = (facts: AnyFact[]) => facts.filter(fact => fact.type === 'delivery.attempted')

async function openSink (t: Ending): Promise<HookSink> {
  const sink = await startHookSink()
  t.teardown(() => sink.stop())
  return sink
}

t.test('6.2 the service sends POST <webhook_url> with the event as its JSON body', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  rig.start()
  await rig.listen(`${sink.url}/hooks?tenant=7`)
  const event = await rig.happen('delivered')
  const [request] = await sink.waitFor(requests => requests.length > 0)
  t.equal(request!.path, '/hooks?tenant=7')
  t.equal(request!.headers['content-type'], 'application/json')
  t.equal(request!.body.toString('utf8'), event.body, 'the very bytes of the fact')
})

t.test('6.3 the signature is sha256= and HMAC-SHA256 of the raw body with the secret, in lowercase hex', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  rig.start()
  const { secret } = await rig.listen(sink.url)
  await rig.happen('delivered')
  const [request] = await sink.waitFor(requests => requests.length > 0)
  const header = request!.headers['x-service-signature']!
  t.match(header, /^sha256=[0-9a-f]{64}$/)
  t.equal(header, `sha256=${createHmac('sha256', secret).update(request!.body).digest('hex')}`)
  const openssl = spawnSync('openssl', ['dgst', '-sha256', '-hmac', secret], { input: request!.body, encoding: 'utf8' })
  t.equal(openssl.stdout.trim().split(' ').at(-1), header.slice('sha256='.length), 'openssl agrees')
})

t.test('the three Standard Webhooks headers go beside it, keyed with the decoded secret', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  rig.start()
  const { secret } = await rig.listen(sink.url)
  const event = await rig.happen('delivered')
  const [request] = await sink.waitFor(requests => requests.length > 0)
  const { 'webhook-id': id, 'webhook-timestamp': time, 'webhook-signature': signature } = request!.headers
  t.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/)
  t.equal(id, event.id)
  t.ok(Math.abs(Number(time) - Date.now() / 1000) < 60)
  const key = Buffer.from(secret.slice(6), 'base64')
  t.equal(signature, `v1,${createHmac('sha256', key).update(`${id}.${time}.${event.body}`).digest('base64')}`)
})

t.test('6.1 an endpoint subscribes to a subset of the types; types can be routed to different endpoints', async t => {
  const [rig, delivered, bounced] = [await openHookRig(t), await openSink(t), await openSink(t)]
  rig.start()
  await rig.listen(delivered.url, ['email.delivered', 'email.opened'])
  await rig.listen(bounced.url, ['email.bounced'])
  const bounce = await rig.happen('bounced')
  const delivery = await rig.happen('delivered')
  const deferral = await rig.happen('deferred')
  await rig.happen('deferred', { first: false })
  const last = await rig.happen('bounced')
  const bodies = async (sink: HookSink, count: number) => {
    const requests = await sink.waitFor(requests => requests.length >= count)
    return requests.map(request => request.body.toString())
  }
  t.same(
    (await bodies(bounced, 3)).sort(),
    [bounce.body, deferral.body, last.body].sort(),
    'deferrals after the first are no event'
  )
  t.same(await bodies(delivered, 1), [delivery.body])
})

t.test('an endpoint hears nothing of what happened before it was there, or of another account', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  await rig.happen('delivered')
  await nextMs()
  await rig.listen(sink.url)
  const event = await rig.happen('delivered')
  rig.start()
  const requests = await sink.waitFor(requests => requests.length > 0)
  await rig.facts(facts => facts.some(fact => fact.type === 'delivery.attempted'))
  t.same(requests.map(request => request.body.toString()), [event.body])
})

t.test('6.4 failed deliveries are retried with growing gaps, with the same id and the same bytes', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  const statuses = [500, 404, 302, 200]
  sink.answers((_request, index) => ({ status: statuses[index]!, body: `answer ${index}` }))
  rig.start()
  await rig.listen(sink.url)
  const event = await rig.happen('delivered')
  const requests = await sink.waitFor(requests => requests.length === 4)
  t.ok(requests.every(request => request.body.toString() === event.body && request.headers['webhook-id'] === event.id))
  const gapsMs = requests.slice(1).map((request, i) => request.at - requests[i]!.at)
  // The test's gaps are 50, 300 and 1,200 ms; the server may fire schedules some hundred ms late.
  t.ok(gapsMs[0]! >= 45 && gapsMs[1]! >= 290 && gapsMs[2]! >= 1190 && gapsMs[2]! < 30_000, `gaps ${gapsMs}`)
  const attempts = attemptsIn(await rig.facts(facts => attemptsIn(facts).length === 4))
  t.same(attempts.map(({ data }) => [data.attempt, data.result, data.status, data.response]), [
    [1, 'retrying', 500, 'answer 0'],
    [2, 'retrying', 404, 'answer 1'],
    [3, 'retrying', 302, 'answer 2'],
    [4, 'delivered', 200, 'answer 3']
  ])
})

t.test('6.4 after the last gap the delivery is failed and stays visible', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  sink.answers(() => ({ reset: true }))
  rig.start({ gapsS: [0.02, 0.05] })
  await rig.listen(sink.url)
  await rig.happen('delivered')
  const facts = await rig.facts(facts =>
    facts.some(fact => fact.type === 'delivery.attempted' && fact.data.result === 'failed')
  )
  const attempts = attemptsIn(facts)
  t.same(attempts.map(({ data }) => [data.attempt, data.result, data.status, data.error]), [
    [1, 'retrying', null, 'connection reset'],
    [2, 'retrying', null, 'connection reset'],
    [3, 'failed', null, 'connection reset']
  ])
  t.equal(attempts[2]!.data.nextAttemptAt, null)
})

t.test('Retry-After is obeyed when it asks for more than the gap', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  sink.answers((_request, index) => index === 0 ? { status: 429, headers: { 'Retry-After': '2' } } : {})
  rig.start()
  await rig.listen(sink.url)
  await rig.happen('delivered')
  const [first, second] = await sink.waitFor(requests => requests.length === 2)
  t.ok(second!.at - first!.at >= 1990, `waited ${second!.at - first!.at} ms`)
})

t.test('a redirect is a failure and is not followed', async t => {
  const [rig, sink, other] = [await openHookRig(t), await openSink(t), await openSink(t)]
  sink.answers(() => ({ status: 307, headers: { Location: other.url } }))
  rig.start({ gapsS: [0.02] })
  await rig.listen(sink.url)
  await rig.happen('delivered')
  await rig.facts(facts => facts.some(fact => fact.type === 'delivery.attempted' && fact.data.result === 'failed'))
  t.equal(sink.requests.length, 2)
  t.equal(other.requests.length, 0)
})

t.test('410 disables the endpoint; what is owed to it fails as endpoint_disabled', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  sink.answers((_request, index) => ({ status: index === 0 ? 500 : 410 }))
  rig.start({ gapsS: [3600, 3600] })
  const { webhook } = await rig.listen(sink.url)
  await rig.happen('delivered')
  await sink.waitFor(requests => requests.length === 1)
  await rig.happen('delivered')
  const facts = await rig.facts(facts => facts.some(fact => fact.type === 'delivery.failed'))
  const gone = facts.find(fact => fact.type === 'delivery.attempted' && fact.data.status === 410)
  t.match(gone, { data: { result: 'failed', nextAttemptAt: null } })
  t.match(facts.find(fact => fact.type === 'delivery.failed'), { data: { reason: 'endpoint_disabled', attempts: 1 } })
  t.equal(rig.directory.now.webhooks.get(webhook.id)?.disabled, 'gone')
  t.equal(sink.requests.length, 2)
})

t.test("a 410 of an endpoint's former URL is a plain failure, and the retry goes to the new URL", async t => {
  const [rig, old, sink] = [await openHookRig(t), await openSink(t), await openSink(t)]
  let answerNow = () => {}
  const moved = new Promise<void>(resolve => {
    answerNow = resolve
  })
  old.answers(() => ({ status: 410, until: moved }))
  rig.start()
  const { webhook } = await rig.listen(old.url)
  const { id } = await rig.happen('delivered')
  await old.waitFor(requests => requests.length === 1)
  const changed = await changeWebhook(rig.services, rig.asker, webhook.id, { url: sink.url })
  if (changed instanceof Refusal) throw new Error(changed.message)
  await rig.directory.reached(changed.seq, 5000)
  answerNow()
  const [retry] = await sink.waitFor(requests => requests.length === 1)
  t.equal(JSON.parse(retry!.body.toString()).id, id)
  t.equal(rig.directory.now.webhooks.get(webhook.id)?.disabled, null)
})

t.test('DELETE ends what is pending as failed with endpoint_deleted, at once', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  sink.answers(() => ({ status: 500 }))
  rig.start({ gapsS: [3600, 3600] })
  const { webhook } = await rig.listen(sink.url)
  await rig.happen('delivered')
  await sink.waitFor(requests => requests.length === 1)
  await rig.facts(facts => facts.some(fact => fact.type === 'delivery.attempted'))
  await deleteWebhook(rig, rig.asker, webhook.id)
  const facts = await rig.facts(facts => facts.some(fact => fact.type === 'delivery.failed'))
  t.match(facts.find(fact => fact.type === 'delivery.failed'), { data: { reason: 'endpoint_deleted', attempts: 1 } })
  t.equal(sink.requests.length, 1)
})

t.test('private targets are refused when they are not allowed, by address and by name', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  rig.start({ mayCallPrivate: () => false, gapsS: [0.02] })
  const targets = [
    sink.url,
    ...['127.0.0.1', 'localhost', '[::ffff:127.0.0.1]', '0x7f000001'].map(host => `https://${host}:${sink.port}`)
  ]
  for (const url of targets) await rig.listen(url)
  await rig.happen('delivered')
  const failed = (facts: AnyFact[]) => attemptsIn(facts).filter(({ data }) => data.result === 'failed')
  const attempts = failed(await rig.facts(facts => failed(facts).length === targets.length))
  t.ok(attempts.every(({ data }) => data.error?.startsWith('target refused: ')))
  t.equal(sink.requests.length, 0)
})

t.test('one slow or dead endpoint delays no other', async t => {
  const rig = await openHookRig(t)
  const sinks = await Promise.all(Array.from({ length: 6 }, () => openSink(t)))
  const [hanging, resetting, ...living] = sinks
  hanging!.answers(() => ({ hang: true }))
  resetting!.answers(() => ({ reset: true }))
  for (const sink of sinks) await rig.listen(sink.url)
  await rig.listen('http://127.0.0.1:9/nobody')
  // Long: on a machine that stands still for seconds the living must not seem to hang.
  rig.start({ timeoutMs: 15_000 })
  const events = await Promise.all(Array.from({ length: 300 }, () => rig.happen('delivered')))
  const idsOf = (requests: HookRequest[]) => new Set(requests.map(request => request.headers['webhook-id'])).size
  for (const sink of living) await sink.waitFor(requests => idsOf(requests) === events.length)
  t.ok(idsOf(hanging!.requests) < events.length, 'all is there before the hanging one has been asked for all')
  t.ok(hanging!.atOnceMax() <= 8, 'its own queue bounds what it holds')
  t.equal(await lastSequenceUnder(rig.factLog.bus, 'SCHEDULE', 'schedule.>'), 0, 'what waits has no schedule')
})

t.test('a slow endpoint with an occasional quick answer does not hold up another of its partition', async t => {
  const [rig, slow, quick] = [await openHookRig(t), await openSink(t), await openSink(t)]
  slow.answers((_request, index) => index % 8 < 2 ? {} : { delayMs: 700 })
  const { webhook: first } = await rig.listen(slow.url, ['email.delivered'])
  let second: string
  do second = (await rig.listen(quick.url, ['email.bounced'], { paused: true })).webhook.id
  while (webhookPartitionOf(second) !== webhookPartitionOf(first.id))
  const changed = await changeWebhook(rig.services, rig.asker, second, { paused: false })
  if (changed instanceof Refusal) throw new Error(changed.message)
  await rig.directory.reached(changed.seq, 5000)
  for (let i = 0; i < 6; i++) await Promise.all(Array.from({ length: 250 }, () => rig.happen('delivered')))
  await Promise.all(Array.from({ length: 20 }, () => rig.happen('bounced')))
  rig.start({ gapsS: GAPS_S, timeoutMs: 15_000 })
  await quick.waitFor(requests => requests.length >= 20)
  t.ok(slow.requests.length < 300, `${slow.requests.length} of 1,500 by then`)
})

t.test('a process that takes over finds what an endpoint is owed far behind the others', async t => {
  const [rig, dead, busy] = [await openHookRig(t), await openSink(t), await openSink(t)]
  dead.answers(() => ({ status: 503 }))
  const { webhook: first } = await rig.listen(dead.url, ['email.bounced'])
  let second: string
  do second = (await rig.listen(busy.url, ['email.delivered'], { paused: true })).webhook.id
  while (webhookPartitionOf(second) !== webhookPartitionOf(first.id))
  await pause(rig, second, false)
  const role = rig.start({ gapsS: [0.05, 600] })
  const owed = await rig.happen('bounced')
  await dead.waitFor(requests => requests.length === 2)
  for (let i = 0; i < 5; i++) await Promise.all(Array.from({ length: 500 }, () => rig.happen('delivered')))
  // A stop cuts requests after a while, and they are made again.
  await rig.facts(facts => attemptsIn(facts).filter(({ data }) => data.result === 'delivered').length === 2500, 60_000)
  await role.stop()
  // A request that got no answer in time was made again: so it may be more than 2,500.
  const made = busy.requests.length
  const { behind } = await readDispatchCursor(rig.factLog, webhookPartitionOf(first.id))
  t.match(behind, [{ webhook: first.id, kind: 'delivery' }])
  dead.answers(() => ({ status: 200 }))
  rig.start({ factLog: { ...rig.factLog, clock: { nowMs: () => Date.now() + 600_000 } } })
  await dead.waitFor(requests => requests.length === 3)
  t.equal(dead.requests[2]!.headers['webhook-id'], owed.id)
  t.equal(busy.requests.length, made, 'and what is delivered stays so')
})

t.test('an endpoint that comes back gets all it missed', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  let up = false
  sink.answers(() => ({ status: up ? 200 : 503 }))
  rig.start()
  await rig.listen(sink.url)
  const events = await Promise.all(Array.from({ length: 60 }, () => rig.happen('delivered')))
  await sink.waitFor(requests => requests.length >= 10)
  up = true
  const delivered = (facts: AnyFact[]) => attemptsIn(facts).filter(({ data }) => data.result === 'delivered').length
  await rig.facts(facts => delivered(facts) === events.length, 30_000)
  t.pass()
})

t.test('a 2xx whose body never ends is a success, kept to 4,096 bytes', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  sink.answers((_request, index) => index === 0 ? { dribble: true, body: 'ok' } : { body: 'é'.repeat(100_000) })
  rig.start()
  await rig.listen(sink.url)
  await rig.happen('delivered')
  await rig.happen('delivered')
  const attempts = attemptsIn(await rig.facts(facts => attemptsIn(facts).length === 2))
  const [short, long] = attempts.map(({ data }) => data).sort((a, b) => a.response.length - b.response.length)
  t.match(short, { result: 'delivered', response: /^ok\.*$/ })
  t.match(long, { result: 'delivered', response: 'é'.repeat(2048) })
})

t.test('the events of one email arrive in their order', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  sink.answers(() => ({ delayMs: Math.random() * 20 }))
  rig.start()
  await rig.listen(sink.url)
  const first = await rig.happen('deferred')
  const events = [first]
  for (let i = 0; i < 20; i++) events.push(await rig.happen('bounced', { email: first.email }))
  const requests = await sink.waitFor(requests => requests.length === events.length)
  t.same(requests.map(request => request.headers['webhook-id']), events.map(event => event.id))
})

t.test('a restart in the middle loses nothing', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  sink.answers(() => ({ delayMs: 5 }))
  await rig.listen(sink.url)
  let role = rig.start()
  const events = []
  for (let i = 0; i < 5; i++) {
    events.push(...await Promise.all(Array.from({ length: 60 }, () => rig.happen('delivered'))))
    await role.stop()
    role = rig.start()
  }
  const ids = () => new Set(sink.requests.map(request => request.headers['webhook-id']))
  await sink.waitFor(() => ids().size === events.length, 30_000)
  t.equal(sink.requests.length, events.length, 'a stop drains: nothing was sent twice')
})

const requestedIn = (facts: AnyFact[]) => facts.filter(fact => fact.type === 'delivery.requested')
const deliveryIn = ({ data }: { data: { delivery: string } }) => data.delivery

/** Pauses or resumes, and waits until this process has heard. */
async function pause (rig: HookRig, id: string, paused: boolean): Promise<void> {
  const changed = await changeWebhook(rig.services, rig.asker, id, { paused })
  if ('code' in changed) throw new Error(changed.message)
  await rig.directory.reached(changed.seq, 5000)
}

t.test('a pause holds what is owed; after it all of it goes out in its order, and nothing twice', async t => {
  const [rig, sink, other] = [await openHookRig(t), await openSink(t), await openSink(t)]
  rig.start()
  const { webhook } = await rig.listen(sink.url, ['email.bounced'], { concurrency: 1 })
  await rig.listen(other.url)
  await pause(rig, webhook.id, true)
  const first = await rig.happen('deferred')
  const events = [first]
  for (let i = 0; i < 30; i++) events.push(await rig.happen('bounced', i % 3 === 0 ? { email: first.email } : {}))
  await other.waitFor(requests => requests.length === events.length)
  t.equal(sink.requests.length, 0)
  await pause(rig, webhook.id, false)
  await sink.waitFor(requests => requests.length === events.length)
  t.same(sink.requests.map(request => request.headers['webhook-id']), events.map(event => event.id))
  const last = await rig.happen('bounced')
  await sink.waitFor(requests => requests.some(request => request.headers['webhook-id'] === last.id))
  t.equal(sink.requests.length, events.length + 1)
})

t.test('a pause holds what waits in the queue and what comes due; the retry goes on after it', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  sink.answers((_request, index) => index === 0 ? { status: 500, delayMs: 300 } : {})
  rig.start({ gapsS: [0.05, 0.3] })
  const { webhook } = await rig.listen(sink.url, undefined, { concurrency: 1 })
  const events = [await rig.happen('delivered'), await rig.happen('delivered')]
  await sink.waitFor(requests => requests.length === 1)
  await pause(rig, webhook.id, true)
  const known = (facts: AnyFact[]) => new Set([...requestedIn(facts), ...attemptsIn(facts)].map(deliveryIn))
  await rig.facts(facts => known(facts).size === 2 && attemptsIn(facts).length === 1)
  await sleep(500)
  t.equal(sink.requests.length, 1)
  await pause(rig, webhook.id, false)
  await sink.waitFor(requests => requests.length === 3)
  t.same(new Set(sink.requests.map(request => request.headers['webhook-id'])), new Set(events.map(event => event.id)))
})

t.test('the 24 hours of a delivery do not run while it is held', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  let aheadMs = 0
  const factLog = { ...rig.factLog, clock: { nowMs: () => Date.now() + aheadMs } }
  sink.answers((_request, index) => ({ status: index === 0 ? 500 : 200 }))
  rig.start({ factLog, gapsS: [0.05, 0.3] })
  const { webhook } = await rig.listen(sink.url)
  await rig.happen('delivered')
  await sink.waitFor(requests => requests.length === 1)
  const services = { ...rig.services, factLog }
  await pause({ ...rig, services }, webhook.id, true)
  aheadMs = 47 * 3_600_000
  await pause({ ...rig, services }, webhook.id, false)
  const attempts = attemptsIn(await rig.facts(facts => attemptsIn(facts).length === 2))
  t.match(attempts[1], { data: { attempt: 2, result: 'delivered' } }, 'a pause of 47 hours stopped them for 24')
  t.equal(attempts[1]!.data.firstAttemptAt, attempts[0]!.data.firstAttemptAt)
})

t.test('what a pause of its own holds longer than 48 hours is failed as expired', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  let aheadMs = 0
  rig.start({ factLog: { ...rig.factLog, clock: { nowMs: () => Date.now() + aheadMs } } })
  const { webhook } = await rig.listen(sink.url)
  await pause(rig, webhook.id, true)
  await rig.happen('delivered')
  await rig.facts(facts => requestedIn(facts).length === 1)
  aheadMs = 49 * 3_600_000
  const facts = await rig.facts(facts => facts.some(fact => fact.type === 'delivery.failed'))
  t.match(facts.find(fact => fact.type === 'delivery.failed'), { data: { reason: 'expired', attempts: 0 } })
  t.equal(sink.requests.length, 0)
})

t.test('an endpoint gets as many requests at once as its owner allows', async t => {
  const [rig, one, many] = [await openHookRig(t), await openSink(t), await openSink(t)]
  for (const sink of [one, many]) sink.answers(() => ({ delayMs: 100 }))
  rig.start()
  const { webhook } = await rig.listen(one.url, undefined, { concurrency: 1 })
  await rig.listen(many.url, undefined, { concurrency: 20 })
  await Promise.all(Array.from({ length: 30 }, () => rig.happen('delivered')))
  await many.waitFor(requests => requests.length === 30)
  await one.waitFor(requests => requests.length >= 3)
  t.equal(one.atOnceMax(), 1)
  t.ok(many.atOnceMax() > 8 && many.atOnceMax() <= 20, `${many.atOnceMax()} at once`)
  await changeWebhook(rig.services, rig.asker, webhook.id, { concurrency: 5 })
  await one.waitFor(requests => requests.length === 30)
  t.ok(one.atOnceMax() > 1 && one.atOnceMax() <= 5, `${one.atOnceMax()} at once after the change`)
})

t.test('a test event goes the real way: its endpoint alone, the same bytes on every try, signed', async t => {
  const [rig, sink, other] = [await openHookRig(t), await openSink(t), await openSink(t)]
  sink.answers((_request, index) => ({ status: index < 2 ? 500 : 200 }))
  rig.start()
  const { webhook, secret } = await rig.listen(sink.url, ['email.delivered'])
  await rig.listen(other.url)
  const sent = await testWebhook(rig.services, rig.asker, webhook.id, 'email.clicked')
  if ('code' in sent) throw new Error(sent.message)
  const requests = await sink.waitFor(requests => requests.length === 3)
  const body = requests[0]!.body.toString()
  t.match(JSON.parse(body), { id: sent.event, type: 'email.clicked', data: { test: true, click: { url: String } } })
  t.ok(requests.every(request => request.body.toString() === body && request.headers['webhook-id'] === sent.event))
  t.equal(
    requests[2]!.headers['x-service-signature'],
    `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`
  )
  const attempts = attemptsIn(await rig.facts(facts => attemptsIn(facts).length === 3))
  t.same(attempts.map(({ data }) => [data.delivery, data.result]), [[sent.delivery, 'retrying'], [
    sent.delivery,
    'retrying'
  ], [sent.delivery, 'delivered']])
  await rig.happen('delivered')
  await other.waitFor(requests => requests.length === 1)
  t.notMatch(JSON.parse(other.requests[0]!.body.toString()), { data: { test: true } })
})

t.test('an endpoint that is enabled again hears what happens from then on', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  sink.answers((_request, index) => ({ status: index === 0 ? 410 : 200 }))
  rig.start()
  const { webhook } = await rig.listen(sink.url)
  await rig.happen('delivered')
  await rig.facts(facts => attemptsIn(facts).length === 1)
  await until(() => rig.directory.now.webhooks.get(webhook.id)?.disabled === 'gone')
  const changed = await changeWebhook(rig.services, rig.asker, webhook.id, { enabled: true })
  if ('code' in changed) throw new Error(changed.message)
  await rig.directory.reached(changed.seq, 5000)
  const event = await rig.happen('delivered')
  await sink.waitFor(requests => requests.length === 2)
  t.equal(sink.requests[1]!.headers['webhook-id'], event.id)
})

t.test('a stop does not wait for an endpoint that hangs: its delivery goes out again, with the same id', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  sink.answers((_request, index) => (index === 0 ? { hang: true } : { status: 200 }))
  const stopping = rig.start({ timeoutMs: 600_000 })
  await rig.listen(sink.url)
  const event = await rig.happen('delivered')
  await sink.waitFor(requests => requests.length === 1)
  await stopping.stop()
  rig.start()
  const requests = await sink.waitFor(requests => requests.length === 2)
  t.same(requests.map(({ headers }) => headers['webhook-id']), [event.id, event.id])
  const attempts = attemptsIn(await rig.facts(facts => attemptsIn(facts).length === 1))
  t.match(attempts.map(({ data }) => data), [{ attempt: 1, result: 'delivered' }], 'the cut one is no attempt')
})
