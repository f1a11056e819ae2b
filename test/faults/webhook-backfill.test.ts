import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { openBackfills } from '#src/actions/replay-job.ts'
import { advanceFanout, readFanoutCursor } from '#src/actions/delivery.ts'
import { followDirectory, type LiveDirectory } from '#src/actions/directory.ts'
import type { FactLog } from '#src/actions/fact-log.ts'
import { deleteWebhook } from '#src/actions/webhook.ts'
import { sleep } from '#src/base/backoff.ts'
import { timestamp } from '#src/base/clock.ts'
import { createLog } from '#src/base/log.ts'
import type { Role } from '#src/base/role.ts'
import { decodeMessage } from '#src/nats/message.ts'
import { readRange } from '#src/nats/range.ts'
import { BodyCache } from '#src/workers/webhooks/body-cache.ts'
import { startFanout } from '#src/workers/webhooks/fanout.ts'
import type { AnyFact } from '#streams/catalog.ts'
import { emptyDirectory, type WebhookEntry } from '#streams/directory.ts'
import type { Recorded } from '#streams/define.ts'
import { backfillId } from '#streams/replay/decide.ts'
import { placeOf } from '#streams/place.ts'
import { webhookPartitionOf, subjects } from '#streams/subjects.ts'
import { askedIn, openHookRig, type HookRig } from '../support/hook-rig.ts'
import { startHookSink } from '../support/hook-sink.ts'
import { LONG_ONLY } from '../support/long.ts'

const CHILD = fileURLToPath(new URL('../support/hook-child.ts', import.meta.url))

const log = createLog('silent')
const past = (ms: number) => timestamp(Date.now() - ms)
const openingsIn = (facts: AnyFact[]) => facts.filter(fact => fact.type === 'replay.requested')

function startOne (factLog: FactLog, directory: LiveDirectory): Role {
  return startFanout({ factLog, directory, bodies: new BodyCache(1_000_000), log })
}

/** Places in EMAILS that the fan-out itself has brought to an endpoint, each as often as it has. */
function liveOf (facts: AnyFact[], webhook: string): number[] {
  const live = askedIn(facts).filter(owed => owed.webhook === webhook && owed.replay === null && !owed.batch)
  const joined = facts.filter(fact => fact.type === 'batch.joined').filter(({ data }) => data.webhook === webhook)
  return [...live.flatMap(({ events }) => events.map(({ seq }) => seq)), ...joined.map(({ data }) => data.event.seq)]
}

/** Up to where the backfill brings what there is. */
function throughOf (facts: AnyFact[], webhook: string): number | null {
  const openings = openingsIn(facts).filter(({ data }) => data.webhook === webhook)
  if (openings.length > 1) throw new Error('a backfill was opened twice')
  return openings[0]?.data.through ?? null
}

/** All that has happened. */
async function allFacts (rig: HookRig): Promise<Recorded<AnyFact>[]> {
  const found: Recorded<AnyFact>[] = []
  const range = { stream: 'EMAILS', filters: ['email.>'], afterSeq: 0 }
  for await (const messages of readRange(rig.factLog.bus, range)) found.push(...messages.map(decodeMessage))
  return found
}

/** Who gets what: all from the start on, live or by the backfill and not by both. */
function coverage (happened: Recorded<AnyFact>[], facts: AnyFact[], webhook: WebhookEntry) {
  const through = throughOf(facts, webhook.id)
  const live = liveOf(facts, webhook.id)
  const owed = happened.filter(({ fact }) => fact.time >= webhook.startAt).map(({ seq }) => seq)
  const [once, all] = [new Set(live), new Set(owed)]
  return {
    opened: through !== null,
    missing: owed.filter(seq => seq > (through ?? 0) && !once.has(seq)).length,
    doubled: live.length - once.size + live.filter(seq => seq <= (through ?? 0)).length,
    invented: live.filter(seq => !all.has(seq)).length
  }
}
const EXACT = { opened: true, missing: 0, doubled: 0, invented: 0 }

