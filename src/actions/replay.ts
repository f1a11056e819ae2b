import { Refusal } from '#streams/define.ts'
import { DeliveryRequested, type Owed } from '#streams/delivery/facts.ts'
import type { WebhookEntry } from '#streams/directory.ts'
import {
  cancelFault,
  disabledFault,
  newReplay,
  owedIn,
  replayFactIn,
  replayFault,
  stateOf,
  type ReplayState,
  type ReplayWish
} from '#streams/replay/decide.ts'
import { PACE_MAX, ReplayRequested, type Replay, type ReplayFact } from '#streams/replay/facts.ts'
import { subjects } from '#streams/subjects.ts'
import type { EventType } from '#streams/webhook/facts.ts'
import { sleep } from '#src/base/backoff.ts'
import { timestamp } from '#src/base/clock.ts'
import { idTimeMs, newId } from '#src/base/id.ts'
import { Conflict } from '#src/nats/errors.ts'
import { getFact, lastSequence, sequenceBefore } from '#src/nats/get.ts'
import { createLookup } from '#src/nats/lookup.ts'
import { ageMsMax, subjectsUnder } from '#src/nats/status.ts'
import type { Asker, Services } from './services.ts'
import { causedBy, stamp } from './fact-log.ts'
import { noteOperation } from './operation.ts'
import { endReplay, owedFact, readPage, type FailedPage } from './replay-job.ts'
import { waitsOf } from './replay-schedule.ts'
import { retryOnConflict } from './retry-on-conflict.ts'
import { modeFault, ownWebhook } from './webhook.ts'

type ReplayServices = Pick<Services, 'factLog' | 'directory'>

/** A fact is stored so late at most. */
const LATE_MS = 3_600_000
/** The newest replays of an endpoint that are listed; the log keeps them for 30 days. */
const REPLAYS_SHOWN = 500
/** Deliveries that a dry run counts. */
const COUNTED_MAX = 100_000
/** How long a dry run waits for a projection that is behind or away, and how often it asks. */
const VIEW_MS = 3000
const VIEW_WAIT_MS = 200

/** The sequence in WEBHOOKS of a fact of a delivery, by the projection of deliveries; null when the projection does not
 *  know it. */
export type FindDelivery = (account: string, delivery: string) => Promise<number | null>

/** Replays one delivery, whatever its state: same id, same bytes, its attempts and its 24 hours start again. Throws
 *  LogUnavailable, and what `find` throws. */
export async function replayDelivery (
  services: ReplayServices,
  asker: Asker,
  delivery: string,
  find: FindDelivery
): Promise<Owed | Refusal> {
  const seq = await find(asker.account, delivery)
  const recorded = seq === null ? null : await owedFact(services.factLog.bus, seq)
  const owed = recorded === null || recorded.fact.account !== asker.account ? null : owedIn(recorded.fact)
  if (owed?.delivery !== delivery) return new Refusal('not_found', `There is no delivery ${delivery}.`)
  const webhook = ownWebhook(services, asker, owed.webhook)
  if (webhook instanceof Refusal) return new Refusal('webhook_deleted', 'The webhook of this delivery is deleted.')
  const fault = modeFault(asker, webhook.mode) ?? disabledFault(webhook)
  if (fault !== null) return fault
  const nowMs = services.factLog.clock.nowMs()
  const next = { ...owed, replay: laterId(nowMs, owed.replay) }
  const fact = stamp(DeliveryRequested, { ...causedBy(recorded!.fact), correlation: asker.correlation }, next, nowMs)
  await noteOperation(services.factLog, asker, { operation: 'delivery.replayed', subject: delivery })
  await services.factLog.append([{ fact }])
  return next
}

/** Greater than the id before, whatever its clock said: of two replays of one delivery the greater id overrules. */
function laterId (nowMs: number, before: string | null): string {
  return newId('rpl', Math.max(nowMs, (idTimeMs(before ?? '') ?? 0) + 1))
}

