import { createHmac } from 'node:crypto'
import t from 'tap'
import { deleteWebhook, changeWebhook, testWebhook } from '#src/actions/webhook.ts'
import { api } from '#src/nats/api.ts'
import { lastSequenceUnder } from '#src/nats/get.ts'
import { createLog } from '#src/base/log.ts'
import type { Role } from '#src/base/role.ts'
import { BodyCache } from '#src/workers/webhooks/body-cache.ts'
import { startFanout } from '#src/workers/webhooks/fanout.ts'
import { startBatching } from '#src/workers/webhooks/batching.ts'
import type { AnyFact } from '#streams/catalog.ts'
import { Refusal } from '#streams/define.ts'
import { consumerPlans, type ConsumerPlan } from '#streams/topology.ts'
import type { WebhookChanges } from '#streams/webhook/decide.ts'
import { openHookRig, type Happened, type HookRig } from '../support/hook-rig.ts'
import { startHookSink, type HookRequest, type HookSink } from '../support/hook-sink.ts'
import type { Ending } from '../support/servers.ts'
import { until } from '../support/wait.ts'

async function openSink (t: Ending): Promise<HookSink> {
  const sink = await startHookSink()
  t.teardown(() => sink.stop())
  return sink
}

interface BatchBody {
  object: string
  id: string
  events: Array<{ id: string }>
}

const bodyOf = (request: HookRequest): BatchBody => JSON.parse(request.body.toString())
const idsIn = (requests: HookRequest[]): string[] =>
  requests.flatMap(request => bodyOf(request).events.map(({ id }) => id))
const requestsIn = (facts: AnyFact[]) => facts.filter(fact => fact.type === 'delivery.requested')
const attemptsIn = (facts: AnyFact[]) => facts.filter(fact => fact.type === 'delivery.attempted')
const joinedIn = (facts: AnyFact[]) => facts.filter(fact => fact.type === 'batch.joined')
const idsOf = (events: Happened[]) => events.map(({ id }) => id)

/** One after the other, so that their order is known. */
async function happenings (rig: HookRig, count: number): Promise<Happened[]> {
  const events: Happened[] = []
  for (let i = 0; i < count; i++) events.push(await rig.happen('delivered'))
  return events
}

async function change (rig: HookRig, id: string, changes: WebhookChanges): Promise<void> {
  const changed = await changeWebhook(rig.services, rig.asker, id, changes)
  if (changed instanceof Refusal) throw new Error(changed.message)
  await rig.directory.reached(changed.seq, 5000)
}

t.test('a batch holds the exact single bodies in order, at most max_events, signed once as a whole', async t => {
  const [rig, sink, single] = [await openHookRig(t), await openSink(t), await openSink(t)]
  const { secret } = await rig.listen(sink.url, undefined, { batch: { maxEvents: 10, maxWaitMs: 60_000 } })
  await rig.listen(single.url)
  const events = await happenings(rig, 30)
  rig.start()
  const requests = await sink.waitFor(requests => requests.length === 3)
  t.same(idsIn(requests), idsOf(events))
  const singles = new Map(
    (await single.waitFor(requests => requests.length === 30)).map(
      request => [request.headers['webhook-id']!, request.body.toString()]
    )
  )
  for (const [i, request] of requests.entries()) {
    const bodies = events.slice(i * 10, i * 10 + 10).map(({ id }) => singles.get(id)!)
    const text = request.body.toString()
    const { id } = bodyOf(request)
    t.match(id, /^whd_[0-9a-z]{26}$/)
    t.equal(text, `{"object":"batch","id":"${id}","events":[${bodies.join(',')}]}`, 'byte for byte')
    t.equal(request.headers['webhook-id'], id)
    t.equal(
      request.headers['x-service-signature'],
      `sha256=${createHmac('sha256', secret).update(request.body).digest('hex')}`
    )
    const key = Buffer.from(secret.slice(6), 'base64')
    const signed = `${id}.${request.headers['webhook-timestamp']}.${text}`
    t.equal(request.headers['webhook-signature'], `v1,${createHmac('sha256', key).update(signed).digest('base64')}`)
  }
  const facts = await rig.facts(facts => attemptsIn(facts).filter(({ data }) => data.batch).length === 3)
  t.same(
    requestsIn(facts).filter(({ data }) => data.batch).map(({ data }) => data.delivery),
    requests.map(request => bodyOf(request).id)
  )
})

