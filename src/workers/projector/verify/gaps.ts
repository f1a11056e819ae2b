import { sql } from '#projections/define.ts'
import { CLAIM_MS } from '#streams/topology.ts'
import { timestamp } from '#src/base/clock.ts'
import { floorId } from '#src/base/id.ts'
import { KIND, numberOf, STREAMS, type LogIndex, type StreamName } from './log-index.ts'
import type { VerifySession } from './session.ts'
import type { Findings } from './findings.ts'
import type { Gone, Known } from './known.ts'

/** Sequences from `low` to `high`, both among them. */
interface Range {
  low: number
  high: number
}

interface GapRow extends Range {
  stream: number
  before_ms: number
  after_ms: number
  erased: number[] | null
  moved: number[] | null
  asked: boolean
  worked: boolean
}

/** Clocks differ, and the server looks at ages now and then. */
export const SLACK_MS = 300_000
/** What is appended may have waited to be. */
const WAIT_MS = 60_000

const REQUESTS = numberOf('REQUESTS')
const EMAILS = numberOf('EMAILS')

/** `moved`: what an erasure has put there, for the rest of its time, which is over. `asked`: a record tells that a
 *  request, and no claim, lay there, and no other word why it does not. `worked`: it was written while an erasure was
 *  at work on REQUESTS. */
const gapsBefore = (oldest: string) =>
  sql`
  with moved as (select m.request as seq from facts m where m.kind = ${KIND.moved} and m.email < ${oldest})
  select g.*, (select array_agg(distinct e.seq order by e.seq) from erased e where e.stream = g.stream and e.seq between g.low and g.high) as erased,
    (select array_agg(distinct m.seq order by m.seq) from moved m where g.stream = ${REQUESTS} and m.seq between g.low and g.high) as moved,
    g.stream = ${REQUESTS} and exists (
      select from facts r where r.stream = ${EMAILS} and r.kind = ${KIND.recorded} and r.request between g.low and g.high
        and not exists (select from moved m where m.seq = r.request)
        and not exists (select from erased e where e.stream = g.stream and e.seq = r.request)) as asked,
    g.stream = ${REQUESTS} and exists (select from works w where w.ms between g.before_ms and g.after_ms + ${WAIT_MS}) as worked
  from gaps g order by g.stream, g.low`

/** Says of every sequence that has no message why, or finds that there is no reason. Notes from when to when what was
 *  erased was written. */
export async function explainGaps (
  session: VerifySession,
  index: LogIndex,
  findings: Findings,
  known: Known
): Promise<Record<StreamName, Gone>> {
  await session.ask(`create index on facts (request) where kind = ${KIND.recorded}`)
  const gone = Object.fromEntries(STREAMS.map(stream => [stream, { aged: 0, expired: 0, erased: 0 }])) as Record<
    StreamName,
    Gone
  >
  for await (const rows of session.pages<GapRow>(gapsBefore(floorId('em', known.nowMs - known.contentMs + SLACK_MS)))) {
    for (const row of rows) {
      const stream = STREAMS[row.stream]!
      const counts = gone[stream]
      const { aged, rest } = byAge(row, stream, known)
      counts.aged += aged
      if (rest === null) continue
      const erased = (row.erased ?? []).filter(seq => seq >= rest.low)
      const moved = (row.moved ?? []).filter(seq => seq >= rest.low && !erased.includes(seq))
      counts.erased += erased.length
      counts.expired += moved.length
      if (erased.length > 0) index.window(floorId('ev', row.before_ms - WAIT_MS), floorId('ev', row.after_ms + WAIT_MS))
      for (const range of without(rest, [...erased, ...moved].sort((a, b) => a - b))) {
        if (isExpired(range, row, known)) counts.expired += length(range)
        else findings.add('gap', placeOf(stream, range), sentence(range, row))
      }
    }
  }
  await index.close()
  return gone
}

/** What lay before the stream's first message has left by age, when any of it can be as old as that; the rest is no
 *  matter of age. */
function byAge (
  { low, high, before_ms: beforeMs }: GapRow,
  stream: StreamName,
  { states, nowMs }: Known
): { aged: number, rest: Range | null } {
  const { first, ageMs } = states[stream]
  if (low >= first || beforeMs > nowMs - ageMs + SLACK_MS) return { aged: 0, rest: { low, high } }
  return high < first ? { aged: high - low + 1, rest: null } : { aged: first - low, rest: { low: first, high } }
}

/** Claims have a time of their own, and requests where content is kept for less than claims are. A claim stands behind
 *  the request it came with: where those stay, no two that have left are neighbours. */
function isExpired (
  range: Range,
  { stream, before_ms: beforeMs, asked, worked }: GapRow,
  { contentMs, nowMs }: Known
): boolean {
  if (stream !== REQUESTS) return false
  // Claims that an erasure wrote anew live for the rest of their time, and stand side by side.
  if (worked && !asked) return true
  if (contentMs < CLAIM_MS) return beforeMs <= nowMs - contentMs + SLACK_MS
  return length(range) === 1 && !asked && beforeMs <= nowMs - CLAIM_MS + SLACK_MS
}

/** What is left of a range without these sequences, which are in it and in order. */
function without (range: Range, seqs: readonly number[]): Range[] {
  const ends = [...seqs, range.high + 1]
  return ends.map((seq, i) => ({ low: i === 0 ? range.low : seqs[i - 1]! + 1, high: seq - 1 })).filter((
    { low, high }
  ) => low <= high)
}

const length = ({ low, high }: Range): number => high - low + 1

function placeOf (stream: string, { low, high }: Range): string {
  return `${stream} ${low === high ? low : `${low}-${high}`}`
}

function sentence (range: Range, { before_ms: beforeMs, after_ms: afterMs }: GapRow): string {
  const count = length(range)
  return `${count === 1 ? 'a message is' : `${count} messages are`} gone, stored between ${timestamp(beforeMs)} and ${
    timestamp(afterMs)
  }`
}
