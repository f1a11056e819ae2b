import { sql } from '#projections/define.ts'
import { FACT_STREAMS, type FactStream } from '#streams/place.ts'
import { CLAIM_MS } from '#streams/topology.ts'
import { timestamp } from '#src/base/clock.ts'
import { floorId } from '#src/base/id.ts'
import { KIND, numberOf, type LogIndex } from './log-index.ts'
import type { VerifySession } from './session.ts'
import type { FindingCollector, LogState } from './findings.ts'

/** Why sequences no longer have a message: by the stream's age, by a TTL of their own, by an erasure. */
export interface GoneCounts {
  aged: number
  expired: number
  erased: number
}

/** Sequences from `low` to `high`, inclusive. */
interface SequenceRange {
  low: number
  high: number
}

interface GapRow extends SequenceRange {
  stream: number
  before_ms: number
  after_ms: number
  erased: number[] | null
  moved: number[] | null
  asked: boolean
  worked: boolean
}

/** Clocks differ, and the server removes old messages only now and then. */
export const SLACK_MS = 300_000
/** A fact may have waited so long to be appended. */
const WAIT_MS = 60_000

const REQUESTS = numberOf('REQUESTS')
const EMAILS = numberOf('EMAILS')

/** `moved`: requests that an erasure has moved, for the rest of their time, which is over. `asked`: a record says that
 *  a request, and no claim, was there, and nothing says why it is not. `worked`: it was written while an erasure was
 *  deleting from REQUESTS. */
const gapsBefore = (oldest: string) =>
  sql`
  with moved as (select m.request as seq from facts m where m.kind = ${KIND.moved} and m.email < ${oldest})
  select g.*,
    (select array_agg(distinct e.seq order by e.seq) from erased e
      where e.stream = g.stream and e.seq between g.low and g.high) as erased,
    (select array_agg(distinct m.seq order by m.seq) from moved m
      where g.stream = ${REQUESTS} and m.seq between g.low and g.high) as moved,
    g.stream = ${REQUESTS} and exists (
      select from facts r
        where r.stream = ${EMAILS} and r.kind = ${KIND.recorded} and r.request between g.low and g.high
        and not exists (select from moved m where m.seq = r.request)
        and not exists (select from erased e where e.stream = g.stream and e.seq = r.request)) as asked,
    g.stream = ${REQUESTS}
      and exists (select from works w where w.ms between g.before_ms and g.after_ms + ${WAIT_MS}) as worked
  from gaps g order by g.stream, g.low`

/** Explains every sequence without a message, or reports a gap. Adds to the index when erased messages were written. */
export async function explainGaps (
  session: VerifySession,
  index: LogIndex,
  findings: FindingCollector,
  log: LogState
): Promise<Record<FactStream, GoneCounts>> {
  await session.query(`create index on facts (request) where kind = ${KIND.recorded}`)
  const gone = Object.fromEntries(FACT_STREAMS.map(stream => [stream, { aged: 0, expired: 0, erased: 0 }])) as Record<
    FactStream,
    GoneCounts
  >
  for await (const rows of session.pages<GapRow>(gapsBefore(floorId('em', log.nowMs - log.contentMs + SLACK_MS)))) {
    for (const row of rows) {
      const stream = FACT_STREAMS[row.stream]!
      const counts = gone[stream]
      const { aged, rest } = byAge(row, stream, log)
      counts.aged += aged
      if (rest === null) continue
      const erased = (row.erased ?? []).filter(seq => seq >= rest.low)
      const moved = (row.moved ?? []).filter(seq => seq >= rest.low && !erased.includes(seq))
      counts.erased += erased.length
      counts.expired += moved.length
      if (erased.length > 0) {
        index.addWindow(floorId('ev', row.before_ms - WAIT_MS), floorId('ev', row.after_ms + WAIT_MS))
      }
      for (const range of without(rest, [...erased, ...moved].sort((a, b) => a - b))) {
        if (isExpired(range, row, log)) counts.expired += length(range)
        else findings.add('gap', seqsText(stream, range), gapText(range, row))
      }
    }
  }
  await index.close()
  return gone
}

/** What was before the stream's first message is gone by age, when any of it can be as old as that; the rest is not. */
function byAge (
  { low, high, before_ms: beforeMs }: GapRow,
  stream: FactStream,
  { streams, nowMs }: LogState
): { aged: number, rest: SequenceRange | null } {
  const { first, ageMs } = streams[stream]
  if (low >= first || beforeMs > nowMs - ageMs + SLACK_MS) return { aged: 0, rest: { low, high } }
  return high < first ? { aged: high - low + 1, rest: null } : { aged: first - low, rest: { low: first, high } }
}

/** Claims have a TTL of their own, and so have requests where content is kept for less long than claims. A claim is
 *  stored right after its request: where requests stay, no two neighbours can be gone. */
function isExpired (
  range: SequenceRange,
  { stream, before_ms: beforeMs, asked, worked }: GapRow,
  { contentMs, nowMs }: LogState
): boolean {
  if (stream !== REQUESTS) return false
  // Claims that an erasure rewrote live for the rest of their time, and are neighbours.
  if (worked && !asked) return true
  if (contentMs < CLAIM_MS) return beforeMs <= nowMs - contentMs + SLACK_MS
  return length(range) === 1 && !asked && beforeMs <= nowMs - CLAIM_MS + SLACK_MS
}

/** What is left of a range without these sequences, which are in it and in order. */
function without (range: SequenceRange, seqs: readonly number[]): SequenceRange[] {
  const ends = [...seqs, range.high + 1]
  return ends.map((seq, i) => ({ low: i === 0 ? range.low : seqs[i - 1]! + 1, high: seq - 1 })).filter((
    { low, high }
  ) => low <= high)
}

const length = ({ low, high }: SequenceRange): number => high - low + 1

function seqsText (stream: string, { low, high }: SequenceRange): string {
  return `${stream} ${low === high ? low : `${low}-${high}`}`
}

function gapText (range: SequenceRange, { before_ms: beforeMs, after_ms: afterMs }: GapRow): string {
  const count = length(range)
  return `${count === 1 ? 'a message is' : `${count} messages are`} gone, stored between ${timestamp(beforeMs)} and ${
    timestamp(afterMs)
  }`
}
