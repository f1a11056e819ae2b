import t from 'tap'
import { requestTestDelivery } from '#src/actions/delivery.ts'
import type { FactLog } from '#src/actions/fact-log.ts'
import { countReplay, replayDelivery, replaysOf, requestReplay } from '#src/actions/replay.ts'
import { readPage, type FailedPage } from '#src/actions/replay-job.ts'
import { changeWebhook, type WebhookServices } from '#src/actions/webhook.ts'
import { api } from '#src/nats/api.ts'
import type { Bus } from '#src/nats/connect.ts'
import { lastSequence } from '#src/nats/get.ts'
import type { WebhooksOptions } from '#src/workers/webhooks/webhook-workers.ts'
import { Refusal } from '#streams/define.ts'
import type { ReplayWish, WaitReason } from '#streams/replay/decide.ts'
import { subjects } from '#streams/subjects.ts'
import { consumerPlans } from '#streams/topology.ts'
import { openHookRig, type HookRig } from '../support/hook-rig.ts'
import { startHookSink, type HookSink } from '../support/hook-sink.ts'
import { LONG_ONLY } from '../support/long.ts'
import type { Ending } from '../support/servers.ts'
import { until } from '../support/wait.ts'

const HOUR_MS = 3_600_000
/** As many as may be under way of one endpoint: so they would fill the consumer. */
const PLACES = 10
consumerPlans.replays.max_ack_pending = PLACES
t.jobs = 4

async function openSink (t: Ending): Promise<HookSink> {
  const sink = await startHookSink()
  t.teardown(() => sink.stop())
  return sink
}

function granted<T> (result: T | Refusal): T {
  if (result instanceof Refusal) throw new Error(`${result.code}: ${result.message}`)
  return result
}

const lately = (wish: Partial<ReplayWish> = {}): ReplayWish => ({
  what: 'window',
  fromMs: Date.now() - HOUR_MS,
  toMs: Date.now(),
  pace: 1000,
  ...wish
})
const statesOf = async (rig: HookRig, webhook: string) =>
  (await replaysOf(rig.services, webhook)).map(({ state }) => state)

async function pause (rig: HookRig, webhook: string, paused: boolean): Promise<void> {
  const { seq } = granted(await changeWebhook(rig.services, rig.asker, webhook, { paused }))
  await rig.directory.reached(seq, 5000)
}

/** All places are taken by replays of one endpoint that cannot go on; those of another can. Resolves to the rig and the
 *  one that waits. */
async function crowd (
  t: Ending,
  options: Partial<WebhooksOptions>,
  { paused = false, what = 'window' as ReplayWish['what'] } = {}
) {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  const { webhook: { id: stuck } } = await rig.listen(`${sink.url}/stuck`)
  rig.start({
    ...options,
    backlog: async webhook => webhook.id === stuck ? await options.backlog?.(webhook, 0) ?? null : 0
  })
  const { webhook: { id: other } } = await rig.listen(`${sink.url}/other`)
  await rig.happen('delivered')
  await sink.waitFor(requests => requests.length === 2)
  if (paused) await pause(rig, stuck, true)
  for (let i = 0; i < PLACES; i++) granted(await requestReplay(rig.services, rig.asker, stuck, lately({ what })))
  granted(await requestReplay(rig.services, rig.asker, other, lately()))
  await until(async () => (await statesOf(rig, other))[0] === 'done')
  return { rig, sink, stuck }
}

async function waitsFor (rig: HookRig, webhook: string, why: WaitReason): Promise<void> {
  await until(async () =>
    (await replaysOf(rig.services, webhook)).every(({ state, waits }) => state === 'running' && waits === why)
  )
}

t.test('replays of a paused endpoint hold up no others, show why they wait, and go on once it is resumed', async t => {
  const { rig, sink, stuck } = await crowd(t, {}, { paused: true })
  await waitsFor(rig, stuck, 'paused')
  await pause(rig, stuck, false)
  // They are looked at a minute after they were put off.
  await until(async () => (await statesOf(rig, stuck)).every(state => state === 'done'), 30_000)
  await sink.waitFor(requests => requests.filter(({ path }) => path === '/stuck').length >= 2)
  t.match(await replaysOf(rig.services, stuck), Array(PLACES).fill({ state: 'done', made: 1, waits: null }))
})

t.test('nor do those of an endpoint that is behind; they go on when it has caught up', LONG_ONLY, async t => {
  let backlog = 500
  const { rig, stuck } = await crowd(t, { backlog: async () => backlog })
  await waitsFor(rig, stuck, 'behind')
  backlog = 0
  await until(async () => (await statesOf(rig, stuck)).every(state => state === 'done'))
  t.match(await replaysOf(rig.services, stuck), Array(PLACES).fill({ state: 'done', made: 1 }))
})

t.test('nor those that wait for a projection that is away, or fails', async t => {
  const answers: Array<[WaitReason, FailedPage]> = [['projection', async () => null], ['error', async () => {
    throw new Error('division by zero')
  }]]
  await Promise.all(answers.map(async ([why, failedDeliveries]) => {
    const { rig, stuck } = await crowd(t, { failedDeliveries }, { what: 'failed' })
    await waitsFor(rig, stuck, why)
  }))
  t.pass('both')
})

