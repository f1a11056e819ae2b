import { requestDeliveries, deliveryId, type NewDelivery, type NewMember } from '#src/actions/delivery.ts'
import type { LiveDirectory } from '#src/actions/directory.ts'
import type { FactLog } from '#src/actions/fact-log.ts'
import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { wantsBackfill } from '#streams/replay/decide.ts'
import { EVENT_AGE_MS_MAX, eventIn, isFor, type Event } from '#streams/delivery/decide.ts'
import type { WebhookEntry } from '#streams/directory.ts'
import { pastOf } from '#streams/email/erase.ts'
import { WEBHOOK_PARTITIONS, webhookPartitionOf } from '#streams/subjects.ts'
import { sleep } from '#src/base/backoff.ts'
import { timestamp } from '#src/base/clock.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import { repeat } from '#src/base/repeat.ts'
import type { Role } from '#src/base/role.ts'
import { follow } from '#src/nats/follow.ts'
import type { BodyCache } from './body-cache.ts'
import { ALL_PARTITIONS, CONFLICT_MS, FanoutCursors } from './fanout-cursors.ts'

export interface FanoutOptions {
  factLog: FactLog
  directory: LiveDirectory
  bodies: BodyCache
  log: Log
}

/** Facts of one read. */
const FACTS_MAX = 200
const GATHER_MS = 2
/** Deliveries in one append: with the cursor well below the 1,000 messages an atomic batch may have. The deliveries of
 *  one fact are never split. */
const APPEND_MAX = 500
/** Deliveries held in memory at once: a fact of an account with 1,000 endpoints makes 1,000. */
const HELD_MAX = 2000
/** While another process does the work, this one looks so often whether the cursors still move. */
const STANDBY_MS = 500
/** How often backfills are opened while nothing happens. */
const BACKFILL_EVERY_MS = 1000
const RETRY_MS = 250
const RESTART_MS = 1000

/** The deliveries of one fact in one partition. */
interface FactDeliveries {
  seq: number
  deliveries: Array<NewDelivery | NewMember>
}

/** Facts that are appended together: those after the position reached so far, up to `through`. */
interface FactRange {
  facts: Recorded<AnyFact>[]
  through: number
}

/** The endpoints that listen, by account; facts before `oldest` are for few of them. */
interface Listeners {
  webhooks: Map<string, WebhookEntry[]>
  nowMs: number
  oldest: string
}

/** Makes one delivery of every event for every endpoint that listens, exactly once: the deliveries of a range of facts
 *  and the cursor behind it are one atomic append for each partition, refused when the cursor has moved since. So it
 *  may be killed, repeated and run twice. An endpoint that wants batches gets a member for its next batch instead of a
 *  delivery. */
export function startFanout (options: FanoutOptions): Role {
  const fanout = new Fanout(options)
  const running = fanout.run()
  return {
    name: 'webhook fan-out',
    unhealthyReason: () => fanout.unhealthyReason,
    async stop () {
      fanout.stop()
      await running
    }
  }
}

class Fanout {
  unhealthyReason: string | null = null
  private readonly options: FanoutOptions
  private readonly cursors: FanoutCursors
  private readonly stopping = new AbortController()
  /** Aborted when we stop, and when the facts must be read again from the cursors. */
  private signal = this.stopping.signal
  /** The latest step with the cursors: one at a time. */
  private lastStep: Promise<void> = Promise.resolve()
  /** Another process moves the cursors. */
  private standby = false

  constructor (options: FanoutOptions) {
    this.options = options
    this.cursors = new FanoutCursors(options)
  }

  async run (): Promise<void> {
    const { signal } = this.stopping
    while (!signal.aborted) {
      const error = await this.followFacts().then(() => null, asError)
      if (error === null) continue
      this.onError(error)
      await sleep(RESTART_MS, signal)
    }
  }

  stop (): void {
    this.stopping.abort()
  }

