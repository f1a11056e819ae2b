import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { pendingAfter, type Pending } from '#streams/delivery/decide.ts'
import { subjects, type DeliveryKind } from '#streams/subjects.ts'
import type { InTurn } from './direct.ts'

/** A delivery that has not ended. */
export interface Entry {
  /** Of its last fact, which holds all that it needs; as long as no fact speaks of it, the first place where one may
   *  come to lie. */
  seq: number
  /** How its outcome is written as long as no fact speaks of it. */
  direct: InTurn | null
  /** The facts that its queue had had by then. */
  count: number
  delivery: string
  replay: string
  /** Deliveries with the same key go one after the other, in their order: those of one email's events, all batches. */
  orderingKey: string
  attempts: number
  firstAttemptAt: string | null
  /** Unix ms. */
  dueMs: number
  /** When this process learned of it, as `performance.now()` counts. */
  knownMs: number
  /** Null where so many wait that they are read again from the log. */
  pending: Pending | null
  isTaken: boolean
}

/** Deliveries that were never tried and are held in memory; beyond, the log alone holds them. */
const UNTRIED_MAX = 10_000
/** With so many that wait for their next attempt, no new one is begun. */
const RETRIES_MAX = 100_000
/** So many are held in full, and more as long as all queues of the process hold few; of the others the place in the log
 *  is known. */
const WHOLE_MAX = 500
const WHOLE_OF_ALL_MAX = 50_000
/** Entries looked at for one whose key is not at work. */
const LOOKED_AT_MAX = 200
/** A delivery that waits for long is said again behind so many newer facts of its queue for each such delivery: for one
 *  more fact in twenty, who takes the queue over reads twenty at most for each delivery that waits. */
const MOVE_DISTANCE = 20
const MOVE_DISTANCE_MIN = 1000

/** How many deliveries the queues of a process hold in full: about 1 kB each. */
export interface QueueMemory {
  whole: number
}

/** The deliveries of one endpoint that have not ended, new ones or replayed ones, as the log says: a fold over its
 *  facts. It holds the oldest; what is newer is read when there is room. */
export class DeliveryQueue {
  /** Where what it owes lies in WEBHOOKS. */
  readonly subject: string
  private readonly memory: QueueMemory
  private readonly entries = new Map<string, Entry>()
  /** Never attempted, in the order of the log; and the others, the soonest first. */
  private readonly untried: Entry[] = []
  private readonly retries: Entry[] = []
  private count = 0
  /** Every delivery requested up to here is in memory, or has ended. */
  private readThrough: number
  /** The last one that was left in the log; the log holds more where that is beyond. */
  private leftThrough = 0
  /** Facts that are still to come, of deliveries that it took before. */
  private readonly foretold = new Set<number>()
  /** Until its facts are folded it stands still: what a fact says a later one may take back. */
  private isFolding = true

  /** `after`: up to there every delivery has ended. */
  constructor (webhook: string, kind: DeliveryKind, memory: QueueMemory, after: number) {
    this.subject = subjects.delivery(kind, webhook)
    this.memory = memory
    this.readThrough = after
  }

  get size (): number {
    return this.entries.size
  }

  /** The log holds deliveries that are not in memory. */
  private get isBehind (): boolean {
    return this.leftThrough > this.readThrough
  }

  /** So it does, and there is room. */
  get wantsMore (): boolean {
    return this.isBehind && !this.isFolding && this.untried.length <= UNTRIED_MAX / 2
  }

  /** The sequence after which more is to be read. */
  get position (): number {
    return this.readThrough
  }

  /** The last delivery that is known to lie in the log alone. */
  get leftBehind (): number {
    return this.leftThrough
  }

  /** One that comes before its fact gets its turn soon, and can be held in full: only this queue knows it. */
  hasRoom (): boolean {
    return !this.isFolding && !this.isBehind && this.untried.length < WHOLE_MAX && this.memory.whole < WHOLE_OF_ALL_MAX
  }

  hasTaken (): boolean {
    return this.entries.size > this.untried.length + this.retries.length
  }

  isEmpty (): boolean {
    return this.entries.size === 0 && this.foretold.size === 0 && !this.isBehind && !this.isFolding
  }

  /** Every delivery whose last fact lies at or before this sequence has ended. Infinity = all have. */
  through (): number {
    let lowest = this.isBehind || this.isFolding ? this.readThrough : Infinity
    for (const { seq } of this.entries.values()) if (seq - 1 < lowest) lowest = seq - 1
    return lowest
  }