t.test('a replay whose schedule is lost goes on when the role starts', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  const role = rig.start()
  const { webhook: { id } } = await rig.listen(sink.url)
  await rig.happen('delivered')
  await sink.waitFor(requests => requests.length === 1)
  await pause(rig, id, true)
  granted(await requestReplay(rig.services, rig.asker, id, lately()))
  await waitsFor(rig, id, 'paused')
  await role.stop()
  await api(rig.factLog.bus, 'STREAM.PURGE.SCHEDULE', { filter: subjects.scheduleReplay('*', '*') })
  t.match(await replaysOf(rig.services, id), [{ state: 'running', waits: null }])
  await pause(rig, id, false)
  rig.start({ factLog: { ...rig.factLog, clock: { ...rig.factLog.clock, nowMs: () => Date.now() + 120_000 } } })
  await until(async () => (await statesOf(rig, id))[0] === 'done')
  await sink.waitFor(requests => requests.length === 2)
})

/** Asks a replica that has not heard of anything. */
function behind (bus: Bus): Bus {
  const request: Bus['nc']['request'] = (subject, payload, options) =>
    bus.nc.request(
      subject,
      subject.startsWith('$JS.API.DIRECT.GET.WEBHOOKS') ? JSON.stringify({ seq: 1_000_000_000 }) : payload,
      options
    )
  const nc = new Proxy(bus.nc, {
    get: (target, name) =>
      name === 'request'
        ? request
        : (value => typeof value === 'function' ? value.bind(target) : value)(Reflect.get(target, name))
  })
  return { ...bus, nc }
}

/** One delivery in the log, and where; nobody makes it. */
async function oweOne (rig: HookRig) {
  const { webhook } = await rig.listen('http://127.0.0.1:9/')
  const owed = await requestTestDelivery(rig.factLog, rig.asker, webhook, 'email.delivered')
  return { webhook, owed, seq: await lastSequence(rig.factLog.bus, 'WEBHOOKS') }
}

const servicesWith = (rig: HookRig, factLog: Partial<FactLog>): WebhookServices => ({
  ...rig.services,
  factLog: { ...rig.factLog, ...factLog }
})

t.test('a delivery that the projection has and a replica does not is replayed all the same', async t => {
  const rig = await openHookRig(t)
  const { webhook, owed, seq } = await oweOne(rig)
  const bus = behind(rig.factLog.bus)
  const again = granted(await replayDelivery(servicesWith(rig, { bus }), rig.asker, owed.delivery, async () => seq))
  t.match(again, { delivery: owed.delivery, replay: /^rpl_/ })
  const replay = {
    replay: 'rpl_1',
    webhook: webhook.id,
    what: 'failed' as const,
    from: '2026-01-01T00:00:00.000Z',
    to: '2026-01-02T00:00:00.000Z',
    through: 0,
    pace: 10,
    cursor: '',
    lastPage: 0,
    made: 0
  }
  const page = async (owedSeq: number) =>
    await readPage({ bus }, webhook, replay, async () => [{ cursor: 'here', owedSeq }], 0)
  t.match(await page(seq), {
    cursor: 'here',
    ended: true,
    deliveries: [{ owed: { delivery: owed.delivery, replay: 'rpl_1' } }]
  })
  t.match(await page(seq + 100), { cursor: 'here', ended: true, deliveries: { length: 0 } }, 'it is no longer kept')
})

t.test("a later replay overrules an earlier one, though its process's clock is an hour behind", async t => {
  const rig = await openHookRig(t)
  const { webhook, owed, seq } = await oweOne(rig)
  const late = servicesWith(rig, { clock: { ...rig.factLog.clock, nowMs: () => Date.now() - HOUR_MS } })
  const first = granted(await replayDelivery(rig.services, rig.asker, owed.delivery, async () => seq))
  const second = granted(
    await replayDelivery(late, rig.asker, owed.delivery, async () => await lastSequence(rig.factLog.bus, 'WEBHOOKS'))
  )
  t.ok(second.replay! > first.replay!, `${second.replay} after ${first.replay}`)
  const earlier = granted(await requestReplay(rig.services, rig.asker, webhook.id, lately()))
  const later = granted(
    await requestReplay(
      late,
      rig.asker,
      webhook.id,
      lately({ fromMs: Date.now() - 3 * HOUR_MS, toMs: Date.now() - 2 * HOUR_MS })
    )
  )
  t.ok(later.replay > earlier.replay, `${later.replay} after ${earlier.replay}`)
})

t.test('the dry run for a failing endpoint at the slowest pace reads the largest pages', async t => {
  const rig = await openHookRig(t)
  const { webhook, seq } = await oweOne(rig)
  const webhooks = new Map([[webhook.id, { ...webhook, failingSince: '2026-11-20T00:00:00.000Z' }]])
  const services = { ...rig.services, directory: { ...rig.directory, now: { ...rig.directory.now, webhooks } } }
  let asked = 0
  const failed: FailedPage = async ({ after, limit }) => {
    asked++
    const from = Number(after)
    return Array.from(
      { length: Math.min(limit, 700 - from) },
      (_, i) => ({ cursor: String(from + i + 1), owedSeq: seq })
    )
  }
  t.match(await countReplay(services, rig.asker, webhook.id, lately({ what: 'failed', pace: 1 }), failed), {
    deliveries: 700,
    whole: true
  })
  t.equal(asked, 2)
})
