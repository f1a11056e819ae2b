import type { AnyFact } from '#streams/catalog.ts'
import type { Fact, Recorded } from '#streams/define.ts'
import { formatOf, type GiveUpReason, type Pending } from '#streams/delivery/decide.ts'
import {
  BatchJoined,
  DeliveryAttempted,
  DeliveryFailed,
  DeliveryMoved,
  DeliveryRequested,
  DispatchAdvanced,
  FanoutAdvanced,
  type Owed
} from '#streams/delivery/facts.ts'
import { testEventBody } from '#streams/delivery/test-event.ts'
import type { WebhookEntry } from '#streams/directory.ts'
import { placeOf } from '#streams/place.ts'
import { subjects } from '#streams/subjects.ts'
import type { EventType } from '#streams/webhook/facts.ts'
import { timestamp } from '#src/base/clock.ts'
import { idOf, newId } from '#src/base/id.ts'
import type { Append } from '#src/nats/append.ts'
import { Conflict } from '#src/nats/errors.ts'
import { getFact } from '#src/nats/get.ts'
import type { Asker } from './services.ts'
import { causedBy, stamp, type FactCause, type FactLog } from './fact-log.ts'

/** An outcome is repeated for so long before its delivery is due again, which means one more request: while the log is
 *  away nothing else can go on anyway. */
const RECORD_TIMEOUT_MS = 600_000

/** Nobody waits for it, and what went unanswered must be read in the log. */
const ADVANCE_TIMEOUT_MS = 20_000

/** How far the fan-out of one partition has come: every fact of EMAILS up to `through` has its deliveries; `seq` is
 *  where WEBHOOKS says so, 0 = nowhere yet. */
export interface FanoutCursor {
  through: number
  seq: number
}

/** One event for one endpoint, with the fact that is the event. */
export interface NewDelivery {
  fact: Fact
  owed: Owed
}

/** One event for one endpoint that wants batches: it waits for the others. */
export interface NewMember {
  fact: Fact
  member: BatchJoined['data']
}

/** The id of a delivery: the same for the same events and endpoint, made by any process, any number of times. */
export function deliveryId (events: ReadonlyArray<{ id: string }>, webhook: string): string {
  return idOf('whd', [...events.map(({ id }) => id), webhook].join(' '))
}

/** Reads a partition's cursor from the log. Throws when it cannot be read. */
export async function readFanoutCursor (factLog: FactLog, partition: number): Promise<FanoutCursor> {
  const last = await getFact(factLog.bus, 'WEBHOOKS', { last_by_subj: subjects.fanoutCursor(partition) })
  return last?.fact.type === 'fanout.advanced'
    ? { through: last.fact.data.through, seq: last.seq }
    : { through: 0, seq: 0 }
}

/** Appends deliveries and the cursor that says so: all or nothing, and nothing when the cursor is no longer where it
 *  was read (null), since then somebody else has made them. Throws LogUnavailable. */
export async function requestDeliveries (
  factLog: FactLog,
  partition: number,
  cursor: FanoutCursor,
  through: number,
  owed: Array<NewDelivery | NewMember>
): Promise<FanoutCursor | null> {
  const nowMs = factLog.clock.nowMs()
  return await advanceFanout(factLog, partition, cursor, through, owed.map(each => ({ fact: factOf(each, nowMs) })))
}

function factOf (owed: NewDelivery | NewMember, nowMs: number): DeliveryRequested | BatchJoined {
  const cause = causedBy(owed.fact)
  return 'owed' in owed
    ? stamp(DeliveryRequested, cause, owed.owed, nowMs)
    : stamp(BatchJoined, cause, owed.member, nowMs)
}

/** Appends `facts` together with a partition's cursor at `through`: all or nothing, and nothing when the cursor is no
 *  longer where it was read, or a fact's expectation does not hold (null). Throws LogUnavailable. */
export async function advanceFanout (
  factLog: FactLog,
  partition: number,
  cursor: FanoutCursor,
  through: number,
  facts: Append[]
): Promise<FanoutCursor | null> {
  const advanced = stamp(FanoutAdvanced, EVERYBODY, { partition, through }, factLog.clock.nowMs())
  try {
    const seqs = await factLog.append([...facts, { fact: advanced, expectedSeq: cursor.seq }], ADVANCE_TIMEOUT_MS)
    return { through, seq: seqs.at(-1)! }
  } catch (error) {
    if (error instanceof Conflict) return null
    throw error
  }
}