/** Requests a replay of an endpoint's failed deliveries, or of all its events, in a span of the past; the webhooks role
 *  makes its pages. `once` = the replay's id, chosen by a client that may repeat the request: it then begins once.
 *  Throws LogUnavailable, Conflict, or what `isUnanswered` knows. */
export async function requestReplay (
  services: ReplayServices,
  asker: Asker,
  webhook: string,
  wish: ReplayWish,
  once = ''
): Promise<ReplayState | Refusal> {
  return await retryOnConflict(async () => {
    const known = await lastOf(services, asker, once)
    if (known !== null) return stateOf(known.fact)
    const draft = await draftOf(services, asker, webhook, wish, once)
    if (draft instanceof Refusal) return draft
    const { webhook: { mode }, data, nowMs } = draft
    const fault = modeFault(asker, mode)
    if (fault !== null) return fault
    const { account, correlation } = asker
    await noteOperation(services.factLog, asker, { operation: 'replay.requested', subject: webhook })
    const fact = stamp(ReplayRequested, { account, correlation, causation: null }, data, nowMs)
    await services.factLog.append([{ fact, expectedSeq: 0 }])
    return stateOf(fact)
  })
}

/** What a replay would send. */
export interface ReplayCount {
  deliveries: number
  /** More than deliveries where they go out in batches. */
  events: number
  types: Partial<Record<EventType, number>>
  /** False = there may be more: counting stopped at 100,000 deliveries, or by the signal. */
  whole: boolean
}

/** The dry run: counts what `requestReplay` with this wish would send, by reading the same pages; nothing changes. Once
 *  `enough` is aborted it resolves to the count so far. Throws what `isUnanswered` knows. */
export async function countReplay (
  services: ReplayServices,
  asker: Asker,
  id: string,
  wish: ReplayWish,
  failed?: FailedPage,
  enough?: AbortSignal
): Promise<ReplayCount | Refusal> {
  const draft = await draftOf(services, asker, id, wish)
  if (draft instanceof Refusal) return draft
  const seenSeq = await lastSequence(services.factLog.bus, 'WEBHOOKS')
  const patient = failed === undefined ? undefined : withRetries(failed)
  const count: ReplayCount = { deliveries: 0, events: 0, types: {}, whole: true }
  // In the largest pages, whatever the pace.
  const webhook = { ...draft.webhook, failingSince: null }
  const replay = { ...draft.data, pace: PACE_MAX }
  while (count.deliveries < COUNTED_MAX && enough?.aborted !== true) {
    const page = await readPage(services.factLog, webhook, replay, patient, seenSeq)
    if (page === null) {
      return new Refusal(
        'projection_behind',
        'The log of deliveries cannot be read now: PostgreSQL may be unavailable.'
      )
    }
    for (const { owed } of page.deliveries) add(count, owed)
    if (page.ended) return count
    replay.cursor = page.cursor
  }
  return { ...count, whole: false }
}

/** Repeats the query while the projection is behind, and gives up after VIEW_MS, also on a query under way: PostgreSQL
 *  may take long to fail. */
function withRetries (failed: FailedPage): FailedPage {
  return async query => {
    const answered = new AbortController()
    const late = sleep(VIEW_MS, answered.signal).then(() => null)
    try {
      for (const endMs = performance.now() + VIEW_MS; performance.now() < endMs; await sleep(VIEW_WAIT_MS)) {
        const rows = await Promise.race([failed(query), late])
        if (rows !== null) return rows
      }
      return null
    } finally {
      answered.abort()
    }
  }
}

function add (count: ReplayCount, { events }: Owed): void {
  count.deliveries++
  count.events += events.length
  for (const { type } of events) count.types[type] = (count.types[type] ?? 0) + 1
}

interface ReplayDraft {
  webhook: WebhookEntry
  data: Replay
  nowMs: number
}

