import t from 'tap'
import { changeWebhook, deleteWebhook } from '#src/actions/webhook.ts'
import { getFact } from '#src/nats/get.ts'
import type { AnyFact } from '#streams/catalog.ts'
import type { Refusal } from '#streams/define.ts'
import { GAPS_S } from '#streams/delivery/decide.ts'
import type { DeliveryAttempted } from '#streams/delivery/facts.ts'
import type { WebhookEntry } from '#streams/directory.ts'
import { subjects } from '#streams/subjects.ts'
import { openHookRig, type HookRig } from '../support/hook-rig.ts'
import { startHookSink, type HookAnswer, type HookSink } from '../support/hook-sink.ts'
import { openChance, type Chance } from '../support/random.ts'
import type { Ending } from '../support/servers.ts'
import { until } from '../support/wait.ts'

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000
/** From so many failures on an endpoint's queue pauses, and never longer than this. */
const PROBE_MS = 1000

const attemptsIn = (facts: AnyFact[]) =>
  facts.filter((fact): fact is DeliveryAttempted => fact.type === 'delivery.attempted')

interface App {
  rig: HookRig
  sink: HookSink
  /** Unix ms: stands still unless it is moved, and lies days ahead. */
  time: { nowMs: number }
}

/** Unix ms: what it was set to; with `runs` it goes on from there. */
function openTime (beginMs: number, runs: boolean): { nowMs: number } {
  let [setMs, realMs] = [beginMs, Date.now()]
  return {
    get nowMs () {
      return runs ? setMs + Date.now() - realMs : setMs
    },
    set nowMs (ms) {
      ;[setMs, realMs] = [ms, Date.now()]
    }
  }
}

/** The role on the contract's gaps without jitter, in a time of its own. */
async function startApp (t: Ending, runs = false): Promise<App> {
  const rig = await openHookRig(t)
  const sink = await startHookSink()
  t.teardown(() => sink.stop())
  const time = openTime(Math.ceil(Date.now() / 1000) * 1000 + 10 * DAY_MS, runs)
  rig.start({ factLog: { ...rig.factLog, clock: { nowMs: () => time.nowMs } }, gapsS: GAPS_S })
  return { rig, sink, time }
}

/** Makes an event and all attempts of its delivery, each at the time the log names for it. */
async function deliverTo (app: App, webhook: WebhookEntry): Promise<DeliveryAttempted[]> {
  await app.rig.happen('delivered')
  for (let count = 1;; count++) {
    const its = (facts: AnyFact[]) => attemptsIn(facts).filter(({ data }) => data.webhook === webhook.id)
    const attempts = its(await app.rig.facts(facts => its(facts).length === count))
    const { nextAttemptAt } = attempts.at(-1)!.data
    if (nextAttemptAt === null) return attempts
    // A failing endpoint is asked once a second at most.
    app.time.nowMs = Math.max(Date.parse(nextAttemptAt), app.time.nowMs + PROBE_MS)
  }
}

t.test("6.4 by an injected clock, without jitter, attempts come at the contract's gaps to the second", async t => {
  const app = await startApp(t)
  app.sink.answers((_request, index) =>
    [{ status: 500 }, { reset: true }, { status: 302 }, { status: 404 }][index % 4]!
  )
  const { webhook } = await app.rig.listen(app.sink.url)
  const attempts = await deliverTo(app, webhook)
  t.same(attempts.map(({ data }) => data.attempt), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])
  const gapsS = attempts.slice(1).map(({ time }, i) =>
    (Date.parse(time) - Date.parse(attempts[i]!.time) - attempts[i]!.data.durationMs) / 1000
  )
  t.same(gapsS, [5, 30, 120, 600, 1800, 3600, 7200, 14_400, 21_600, 36_000])
  t.same(attempts.map(({ data }) => data.result), [...Array.from({ length: 10 }, () => 'retrying'), 'failed'])
  t.equal(app.sink.requests.length, 11)
})

/** What a receiver may say, and what it asks for in ms at `nowMs`. */
const SAYINGS: Array<(chance: Chance, nowMs: number) => [text: string, ms: number]> = [
  chance => {
    const s = chance.int(0, 100)
    return [String(s), s * 1000]
  },
  chance => {
    const s = chance.int(0, 100_000)
    return [String(s), s * 1000]
  },
  chance => ['9'.repeat(chance.int(6, 66)), DAY_MS * 2],
  (chance, nowMs) => {
    const ms = nowMs + chance.int(0, 40_000) * 1000
    return [new Date(ms).toUTCString(), Math.floor(ms / 1000) * 1000 - nowMs]
  },
  (_chance, nowMs) => [new Date(nowMs - DAY_MS).toUTCString(), 0],
  (_chance, nowMs) => [new Date(nowMs + 4000 * DAY_MS).toUTCString(), DAY_MS * 2],
  chance => [chance.of(['-1', '-86400', 'soon', '1.5', '', '1e9', 'Thursday', '0x1f']), 0]
]

