import type { AnyFact } from '#streams/catalog.ts'
import type { Fact, Recorded } from '#streams/define.ts'
import { eventIn, formatOf } from '#streams/delivery/decide.ts'
import { DeliveryRequested, type Member } from '#streams/delivery/facts.ts'
import type { WebhookEntry } from '#streams/directory.ts'
import { groupsOf } from '#streams/groups.ts'
import { backfillId, isOf, newReplay, owedIn, pageSize, REPLAY_PACE, type EndReason } from '#streams/replay/decide.ts'
import { ReplayAdvanced, ReplayEnded, ReplayRequested, type Replay, type ReplayFact } from '#streams/replay/facts.ts'
import { subjects } from '#streams/subjects.ts'
import { timestamp } from '#src/base/clock.ts'
import type { Append } from '#src/nats/append.ts'
import type { Bus } from '#src/nats/connect.ts'
import { Conflict } from '#src/nats/errors.ts'
import { factAt } from '#src/nats/certain.ts'
import { getFact, sequenceBefore } from '#src/nats/get.ts'
import { decodeMessage } from '#src/nats/message.ts'
import { readPages } from '#src/nats/range.ts'
import { advanceFanout, deliveryId, type FanoutCursor, type NewDelivery } from './delivery.ts'
import { causedBy, stamp, type FactLog } from './fact-log.ts'

/** Facts read for one page, and for how long: a page may end with nothing found. */
const FACTS_READ_MAX = 5000
const READ_MS = 1000
/** Of one answer of NATS. */
const FACTS_MIN = 100
const FACTS_MAX = 500
const BYTES_MAX = 4 * 1024 * 1024
/** By how much the clock that stamped a fact may be ahead of the one that stored it. */
const SKEW_MS = 10 * 60_000
const READS_MAX = 32

/** The deliveries of an endpoint that ended as failed in [from, to), as the projection knows them, the longest ago
 *  first. */
export interface FailedQuery {
  account: string
  webhook: string
  /** RFC 3339. */
  from: string
  to: string
  /** The cursor of the last row of the page before; '' = from the first. */
  after: string
  limit: number
  /** The projection must have reached this sequence of WEBHOOKS, else the result is null. */
  seenSeq: number
}

/** `owedSeq` = the sequence in WEBHOOKS of a fact of the delivery. Null = the projection is behind, or PostgreSQL away.
 */
export type FailedPage = (query: FailedQuery) => Promise<Array<{ cursor: string, owedSeq: number }> | null>

/** Some of a replay's deliveries. */
export interface ReplayPage {
  deliveries: NewDelivery[]
  /** Where the next page begins. */
  cursor: string
  /** There is no next page. */
  ended: boolean
}

/** Has an endpoint's backfill been opened? Throws when the log cannot be read. */
export async function isBackfillOpen ({ bus }: Pick<FactLog, 'bus'>, webhook: string): Promise<boolean> {
  return await getFact(bus, 'WEBHOOKS', { last_by_subj: subjects.replay(webhook, backfillId(webhook)) }) !== null
}

/** Opens the backfills of endpoints of one partition together with the move of its cursor to `through`: facts up to
 *  there are the backfill's, later ones the fan-out's. Null, and nothing is appended, when the cursor is no longer
 *  where it was read or one of them is open already. Throws LogUnavailable. */
export async function openBackfills (
  factLog: FactLog,
  partition: number,
  cursor: FanoutCursor,
  through: number,
  webhooks: WebhookEntry[]
): Promise<FanoutCursor | null> {
  const nowMs = factLog.clock.nowMs()
  const to = timestamp(nowMs)
  const openings = webhooks.map(({ id: webhook, account, startAt: from }) => {
    const replay = backfillId(webhook)
    const data = newReplay({ replay, webhook, what: 'backfill', from, to, through, pace: REPLAY_PACE })
    // The request that created the endpoint is not known here: the backfill's own id correlates what follows.
    const fact = stamp(ReplayRequested, { account, correlation: replay, causation: null }, data, nowMs)
    return { fact, expectedSeq: 0 }
  })
  return await advanceFanout(factLog, partition, cursor, through, openings)
}

/** The replay's next deliveries; null when the projection does not answer now. Safe to repeat: nothing changes. Throws
 *  what `isUnanswered` knows. */
export async function readPage (
  { bus }: Pick<FactLog, 'bus'>,
  webhook: WebhookEntry,
  replay: Replay,
  failed: FailedPage | undefined,
  seenSeq: number
): Promise<ReplayPage | null> {
  return replay.what === 'failed'
    ? await failedPage(bus, webhook, replay, failed, seenSeq)
    : await windowPage(bus, webhook, replay)
}

async function failedPage (
  bus: Bus,
  { account, id: webhook, ...rest }: WebhookEntry,
  replay: Replay,
  failed: FailedPage | undefined,
  seenSeq: number
): Promise<ReplayPage | null> {
  const { from, to, cursor: after } = replay
  const limit = pageSize(replay, rest)
  const rows = await failed?.({ account, webhook, from, to, after, limit, seenSeq }) ?? null
  if (rows === null) return null
  const deliveries: NewDelivery[] = []
  for (const group of groupsOf(rows, READS_MAX)) {
    const found = await Promise.all(group.map(({ owedSeq }) => owedFact(bus, owedSeq)))
    deliveries.push(...found.flatMap(recorded => recorded === null ? [] : nextRun(recorded.fact, replay.replay)))
  }
  return { deliveries, cursor: rows.at(-1)?.cursor ?? after, ended: rows.length < limit }
}