t.test('fewer than max_events go out once the first has waited max_wait_ms', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  rig.start()
  await rig.listen(sink.url, undefined, { batch: { maxEvents: 100, maxWaitMs: 1000 } })
  const events = await happenings(rig, 3)
  const [request] = await sink.waitFor(requests => requests.length > 0)
  t.same(idsIn([request!]), idsOf(events), 'in one batch')
  const facts = await rig.facts(facts => requestsIn(facts).length === 1)
  const waitedMs = Date.parse(requestsIn(facts)[0]!.time) - Date.parse(joinedIn(facts)[0]!.time)
  t.ok(waitedMs >= 1000, `formed after ${waitedMs} ms, not before its time`)
  const more = await happenings(rig, 2)
  await sink.waitFor(requests => idsIn(requests).length === 5)
  t.same(idsIn(sink.requests), idsOf([...events, ...more]))
})

t.test('what is more than a batch waits for the next', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  const { webhook } = await rig.listen(sink.url, undefined, { batch: { maxEvents: 10, maxWaitMs: 60_000 } })
  rig.start()
  const events = await happenings(rig, 25)
  const requests = await sink.waitFor(requests => requests.length === 2)
  t.same(requests.map(request => bodyOf(request).events.length), [10, 10])
  await rig.facts(facts => joinedIn(facts).length === 25)
  events.push(...await happenings(rig, 5))
  await sink.waitFor(requests => requests.length === 3)
  t.same(idsIn(sink.requests), idsOf(events))
  t.equal(rig.directory.now.webhooks.get(webhook.id)?.batch?.maxEvents, 10)
})

t.test('a failed batch is the same on every attempt, also when the role restarts and when two run', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  let up = false
  sink.answers(() => ({ status: up ? 200 : 500 }))
  await rig.listen(sink.url, undefined, { batch: { maxEvents: 5, maxWaitMs: 60_000 } })
  const events = await happenings(rig, 10)
  const gapsS = Array.from({ length: 30 }, () => 0.3)
  for (let i = 1; i <= 3; i++) {
    const role = rig.start({ gapsS })
    await sink.waitFor(requests => requests.length >= i * 2)
    await role.stop()
    // What comes meanwhile is none of theirs.
    events.push(await rig.happen('delivered'))
  }
  rig.start({ gapsS })
  rig.start({ gapsS, factLog: await rig.another() })
  await sink.waitFor(requests => requests.length >= 10)
  up = true
  events.push(await rig.happen('delivered'), await rig.happen('delivered'))
  const done = (facts: AnyFact[]) =>
    attemptsIn(facts).filter(({ data }) => data.result === 'delivered').flatMap(({ data }) =>
      data.events.map(({ id }) => id)
    )
  const facts = await rig.facts(facts => done(facts).length >= events.length, 30_000)
  t.same(done(facts).toSorted(), idsOf(events).toSorted(), 'each in one batch, none lost')
  const bodies = new Map<string, Set<string>>()
  for (const request of sink.requests) {
    const { id } = bodyOf(request)
    bodies.set(id, (bodies.get(id) ?? new Set()).add(request.body.toString()))
    t.equal(request.headers['webhook-id'], id)
  }
  t.equal(bodies.size, 3)
  t.ok([...bodies.values()].every(texts => texts.size === 1), 'the same bytes on every try')
})

t.test('the batch setting changed or removed while events wait: all of them go out, none twice', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  rig.start()
  const { webhook } = await rig.listen(sink.url, undefined, { batch: { maxEvents: 100, maxWaitMs: 60_000 } })
  const first = await happenings(rig, 7)
  await rig.facts(facts => joinedIn(facts).length === 7)
  await change(rig, webhook.id, { batch: { maxEvents: 5, maxWaitMs: 60_000 } })
  await rig.happen('delivered').then(event => first.push(event))
  await sink.waitFor(requests => requests.length === 1)
  t.equal(bodyOf(sink.requests[0]!).events.length, 5, 'the new limit holds for what waited')
  await change(rig, webhook.id, { batch: null })
  await sink.waitFor(requests => requests.length === 2)
  t.same(idsIn(sink.requests), idsOf(first), 'what was left goes out at once')
  const after = await rig.happen('delivered')
  await sink.waitFor(requests => requests.length === 3)
  t.equal(sink.requests[2]!.body.toString(), after.body, 'alone, from now on')
  await change(rig, webhook.id, { batch: { maxEvents: 2, maxWaitMs: 60_000 } })
  const last = await happenings(rig, 2)
  await sink.waitFor(requests => requests.length === 4)
  t.same(idsIn([sink.requests[3]!]), idsOf(last))
})

