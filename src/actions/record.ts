import type { Recorded } from '#streams/define.ts'
import { isErased } from '#streams/email/erase.ts'
import { EmailRecorded, type EmailRequested } from '#streams/email/facts.ts'
import { EMAIL_PARTITIONS, emailPartitionOf, subjects } from '#streams/subjects.ts'
import type { Bus } from '#src/nats/connect.ts'
import { getFact } from '#src/nats/get.ts'
import { causedBy, stamp, type FactLog } from './fact-log.ts'
import { retryOnConflict } from './retry-on-conflict.ts'

/** How far the requests of a partition are recorded: the last record's place in EMAILS, and its request's in REQUESTS;
 *  0 = none is. */
export interface RecordCursor {
  seq: number
  request: number
}

/** Of each partition, as the log's leader knows it. Throws when NATS does not answer. */
export async function recordCursors (bus: Bus): Promise<RecordCursor[]> {
  return await Promise.all(
    Array.from({ length: EMAIL_PARTITIONS }, async (_, partition) => await cursorOf(bus, partition))
  )
}

async function cursorOf (bus: Bus, partition: number): Promise<RecordCursor> {
  const last = await getFact(bus, 'EMAILS', { last_by_subj: subjects.record(partition) }, 'leader')
  return last?.fact.type === 'email.recorded'
    ? { seq: last.seq, request: last.fact.data.request }
    : { seq: 0, request: 0 }
}

/** Records requests, in the order of REQUESTS: each once, also when others do the same, for the first record of a
 *  partition expects the last one before it. Moves `cursors` along. Throws LogUnavailable, or Conflict when
 *  conflicts do not end. */
export async function recordRequests (
  factLog: FactLog,
  requests: readonly Recorded<EmailRequested>[],
  cursors: RecordCursor[]
): Promise<void> {
  const partitions = Map.groupBy(requests.filter(isAsked), ({ fact }) => emailPartitionOf(fact.data.email))
  await Promise.all([...partitions].map(async ([partition, ofPartition]) =>
    await retryOnConflict(async () => {
      // Also after a success that was not heard of.
      const { seq, request } = cursors[partition]!
      const missing = ofPartition.filter(recorded => recorded.seq > request)
      if (missing.length === 0) return
      try {
        const seqs = await factLog.append(missing.map((recorded, i) => ({
          fact: factOf(recorded, factLog.clock.nowMs()),
          ...(i === 0 ? { expectedSeq: seq } : {})
        })))
        cursors[partition] = { seq: seqs.at(-1)!, request: missing.at(-1)!.seq }
      } catch (error) {
        cursors[partition] = await cursorOf(factLog.bus, partition)
        throw error
      }
    })
  ))
}

/** What an erasure left of a request is no new one, and has its record. */
function isAsked ({ fact }: Recorded<EmailRequested>): boolean {
  return !fact.data.recipients.some(({ address }) => isErased(address))
}

function factOf ({ fact, seq }: Recorded<EmailRequested>, nowMs: number) {
  const { content: _content, head: _head, ...asked } = fact.data
  return stamp(EmailRecorded, causedBy(fact), { ...asked, request: seq, requestedAt: fact.time }, nowMs)
}
