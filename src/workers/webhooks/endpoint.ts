import { DELIVERY_KINDS, type DeliveryKind } from '#streams/subjects.ts'
import { DeliveryQueue, type Entry, type QueueMemory } from './delivery-queue.ts'

/** What a delivery's turn says about the endpoint. `success`: true when it answered as it should, false when it failed,
 *  null when it was not asked. `holdMs`: how long it asks not to be called. */
export interface EndpointAnswer {
  success: boolean | null
  holdMs: number
}

export interface EndpointRules {
  /** Requests at once while the endpoint works; may change. */
  concurrency(): number
  /** Whether one more may begin now, of an endpoint that has `running` under way. */
  mayStart(running: number): boolean
  /** Brings a delivery a step further; must not throw. */
  deliver(entry: Entry, queue: DeliveryQueue): Promise<EndpointAnswer>
  /** Ms between two requests to a failing endpoint. */
  probeMs: number
  /** When an endpoint works again, deliveries with more attempts than this keep their time. */
  hastenAttemptsMax: number
  /** Of the queues of this process. */
  memory: QueueMemory
  nowMs(): number
}

/** Failures in a row after which the endpoint counts as failing: from then on one request at a time. */
const FAILURES_MAX = 5
/** A `Retry-After` keeps requests away from a failing endpoint for so long at most. */
const HOLD_MS_MAX = 900_000
/** At an endpoint that is never idle, a replayed delivery still gets one turn in so many. */
const REPLAY_TURNS = 16
/** A timer is set no further ahead: the clock may be set meanwhile. */
const TIMER_MS_MAX = 60_000

/** One endpoint: the queues of what is owed to it, and how it is asked. An endpoint that hangs, fails or is slow holds
 *  up no other. While it fails, it gets one request at a time, the delivery that is due for longest; the first success
 *  has all others follow. */
export class Endpoint {
  readonly id: string
  readonly queues: Record<DeliveryKind, DeliveryQueue>
  private readonly rules: EndpointRules
  private readonly running: Record<DeliveryKind, Set<string>> = { delivery: new Set(), redelivery: new Set() }
  private failures = 0
  private nextProbeMs = 0
  private heldUntilMs = 0
  /** New deliveries begun since a replayed one was. */
  private turns = 0
  private timer: NodeJS.Timeout | null = null
  private closed = false

  /** `after`: up to these sequences all its deliveries have ended. */
  constructor (id: string, rules: EndpointRules, after: Record<DeliveryKind, number>) {
    this.id = id
    this.rules = rules
    this.queues = {
      delivery: new DeliveryQueue(id, 'delivery', rules.memory, after.delivery),
      redelivery: new DeliveryQueue(id, 'redelivery', rules.memory, after.redelivery)
    }
  }

  /** Nothing runs or waits, and no failure is remembered: it can be dropped. */
  isIdle (): boolean {
    const { delivery, redelivery } = this.queues
    return this.failures === 0 && this.countRunning() === 0 && delivery.isEmpty() && redelivery.isEmpty()
  }

  /** A request runs, or its outcome is on its way to the log. */
  isBusy (): boolean {
    return DELIVERY_KINDS.some(kind => this.queues[kind].hasTaken())
  }

  private countRunning (): number {
    return this.running.delivery.size + this.running.redelivery.size
  }

  isFailing (): boolean {
    return this.failures >= FAILURES_MAX
  }

  /** Begins what may begin now, and sees to it that the rest follows. */
  pump (): void {
    while (this.mayRun()) {
      const next = this.next()
      if (next === null) break
      void this.run(...next)
    }
    this.setTimer()
  }

  /** All that waits is due now, as if the endpoint worked: it is no more, and its deliveries end. */
  release (): void {
    this.failures = 0
    for (const kind of DELIVERY_KINDS) this.queues[kind].hasten(this.rules.nowMs(), Infinity)
    this.pump()
  }

  /** Begins nothing any more. */
  close (): void {
    this.closed = true
    this.clearTimer()
  }

  private mayRun (): boolean {
    const { rules } = this
    const running = this.countRunning()
    if (this.closed || !rules.mayStart(running)) return false
    return this.isFailing() ? running === 0 && this.nextProbeMs <= rules.nowMs() : running < rules.concurrency()
  }

  /** The next delivery: a replayed one when no new one is due, or in its turn after many others. */
  private next (): [DeliveryKind, Entry] | null {
    const kinds = this.turns >= REPLAY_TURNS ? DELIVERY_KINDS.toReversed() : DELIVERY_KINDS
    for (const kind of kinds) {
      if (kind === 'redelivery' && this.running.redelivery.size >= Math.max(1, this.rules.concurrency() >> 1)) continue
      const entry = this.queues[kind].take(this.rules.nowMs(), key => this.running[kind].has(key))
      if (entry === null) continue
      this.turns = kind === 'redelivery' || this.queues.redelivery.isEmpty() ? 0 : this.turns + 1
      return [kind, entry]
    }
    return null
  }

  private async run (kind: DeliveryKind, entry: Entry): Promise<void> {
    const wasFailing = this.isFailing()
    this.running[kind].add(entry.orderingKey)
    const { success, holdMs } = await this.rules.deliver(entry, this.queues[kind])
    this.running[kind].delete(entry.orderingKey)
    if (success === true) this.succeed()
    if (success === false) this.fail(wasFailing, holdMs)
    this.pump()
  }

  private succeed (): void {
    const { rules } = this
    if (this.isFailing()) {
      for (const kind of DELIVERY_KINDS) this.queues[kind].hasten(rules.nowMs(), rules.hastenAttemptsMax)
    }
    this.failures = this.heldUntilMs = 0
  }

  /** Requests that were under way when the endpoint began to fail count no further. */
  private fail (wasFailing: boolean, holdMs: number): void {
    const nowMs = this.rules.nowMs()
    this.failures = wasFailing ? this.failures : Math.min(this.failures + 1, FAILURES_MAX)
    this.heldUntilMs = Math.max(this.heldUntilMs, nowMs + Math.min(holdMs, HOLD_MS_MAX))
    if (this.isFailing()) this.nextProbeMs = Math.max(this.heldUntilMs, nowMs + this.rules.probeMs)
  }

  /** For what is due later; what is due and must wait goes on when a request ends, or by the partition's rounds. */
  private setTimer (): void {
    this.clearTimer()
    if (this.closed) return
    const dueMs = Math.min(this.queues.delivery.nextDueMs(), this.queues.redelivery.nextDueMs())
    const atMs = this.isFailing() ? Math.max(dueMs, this.nextProbeMs) : dueMs
    const waitMs = atMs - this.rules.nowMs()
    if (waitMs <= 0 || waitMs === Infinity) return
    this.timer = setTimeout(() => this.pump(), Math.min(waitMs, TIMER_MS_MAX))
  }

  private clearTimer (): void {
    if (this.timer !== null) clearTimeout(this.timer)
    this.timer = null
  }
}
