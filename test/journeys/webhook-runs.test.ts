import { createHmac } from 'node:crypto'
import t from 'tap'
import { requestTestDelivery, deliveryId } from '#src/actions/delivery.ts'
import { stamp } from '#src/actions/fact-log.ts'
import { newId } from '#src/base/id.ts'
import { sleep } from '#src/base/backoff.ts'
import type { AnyFact } from '#streams/catalog.ts'
import { DeliveryRequested, type Owed } from '#streams/delivery/facts.ts'
import { owedIn } from '#streams/replay/decide.ts'
import { openHookRig, type Happened, type HookRig } from '../support/hook-rig.ts'
import { startHookSink, type HookAnswer, type HookSink } from '../support/hook-sink.ts'
import type { Ending } from '../support/servers.ts'

const attemptsIn = (facts: AnyFact[]) => facts.filter(fact => fact.type === 'delivery.attempted')
const requestedIn = (facts: AnyFact[]) => facts.filter(fact => fact.type === 'delivery.requested')
const batchOf = (id: string, events: Happened[]) =>
  `{"object":"batch","id":"${id}","events":[${events.map(({ body }) => body).join(',')}]}`
const REPLAY = 'rpl_01a'

async function openSink (t: Ending): Promise<HookSink> {
  const sink = await startHookSink()
  t.teardown(() => sink.stop())
  return sink
}

/** Owes deliveries as a replay does. */
async function ask (rig: HookRig, owed: Owed[]): Promise<void> {
  const cause = { ...rig.asker, causation: null }
  await rig.factLog.append(owed.map(each => ({ fact: stamp(DeliveryRequested, cause, each, Date.now()) })))
}

t.test('a batch is the exact bodies of its events, signed and retried as a whole, by any process', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  sink.answers((_request, index) => ({ status: index < 2 ? 500 : 200 }))
  const { webhook, secret } = await rig.listen(sink.url, undefined, { batch: { maxEvents: 3, maxWaitMs: 20_000 } })
  const role = rig.start({ gapsS: [0.05, 0.3] })
  const events = [await rig.happen('delivered'), await rig.happen('bounced'), await rig.happen('delivered')]
  await sink.waitFor(requests => requests.length === 1)
  await role.stop()
  // It knows none of the bodies but from the log.
  rig.start({ factLog: await rig.another(), gapsS: [0.05, 0.3] })
  const requests = await sink.waitFor(requests => requests.length === 3)
  const id = deliveryId(events, webhook.id)
  const body = batchOf(id, events)
  for (const request of requests) {
    t.equal(request.body.toString(), body)
    t.equal(request.headers['webhook-id'], id)
    t.equal(request.headers['x-service-signature'], `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`)
  }
  const attempts = attemptsIn(await rig.facts(facts => attemptsIn(facts).length === 3))
  t.same(
    attempts.map(({ data }) => [data.result, data.batch, data.events.map(event => event.id)]),
    ['retrying', 'retrying', 'delivered'].map(result => [result, true, events.map(event => event.id)])
  )
})

t.test('batches of an endpoint go one after the other', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  sink.answers(() => ({ delayMs: 20 }))
  await rig.listen(sink.url, undefined, { batch: { maxEvents: 4, maxWaitMs: 200 } })
  rig.start()
  const events: Happened[] = []
  for (let i = 0; i < 30; i++) events.push(await rig.happen('delivered'))
  const heard = (requests: HookSink['requests']) =>
    requests.flatMap(request => JSON.parse(request.body.toString()).events.map((event: Happened) => event.id))
  const requests = await sink.waitFor(requests => heard(requests).length === events.length)
  t.same(heard(requests), events.map(({ id }) => id))
  t.equal(sink.atOnceMax(), 1)
})

t.test('a test event to an endpoint of batches is a batch of one', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  rig.start()
  const { webhook } = await rig.listen(sink.url, undefined, { batch: { maxEvents: 10, maxWaitMs: 60_000 } })
  const { delivery, test } = await requestTestDelivery(rig.factLog, rig.asker, webhook, 'email.opened')
  const [request] = await sink.waitFor(requests => requests.length === 1)
  t.equal(request!.body.toString(), `{"object":"batch","id":"${delivery}","events":[${test!}]}`)
})

t.test('a batch that misses one of its events is not sent', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  const { webhook } = await rig.listen(sink.url, ['email.opened'])
  const event = await rig.happen('delivered')
  const gone = {
    id: newId('ev', Date.now() - 3_600_000),
    type: 'email.delivered',
    seq: 999_999,
    email: event.email
  } as const
  const members: Owed['events'] = [{ id: event.id, type: 'email.delivered', seq: 1, email: event.email }, gone]
  const owed = {
    delivery: deliveryId(members, webhook.id),
    webhook: webhook.id,
    replay: null,
    events: members,
    batch: true
  }
  await ask(rig, [owed])
  rig.start()
  const ended = (facts: AnyFact[]) => facts.filter(fact => fact.type === 'delivery.failed')
  t.match(ended(await rig.facts(facts => ended(facts).length === 1)), [{
    data: { ...owed, reason: 'event_gone', attempts: 0 }
  }])
  t.equal(sink.requests.length, 0)
})