t.test("6.4 whatever Retry-After says, no gap is shorter than the contract's and all is over in 24 hours", async t => {
  const app = await startApp(t)
  const { rig, sink, time } = app
  const chance = openChance(t)
  for (let series = 0; series < 8; series++) {
    const asked: number[] = []
    sink.answers((): HookAnswer => {
      const say = SAYINGS[series] ?? chance.of(SAYINGS)
      const [text, ms] = say(chance, time.nowMs)
      asked.push(ms)
      return { status: chance.of([429, 503, 500]), headers: { 'Retry-After': text } }
    })
    const { webhook } = await rig.listen(sink.url)
    const attempts = await deliverTo(app, webhook)
    const endMs = Date.parse(attempts[0]!.time) + DAY_MS
    for (const [i, { time, data: { nextAttemptAt, durationMs } }] of attempts.entries()) {
      const nowMs = Date.parse(time) + durationMs
      // A date's milliseconds are cut off, and asked for before the answer came.
      const leastMs = Math.min(endMs, nowMs + Math.max(GAPS_S[i]! * 1000, asked[i]! - durationMs))
      if (nextAttemptAt === null) t.ok(i === 10 || nowMs >= endMs, `series ${series}: ends after ${i + 1} attempts`)
      else {t.ok(
          Date.parse(nextAttemptAt) >= leastMs && Date.parse(nextAttemptAt) <= Math.min(endMs, leastMs + durationMs),
          `series ${series}, attempt ${i + 1}: ${nextAttemptAt}`
        )}
    }
    t.ok(Date.parse(attempts.at(-1)!.time) <= endMs + PROBE_MS)
    await deleteWebhook(rig.services, rig.asker, webhook.id)
  }
})

t.test('a Retry-After beyond the 24 hours does not prevent the last attempt at their end', async t => {
  const app = await startApp(t)
  let endMs = 0
  app.sink.answers((_request, index): HookAnswer => {
    if (index === 0) endMs = app.time.nowMs + DAY_MS
    if (index === 4) return { status: 429, headers: { 'Retry-After': new Date(endMs - 5 * MINUTE_MS).toUTCString() } }
    return index === 5 ? { status: 503, headers: { 'Retry-After': '600' } } : { status: 500 }
  })
  const { webhook } = await app.rig.listen(app.sink.url)
  const attempts = await deliverTo(app, webhook)
  t.same(attempts.slice(4).map(({ time, data }) => [Date.parse(time), data.result]).slice(1), [[
    endMs - 5 * MINUTE_MS,
    'retrying'
  ], [endMs, 'failed']])
})

/** One more event: its first attempts a minute before `atMs`, and at `atMs` the retries of those that failed. */
async function tryAt ({ rig, time }: App, atMs: number): Promise<DeliveryAttempted[]> {
  time.nowMs = atMs - MINUTE_MS
  const { id } = await rig.happen('delivered')
  const its = (facts: AnyFact[]) => attemptsIn(facts).filter(({ data }) => data.events[0]!.id === id)
  const first = its(await rig.facts(facts => its(facts).length >= rig.directory.now.webhooks.size))
  const failed = first.filter(({ data }) => data.nextAttemptAt !== null)
  time.nowMs = atMs
  return its(await rig.facts(facts => its(facts).length >= first.length + failed.length))
}

/** Seconds from `ms` to when it is said to have begun to fail. */
const failingS = (app: App, id: string, ms: number) =>
  Math.round((Date.parse(known(app, id).failingSince!) - ms) / 10_000) * 10

const known = ({ rig }: App, id: string) => rig.directory.now.webhooks.get(id)!

async function reach ({ rig }: App, changed: { seq: number } | Refusal): Promise<void> {
  if ('code' in changed) throw new Error(changed.message)
  await rig.directory.reached(changed.seq, 5000)
}

t.test('five days of failure disable an endpoint and end its deliveries; enabling restarts the days', async t => {
  const app = await startApp(t, true)
  const { rig, sink, time } = app
  sink.answers(() => ({ status: 500 }))
  const { webhook: { id } } = await rig.listen(sink.url)
  const beganMs = time.nowMs + MINUTE_MS
  await tryAt(app, beganMs)
  await tryAt(app, beganMs + 13 * MINUTE_MS)
  t.equal(known(app, id).failingSince, null)
  await tryAt(app, beganMs + 15 * MINUTE_MS)
  await until(() => known(app, id).failingSince !== null)
  t.equal(failingS(app, id, beganMs - MINUTE_MS), 0, 'since the very first attempt')
  await tryAt(app, beganMs + 5 * DAY_MS - 30 * MINUTE_MS)
  t.equal(known(app, id).disabled, null)
  time.nowMs = beganMs + 5 * DAY_MS
  await rig.happen('delivered')
  await until(() => known(app, id).disabled === 'failing')
  const ended = (facts: AnyFact[]) => facts.filter(fact => fact.type === 'delivery.failed')
  const failed = ended(await rig.facts(facts => ended(facts).length === 5))
  t.same(failed.map(fact => fact.data.reason).sort(), [
    'endpoint_disabled',
    'endpoint_disabled',
    'expired',
    'expired',
    'expired'
  ])
  const before = sink.requests.length
  await reach(app, await changeWebhook(rig.services, rig.asker, id, { enabled: true }))
  t.equal(sink.requests.length, before)
  const againMs = time.nowMs + MINUTE_MS
  await tryAt(app, againMs)
  await tryAt(app, againMs + 13 * MINUTE_MS)
  t.match(known(app, id), { disabled: null, failingSince: null })
})

