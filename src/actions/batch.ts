import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { batchesOf, type BatchRules } from '#streams/delivery/batch.ts'
import { BatchFormed, DeliveryRequested, type BatchJoined, type Owed } from '#streams/delivery/facts.ts'
import { subjects } from '#streams/subjects.ts'
import { Conflict } from '#src/nats/errors.ts'
import { getFact } from '#src/nats/get.ts'
import { decodeMessage } from '#src/nats/message.ts'
import { readMessages } from '#src/nats/range.ts'
import { schedule } from '#src/nats/schedule.ts'
import { deliveryId } from './delivery.ts'
import { causedBy, stamp, type FactLog } from './fact-log.ts'

/** How far an endpoint's members are in batches: all up to `through` (a sequence of WEBHOOKS); `seq` is where WEBHOOKS
 *  says so, 0 = nowhere yet. */
export interface BatchCursor {
  through: number
  seq: number
}

/** What waits for a batch: how many, and the oldest of them. */
export interface WaitingMembers {
  count: number
  oldest: { seq: number, joinedMs: number }
}

/** Members put into batches with one append, at most: with the deliveries and the cursor well below the 1,000 messages
 *  it may have. */
const FORMED_MAX = 500
const SCHEDULE_TIMEOUT_MS = 2000

/** Throws when the log cannot be read. */
export async function readBatchCursor ({ bus }: Pick<FactLog, 'bus'>, webhook: string): Promise<BatchCursor> {
  const last = await getFact(bus, 'WEBHOOKS', { last_by_subj: subjects.batchCursor(webhook) })
  return last?.fact.type === 'batch.formed'
    ? { through: last.fact.data.through, seq: last.seq }
    : { through: 0, seq: 0 }
}

/** What waits behind a cursor, or null. Throws when the log cannot be read. */
export async function readWaiting (
  { bus }: Pick<FactLog, 'bus'>,
  webhook: string,
  { through }: BatchCursor
): Promise<WaitingMembers | null> {
  const position = { filter: subjects.batchMember(webhook), afterSeq: through }
  const { messages: [first], pending } = await readMessages(bus, 'WEBHOOKS', position, { max: 1 })
  if (first === undefined) return null
  return { count: 1 + pending, oldest: { seq: first.seq, joinedMs: Date.parse(decodeMessage(first).fact.time) } }
}

interface Joined {
  fact: BatchJoined
  seq: number
  joinedMs: number
}

/** Puts the members behind a cursor into batches, as many as are ready: their deliveries and the cursor that says so
 *  are one append, refused when the cursor is no longer where it was read (null), since then somebody else has done it.
 *  Says how many batches. Throws LogUnavailable. */
export async function formBatches (
  factLog: FactLog,
  webhook: string,
  cursor: BatchCursor,
  rules: BatchRules
): Promise<number | null> {
  const nowMs = factLog.clock.nowMs()
  // A read that is cut off ends with a full batch.
  const max = FORMED_MAX - FORMED_MAX % rules.maxEvents
  const position = { filter: subjects.batchMember(webhook), afterSeq: cursor.through }
  const { messages } = await readMessages(factLog.bus, 'WEBHOOKS', position, { max })
  const members = messages.map(decodeMessage).map(joined)
  const batches = batchesOf(members, rules, nowMs)
  if (batches.length === 0) return 0
  const requested = batches.map(batch => requestOf(webhook, batch, nowMs))
  const last = batches.at(-1)!.at(-1)!
  const formed = stamp(BatchFormed, causedBy(last.fact), {
    webhook,
    through: last.seq,
    delivery: requested.at(-1)!.fact.data.delivery
  }, nowMs)
  try {
    await factLog.append([...requested, { fact: formed, expectedSeq: cursor.seq }])
    return batches.length
  } catch (error) {
    if (error instanceof Conflict) return null
    throw error
  }
}

function joined ({ fact, seq }: Recorded<AnyFact>): Joined {
  if (fact.type !== 'batch.joined') throw new Error(`${fact.type} is no member of a batch`)
  return { fact, seq, joinedMs: Date.parse(fact.time) }
}

/** The members of a batch are fixed herewith. It names the first of them as its cause. */
function requestOf (webhook: string, batch: Joined[], nowMs: number): { fact: DeliveryRequested } {
  const events = batch.map(({ fact }) => fact.data.event)
  const owed: Owed = { delivery: deliveryId(events, webhook), webhook, replay: null, events, batch: true }
  return { fact: stamp(DeliveryRequested, causedBy(batch[0]!.fact), owed, nowMs) }
}

/** Has somebody look at an endpoint's members at `atMs`. Safe to repeat: one endpoint, one schedule. Throws when NATS
 *  does not answer. */
export async function scheduleBatch ({ bus }: Pick<FactLog, 'bus'>, webhook: string, atMs: number): Promise<void> {
  await schedule(bus, {
    subject: subjects.scheduleBatch(webhook),
    target: subjects.dueBatch(webhook),
    atMs,
    payload: { webhook }
  }, SCHEDULE_TIMEOUT_MS)
}