  private async followFacts (): Promise<void> {
    const restart = new AbortController()
    this.signal = AbortSignal.any([this.stopping.signal, restart.signal])
    const afterSeq = await this.cursors.begin(restart, this.signal)
    const facts = follow(this.options.factLog.bus, {
      stream: 'EMAILS',
      filter: 'email.>',
      afterSeq,
      batchMax: FACTS_MAX,
      gather: () => sleep(GATHER_MS),
      shared: true,
      signal: this.signal,
      onError: error => this.onError(error),
      onFollowing: () => {
        this.unhealthyReason = null
      }
    })
    // Opening one does not wait for the next event.
    const backfills = repeat({
      name: 'webhook backfills',
      round: () => this.openBackfills(),
      againMs: BACKFILL_EVERY_MS,
      onError: error => this.onError(error)
    })
    try {
      for await (const batch of facts) {
        await this.inTurn(async () => {
          await this.standBy(batch.at(-1)!.seq)
          await this.fanOut(batch)
        })
      }
    } finally {
      restart.abort()
      await backfills.stop()
    }
  }

  private inTurn (step: () => Promise<void>): Promise<void> {
    const current = this.lastStep.then(step)
    this.lastStep = current.catch(() => {})
    return current
  }

  /** Resolves to the ms until the next time. */
  private async openBackfills (): Promise<number> {
    if (this.cursors.hasUnopened()) {
      await this.inTurn(() => this.retry(() => this.cursors.catchUp(ALL_PARTITIONS, null)))
    }
    return BACKFILL_EVERY_MS
  }

  /** As long as another process moves the cursors, it does the work. */
  private async standBy (through: number): Promise<void> {
    const isBehind = (partition: number) => this.cursors.cursor(partition).through < through
    while (this.standby && !this.signal.aborted && ALL_PARTITIONS.some(isBehind)) {
      await sleep(STANDBY_MS, this.signal)
      await this.retry(async () => {
        this.standby = await this.cursors.rereadAll()
      })
    }
  }

  private async fanOut (facts: Recorded<AnyFact>[]): Promise<void> {
    const accounts = accountsOf(facts)
    await this.retry(() => this.cursors.catchUp(ALL_PARTITIONS, accounts))
    let listeners = this.listenersOf(accounts)
    let owed = emptyPartitions()
    let [held, from] = [0, 0]
    for (const [i, recorded] of facts.entries()) {
      if (this.signal.aborted) return
      held += this.sort(recorded, listeners, owed)
      if (held < HELD_MAX && i < facts.length - 1) continue
      await this.append({ facts: facts.slice(from, i + 1), through: recorded.seq }, owed)
      // An append that was refused may have opened a backfill: the rest of the batch is for that endpoint, too.
      listeners = this.listenersOf(accounts)
      owed = emptyPartitions()
      ;[held, from] = [0, i + 1]
    }
  }

  private listenersOf (accounts: Set<string>): Listeners {
    const nowMs = this.options.factLog.clock.nowMs()
    const webhooks: Listeners['webhooks'] = new Map()
    for (const webhook of this.options.directory.now.webhooks.values()) {
      // The backfill of an endpoint created since we caught up is opened the next time.
      if (!accounts.has(webhook.account) || !this.cursors.isListening(webhook, nowMs)) continue
      const known = webhooks.get(webhook.account)
      if (known === undefined) webhooks.set(webhook.account, [webhook])
      else known.push(webhook)
    }
    return { webhooks, nowMs, oldest: timestamp(nowMs - EVENT_AGE_MS_MAX) }
  }

  /** Adds a fact's deliveries to those of their partitions; returns their number. */
  private sort (
    { fact, seq }: Recorded<AnyFact>,
    { webhooks, nowMs, oldest }: Listeners,
    owed: FactDeliveries[][]
  ): number {
    const { bodies } = this.options
    if (fact.type === 'email.erased') { for (const past of pastOf(fact)) bodies.drop(past.fact.id) }
    const event = eventIn(fact)
    if (event === null) return 0
    let listening = (webhooks.get(fact.account) ?? []).filter(webhook => isFor(webhook, fact, event))
    // The cursor that came with a backfill is still in the log: facts behind it may be of any age.
    if (fact.time < oldest) listening = listening.filter(webhook => wantsBackfill(webhook, nowMs))
    if (listening.length === 0) return 0
    bodies.put(fact.id, event.body)
    for (const webhook of listening) {
      const partition = owed[webhookPartitionOf(webhook.id)]!
      if (partition.at(-1)?.seq !== seq) partition.push({ seq, deliveries: [] })
      partition.at(-1)!.deliveries.push(deliveryOf(fact, seq, event, webhook))
    }
    return listening.length
  }