t.test('what was asked is kept with each attempt, as it was sent', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  sink.answers((_request, index) => index === 0 ? { close: true } : {})
  rig.start()
  const { secret } = await rig.listen(`${sink.url}/hooks?tenant=7`)
  await rig.happen('delivered')
  const attempts = attemptsIn(await rig.facts(facts => attemptsIn(facts).length === 2))
  t.same(attempts.map(({ data }) => [data.errorKind, data.status]), [['reset', null], [null, 200]])
  for (const [i, { data }] of attempts.entries()) {
    t.equal(data.request.url, `${sink.url}/hooks?tenant=7`)
    const sent = sink.requests[i]!.headers
    t.same(Object.keys(data.request.headers), [
      'Content-Type',
      'User-Agent',
      'X-Service-Signature',
      'webhook-id',
      'webhook-timestamp',
      'webhook-signature'
    ])
    for (const [name, value] of Object.entries(data.request.headers)) t.equal(sent[name.toLowerCase()], value, name)
  }
  t.notMatch(JSON.stringify(attempts), secret)
})

t.test('a replayed delivery has the same id and bytes, and its retries still belong to the replay', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  sink.answers((_request, index) => ({ status: index === 1 ? 500 : 200 }))
  rig.start()
  await rig.listen(sink.url)
  const event = await rig.happen('delivered')
  const facts = await rig.facts(facts => attemptsIn(facts).length === 1)
  const owed = owedIn(attemptsIn(facts)[0]!)!
  await ask(rig, [{ ...owed, replay: REPLAY }])
  const requests = await sink.waitFor(requests => requests.length === 3)
  t.ok(requests.every(request => request.body.toString() === event.body && request.headers['webhook-id'] === event.id))
  const attempts = attemptsIn(await rig.facts(facts => attemptsIn(facts).length === 3))
  t.same(attempts.map(({ data }) => [data.delivery, data.replay, data.attempt, data.result]), [
    [owed.delivery, null, 1, 'delivered'],
    [owed.delivery, REPLAY, 1, 'retrying'],
    [owed.delivery, REPLAY, 2, 'delivered']
  ])
})

t.test('what is asked for again waits for what is new', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  await rig.listen(sink.url, undefined, { concurrency: 2 })
  rig.start({ timeoutMs: 30_000 })
  const old = await Promise.all(Array.from({ length: 8 }, () => rig.happen('delivered')))
  const facts = await rig.facts(facts => attemptsIn(facts).length === old.length)
  const open: Array<() => void> = []
  const gate = { shut: true }
  sink.answers(() => ({
    until: new Promise<void>(resolve => {
      if (gate.shut) open.push(resolve)
      else resolve()
    })
  }))
  await ask(rig, attemptsIn(facts).map(fact => ({ ...owedIn(fact)!, replay: REPLAY })))
  await sink.waitFor(requests => requests.length === old.length + 1)
  const fresh = await Promise.all(Array.from({ length: 6 }, () => rig.happen('delivered')))
  await sink.waitFor(requests => requests.length === old.length + 2)
  await rig.facts(facts => requestedIn(facts).length === old.length + fresh.length)
  await sleep(300)
  gate.shut = false
  for (const release of open) release()
  const requests = await sink.waitFor(requests => requests.length === 2 * old.length + fresh.length)
  const isNew = requests.slice(old.length).map(request => fresh.some(({ id }) => id === request.headers['webhook-id']))
  t.same(isNew, [false, ...fresh.map(() => true), ...old.slice(1).map(() => false)])
  t.equal(sink.atOnceMax(), 2)
})

t.test('Retry-After keeps the probes of all that waits for the endpoint away', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  sink.answers((_request, index): HookAnswer => ({ status: [429, 503][index % 2]!, headers: { 'Retry-After': '2' } }))
  rig.start()
  await rig.listen(sink.url, undefined, { concurrency: 1 })
  await Promise.all(Array.from({ length: 20 }, () => rig.happen('delivered')))
  const requests = await sink.waitFor(requests => requests.length === 7, 15_000)
  const gapsMs = requests.slice(5).map(({ at }, i) => at - requests[i + 4]!.at)
  t.ok(gapsMs.every(ms => ms >= 1990), `gaps ${gapsMs}`)
})