/** A cursor belongs to no account: it is of all of them. */
const EVERYBODY: FactCause = { account: 'acc_0', correlation: 'cursor', causation: null }

/** Owes an endpoint a made-up event, whatever it listens to; it goes the way of all others. Throws LogUnavailable. */
export async function requestTestDelivery (
  factLog: FactLog,
  { account, correlation }: Asker,
  { id: webhook, batch, format }: Pick<WebhookEntry, 'id' | 'batch' | 'format'>,
  type: EventType
): Promise<Owed> {
  const nowMs = factLog.clock.nowMs()
  const [id, email] = [newId('ev', nowMs), newId('em', nowMs)]
  const test = testEventBody({ id, type, email, createdAt: timestamp(nowMs) })
  const events = [{ id, type, seq: 0, email }]
  const owed: Owed = {
    delivery: deliveryId(events, webhook),
    webhook,
    replay: null,
    events,
    batch: batch !== null,
    ...formatOf({ format }),
    test
  }
  const fact = stamp(DeliveryRequested, { account, correlation, causation: null }, owed, nowMs, id)
  await factLog.append([{ fact }])
  return owed
}

export type AttemptData = Omit<DeliveryAttempted['data'], keyof Owed>

/** Records one attempt. Throws LogUnavailable. */
export function recordAttempt (factLog: FactLog, pending: Pending, data: AttemptData): Promise<Recorded<AnyFact>> {
  return record(
    factLog,
    stamp(DeliveryAttempted, causeOf(pending), { ...pending.owed, ...data }, factLog.clock.nowMs())
  )
}

/** Gives a delivery up without a request. Throws LogUnavailable. */
export function failDelivery (
  factLog: FactLog,
  pending: Pending,
  reason: GiveUpReason
): Promise<Recorded<AnyFact>> {
  const data = { ...pending.owed, attempts: pending.attempts, reason }
  return record(factLog, stamp(DeliveryFailed, causeOf(pending), data, factLog.clock.nowMs()))
}

/** Says again how a delivery waits that was attempted before. Throws LogUnavailable. */
export function moveDelivery (factLog: FactLog, pending: Pending): Promise<Recorded<AnyFact>> {
  const { owed, attempts, firstAttemptAt, dueAt: nextAttemptAt } = pending
  const data = { ...owed, attempts, firstAttemptAt: firstAttemptAt!, nextAttemptAt }
  return record(factLog, stamp(DeliveryMoved, causeOf(pending), data, factLog.clock.nowMs()))
}

async function record (
  factLog: FactLog,
  fact: DeliveryAttempted | DeliveryFailed | DeliveryMoved
): Promise<Recorded<AnyFact>> {
  const [seq] = await factLog.append([{ fact }], RECORD_TIMEOUT_MS)
  return { fact, seq: seq!, subject: placeOf(fact).subject }
}

/** How far the dispatch of a partition has come; `seq` is where WEBHOOKS says so, 0 = nowhere yet. */
export type DispatchCursor = DispatchAdvanced['data'] & { seq: number }

/** Reads a partition's cursor from the log. Throws what `isUnanswered` knows, or JetStreamError. */
export async function readDispatchCursor ({ bus }: FactLog, partition: number): Promise<DispatchCursor> {
  const last = await getFact(bus, 'WEBHOOKS', { last_by_subj: subjects.dispatchCursor(partition) }, 'leader')
  return last?.fact.type === 'dispatch.advanced'
    ? { ...last.fact.data, seq: last.seq }
    : { partition, delivery: 0, redelivery: 0, behind: [], seq: 0 }
}

/** Says how far a partition's dispatch has come; resolves to its sequence. Throws Conflict when another process has
 *  said so since `expectedSeq`; LogUnavailable. */
export async function advanceDispatch (
  factLog: FactLog,
  data: DispatchAdvanced['data'],
  expectedSeq: number
): Promise<number> {
  const fact = stamp(DispatchAdvanced, EVERYBODY, data, factLog.clock.nowMs())
  const [seq] = await factLog.append([{ fact, expectedSeq }])
  return seq!
}

/** What led to a delivery, for what follows from it. */
export function causeOf ({ account, correlation, causation, trace }: Pending): FactCause {
  return { account, correlation, causation, ...(trace === undefined ? {} : { trace }) }
}