t.test('a test event to an endpoint with batches is a batch of one', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  rig.start()
  const { webhook } = await rig.listen(sink.url, undefined, { batch: { maxEvents: 100, maxWaitMs: 60_000 } })
  const sent = await testWebhook(rig.services, rig.asker, webhook.id, 'email.bounced')
  if (sent instanceof Refusal) throw new Error(sent.message)
  const [request] = await sink.waitFor(requests => requests.length === 1)
  t.match(bodyOf(request!), {
    object: 'batch',
    id: sent.delivery,
    events: [{ id: sent.event, type: 'email.bounced', data: { test: true } }]
  })
  t.equal(request!.headers['webhook-id'], sent.delivery)
})

t.test('DELETE while events wait for their batch: they end as failed with endpoint_deleted', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  rig.start()
  const { webhook } = await rig.listen(sink.url, undefined, { batch: { maxEvents: 100, maxWaitMs: 60_000 } })
  const events = await happenings(rig, 4)
  await rig.facts(facts => joinedIn(facts).length === 4)
  await deleteWebhook(rig, rig.asker, webhook.id)
  const facts = await rig.facts(facts => facts.some(fact => fact.type === 'delivery.failed'))
  t.match(facts.find(fact => fact.type === 'delivery.failed'), {
    data: { reason: 'endpoint_deleted', batch: true, events: idsOf(events).map(id => ({ id })) }
  })
  t.equal(sink.requests.length, 0)
})

t.test('each deferral is an event for who asks for it', async t => {
  const [rig, all, some] = [await openHookRig(t), await openSink(t), await openSink(t)]
  rig.start()
  await rig.listen(all.url, undefined, { everyDeferral: true })
  await rig.listen(some.url)
  const first = await rig.happen('deferred')
  const between = await rig.happen('deferred', { email: first.email, first: false })
  const end = await rig.happen('bounced', { email: first.email })
  await all.waitFor(requests => requests.length === 3)
  t.same(all.requests.map(request => request.headers['webhook-id']), idsOf([first, between, end]))
  await some.waitFor(requests => requests.length === 2)
  t.same(some.requests.map(request => request.headers['webhook-id']), idsOf([first, end]))
})

t.test('events whose batch schedules are lost still go out, after a start and without one', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  const role = rig.start()
  const { webhook } = await rig.listen(sink.url, undefined, { batch: { maxEvents: 100, maxWaitMs: 3000 } })
  const waiting = () =>
    until(async () => await lastSequenceUnder(rig.factLog.bus, 'SCHEDULE', `schedule.batch.${webhook.id}`) > 0)
  const events = await happenings(rig, 3)
  await waiting()
  await role.stop()
  await api(rig.factLog.bus, 'STREAM.DELETE.SCHEDULE', undefined)
  rig.start()
  await sink.waitFor(requests => requests.length === 1)
  events.push(...await happenings(rig, 2))
  await waiting()
  await api(rig.factLog.bus, 'STREAM.DELETE.SCHEDULE', undefined)
  await sink.waitFor(requests => requests.length === 2)
  t.same(idsIn(sink.requests), idsOf(events))
})

t.test("when the process that acknowledged a batch's events ends, another forms it by its schedule", async t => {
  const rig = await openHookRig(t)
  const roles = new Set<Role>()
  const [released, release] = gate()
  t.teardown(async () => {
    release()
    await Promise.all([...roles].map(role => role.stop()))
  })
  const { factLog, directory } = rig
  const log = createLog('silent')
  roles.add(startFanout({ factLog, directory, bodies: new BodyCache(1000), log }))
  await rig.listen('http://127.0.0.1:9/', undefined, { batch: { maxEvents: 100, maxWaitMs: 5000 } })
  // Hears of no member: its consumer of them does not open.
  const repair = async (plan: ConsumerPlan) => {
    if (plan === consumerPlans.batchMembers) await released
    return false
  }
  roles.add(startBatching({ factLog: await rig.another(), directory, log, repair }))
  const first = startBatching({ factLog, directory, log, repair: async () => false })
  const events = await happenings(rig, 3)
  await rig.facts(facts => joinedIn(facts).length === 3)
  const jsm = await factLog.bus.nc.jetstreamManager()
  await until(async () => {
    const { num_pending: left, num_ack_pending: held } = await jsm.consumers.info('WEBHOOKS', 'batch-members')
    return left === 0 && held === 0
  })
  await first.stop()
  t.same(requestsIn(await rig.facts(() => true)), [], 'nothing is formed yet')
  const facts = await rig.facts(facts => requestsIn(facts).length > 0, 20_000)
  t.same(requestsIn(facts).flatMap(({ data }) => data.events.map(({ id }) => id)), idsOf(events))
})

function gate (): [Promise<void>, () => void] {
  let open = () => {}
  const opened = new Promise<void>(resolve => {
    open = resolve
  })
  return [opened, open]
}