  /** Its facts are folded from an earlier place on than others': up to there every delivery has ended. */
  foldFrom (through: number): void {
    this.readThrough = through
  }

  /** All facts up to here are folded. What is beyond the bound lies in the log. */
  folded (through: number): void {
    this.isFolding = false
    const spare = this.untried.splice(UNTRIED_MAX)
    for (const entry of spare) this.drop(entry)
    if (spare.length > 0) this.leave(spare.at(-1)!.seq)
    this.readThrough = spare.length > 0 ? spare[0]!.seq - 1 : through
  }

  /** A new delivery, as it comes: left in the log when there is no room, or older ones lie there. */
  offer (recorded: Recorded<AnyFact>): void {
    const { seq } = recorded
    if (this.isFolding || this.isBehind || this.untried.length >= UNTRIED_MAX) return this.leave(seq)
    // What was read from the log may come once more.
    if (seq <= this.readThrough) return
    this.readThrough = seq
    this.apply(recorded)
  }

  /** A new delivery that no fact before `seq` speaks of; known from before, only `direct` is new. */
  offerDirect (pending: Pending, seq: number, direct: InTurn): void {
    const before = this.entries.get(pending.owed.delivery)
    if (before === undefined) this.insert({ ...entryOf(pending, seq, this.count), direct }, pending)
    else if (before.direct !== null) before.direct = direct
  }

  /** A delivery that came before its fact: the log holds that now, and it may come at any time. */
  foretell (delivery: string, seq: number): void {
    const entry = this.entries.get(delivery)
    if (entry?.direct == null) return
    this.adopt(entry, seq)
    this.foretold.add(seq)
  }

  /** The next deliveries of the log after `position`. */
  refill (page: Recorded<AnyFact>[]): void {
    for (const recorded of page) {
      this.readThrough = Math.max(this.readThrough, recorded.seq)
      this.apply(recorded)
    }
  }

  /** The log was seen to hold no delivery after `position`. `left`: what `leftBehind` was before. */
  atEnd (left: number): void {
    this.readThrough = Math.max(this.readThrough, left)
  }

  /** The queue after a fact of one of its deliveries. */
  apply ({ fact, seq }: Recorded<AnyFact>): void {
    const pending = pendingAfter(fact)
    if (pending === undefined) return
    this.count++
    if (this.foretold.delete(seq)) return
    const { delivery, replay } = (fact as { data: { delivery: string, replay: string | null } }).data
    const before = this.entries.get(delivery)
    // A later replay overrules what an earlier one still does, and the log says nothing twice.
    if (before?.direct == null) {
      if (before !== undefined && (before.replay > (replay ?? '') || before.seq >= seq)) return
    } else if (fact.type === 'delivery.requested') return this.adopt(before, seq)
    if (before !== undefined) this.remove(before)
    if (pending !== null) this.insert(entryOf(pending, seq, this.count), pending)
  }

  /** Holds in full what it knew by its place only. */
  complete (page: Recorded<AnyFact>[]): void {
    for (const { fact, seq } of page) {
      const pending = pendingAfter(fact)
      const entry = pending == null ? undefined : this.entries.get(pending.owed.delivery)
      if (entry?.seq === seq) this.hold(entry, pending!)
    }
  }

  /** Takes the delivery that has been due for longest and whose key is not `isRunning`; null when there is none. */
  take (nowMs: number, isRunning: (orderingKey: string) => boolean): Entry | null {
    if (this.isFolding) return null
    const isFree = ({ orderingKey }: Entry) => !isRunning(orderingKey)
    const fresh = this.retries.length < RETRIES_MAX ? findEarly(this.untried, isFree) : -1
    const again = findEarly(this.retries, entry => entry.dueMs <= nowMs && isFree(entry))
    if (fresh === -1 && again === -1) return null
    const isFresh = again === -1 || (fresh !== -1 && this.untried[fresh]!.dueMs <= this.retries[again]!.dueMs)
    const entry = isFresh ? this.untried[fresh]! : this.retries[again]!
    this.takeOut(entry)
    return entry
  }

  /** Takes one that `waiting` or `lagging` gave; false when it waits no longer. */
  takeOne (entry: Entry): boolean {
    if (entry.isTaken || this.entries.get(entry.delivery) !== entry) return false
    this.takeOut(entry)
    return true
  }

