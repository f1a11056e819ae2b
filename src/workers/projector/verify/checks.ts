import { sql, Sql } from '#projections/define.ts'
import { FACT_STREAMS } from '#streams/place.ts'
import { floorId } from '#src/base/id.ts'
import { CONTENT_STREAM } from '#src/nats/blob-transfer.ts'
import { KIND, numberOf } from './log-index.ts'
import type { VerifySession } from './session.ts'
import type { FindingCollector, LogState } from './findings.ts'
import { SLACK_MS } from './gaps.ts'
import { faultIn, type HistoryStep } from './history.ts'

/** The reconciler removes content without a request when it is an hour old, and looks once an hour. */
const ORPHAN_MS = 3 * 3_600_000

const text = (value: string | number) => new Sql([String(value)], [])
const [REQUESTS, EMAILS, WEBHOOKS, CONTENT] = [
  text(numberOf('REQUESTS')),
  text(numberOf('EMAILS')),
  text(numberOf('WEBHOOKS')),
  text(numberOf(CONTENT_STREAM))
]

interface StreamSeq {
  stream: number
  seq: number
}

const seqText = ({ stream, seq }: StreamSeq): string => `${FACT_STREAMS[stream]} ${seq}`

/** Checks what only all facts together show. */
export async function checkRelations (
  session: VerifySession,
  findings: FindingCollector,
  log: LogState
): Promise<void> {
  await duplicates(session, findings)
  await causes(session, findings, log)
  await pointers(session, findings, log)
  await histories(session, findings, log)
  await objects(session, findings, log)
}

/** An erasure writes a request without the person, under the same id, before it deletes the old one. */
async function duplicates (session: VerifySession, findings: FindingCollector): Promise<void> {
  const query = `
    select id, array_agg(stream order by stream, seq) as streams, array_agg(seq order by stream, seq) as seqs
    from facts f where id is not null and not copy group by id having count(*) > 1 order by id`
  for await (const rows of session.pages<{ id: string, streams: number[], seqs: number[] }>(query)) {
    for (const { id, streams, seqs } of rows) {
      const [first, ...others] = seqs.slice(0, 5).map((seq, i) => seqText({ stream: streams[i]!, seq }))
      findings.add('duplicate', first!, `${id} is also the id of ${others.join(', ')}`)
    }
  }
}

/** A missing cause may have been older than what is kept, or erased. Where a fact also names its cause's sequence, and
 *  that has no message, the gap is reported instead. */
async function causes (
  session: VerifySession,
  findings: FindingCollector,
  { streams: extents, contentMs, nowMs }: LogState
): Promise<void> {
  const shortestMs = Math.min(contentMs, ...Object.values(extents).map(({ ageMs }) => ageMs))
  const oldest = Number.isFinite(shortestMs) ? floorId('ev', nowMs - shortestMs + SLACK_MS) : ''
  const query = sql`
    with missing as materialized (
      select f.stream, f.seq, f.cause, f.request from facts f left join facts c on c.id = f.cause
      where f.cause is not null and not f.late and c.id is null and f.cause >= ${oldest}
    )
    select stream, seq, cause from missing m
    where not exists (select from erased e where e.id = m.cause)
      and not exists (select from windows w where m.cause >= w.low and m.cause < w.high)
      and not (m.stream = ${EMAILS} and m.request is not null
        and not exists (select from facts r where r.stream = ${REQUESTS} and r.seq = m.request))
      and not (m.stream = ${WEBHOOKS} and exists (select from events v where v.seq = m.seq
        and not exists (select from facts r where r.stream = ${EMAILS} and r.seq = v.event_seq)))
    order by stream, seq`
  for await (const rows of session.pages<StreamSeq & { cause: string }>(query)) {
    for (const row of rows) findings.add('cause', seqText(row), `its cause ${row.cause} does not exist`)
  }
}

