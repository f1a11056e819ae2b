import { createHash } from 'node:crypto'
import type { Fact } from '#streams/define.ts'
import type { GiveUpReason } from '#streams/delivery/decide.ts'
import {
  BatchJoined,
  DeliveryAttempted,
  DeliveryFailed,
  DeliveryDeferred,
  DeliveryRequested,
  FanoutAdvanced,
  type Owed
} from '#streams/delivery/facts.ts'
import { pendingAfter, type Pending } from '#streams/delivery/state.ts'
import { testEventBody } from '#streams/delivery/test-event.ts'
import type { WebhookEntry } from '#streams/directory.ts'
import { webhookPartitionOf, subjects } from '#streams/subjects.ts'
import type { EventType } from '#streams/webhook/facts.ts'
import { timestamp } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import type { Append } from '#src/nats/append.ts'
import { Conflict } from '#src/nats/errors.ts'
import { getFact } from '#src/nats/get.ts'
import { fireNow, schedule } from '#src/nats/schedule.ts'
import type { Asker } from './services.ts'
import { causedBy, stamp, type FactCause, type FactLog } from './fact-log.ts'
import { wakeReplays } from './replay-schedule.ts'

/** An outcome is repeated for so long before its job goes back to the server, which would mean one more request: while
 *  the log is away nothing else can go on anyway. */
const RECORD_TIMEOUT_MS = 600_000
const RELEASE_DELAY_MS = 500
const RELEASE_TIMEOUT_MS = 5000

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
  const digest = createHash('sha256').update([...events.map(({ id }) => id), webhook].join(' ')).digest('hex')
  return `whd_${BigInt(`0x${digest}`).toString(32).padStart(26, '0').slice(-26)}`
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
  const advanced = stamp(FanoutAdvanced, FANOUT, { partition, through }, factLog.clock.nowMs())
  try {
    const seqs = await factLog.append([...facts, { fact: advanced, expectedSeq: cursor.seq }])
    return { through, seq: seqs.at(-1)! }
  } catch (error) {
    if (error instanceof Conflict) return null
    throw error
  }
}

/** The cursor belongs to no account: it is of all of them. */
const FANOUT: FactCause = { account: 'acc_0', correlation: 'fanout', causation: null }

/** Owes an endpoint a made-up event, whatever it listens to; it goes the way of all others. Throws LogUnavailable. */
export async function requestTestDelivery (
  factLog: FactLog,
  asker: Asker,
  { id: webhook, batch }: Pick<WebhookEntry, 'id' | 'batch'>,
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
    test
  }
  const fact = stamp(DeliveryRequested, { ...asker, causation: null }, owed, nowMs, id)
  await factLog.append([{ fact }])
  return owed
}

export type AttemptData = Omit<DeliveryAttempted['data'], keyof Owed>

/** Records one attempt; a retry is scheduled before this resolves. Throws LogUnavailable. */
export function recordAttempt (factLog: FactLog, pending: Pending, data: AttemptData): Promise<void> {
  const fact = stamp(DeliveryAttempted, causeOf(pending), { ...pending.owed, ...data }, factLog.clock.nowMs())
  return record(factLog, fact)
}

/** Puts a delivery off without a request, from `firstMs` (when its 24 hours began) to `untilMs`. Throws LogUnavailable.
 */
export function deferDelivery (
  factLog: FactLog,
  pending: Pending,
  firstMs: number,
  untilMs: number
): Promise<void> {
  const held = pending.heldAt === null ? {} : { heldAt: pending.heldAt }
  const data = {
    ...pending.owed,
    attempts: pending.attempts,
    firstAttemptAt: timestamp(firstMs),
    nextAttemptAt: timestamp(untilMs),
    ...held
  }
  return record(factLog, stamp(DeliveryDeferred, causeOf(pending), data, factLog.clock.nowMs()))
}

/** Gives a delivery up without a request. Throws LogUnavailable. */
export function failDelivery (factLog: FactLog, pending: Pending, reason: GiveUpReason): Promise<void> {
  const data = { ...pending.owed, attempts: pending.attempts, reason }
  return record(factLog, stamp(DeliveryFailed, causeOf(pending), data, factLog.clock.nowMs()))
}

/** The fact and, when the delivery goes on, its schedule: both are durable, or its cause is not acknowledged. The fact
 *  first: what follows from the schedule must never stand before it in the log. */
async function record (
  factLog: FactLog,
  fact: DeliveryAttempted | DeliveryDeferred | DeliveryFailed
): Promise<void> {
  const after = pendingAfter(fact)
  await factLog.append([{ fact }], RECORD_TIMEOUT_MS)
  if (after != null) await scheduleDelivery(factLog, after, RECORD_TIMEOUT_MS)
}

/** Has the delivery come back at its `dueAt`. Safe to repeat: one delivery, one schedule. */
export async function scheduleDelivery (
  { bus }: Pick<FactLog, 'bus'>,
  pending: Pending,
  timeoutMs: number
): Promise<void> {
  const { delivery, webhook } = pending.owed
  const partition = webhookPartitionOf(webhook)
  await schedule(bus, {
    subject: pending.heldAt === null
      ? subjects.scheduleDelivery(webhook, delivery)
      : subjects.scheduleHeld(webhook, delivery),
    target: subjects.dueDelivery(partition, delivery),
    atMs: Date.parse(pending.dueAt!),
    payload: pending
  }, timeoutMs)
}

/** Has the process that makes deliveries bring forward those that a pause has held, or, of an endpoint that is deleted
 *  or disabled, all that waits. A little later: by then every process has heard of it, and holds nothing more. Safe to
 *  repeat. Throws when NATS does not answer. */
export async function askForRelease ({ bus, clock }: Pick<FactLog, 'bus' | 'clock'>, webhook: string): Promise<void> {
  const [subject, target] = [subjects.scheduleRelease(webhook), subjects.dueRelease(webhook)]
  await schedule(bus, { subject, target, atMs: clock.nowMs() + RELEASE_DELAY_MS, payload: {} }, RELEASE_TIMEOUT_MS)
}

/** Has what is held for an endpoint come due now, in the order of its events, and its replays that wait looked at; with
 *  `all` what waits for a retry, too. Safe to repeat. Throws when NATS does not answer. */
export async function releaseWaiting ({ bus }: Pick<FactLog, 'bus'>, webhook: string, all: boolean): Promise<void> {
  const waiting = [subjects.scheduleHeld(webhook, '*'), ...(all ? [subjects.scheduleDelivery(webhook, '*')] : [])]
  for (const filter of waiting) await fireNow(bus, filter, payload => (payload as Pending).owed.events[0]!.seq)
  await wakeReplays({ bus }, webhook)
}

/** What led to a delivery, for what follows from it. */
export function causeOf ({ account, correlation, causation }: Pending): FactCause {
  return { account, correlation, causation }
}