  /** A delivery that was taken and not brought further: it is due again at `dueMs`. */
  putBack (entry: Entry, dueMs: number): void {
    if (this.entries.get(entry.delivery) !== entry) return
    entry.isTaken = false
    if (entry.attempts === 0) {
      const place = this.untried.findIndex(({ seq }) => seq > entry.seq)
      this.untried.splice(place === -1 ? this.untried.length : place, 0, entry)
      return
    }
    entry.dueMs = dueMs
    this.insertRetry(entry)
  }

  /** The log no longer holds it. */
  forget (entry: Entry): void {
    if (this.entries.get(entry.delivery) === entry) this.remove(entry)
  }

  /** Unix ms when the next delivery is due: -Infinity = one that was never tried waits; Infinity = none. */
  nextDueMs (): number {
    if (this.isFolding) return Infinity
    return this.untried.length > 0 ? -Infinity : this.retries[0]?.dueMs ?? Infinity
  }

  /** What has waited for its next attempt is due now, in the order of the log: the endpoint works again. A delivery
   *  keeps its last attempts for what may come. */
  hasten (nowMs: number, attemptsMax: number): void {
    const late = this.retries.splice(0)
    for (const entry of late) if (entry.attempts <= attemptsMax) entry.dueMs = Math.min(entry.dueMs, nowMs)
    this.retries.push(...late.toSorted((a, b) => a.dueMs - b.dueMs || a.seq - b.seq))
  }

  /** Nobody uses it any more. */
  close (): void {
    for (const entry of this.entries.values()) this.drop(entry)
  }

  /** Those that wait; not those that are taken. */
  waiting (): Entry[] {
    return this.isFolding ? [] : [...this.untried, ...this.retries]
  }

  /** Deliveries that hold the cursor back for the sake of a few, and wait for their time. */
  lagging (): Entry[] {
    if (this.isFolding) return []
    const found = this.retries.filter(({ count }) => this.count - count > MOVE_DISTANCE_MIN)
    return found.filter(({ count }) => this.count - count > MOVE_DISTANCE * this.retries.length)
  }

  private adopt (entry: Entry, seq: number): void {
    entry.seq = seq
    entry.direct = null
  }

  private insert (entry: Entry, pending: Pending): void {
    if (entry.direct !== null || this.entries.size < WHOLE_MAX || this.memory.whole < WHOLE_OF_ALL_MAX) {
      this.hold(entry, pending)
    }
    this.entries.set(entry.delivery, entry)
    if (entry.attempts === 0) this.untried.push(entry)
    else this.insertRetry(entry)
  }

  private insertRetry (entry: Entry): void {
    let [low, high] = [0, this.retries.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.retries[middle]!.dueMs <= entry.dueMs) low = middle + 1
      else high = middle
    }
    this.retries.splice(low, 0, entry)
  }

  private hold (entry: Entry, pending: Pending): void {
    if (entry.pending === null) this.memory.whole++
    entry.pending = pending
  }

  private drop (entry: Entry): void {
    this.entries.delete(entry.delivery)
    if (entry.pending !== null) this.memory.whole--
  }

  private remove (entry: Entry): void {
    this.drop(entry)
    if (!entry.isTaken) this.takeOut(entry)
  }

  private takeOut (entry: Entry): void {
    const list = entry.attempts === 0 ? this.untried : this.retries
    list.splice(list.indexOf(entry), 1)
    entry.isTaken = true
  }

  private leave (seq: number): void {
    this.leftThrough = Math.max(this.leftThrough, seq)
  }
}

function findEarly (entries: Entry[], test: (entry: Entry) => boolean): number {
  for (let i = 0; i < entries.length && i < LOOKED_AT_MAX; i++) if (test(entries[i]!)) return i
  return -1
}

function entryOf (pending: Pending, seq: number, count: number): Entry {
  const { owed: { delivery, replay, batch, events }, attempts, firstAttemptAt, dueAt } = pending
  return {
    seq,
    direct: null,
    count,
    delivery,
    replay: replay ?? '',
    orderingKey: batch ? 'batch' : events[0]!.email,
    attempts,
    firstAttemptAt,
    dueMs: Date.parse(dueAt),
    knownMs: performance.now(),
    pending: null,
    isTaken: false
  }
}
