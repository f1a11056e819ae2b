import type { AnyFact } from '#streams/catalog.ts'
import type { Fact, Recorded } from '#streams/define.ts'
import { eventIn } from '#streams/delivery/decide.ts'
import { DeliveryRequested, type Member, type Owed } from '#streams/delivery/facts.ts'
import type { WebhookEntry } from '#streams/directory.ts'
import { groupsOf } from '#streams/groups.ts'
import { isOf, owedIn, pageSize, placeText, progressOf, type EndReason } from '#streams/replay/decide.ts'
import { ReplayAdvanced, ReplayEnded, type Replay, type ReplayFact } from '#streams/replay/facts.ts'
import { webhookPartitionOf, subjects } from '#streams/subjects.ts'
import type { Append } from '#src/nats/append.ts'
import type { Bus } from '#src/nats/connect.ts'
import { Conflict } from '#src/nats/errors.ts'
import { loadFact } from '#src/nats/load.ts'
import { factAtLeader } from '#src/nats/lookup.ts'
import { factsAfter, sequenceBefore } from '#src/nats/pages.ts'
import { deliveryId, type NewDelivery } from './delivery.ts'
import { causedBy, stamp, type Appenders } from './appenders.ts'

/** Facts looked at for one page, and for how long: a page may be done with nothing found. */
const LOOKED_MAX = 5000
const LOOK_MS = 1000
/** Of one answer of NATS. */
const FACTS_MIN = 100
const FACTS_MAX = 500
const BYTES_MAX = 4 * 1024 * 1024
/** By how much the clock that stamped a fact may be ahead of the one that stored it. */
const SKEW_MS = 10 * 60_000
const READS_MAX = 32

/** The deliveries of an endpoint that ended as failed in [from, to), as the view knows them, the longest ago first. */
export interface FailedQuery {
  account: string
  webhook: string
  /** RFC 3339. */
  from: string
  to: string
  /** The place of the last one of the page before; '' = from the first. */
  after: string
  limit: number
  /** The view must have come so far in WEBHOOKS, or it does not know yet. */
  seenSeq: number
}

/** `owedSeq` = where in WEBHOOKS a fact of the delivery lies. Null = the view is behind, or PostgreSQL away. */
export type FailedPage = (query: FailedQuery) => Promise<Array<{ place: string, owedSeq: number }> | null>

/** Some of a replay's deliveries. */
export interface ReplayPage {
  deliveries: NewDelivery[]
  /** How far it has come with them. */
  at: string
  /** There is nothing behind them. */
  ended: boolean
}

/** The replay's next deliveries; null when that cannot be told now. Safe to repeat: nothing changes. Throws what
 *  `isUnanswered` knows. */
export async function readPage (
  appenders: Pick<Appenders, 'bus'>,
  webhook: WebhookEntry,
  replay: Replay,
  failed: FailedPage | undefined,
  seenSeq: number
): Promise<ReplayPage | null> {
  return replay.what === 'failed'
    ? await failedPage(appenders.bus, webhook, replay, failed, seenSeq)
    : await windowPage(appenders.bus, webhook, replay)
}

async function failedPage (
  bus: Bus,
  { account, id: webhook, ...rest }: WebhookEntry,
  replay: Replay,
  failed: FailedPage | undefined,
  seenSeq: number
): Promise<ReplayPage | null> {
  const { from, to } = replay
  const { at } = progressOf(replay)
  const limit = pageSize(replay, rest)
  const rows = await failed?.({ account, webhook, from, to, after: at, limit, seenSeq }) ?? null
  if (rows === null) return null
  const deliveries: NewDelivery[] = []
  for (const group of groupsOf(rows, READS_MAX)) {
    const found = await Promise.all(group.map(({ owedSeq }) => owedFact(bus, owedSeq)))
    deliveries.push(...found.flatMap(recorded => recorded === null ? [] : again(recorded.fact, replay.replay)))
  }
  return { deliveries, at: rows.at(-1)?.place ?? at, ended: rows.length < limit }
}

/** What the view has a place of is there: a replica that does not know it is behind, so that only the leader can say
 *  that it is no longer kept. */
export async function owedFact (bus: Bus, seq: number): Promise<Recorded<AnyFact> | null> {
  return await loadFact(bus, 'WEBHOOKS', seq) ?? await factAtLeader(bus, 'WEBHOOKS', seq)
}

/** One more run of what a delivery's fact speaks of. */
function again (fact: AnyFact, replay: string): NewDelivery[] {
  const owed = owedIn(fact)
  return owed === null ? [] : [{ fact, owed: { ...owed, replay } }]
}

interface Found {
  fact: AnyFact
  member: Member
}