async function draftOf (
  services: ReplayServices,
  asker: Asker,
  id: string,
  wish: ReplayWish,
  once = ''
): Promise<ReplayDraft | Refusal> {
  const webhook = ownWebhook(services, asker, id)
  if (webhook instanceof Refusal) return webhook
  const { bus, clock } = services.factLog
  const nowMs = clock.nowMs()
  const { what, fromMs, toMs, pace } = wish
  const keptMs = await ageMsMax(bus, what === 'failed' ? 'WEBHOOKS' : 'EMAILS')
  const replays = await replaysOf(services, id)
  const running = replays.filter(({ state }) => state === 'running').length
  const fault = disabledFault(webhook) ?? replayFault(wish, { keptMs, nowMs, running })
  if (fault !== null) return fault
  const through = what === 'failed' ? 0 : await sequenceBefore(bus, 'EMAILS', toMs + LATE_MS)
  const newest = replays[0]?.replay ?? null
  // An id made before others of this endpoint, or by a clock that is ahead, would be out of order.
  const inOrder = once.startsWith('rpl_') && once > (newest ?? '') && (idTimeMs(once) ?? Infinity) <= nowMs
  const replay = inOrder ? once : laterId(nowMs, newest)
  const data = newReplay({ replay, webhook: id, what, from: timestamp(fromMs), to: timestamp(toMs), through, pace })
  return { webhook, data, nowMs }
}

/** Ends a replay that is under way: no further page is made; deliveries already requested still go out. Safe to repeat.
 *  Throws LogUnavailable, Conflict, or what `isUnanswered` knows. */
export async function cancelReplay (
  services: ReplayServices,
  asker: Asker,
  replay: string
): Promise<ReplayState | Refusal> {
  return await retryOnConflict(async () => {
    const recorded = await lastOf(services, asker, replay)
    if (recorded === null) return new Refusal('not_found', `There is no replay ${replay}.`)
    const before = stateOf(recorded.fact)
    const mode = services.directory.now.webhooks.get(before.webhook)?.mode
    const fault = modeFault(asker, mode) ?? cancelFault(before)
    if (fault !== null) return fault
    if (before.state === 'canceled') return before
    await noteOperation(services.factLog, asker, { operation: 'replay.canceled', subject: replay })
    const ended = await endReplay(services.factLog, recorded, 'canceled')
    if (ended === null) throw new Conflict(`${replay} has made another page`)
    return stateOf(ended)
  })
}

/** A replay and how far it has come. Throws what `isUnanswered` knows. */
export async function findReplay (
  services: Pick<Services, 'factLog'>,
  asker: Asker,
  replay: string
): Promise<ReplayState | Refusal> {
  const recorded = await lastOf(services, asker, replay)
  if (recorded === null) return new Refusal('not_found', `There is no replay ${replay}.`)
  const waits = await waitsOf(services.factLog.bus, recorded.fact.data.webhook)
  return stateOf(recorded.fact, waits.get(replay))
}

/** The replay's last fact, whatever its endpoint: there are few subjects of replays. */
async function lastOf (
  { factLog }: Pick<Services, 'factLog'>,
  { account }: Asker,
  replay: string
): Promise<{ fact: ReplayFact, seq: number } | null> {
  if (!/^rpl_[0-9a-z]{1,64}$/.test(replay)) return null
  const last = await getFact(factLog.bus, 'WEBHOOKS', { last_by_subj: `webhook.*.replay.*.${replay}` }, 'leader')
  const fact = last === null ? null : replayFactIn(last.fact)
  return fact === null || fact.account !== account ? null : { fact, seq: last!.seq }
}

/** An endpoint's replays of the last 30 days, the newest first, at most 500. Throws what `isUnanswered` knows. */
export async function replaysOf (
  { factLog: { bus } }: Pick<Services, 'factLog'>,
  webhook: string
): Promise<ReplayState[]> {
  const all = await subjectsUnder(bus, 'WEBHOOKS', subjects.replay(webhook, '*'))
  const newest = all.toSorted((a, b) => (a < b ? 1 : -1)).slice(0, REPLAYS_SHOWN)
  const [facts, waits] = await Promise.all([createLookup(bus, 'WEBHOOKS').last(newest), waitsOf(bus, webhook)])
  return facts.flatMap(fact => {
    const known = fact === null ? null : replayFactIn(fact)
    return known === null ? [] : [stateOf(known, waits.get(known.data.replay))]
  })
}