t.test(
  'endpoints that start in the past get every event since exactly once, with fan-outs killed at random',
  LONG_ONLY,
  async t => {
    const rig = await openHookRig(t)
    for (let i = 0; i < 100; i++) await rig.happen('delivered')
    const stopping = new AbortController()
    /** A process of its own: what it knows of endpoints may lag behind what the others know. */
    const keepOne = async () => {
      const factLog = await rig.another()
      const directory = followDirectory(factLog.bus, log)
      while (!stopping.signal.aborted) {
        const role = startOne(factLog, directory)
        await sleep(100 + Math.random() * 1500, stopping.signal)
        await role.stop()
      }
      await directory.stop()
    }
    let killed = 0
    const killOne = async () => {
      while (!stopping.signal.aborted) {
        const child = fork(CHILD, [rig.natsUrl], { stdio: 'inherit' })
        t.teardown(() => {
          child.kill('SIGKILL')
        })
        await Promise.race([once(child, 'message'), once(child, 'exit')])
        await sleep(Math.random() * 700, stopping.signal)
        child.kill('SIGKILL')
        if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
        killed++
      }
    }
    const keepers = [keepOne(), keepOne(), killOne()]
    let happened = 100
    const mail = (async () => {
      for (let i = 0; i < 60; i++, happened += 20) {
        await Promise.all(Array.from({ length: 20 }, () => rig.happen('delivered')))
        await sleep(Math.random() * 80)
      }
    })()
    const webhooks: WebhookEntry[] = []
    for (let i = 0; i < 30; i++) {
      const batch = i % 3 === 0 ? { maxEvents: 10, maxWaitMs: 60_000 } : null
      webhooks.push(
        (await rig.listen('http://127.0.0.1:9/', undefined, {
          startAt: past(i % 2 === 0 ? 86_400_000 : Math.random() * 3000 + 1),
          batch
        })).webhook
      )
      await sleep(Math.random() * 300)
    }
    await mail
    stopping.abort()
    await Promise.all(keepers)
    const role = startOne(rig.factLog, rig.directory)
    t.teardown(() => role.stop())
    const last = await rig.happen('delivered')
    const facts = await rig.facts(
      facts => webhooks.every(({ id }) => facts.some(fact => reaches(fact, last.id, id))),
      60_000
    )
    const all = await allFacts(rig)
    const covered = webhooks.map(webhook => coverage(all, facts, webhook))
    t.same(covered, webhooks.map(() => EXACT))
    t.ok(
      webhooks.some(({ id }) => liveOf(facts, id).length > 100) &&
        webhooks.some(({ id }) => throughOf(facts, id)! > 100),
      'both have their part'
    )
    t.comment(
      `${happened} facts, ${killed} kills, openings at ${webhooks.map(({ id }) => throughOf(facts, id)).join(' ')}`
    )
  }
)

t.test('an endpoint whose backfill is opened in the middle of a round gets the rest of the round', async t => {
  const rig = await openHookRig(t)
  // More than is held at once: the round is appended in several stretches.
  const others = await Promise.all(Array.from({ length: 40 }, () => rig.listen('http://127.0.0.1:9/')))
  for (let i = 0; i < 10; i++) await Promise.all(Array.from({ length: 20 }, () => rig.happen('delivered')))
  const partition = webhookPartitionOf(others[0]!.webhook.id)
  let late: WebhookEntry | null = null
  const disturbed: FactLog = {
    ...rig.factLog,
    async append (facts, timeoutMs) {
      const isIts = facts.some(({ fact }) => placeOf(fact as AnyFact).subject === subjects.fanoutCursor(partition))
      if (isIts && facts.length > 1 && late === null) {
        // A rival moves the cursor a little just now, and does not yet know of the endpoint that is made at the same
        // time.
        do late = (await rig.listen('http://127.0.0.1:9/', undefined, { startAt: past(86_400_000) })).webhook
        while (webhookPartitionOf(late.id) !== partition)
        await advanceFanout(rig.factLog, partition, await readFanoutCursor(rig.factLog, partition), 0, [])
      }
      return await rig.factLog.append(facts, timeoutMs)
    }
  }
  const role = startOne(disturbed, rig.directory)
  t.teardown(() => role.stop())
  const last = await rig.happen('delivered')
  const facts = await rig.facts(
    facts =>
      late !== null && [
        late,
        ...others.map(({ webhook }) => webhook)
      ].every(({ id }) => facts.some(fact => reaches(fact, last.id, id))),
    30_000
  )
  t.same(coverage(await allFacts(rig), facts, late!), EXACT)
})

function reaches (fact: AnyFact, event: string, webhook: string): boolean {
  if (fact.type === 'batch.joined') return fact.data.webhook === webhook && fact.data.event.id === event
  return fact.type === 'delivery.requested' && fact.data.webhook === webhook && fact.data.events[0]!.id === event
}

t.test('a backfill is opened when nothing happens, too, and holds what happened before', async t => {
  const rig = await openHookRig(t)
  for (let i = 0; i < 20; i++) await rig.happen('delivered')
  const role = startOne(rig.factLog, rig.directory)
  t.teardown(() => role.stop())
  const startAt = past(3_600_000)
  const { webhook } = await rig.listen('http://127.0.0.1:9/', undefined, { startAt })
  const facts = await rig.facts(facts => openingsIn(facts).length === 1)
  t.match(openingsIn(facts)[0], {
    account: webhook.account,
    data: { replay: backfillId(webhook.id), webhook: webhook.id, what: 'backfill', from: startAt, cursor: '', made: 0 }
  })
  await rig.happen('delivered')
  const more = await rig.facts(facts => liveOf(facts, webhook.id).includes(21))
  t.same(coverage(await allFacts(rig), more, webhook), EXACT)
})

