import type { FanoutCursor, NewDelivery, NewMember } from '#src/actions/delivery.ts'
import type { FactLog } from '#src/actions/fact-log.ts'
import { decodeMessage } from '#src/nats/message.ts'
import { readRange } from '#src/nats/range.ts'
import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { owedIn } from '#streams/replay/decide.ts'
import { subjects } from '#streams/subjects.ts'

/** Writes what came of a delivery. */
export type RecordOutcome = () => Promise<Recorded<AnyFact>>
/** Writes it when its turn has come. */
export type InTurn = (record: RecordOutcome) => Promise<Recorded<AnyFact>>

/** The deliveries of one fact in one partition. */
export interface FactDeliveries {
  seq: number
  deliveries: Array<NewDelivery | NewMember>
}

/** A delivery of the event at `seq` of EMAILS that no fact of WEBHOOKS speaks of yet. */
interface DirectDelivery {
  seq: number
  delivery: NewDelivery
  sinceMs: number
}

/** The queues of a partition, as long as this process works it: they take a delivery that the log does not hold yet. */
export interface DirectQueues {
  /** Whether the endpoint would get it at once, or nearly so. What lies in WEBHOOKS up to `afterSeq` must go before it.
   */
  accepts(webhook: string, afterSeq: number): boolean
  take(delivery: NewDelivery, inTurn: InTurn): void
  /** The log holds it now. */
  logged(delivery: NewDelivery, seq: number): void
}

/** What a partition's cursor does not cover yet of the deliveries that went to the queues past the log. */
export class DirectDeliveries {
  readonly queues: DirectQueues | null
  /** Every event of EMAILS up to here has its deliveries. */
  position: number
  private readonly open = new Map<string, DirectDelivery>()
  /** The log holds an outcome of these, behind the cursor. */
  private readonly tried: Set<string>
  /** By endpoint the last delivery that was not taken before it was in the log. */
  private readonly loggedSeq = new Map<string, number>()
  private readonly recording = new Set<Promise<unknown>>()
  private closed: Promise<void> | null = null

  constructor (queues: DirectQueues | null, { through }: FanoutCursor, tried: Set<string>) {
    this.queues = queues
    this.position = through
    this.tried = tried
  }

  knows (delivery: string): boolean {
    return this.open.has(delivery) || this.tried.has(delivery)
  }

  isEmpty (): boolean {
    return this.open.size === 0 && this.tried.size === 0
  }

  reached (through: number): void {
    this.position = Math.max(this.position, through)
  }

  /** One waits or is under way for longer than this. */
  isOlderThan (ageMs: number): boolean {
    // They lie in the order in which they came.
    for (const { sinceMs } of this.open.values()) return performance.now() - sinceMs > ageMs
    return false
  }

  /** Gives deliveries to the queues of their endpoints; returns those that must be in the log first. */
  pass (facts: FactDeliveries[]): FactDeliveries[] {
    const left = facts.map(({ seq, deliveries }) => ({
      seq,
      deliveries: deliveries.filter(delivery => 'member' in delivery || !this.take(seq, delivery))
    }))
    return left.filter(({ deliveries }) => deliveries.length > 0)
  }

  private take (seq: number, delivery: NewDelivery): boolean {
    const { owed: { delivery: id, webhook } } = delivery
    if (this.queues?.accepts(webhook, this.loggedSeq.get(webhook) ?? 0) !== true) return false
    this.loggedSeq.delete(webhook)
    this.open.set(id, { seq, delivery, sinceMs: performance.now() })
    this.queues.take(delivery, record => this.record(id, record))
    return true
  }

  /** The cursor is moved over all of them by `act`, which owes these facts' deliveries and those that have no outcome
   *  yet. No outcome is written meanwhile: it would lie before what it is the outcome of. */
  async close (facts: FactDeliveries[], act: (owed: FactDeliveries[]) => Promise<void>): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.closed = promise
    try {
      await Promise.allSettled(this.recording)
      await act(
        bySequence([...this.open.values()].map(({ seq, delivery }) => ({ seq, deliveries: [delivery] })), facts)
      )
      this.tried.clear()
    } finally {
      this.closed = null
      resolve()
    }
  }

  logged (delivery: NewDelivery, seq: number): void {
    if (this.open.delete(delivery.owed.delivery)) this.queues!.logged(delivery, seq)
    else if (this.queues !== null) this.loggedSeq.set(delivery.owed.webhook, seq)
  }

  private async record (id: string, record: RecordOutcome): Promise<Recorded<AnyFact>> {
    while (this.closed !== null) await this.closed
    const recording = record()
    this.recording.add(recording)
    try {
      const recorded = await recording
      if (this.open.delete(id)) this.tried.add(id)
      return recorded
    } finally {
      this.recording.delete(recording)
    }
  }
}

/** Each fact once, with all its deliveries. */
function bySequence (...facts: FactDeliveries[][]): FactDeliveries[] {
  const found = [...Map.groupBy(facts.flat(), ({ seq }) => seq)]
  const whole = found.map(([seq, parts]) => ({ seq, deliveries: parts.flatMap(({ deliveries }) => deliveries) }))
  return whole.sort((a, b) => a.seq - b.seq)
}

/** The deliveries of a partition with an outcome behind its cursor: no fact before it speaks of them. */
export async function triedSince (
  { bus }: FactLog,
  partition: number,
  { seq: afterSeq }: FanoutCursor,
  signal: AbortSignal
): Promise<Set<string>> {
  const tried = new Set<string>()
  const filters = [subjects.deliveryOutcomes('delivery', partition)]
  for await (const page of readRange(bus, { stream: 'WEBHOOKS', filters, afterSeq, signal })) {
    for (const message of page) {
      const owed = owedIn(decodeMessage(message).fact)
      if (owed !== null) tried.add(owed.delivery)
    }
  }
  signal.throwIfAborted()
  return tried
}