async function windowPage (bus: Bus, webhook: WebhookEntry, replay: Replay): Promise<ReplayPage> {
  const { at } = progressOf(replay)
  const groupMax = webhook.batch?.maxEvents ?? 1
  const wanted = pageSize(replay, webhook) * groupMax
  const found: Found[] = []
  let seq = at === '' ? await placeBefore(bus, Date.parse(replay.from)) : Number(at)
  let looked = 0
  let endMs: number | null = null
  const pageOf = (members: Found[], ended: boolean): ReplayPage => ({
    deliveries: groupsOf(members, groupMax).map(group => deliveryOf(group, webhook, replay.replay)),
    at: String(members.length < found.length ? members.at(-1)!.member.seq : seq),
    ended
  })
  const missing = () => Math.min(FACTS_MAX, Math.max(FACTS_MIN, 4 * (wanted - found.length)))
  for await (
    const facts of factsAfter(
      bus,
      'EMAILS',
      { filter: `email.*.${webhook.account}.>`, afterSeq: seq },
      missing,
      BYTES_MAX
    )
  ) {
    // From the first answer on: the wait for it must not use up the time in which something is found.
    endMs ??= performance.now() + LOOK_MS
    for (const recorded of facts) {
      if (recorded.seq > replay.through) return pageOf(found, true)
      seq = recorded.seq
      found.push(...memberIn(recorded, webhook, replay))
      if (found.length === wanted) return pageOf(found, false)
    }
    looked += facts.length
    // What does not fill a batch is read again with the next page, unless it is all there is.
    if (looked >= LOOKED_MAX || performance.now() >= endMs) {
      return pageOf(found.slice(0, found.length - found.length % groupMax || found.length), false)
    }
  }
  return pageOf(found, true)
}

function memberIn ({ fact, seq }: Recorded<AnyFact>, webhook: WebhookEntry, replay: Replay): Found[] {
  const event = eventIn(fact)
  return event === null || !isOf(replay, webhook, fact, event)
    ? []
    : [{ fact, member: { id: fact.id, type: event.type, seq, email: event.email } }]
}

/** It names the first of them as its cause. */
function deliveryOf (group: Found[], { id: webhook, batch }: WebhookEntry, replay: string): NewDelivery {
  const events = group.map(({ member }) => member)
  const owed: Owed = { delivery: deliveryId(events, webhook), webhook, replay, events, batch: batch !== null }
  return { fact: group[0]!.fact, owed }
}

/** Before the first fact that may be from then on. */
async function placeBefore (bus: Bus, timeMs: number): Promise<number> {
  return await sequenceBefore(bus, 'EMAILS', timeMs - SKEW_MS)
}

/** Appends a page's deliveries together with the word that it is done, unless somebody else has said so since
 *  `recorded`, the replay's last fact: all of it or nothing. False = it was somebody else. Throws LogUnavailable. */
export async function advanceReplay (
  appenders: Appenders,
  { fact, seq }: Recorded<ReplayFact>,
  { deliveries, at, ended }: ReplayPage
): Promise<boolean> {
  const nowMs = appenders.clock.nowMs()
  const { replay, webhook, what, from, to, through, pace, made } = fact.data
  const data = {
    replay,
    webhook,
    what,
    from,
    to,
    through,
    pace,
    place: placeText({ at, before: deliveries.length }),
    made: made + deliveries.length
  }
  const next = ended
    ? stamp(ReplayEnded, causedBy(fact), { ...data, reason: 'done' as const }, nowMs)
    : stamp(ReplayAdvanced, causedBy(fact), data, nowMs)
  const subject = subjects.deliveryReplay(webhookPartitionOf(webhook))
  const part = deliveries.map(({ fact: cause, owed }) => ({
    subject,
    fact: stamp(DeliveryRequested, causedBy(cause), owed, nowMs)
  }))
  return await appendNext(appenders, [...part, {
    subject: subjects.replay(webhook, replay),
    fact: next,
    expectedSeq: seq
  }])
}

/** Ends a replay whose last fact is `recorded`. False = it has come further since. Throws LogUnavailable. */
export async function endReplay (
  appenders: Appenders,
  { fact, seq }: Recorded<ReplayFact>,
  reason: EndReason
): Promise<Fact<'replay.ended', ReplayEnded['data']> | null> {
  const ended = stamp(ReplayEnded, causedBy(fact), { ...fact.data, reason }, appenders.clock.nowMs())
  const { webhook, replay } = fact.data
  return await appendNext(appenders, [{ subject: subjects.replay(webhook, replay), fact: ended, expectedSeq: seq }])
    ? ended
    : null
}

async function appendNext (appenders: Appenders, part: Append[]): Promise<boolean> {
  try {
    await appenders.webhooks.append(part)
    return true
  } catch (error) {
    if (error instanceof Conflict) return false
    throw error
  }
}