t.test('who had gone over facts when another opened a backfill before them goes back for the rest', async t => {
  const rig = await openHookRig(t)
  const { webhook } = await rig.listen('http://127.0.0.1:9/', undefined, { startAt: past(3_600_000) })
  // As it was in the moment before the endpoint was made.
  let now = emptyDirectory()
  const role = startOne(rig.factLog, {
    ...rig.directory,
    get now () {
      return now
    }
  })
  t.teardown(() => role.stop())
  const partition = webhookPartitionOf(webhook.id)
  let control = await rig.listen('http://127.0.0.1:9/')
  while (webhookPartitionOf(control.webhook.id) === partition) control = await rig.listen('http://127.0.0.1:9/')
  now.webhooks.set(control.webhook.id, control.webhook)
  for (let i = 0; i < 50; i++) await rig.happen('delivered')
  await rig.facts(facts => liveOf(facts, control.webhook.id).includes(50))
  t.ok(
    await openBackfills(rig.factLog, partition, { through: 0, seq: 0 }, 10, [webhook]),
    'another process opens it where that one is: its partition has had nothing, so the cursor lags'
  )
  now = rig.directory.now
  const facts = await rig.facts(facts => liveOf(facts, webhook.id).length === 40)
  t.equal(throughOf(facts, webhook.id), 10)
  t.same(coverage(await allFacts(rig), facts, webhook), EXACT)
})

t.test('an endpoint deleted before its backfill was opened needs none', async t => {
  const rig = await openHookRig(t)
  for (let i = 0; i < 5; i++) await rig.happen('delivered')
  const gone = await rig.listen('http://127.0.0.1:9/', undefined, { startAt: past(3_600_000) })
  await deleteWebhook(rig, rig.asker, gone.webhook.id)
  const { webhook } = await rig.listen('http://127.0.0.1:9/', undefined, { startAt: past(3_600_000) })
  const role = startOne(rig.factLog, rig.directory)
  t.teardown(() => role.stop())
  await rig.happen('delivered')
  const facts = await rig.facts(facts => openingsIn(facts).length > 0)
  t.same(openingsIn(facts).map(({ data }) => data.webhook), [webhook.id])
})

t.test('with a backfill each event reaches the endpoint by one delivery, alone and in batches', async t => {
  const rig = await openHookRig(t)
  const [sink, batches] = [await startHookSink(), await startHookSink()]
  t.teardown(() => Promise.all([sink.stop(), batches.stop()]))
  const events: string[] = []
  const happen = async () => void events.push((await rig.happen('delivered')).id)
  const before = await rig.listen('http://127.0.0.1:9/')
  for (let i = 0; i < 60; i++) await happen()
  rig.start()
  await rig.facts(facts => liveOf(facts, before.webhook.id).includes(60))
  const mail = (async () => {
    for (let i = 0; i < 100; i++) await happen()
  })()
  const one = await rig.listen(sink.url, undefined, { startAt: past(3_600_000) })
  const many = await rig.listen(batches.url, undefined, {
    startAt: past(3_600_000),
    batch: { maxEvents: 10, maxWaitMs: 200 }
  })
  await mail
  const reached = () =>
    new Set(
      batches.requests.flatMap(({ body }) =>
        (JSON.parse(body.toString()) as { events: Array<{ id: string }> }).events.map(({ id }) => id)
      )
    )
  await sink.waitFor(requests => new Set(requests.map(request => request.headers['webhook-id'])).size === 160, 30_000)
  await batches.waitFor(() => reached().size === 160, 30_000)
  t.same(reached(), new Set(events))
  for (const { webhook } of [one, many]) {
    const asked = (facts: AnyFact[]) => askedIn(facts).filter(owed => owed.webhook === webhook.id)
    const ids = (facts: AnyFact[]) => asked(facts).flatMap(({ events }) => events.map(({ id }) => id))
    const ended = (facts: AnyFact[]) =>
      facts.some(fact => fact.type === 'replay.ended' && fact.data.webhook === webhook.id)
    const facts = await rig.facts(facts => ended(facts) && new Set(ids(facts)).size === 160)
    t.same(ids(facts).toSorted(), events.toSorted(), 'each once')
    for (const replay of [backfillId(webhook.id), null]) {
      t.ok(asked(facts).some(owed => owed.replay === replay), 'both have their part')
    }
  }
})
