import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { eventIn, type Event } from '#streams/delivery/decide.ts'
import { subjects } from '#streams/subjects.ts'
import type { EventType } from '#streams/webhook/facts.ts'
import type { Services } from '#src/actions/services.ts'
import { sleep } from '#src/base/backoff.ts'
import { lastSequence, sequenceBefore } from '#src/nats/get.ts'
import { decodeMessage } from '#src/nats/message.ts'
import { readPages } from '#src/nats/range.ts'

/** Where the events are: the facts that they are made from. */
export const STREAM = 'EMAILS'

/** Whose events, and which of them; all given filters must hold. */
export interface Wanted {
  account: string
  /** null = all. */
  types: ReadonlySet<EventType> | null
  email: string | null
  /** Unix ms; `from` is inclusive, `to` is not. */
  fromMs: number | null
  toMs: number | null
}

/** What reading needs. */
export type FeedServices = Pick<Services, 'factLog' | 'directory' | 'tokens'>

export interface FeedEvent extends Event {
  /** Of its fact in EMAILS. */
  seq: number
}

export interface FeedPage {
  events: FeedEvent[]
  /** Everything up to here has been read. */
  seq: number
  /** There is more behind it, or may be. */
  more: boolean
}

/** Facts in one answer of NATS, and the bytes of all of them; about every third is an event. */
const FACTS_MAX = 300
const BYTES_MAX = 512 * 1024
/** How far one page reads. */
export interface FeedReach {
  facts: number
  ms: number
}

const REACH: FeedReach = { facts: 20_000, ms: 1500 }
/** By how much the clock that stamped a fact may be ahead of the one that stored it. */
const SKEW_MS = 10 * 60_000
/** No fact is stored later than this after it is stamped. */
const LATE_MS = 24 * 3_600_000

/** The first events after a sequence, at most `limit`, oldest first; after 20,000 facts or 1.5 s those found so far.
 *  What was acknowledged before is among them, whichever replica answers. Throws what `isUnanswered` knows. */
export async function eventsAfter (
  services: FeedServices,
  wanted: Wanted,
  afterSeq: number,
  limit: number,
  reach: Partial<FeedReach> = {}
): Promise<FeedPage> {
  const { facts: factsMax, ms } = { ...REACH, ...reach }
  const endMs = performance.now() + ms
  const events: FeedEvent[] = []
  let seq = afterSeq
  let read = 0
  for await (const part of readsAfter(services, wanted, afterSeq, Math.min(FACTS_MAX, 4 * limit))) {
    const excess = part.events[limit - events.length]
    events.push(...part.events.slice(0, limit - events.length))
    if (excess !== undefined) return { events, seq: excess.seq - 1, more: true }
    seq = part.seq
    read += part.facts
    if (read >= factsMax || performance.now() >= endMs) return { events, seq, more: true }
  }
  return { events, seq, more: false }
}

/** The events in one answer of NATS. */
interface FeedRead {
  events: FeedEvent[]
  /** Everything up to here has been read. */
  seq: number
  facts: number
}

/** All events after a sequence, until there are no more. The first answer of NATS has at most `few` facts, each further
 *  one may have twice as many. Throws what `isUnanswered` knows. */
export async function* readsAfter (
  { factLog: { bus }, directory }: FeedServices,
  wanted: Wanted,
  afterSeq: number,
  few = FACTS_MAX
): AsyncGenerator<FeedRead> {
  let next = few
  const max = () => {
    const now = next
    next = Math.min(2 * next, FACTS_MAX)
    return now
  }
  for await (
    const messages of readPages(
      bus,
      STREAM,
      { filter: filterOf(wanted, directory.now.accounts.size), afterSeq },
      { max, bytesMax: BYTES_MAX }
    )
  ) {
    const facts = messages.map(decodeMessage)
    const past = facts.findIndex(recorded => isPast(wanted, recorded))
    const seen = past === -1 ? facts : facts.slice(0, past)
    if (seen.length > 0) {
      yield {
        events: seen.flatMap(recorded => wantedIn(wanted, recorded) ?? []),
        seq: seen.at(-1)!.seq,
        facts: seen.length
      }
    }
    if (past !== -1) return
  }
}

/** With one account all facts are its, and NATS need not filter. */
function filterOf ({ account, email }: Wanted, accounts: number): string | null {
  if (email !== null) return `${subjects.recipient(account, email, 0).slice(0, -'.0'.length)}.>`
  return accounts === 1 ? null : `email.*.${account}.>`
}

function wantedIn (
  { account, types, email, fromMs, toMs }: Wanted,
  { fact, seq }: Recorded<AnyFact>
): FeedEvent | null {
  const event = fact.account === account ? eventIn(fact) : null
  if (event === null || event.isLaterDeferral) return null
  const timeMs = Date.parse(fact.time)
  const fits = (types === null || types.has(event.type)) && (email === null || event.email === email) &&
    (fromMs === null || timeMs >= fromMs) && (toMs === null || timeMs < toMs)
  return fits ? { ...event, seq } : null
}

/** Whether all that comes from here on is later than what is wanted. */
function isPast ({ toMs }: Wanted, { fact }: Recorded<AnyFact>): boolean {
  return toMs !== null && Date.parse(fact.time) >= toMs + LATE_MS
}

/** The sequence after which the events from a time on begin. Throws what `isUnanswered` knows. */
export async function positionAt ({ factLog: { bus } }: FeedServices, timeMs: number): Promise<number> {
  return await sequenceBefore(bus, STREAM, timeMs - SKEW_MS)
}

/** The last sequence. Throws what `isUnanswered` knows. */
export async function positionNow ({ factLog: { bus } }: FeedServices): Promise<number> {
  return await lastSequence(bus, STREAM)
}

const AHEAD_TRIES = 5
const AHEAD_WAIT_MS = 200

/** Whether this log has not come to the sequence. Nor has a log that was restored: waiting there for events would miss
 *  some. A new leader is given a second to catch up with itself. Throws what `isUnanswered` knows. */
export async function isAhead (services: FeedServices, seq: number): Promise<boolean> {
  for (let tries = 1; seq > await positionNow(services); tries++) {
    if (tries === AHEAD_TRIES) return true
    await sleep(AHEAD_WAIT_MS)
  }
  return false
}