/** Null = it is no longer kept, for certain. Throws what `isUnanswered` knows. */
export async function owedFact (bus: Bus, seq: number): Promise<Recorded<AnyFact> | null> {
  return await factAt(bus, 'WEBHOOKS', seq)
}

/** One more run of the delivery that a fact is about. */
function nextRun (fact: AnyFact, replay: string): NewDelivery[] {
  const owed = owedIn(fact)
  return owed === null ? [] : [{ fact, owed: { ...owed, replay } }]
}

interface FoundMember {
  fact: AnyFact
  member: Member
}

async function windowPage (bus: Bus, webhook: WebhookEntry, replay: Replay): Promise<ReplayPage> {
  const groupMax = webhook.batch?.maxEvents ?? 1
  const wanted = pageSize(replay, webhook) * groupMax
  const found: FoundMember[] = []
  let seq = await startOf(bus, replay)
  let read = 0
  let endMs: number | null = null
  const pageOf = (members: FoundMember[], ended: boolean): ReplayPage => ({
    deliveries: groupsOf(members, groupMax).map(group => deliveryOf(group, webhook, replay.replay)),
    cursor: String(members.length < found.length ? members.at(-1)!.member.seq : seq),
    ended
  })
  const range = { filter: `email.*.${webhook.account}.>`, afterSeq: seq }
  const missing = () => Math.min(FACTS_MAX, Math.max(FACTS_MIN, 4 * (wanted - found.length)))
  for await (const messages of readPages(bus, 'EMAILS', range, { max: missing, bytesMax: BYTES_MAX })) {
    // From the first answer on: the wait for it must not use up the time in which something is found.
    endMs ??= performance.now() + READ_MS
    for (const recorded of messages.map(decodeMessage)) {
      if (recorded.seq > replay.through) return pageOf(found, true)
      seq = recorded.seq
      found.push(...memberIn(recorded, webhook, replay))
      if (found.length === wanted) return pageOf(found, false)
    }
    read += messages.length
    // The events that do not fill a batch are read again with the next page, unless there are no others.
    if (read >= FACTS_READ_MAX || performance.now() >= endMs) {
      return pageOf(found.slice(0, found.length - found.length % groupMax || found.length), false)
    }
  }
  return pageOf(found, true)
}

/** The sequence after which the next page begins. */
async function startOf (bus: Bus, { cursor, from }: Replay): Promise<number> {
  return cursor === '' ? await sequenceBefore(bus, 'EMAILS', Date.parse(from) - SKEW_MS) : Number(cursor)
}

function memberIn ({ fact, seq }: Recorded<AnyFact>, webhook: WebhookEntry, replay: Replay): FoundMember[] {
  const event = eventIn(fact)
  return event === null || !isOf(replay, webhook, fact, event)
    ? []
    : [{ fact, member: { id: fact.id, type: event.type, seq, email: event.email } }]
}

/** Its cause is the first event. */
function deliveryOf (group: FoundMember[], endpoint: WebhookEntry, replay: string): NewDelivery {
  const { id: webhook, batch } = endpoint
  const events = group.map(({ member }) => member)
  const owed = {
    delivery: deliveryId(events, webhook),
    webhook,
    replay,
    events,
    batch: batch !== null,
    ...formatOf(endpoint)
  }
  return { fact: group[0]!.fact, owed }
}

/** Appends a page's deliveries together with the replay's next fact, unless another process has done so since
 *  `recorded`, the replay's last fact: all or nothing. False = another has. Throws LogUnavailable. */
export async function advanceReplay (
  factLog: FactLog,
  { fact, seq }: Recorded<ReplayFact>,
  { deliveries, cursor, ended }: ReplayPage
): Promise<boolean> {
  const nowMs = factLog.clock.nowMs()
  const { made } = fact.data
  const data = { ...fact.data, cursor, lastPage: deliveries.length, made: made + deliveries.length }
  const next = ended
    ? stamp(ReplayEnded, causedBy(fact), { ...data, reason: 'done' as const }, nowMs)
    : stamp(ReplayAdvanced, causedBy(fact), data, nowMs)
  const requested = deliveries.map(({ fact: cause, owed }) => ({
    fact: stamp(DeliveryRequested, causedBy(cause), owed, nowMs)
  }))
  return await append(factLog, [...requested, { fact: next, expectedSeq: seq }])
}

/** Ends a replay whose last fact is `recorded`. Null = another process has appended since. Throws LogUnavailable. */
export async function endReplay (
  factLog: FactLog,
  { fact, seq }: Pick<Recorded<ReplayFact>, 'fact' | 'seq'>,
  reason: EndReason
): Promise<Fact<'replay.ended', ReplayEnded['data']> | null> {
  const ended = stamp(ReplayEnded, causedBy(fact), { ...fact.data, reason }, factLog.clock.nowMs())
  const stored = await append(factLog, [{ fact: ended, expectedSeq: seq }])
  return stored ? ended : null
}

async function append (factLog: FactLog, part: Append[]): Promise<boolean> {
  try {
    await factLog.append(part)
    return true
  } catch (error) {
    if (error instanceof Conflict) return false
    throw error
  }
}