  private async append (range: FactRange, owed: FactDeliveries[][]): Promise<void> {
    await Promise.all(owed.map(async (deliveries, partition) => {
      if (deliveries.length > 0 || (!this.standby && this.cursors.isLate(partition, range.through))) {
        await this.advance(partition, range, deliveries)
      }
    }))
    if (this.signal.aborted) return
    this.cursors.reached(range.through)
    this.unhealthyReason = null
  }

  /** Moves a partition's cursor over a range together with its deliveries. When another process has moved the cursor
   *  meanwhile, its part is left out and the rest sorted again: it may have opened a backfill there. */
  private async advance (partition: number, range: FactRange, sorted: FactDeliveries[]): Promise<void> {
    let owed: FactDeliveries[] | null = sorted
    await this.retry(async () => {
      while (!this.signal.aborted && this.cursors.cursor(partition).through < range.through) {
        if (owed === null) {
          owed = await this.sortAgain(partition, range)
          continue
        }
        const current = owed
        // Until the append is answered, only the log knows whether it was stored.
        owed = null
        if (await this.appendSome(partition, current, range.through)) owed = current
        else {
          this.standby = true
          await sleep(CONFLICT_MS, this.signal)
        }
      }
    })
  }

  /** One append; false when the cursor has moved since. */
  private async appendSome (partition: number, owed: FactDeliveries[], through: number): Promise<boolean> {
    const cursor = this.cursors.cursor(partition)
    const left = owed.filter(({ seq }) => seq > cursor.through)
    const part = firstPart(left)
    const upTo = part.length === left.length ? through : part.at(-1)!.seq
    const deliveries = part.flatMap(({ deliveries }) => deliveries)
    const moved = await requestDeliveries(this.options.factLog, partition, cursor, upTo, deliveries)
    if (moved === null) return false
    this.cursors.moved(partition, moved)
    return true
  }

  private async sortAgain (partition: number, { facts }: FactRange): Promise<FactDeliveries[]> {
    const accounts = accountsOf(facts)
    await this.cursors.reread(partition)
    await this.cursors.catchUp([partition], accounts)
    const listeners = this.listenersOf(accounts)
    const owed = emptyPartitions()
    for (const recorded of facts) this.sort(recorded, listeners, owed)
    return owed[partition]!
  }

  /** Until it succeeds or we stop: facts are never skipped. */
  private async retry (step: () => Promise<void>): Promise<void> {
    while (!this.signal.aborted) {
      try {
        return await step()
      } catch (error) {
        this.onError(asError(error))
        await sleep(RETRY_MS, this.signal)
      }
    }
  }

  private onError (error: Error): void {
    if (this.stopping.signal.aborted) return
    this.unhealthyReason = `events wait for their fan-out: ${error.message}`
    this.options.log.warn({ err: error }, 'webhook fan-out interrupted; retrying')
  }
}

function accountsOf (facts: Recorded<AnyFact>[]): Set<string> {
  return new Set(facts.map(({ fact }) => fact.account))
}

function emptyPartitions (): FactDeliveries[][] {
  return Array.from({ length: WEBHOOK_PARTITIONS }, () => [])
}

function deliveryOf (
  fact: AnyFact,
  seq: number,
  { type, email }: Event,
  webhook: WebhookEntry
): NewDelivery | NewMember {
  const event = { id: fact.id, type, seq, email }
  if (webhook.batch !== null) return { fact, member: { webhook: webhook.id, event } }
  const events = [event]
  return {
    fact,
    owed: { delivery: deliveryId(events, webhook.id), webhook: webhook.id, replay: null, events, batch: false }
  }
}

/** The first facts whose deliveries fit one append; at least one fact. */
function firstPart (owed: FactDeliveries[]): FactDeliveries[] {
  let count = 0
  const end = owed.findIndex(({ deliveries }, i) => (count += deliveries.length) > APPEND_MAX && i > 0)
  return end === -1 ? owed : owed.slice(0, end)
}