t.test('an endpoint of which only first attempts are seen is failing after a quarter of an hour, too', async t => {
  const app = await startApp(t, true)
  const { rig, sink, time } = app
  sink.answers(() => ({ status: 503 }))
  const { webhook: { id } } = await rig.listen(sink.url)
  const beganMs = time.nowMs
  for (let minute = 0; minute <= 15; minute += 3) {
    time.nowMs = beganMs + minute * MINUTE_MS
    t.equal(known(app, id).failingSince, null, `minute ${minute}`)
    await rig.happen('delivered')
    const firsts = (facts: AnyFact[]) => attemptsIn(facts).filter(({ data }) => data.attempt === 1)
    await rig.facts(facts => firsts(facts).length === minute / 3 + 1)
  }
  await until(() => known(app, id).failingSince !== null)
  t.equal(failingS(app, id, beganMs), 0)
})

t.test('an idle endpoint that has failed before is judged by its retries, not by a first attempt', async t => {
  const app = await startApp(t, true)
  const { rig, sink, time } = app
  let status = 500
  sink.answers(() => ({ status }))
  const { webhook: { id } } = await rig.listen(sink.url)
  const beganMs = time.nowMs + MINUTE_MS
  await tryAt(app, beganMs)
  await tryAt(app, beganMs + 20 * MINUTE_MS)
  await until(() => known(app, id).failingSince !== null)
  const [first] = await tryAt(app, beganMs + 6 * DAY_MS)
  await until(() => known(app, id).disabled !== null)
  t.equal(known(app, id).disabled, 'failing')
  const disabled = await getFact(rig.factLog.bus, 'CONTROL', {
    last_by_subj: subjects.webhook(rig.asker.account, id)
  })
  t.match(
    disabled,
    { fact: { type: 'webhook.disabled', causation: first!.id } },
    'by the retry that followed the first attempt'
  )
  await reach(app, await changeWebhook(rig.services, rig.asker, id, { enabled: true }))
  status = 200
  await tryAt(app, time.nowMs + 2 * MINUTE_MS)
  t.match(known(app, id), { disabled: null, failingSince: null })
})

t.test('a success in between restarts the five days, and so does another URL', async t => {
  const app = await startApp(t, true)
  const { rig, sink, time } = app
  let status = 500
  sink.answers(() => ({ status }))
  const [worked, moved] = [await rig.listen(sink.url), await rig.listen(sink.url)].map(({ webhook }) => webhook.id) as [
    string,
    string
  ]
  const beganMs = time.nowMs + MINUTE_MS
  await tryAt(app, beganMs)
  await tryAt(app, beganMs + 20 * MINUTE_MS)
  await until(() =>
    [worked, moved].every(id => known(app, id).failingSince !== null && failingS(app, id, beganMs - MINUTE_MS) === 0)
  )
  time.nowMs = beganMs + 4 * DAY_MS - MINUTE_MS
  await reach(app, await changeWebhook(rig.services, rig.asker, moved, { url: `${sink.url}/moved` }))
  sink.answers(request => ({ status: request.path === '/moved' ? 500 : status }))
  status = 200
  await tryAt(app, beganMs + 4 * DAY_MS)
  status = 500
  await until(() => known(app, worked).failingSince === null)
  t.ok(Math.abs(Date.parse(known(app, worked).workedAt!) - (beganMs + 4 * DAY_MS - MINUTE_MS)) < 10_000)
  await tryAt(app, beganMs + 5 * DAY_MS)
  await until(() => known(app, moved).failingSince !== null)
  t.equal(
    failingS(app, moved, beganMs + 4 * DAY_MS - MINUTE_MS),
    0,
    'the new address has failed since its first attempt'
  )
  await tryAt(app, beganMs + 5 * DAY_MS + 20 * MINUTE_MS)
  await until(() => known(app, worked).failingSince !== null)
  t.equal(failingS(app, worked, beganMs + 5 * DAY_MS - MINUTE_MS), 0)
  t.same([worked, moved].map(id => known(app, id).disabled), [null, null])
})
