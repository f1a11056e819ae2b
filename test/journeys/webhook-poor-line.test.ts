import t from 'tap'
import { causedBy, stamp, type FactLog } from '#src/actions/fact-log.ts'
import { createLog } from '#src/base/log.ts'
import { Conflict, LogUnavailable } from '#src/nats/errors.ts'
import type { Role } from '#src/base/role.ts'
import { bodyOf, NO_BODIES } from '#src/actions/delivery-body.ts'
import { BodyCache } from '#src/workers/webhooks/body-cache.ts'
import { startFanout } from '#src/workers/webhooks/fanout.ts'
import { Batcher } from '#src/workers/webhooks/batcher.ts'
import { ERASED } from '#streams/address.ts'
import type { AnyFact } from '#streams/catalog.ts'
import { redact } from '#streams/email/erase.ts'
import { EmailErased } from '#streams/email/facts.ts'
import { placeOf } from '#streams/place.ts'
import { WEBHOOK_PARTITIONS, subjects } from '#streams/subjects.ts'
import { asIs, delivered } from '../support/facts.ts'
import { openHookRig, type HookRig } from '../support/hook-rig.ts'
import { startHookSink, type HookSink } from '../support/hook-sink.ts'
import { losing, over, stale } from '../support/poor-line.ts'
import type { Ending } from '../support/servers.ts'
import { until } from '../support/wait.ts'

const log = createLog('silent')
const BATCH = { maxEvents: 100, maxWaitMs: 1000 }

async function openSink (t: Ending): Promise<HookSink> {
  const sink = await startHookSink()
  t.teardown(() => sink.stop())
  return sink
}

const factsOf = <Name extends AnyFact['type']>(facts: AnyFact[], name: Name) =>
  facts.filter((fact): fact is Extract<AnyFact, { type: Name }> => fact.type === name)

/** Five events that wait for their batch, and nobody there yet who makes it. */
async function fiveWaiting (t: Ending, rig: HookRig): Promise<{ webhook: string, ids: string[] }> {
  const { webhook: { id } } = await rig.listen('http://127.0.0.1:9/', undefined, { batch: BATCH })
  const fanout = startFanout({ factLog: rig.factLog, directory: rig.directory, bodies: new BodyCache(1000), log })
  stopWith(t, fanout)
  const ids: string[] = []
  for (let i = 0; i < 5; i++) ids.push((await rig.happen('delivered')).id)
  await rig.facts(facts => factsOf(facts, 'batch.joined').length === 5)
  return { webhook: id, ids }
}

function stopWith (t: Ending, role: Pick<Role, 'stop'>): void {
  t.teardown(() => role.stop())
}

for (const lost of [1, 3, 5]) {
  t.test(`part ${lost} of the five that tell who is in a batch is lost: the batch is whole after all`, async t => {
    const rig = await openHookRig(t)
    const { webhook, ids } = await fiveWaiting(t, rig)
    const line = losing(
      rig.factLog.bus,
      (await rig.another()).bus,
      `"${subjects.batchMember(webhook)}","batch":5`,
      lost
    )
    const batcher = new Batcher(
      { factLog: over(rig.factLog, line.bus), directory: rig.directory, log },
      webhook
    )
    t.teardown(() => batcher.close())
    // Tells that it could not be read; the batcher looks again by itself.
    await batcher.flush().catch(() => {})
    const facts = await rig.facts(facts => factsOf(facts, 'batch.formed').length > 0)
    t.ok(line.hasLost())
    t.same(factsOf(facts, 'delivery.requested').map(({ data }) => data.events.map(({ id }) => id)), [ids])
  })
}

t.test('a batch formed by another process, unknown to the replica we read, is retried with pauses', async t => {
  const rig = await openHookRig(t)
  const { webhook, ids } = await fiveWaiting(t, rig)
  let appends = 0
  let beaten = true
  const append: FactLog['append'] = async (...args) => {
    appends++
    if (beaten) throw new Conflict('somebody was quicker')
    return await rig.factLog.append(...args)
  }
  const batcher = new Batcher({ factLog: { ...rig.factLog, append }, directory: rig.directory, log }, webhook)
  t.teardown(() => batcher.close())
  void batcher.flush().catch(() => {})
  await until(() => appends > 0)
  await new Promise(resolve => setTimeout(resolve, 1500))
  t.ok(appends <= 20, `${appends} tries in 1.5 s`)
  beaten = false
  const facts = await rig.facts(facts => factsOf(facts, 'batch.formed').length > 0)
  t.same(factsOf(facts, 'delivery.requested').flatMap(({ data }) => data.events.map(({ id }) => id)), ids)
})