/** Facts that name the sequence of another. A sequence without a message is a gap, and reported as such; so is one that
 *  cannot be read. */
async function pointers (
  session: VerifySession,
  findings: FindingCollector,
  { streams: extents }: LogState
): Promise<void> {
  const toRequests = sql`
    select f.stream, f.seq, f.request as place, f.email
    from facts f left join facts r on r.stream = ${REQUESTS} and r.seq = f.request
    where f.stream = ${EMAILS} and not f.late and f.request is not null
      and (f.request > ${extents.REQUESTS.last} or (r.id is not null and r.email is distinct from f.email))
        order by f.seq`
  for await (const rows of session.pages<StreamSeq & { place: number, email: string }>(toRequests)) {
    for (const row of rows) {
      findings.add(
        'pointer',
        seqText(row),
        `names REQUESTS ${row.place} as the request of ${row.email}, which it is not`
      )
    }
  }
  const toEvents = sql`
    select v.seq, v.event_seq as place, v.event
    from events v left join facts f on f.stream = ${EMAILS} and f.seq = v.event_seq
    where v.event_seq > ${extents.EMAILS.last} or (f.id is not null and f.id <> v.event) order by v.seq`
  for await (const rows of session.pages<{ seq: number, place: number, event: string }>(toEvents)) {
    for (const { seq, place, event } of rows) {
      findings.add('pointer', `WEBHOOKS ${seq}`, `names EMAILS ${place} as ${event}, which it is not`)
    }
  }
}

interface StepRow {
  email: string
  n: number
  seq: number
  step: string
}

async function histories (
  session: VerifySession,
  findings: FindingCollector,
  { streams: { EMAILS: { ageMs } }, nowMs }: LogState
): Promise<void> {
  const oldest = Number.isFinite(ageMs) ? floorId('em', nowMs - ageMs + SLACK_MS) : ''
  let steps: StepRow[] = []
  const check = () => {
    const last = steps.at(-1)
    if (last === undefined) return
    const fault = faultIn(steps.map(({ step }) => JSON.parse(step) as HistoryStep), last.email < oldest)
    if (fault !== null) findings.add('history', `EMAILS ${last.seq}`, `${last.email}, recipient ${last.n}: ${fault}`)
  }
  for await (const rows of session.pages<StepRow>('select email, n, seq, step from steps order by email, n, seq')) {
    for (const row of rows) {
      const last = steps.at(-1)
      if (last !== undefined && (last.email !== row.email || last.n !== row.n)) {
        check()
        steps = []
      }
      steps.push(row)
    }
  }
  check()
}

/** Content is stored before its request, and leaves before it. */
async function objects (
  session: VerifySession,
  findings: FindingCollector,
  { contentMs, nowMs }: LogState
): Promise<void> {
  const oldest = Number.isFinite(contentMs) ? floorId('em', nowMs - contentMs + SLACK_MS) : ''
  const lacking = sql`
    select f.stream, f.seq, f.email from facts f
    where f.kind = ${KIND.storedContent} and not f.late and f.email >= ${oldest}
      and not exists (select from objects o where o.email = f.email)
      and not exists (select from erased e where e.stream = f.stream and e.seq = f.seq) order by f.seq`
  for await (const rows of session.pages<StreamSeq & { email: string }>(lacking)) {
    for (const row of rows) {
      findings.add('object', seqText(row), `the content of ${row.email} is not in the object store`)
    }
  }
  const orphans = sql`
    select o.email from objects o where o.written_ms < ${nowMs - ORPHAN_MS}
      and not exists (select from facts f where f.stream = ${REQUESTS} and f.email = o.email)
      and not exists (select from erased e where e.stream = ${CONTENT} and e.seq = o.seq) order by o.email`
  for await (const rows of session.pages<{ email: string }>(orphans)) {
    for (const { email } of rows) findings.add('object', `CONTENT ${email}`, 'it belongs to no request')
  }
}
