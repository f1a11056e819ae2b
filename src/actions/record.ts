import type { Recorded } from '#streams/define.ts'
import { isErased } from '#streams/email/erase.ts'
import { EmailRecorded, type EmailRequested } from '#streams/email/facts.ts'
import { SHARDS, shardOf, subjects } from '#streams/subjects.ts'
import type { Bus } from '#src/nats/connect.ts'
import { lastAtLeader } from '#src/nats/lookup.ts'
import { causedBy, stamp, type Ledger } from './ledger.ts'
import { amongRivals } from './rivals.ts'

/** How far the requests of a shard are recorded: the last record's place in EMAILS, and its request's in REQUESTS; 0 = none is. */
export interface RecordCursor { seq: number, request: number }

/** Of each shard, as the log's leader knows it. Throws when NATS does not answer. */
export async function recordCursors (bus: Bus): Promise<RecordCursor[]> {
  return await Promise.all(Array.from({ length: SHARDS }, async (_, shard) => await cursorOf(bus, shard)))
}

async function cursorOf (bus: Bus, shard: number): Promise<RecordCursor> {
  const last = await lastAtLeader(bus, 'EMAILS', subjects.record(shard))
  return last?.fact.type === 'email.recorded' ? { seq: last.seq, request: last.fact.data.request } : { seq: 0, request: 0 }
}

/** Records requests, in the order of REQUESTS: each once, whoever else does the same, for the first record of a shard expects the last one before it. Moves
 *  `cursors` along. Throws LogUnavailable, or Conflict when there is no end of rivals. */
export async function recordRequests (ledger: Ledger, requests: readonly Recorded<EmailRequested>[], cursors: RecordCursor[]): Promise<void> {
  const shards = Map.groupBy(requests.filter(isAsked), ({ fact }) => shardOf(fact.data.email))
  await Promise.all([...shards].map(async ([shard, ofShard]) => await amongRivals(async () => {
    // Also after a success that was not heard of.
    const { seq, request } = cursors[shard]!
    const missing = ofShard.filter(recorded => recorded.seq > request)
    if (missing.length === 0) return
    try {
      const seqs = await ledger.emails.append(missing.map((recorded, i) => ({
        subject: subjects.record(shard), fact: factOf(recorded, ledger.clock.nowMs()), ...(i === 0 ? { expectedSeq: seq } : {})
      })))
      cursors[shard] = { seq: seqs.at(-1)!, request: missing.at(-1)!.seq }
    } catch (error) {
      cursors[shard] = await cursorOf(ledger.bus, shard)
      throw error
    }
  })))
}

/** What an erasure left of a request is no new one, and has its record. */
function isAsked ({ fact }: Recorded<EmailRequested>): boolean {
  return !fact.data.recipients.some(({ address }) => isErased(address))
}

function factOf ({ fact, seq }: Recorded<EmailRequested>, nowMs: number) {
  const { content: _content, ...asked } = fact.data
  return stamp(EmailRecorded, causedBy(fact), { ...asked, request: seq, requestedAt: fact.time }, nowMs)
}