t.test('a fan-out whose replica lags behind its cursor retries with pauses, and makes nothing twice', async t => {
  const rig = await openHookRig(t)
  const { webhook } = await rig.listen('http://127.0.0.1:9/')
  stopWith(t, startFanout({ factLog: rig.factLog, directory: rig.directory, bodies: new BodyCache(1000), log }))
  await rig.happen('delivered')
  await rig.facts(facts => factsOf(facts, 'delivery.requested').length === 1)
  let behind = true
  let reads = 0
  const another = await rig.another()
  const bus = stale(another.bus, (_subject, question) => {
    const asked = question.includes('.cursor"')
    if (asked) reads++
    return asked && behind
  })
  stopWith(
    t,
    startFanout({ factLog: over(another, bus), directory: rig.directory, bodies: new BodyCache(1000), log })
  )
  await until(() => reads > WEBHOOK_PARTITIONS)
  const before = reads
  await new Promise(resolve => setTimeout(resolve, 1500))
  t.ok(reads - before <= 20, `${reads - before} reads in 1.5 s`)
  behind = false
  await rig.happen('delivered')
  const facts = await rig.facts(facts => factsOf(facts, 'delivery.requested').length === 2)
  t.same(factsOf(facts, 'delivery.requested').map(({ data }) => data.webhook), [webhook.id, webhook.id])
})

t.test('an event that a replica does not have is read from the leader; only there its loss is final', async t => {
  const rig = await openHookRig(t)
  const event = await rig.happen('delivered')
  const bus = stale(rig.factLog.bus, subject => subject.endsWith('.EMAILS'))
  const member = (id: string, seq: number) => ({ id, type: 'email.delivered' as const, seq, email: event.email })
  const owed = (events: ReturnType<typeof member>[]) => ({
    delivery: 'whd_1',
    webhook: 'wh_1',
    replay: null,
    events,
    batch: events.length > 1
  })
  const body = await bodyOf(bus, NO_BODIES, owed([member(event.id, 1)]))
  t.equal('missing' in body ? null : Buffer.from(body).toString(), event.body)
  t.same(await bodyOf(bus, NO_BODIES, owed([member(event.id, 1), member('ev_gone', 9)])), {
    missing: [member('ev_gone', 9)]
  })
})

t.test('a batch goes without the events of people who are forgotten, and not at all without any other', async t => {
  const rig = await openHookRig(t)
  const event = await rig.happen('delivered')
  const forgotten = delivered({ email: 'em_forgotten' })
  const past = [{ seq: 9, storedAt: forgotten.time, fact: redact(forgotten, asIs) }]
  const erased = stamp(EmailErased, causedBy(forgotten), {
    email: 'em_forgotten',
    n: 0,
    request: 1,
    to: ERASED,
    sequence: 2,
    erasure: 'era_1',
    past
  }, Date.parse(forgotten.time))
  await rig.factLog.append([{ fact: erased }])
  const member = (id: string, seq: number, email: string) => ({ id, type: 'email.delivered' as const, seq, email })
  const batch = (...events: ReturnType<typeof member>[]) => ({
    delivery: 'whd_1',
    webhook: 'wh_1',
    replay: null,
    events,
    batch: true
  })
  const [there, gone, lost] = [
    member(event.id, 1, event.email),
    member(forgotten.id, 9, 'em_forgotten'),
    member('ev_lost', 10, 'em_forgotten')
  ]
  const body = await bodyOf(rig.factLog.bus, NO_BODIES, batch(there, gone))
  t.equal(
    'missing' in body ? null : Buffer.from(body).toString(),
    `{"object":"batch","id":"whd_1","events":[${event.body}]}`
  )
  t.same(await bodyOf(rig.factLog.bus, NO_BODIES, batch(there, gone, lost)), { missing: [gone, lost] })
  t.same(await bodyOf(rig.factLog.bus, NO_BODIES, batch(gone)), { missing: [gone] })
})

t.test('a 410 while CONTROL is away is recorded and not repeated; the next event disables the endpoint', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  sink.answers(() => ({ status: 410 }))
  let away = true
  let refused = 0
  const append: FactLog['append'] = async (facts, timeoutMs) => {
    const { stream } = placeOf(facts[0]!.fact as AnyFact)
    if (!away || stream !== 'CONTROL') return await rig.factLog.append(facts, timeoutMs)
    refused++
    throw new LogUnavailable('CONTROL takes nothing', false)
  }
  rig.start({ factLog: { ...rig.factLog, append } })
  const { webhook } = await rig.listen(sink.url)
  const attempts = (facts: AnyFact[]) => factsOf(facts, 'delivery.attempted')
  await rig.happen('delivered')
  t.match(attempts(await rig.facts(facts => attempts(facts).length === 1)), [{
    data: { status: 410, result: 'failed', nextAttemptAt: null }
  }])
  await until(() => refused > 0)
  t.equal(sink.requests.length, 1)
  t.equal(rig.directory.now.webhooks.get(webhook.id)!.disabled, null)
  away = false
  await rig.happen('delivered')
  await until(() => rig.directory.now.webhooks.get(webhook.id)!.disabled === 'gone')
  await rig.facts(facts => attempts(facts).length === 2)
  await rig.happen('bounced')
  t.equal(sink.requests.length, 2)
})
