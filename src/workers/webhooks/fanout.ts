import { requestDeliveries, deliveryId, type NewDelivery, type NewMember } from '#src/actions/delivery.ts'
import type { LiveDirectory } from '#src/actions/directory.ts'
import type { FactLog } from '#src/actions/fact-log.ts'
import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { wantsBackfill } from '#streams/replay/decide.ts'
import { EVENT_AGE_MS_MAX, eventIn, formatOf, isFor, type Event } from '#streams/delivery/decide.ts'
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
import { DirectDeliveries, triedSince, type DirectQueues, type FactDeliveries } from './direct.ts'
import { ALL_PARTITIONS, FanoutCursors } from './fanout-cursors.ts'

export interface FanoutOptions {
  factLog: FactLog
  directory: LiveDirectory
  bodies: BodyCache
  /** What sends the deliveries in this process: it says which partitions are ours, and takes deliveries directly. Left
   *  out = all are, and each delivery is a fact before it is made. */
  dispatch?: PartitionSource
  log: Log
}

/** The partitions that this process works now. */
export interface PartitionSource {
  /** Null = it does not work this one. Another object = it has begun again. */
  queuesOf(partition: number): DirectQueues | null
  /** Calls `act` whenever it begins or ends to work one. */
  onChange(act: () => void): void
}

/** Facts of one read. */
const FACTS_MAX = 200
const GATHER_MS = 2
/** Deliveries in one append: with the cursor well below the 1,000 messages an atomic batch may have. The deliveries of
 *  one fact are never split. */
const APPEND_MAX = 500
/** Deliveries held in memory at once: a fact of an account with 1,000 endpoints makes 1,000. */
const HELD_MAX = 2000
/** How often backfills are opened, and what waits is owed, while nothing happens. */
const LOOK_EVERY_MS = 1000
/** A delivery without an outcome for so long is a fact from then on. */
const DIRECT_MS_MAX = 1000
/** Partitions are begun one right after the other. */
const CHANGES_MS = 20
const RETRY_MS = 250
const RESTART_MS = 1000

/** Another process has moved a cursor. */
class Overtaken extends Error {}

/** The endpoints that listen, by account; facts before `oldest` are for few of them. */
interface Listeners {
  webhooks: Map<string, WebhookEntry[]>
  nowMs: number
  oldest: string
}

/** Makes one delivery of every event for every endpoint that listens, exactly once. Where the endpoints answer, their
 *  queues take it directly, and its outcome is its first fact. Else the deliveries of a range of facts and the cursor
 *  behind it are one atomic append for each partition, refused when the cursor has moved since. So it may be killed,
 *  repeated and run twice. An endpoint that wants batches gets a member for its next batch instead of a delivery. */
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
  private restart = new AbortController()
  /** By partition, of those that are ours. */
  private direct = new Map<number, DirectDeliveries>()

  constructor (options: FanoutOptions) {
    this.options = options
    this.cursors = new FanoutCursors({ ...options, beforeOpening: partition => this.catchUpCursor(partition) })
    options.dispatch?.onChange(() => this.restart.abort())
  }

  async run (): Promise<void> {
    const { signal } = this.stopping
    while (!signal.aborted) {
      const error = await this.followFacts().then(() => null, asError)
      // What is ours has changed.
      if (error === null || error.name === 'AbortError') continue
      this.onError(error)
      await sleep(RESTART_MS, signal)
    }
  }

  stop (): void {
    this.stopping.abort()
  }

  private async followFacts (): Promise<void> {
    if (this.options.dispatch !== undefined) await sleep(CHANGES_MS, this.stopping.signal)
    const restart = this.restart = new AbortController()
    this.signal = AbortSignal.any([this.stopping.signal, restart.signal])
    await this.begin(restart)
    if (this.direct.size === 0) return await sleep(RESTART_MS, this.signal)
    const facts = follow(this.options.factLog.bus, {
      stream: 'EMAILS',
      filter: 'email.>',
      afterSeq: this.cursors.reachedSoFar,
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
    const looks = repeat({
      name: 'webhook backfills',
      round: () => this.look(),
      againMs: LOOK_EVERY_MS,
      onError: error => this.onError(error)
    })
    try {
      for await (const batch of facts) await this.inTurn(() => this.fanOut(batch))
    } finally {
      restart.abort()
      await looks.stop()
    }
  }

  /** Of the partitions that are ours. What is known of one whose cursor nobody else has moved still holds. */
  private async begin (restart: AbortController): Promise<void> {
    const { dispatch, factLog } = this.options
    const { cursors, signal } = this
    const ours = ALL_PARTITIONS.filter(partition => dispatch === undefined || dispatch.queuesOf(partition) !== null)
    const moved = await cursors.begin(ours, restart, signal)
    const begun = ours.map(async partition => {
      const queues = dispatch?.queuesOf(partition) ?? null
      const cursor = cursors.cursor(partition)
      const known = this.direct.get(partition)
      if (known !== undefined && known.queues === queues && !moved.has(partition)) return [partition, known]
      const tried = queues === null ? new Set<string>() : await triedSince(factLog, partition, cursor, signal)
      return [partition, new DirectDeliveries(queues, cursor, tried)]
    })
    this.direct = new Map(await Promise.all(begun as Array<Promise<[number, DirectDeliveries]>>))
  }

  private inTurn (step: () => Promise<void>): Promise<void> {
    const current = this.lastStep.then(() => this.signal.aborted ? undefined : step())
    // What it left half done is begun again.
    this.lastStep = current.catch(() => this.restart.abort())
    return current
  }

  /** Resolves to the ms until the next time. */
  private async look (): Promise<number> {
    const late = [...this.direct].filter(([_partition, direct]) => direct.isOlderThan(DIRECT_MS_MAX))
    if (late.length > 0 || this.cursors.hasUnopened()) {
      await this.inTurn(async () => {
        await this.retry(() => this.cursors.catchUp(null))
        await allOf(late.map(([partition]) => this.catchUpCursor(partition)))
      })
    }
    return LOOK_EVERY_MS
  }

  /** Every delivery of the facts gone over is in the log then. */
  private async catchUpCursor (partition: number): Promise<void> {
    await this.owe(partition, this.cursors.reachedSoFar, [])
  }

  private async fanOut (facts: Recorded<AnyFact>[]): Promise<void> {
    const accounts = accountsOf(facts)
    await this.retry(() => this.cursors.catchUp(accounts))
    const listeners = this.listenersOf(accounts)
    let owed = emptyPartitions()
    let held = 0
    for (const [i, recorded] of facts.entries()) {
      if (this.signal.aborted) return
      held += this.sort(recorded, listeners, owed)
      if (held < HELD_MAX && i < facts.length - 1) continue
      await this.advance(recorded.seq, owed)
      owed = emptyPartitions()
      held = 0
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
    listening = listening.filter(({ id }) => this.isBehind(webhookPartitionOf(id), seq))
    if (listening.length === 0) return 0
    bodies.put(fact.id, event.body)
    for (const webhook of listening) {
      const partition = webhookPartitionOf(webhook.id)
      const delivery = deliveryOf(fact, seq, event, webhook)
      if ('owed' in delivery && this.direct.get(partition)!.knows(delivery.owed.delivery)) continue
      const ofPartition = owed[partition]!
      if (ofPartition.at(-1)?.seq !== seq) ofPartition.push({ seq, deliveries: [] })
      ofPartition.at(-1)!.deliveries.push(delivery)
    }
    return listening.length
  }

  /** Is the partition ours, and has it not come so far? */
  private isBehind (partition: number, seq: number): boolean {
    return (this.direct.get(partition)?.position ?? Infinity) < seq
  }

  private async advance (through: number, owed: FactDeliveries[][]): Promise<void> {
    await allOf([...this.direct].map(async ([partition, direct]) => {
      const left = direct.pass(owed[partition]!)
      if (left.length > 0 || this.cursors.isLate(partition, through, !direct.isEmpty())) {
        await this.owe(partition, through, left)
      }
      direct.reached(through)
    }))
    if (this.signal.aborted) return
    this.cursors.reached(through)
    this.unhealthyReason = null
  }

  /** Appends what is owed, with what was passed on and has no outcome yet, and the cursor behind it. Throws when
   *  another process has moved the cursor, or the log does not answer: only the log knows then what it holds. */
  private async owe (partition: number, upTo: number, facts: FactDeliveries[]): Promise<void> {
    const direct = this.direct.get(partition)!
    const through = Math.max(upTo, direct.position)
    await direct.close(facts, async owed => {
      while (!this.signal.aborted && this.cursors.cursor(partition).through < through) {
        const part = owed.splice(0, firstPart(owed))
        await this.appendPart(partition, part, owed.length === 0 ? through : part.at(-1)!.seq)
      }
      this.signal.throwIfAborted()
    })
  }

  private async appendPart (partition: number, part: FactDeliveries[], through: number): Promise<void> {
    const deliveries = part.flatMap(({ deliveries }) => deliveries)
    const cursor = this.cursors.cursor(partition)
    const moved = await requestDeliveries(this.options.factLog, partition, cursor, through, deliveries)
    if (moved === null) throw new Overtaken('another process fans out')
    this.cursors.moved(partition, moved)
    const direct = this.direct.get(partition)!
    direct.reached(through)
    for (const [i, delivery] of deliveries.entries()) {
      if ('owed' in delivery) direct.logged(delivery, moved.seq - deliveries.length + i)
    }
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

/** Resolves when all have ended; throws what one of them threw. */
async function allOf (steps: Array<Promise<void>>): Promise<void> {
  await Promise.allSettled(steps)
  await Promise.all(steps)
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
    owed: {
      delivery: deliveryId(events, webhook.id),
      webhook: webhook.id,
      replay: null,
      events,
      batch: false,
      ...formatOf(webhook)
    }
  }
}

/** How many facts' deliveries fit one append, from the first on; one at least, if there are any. */
function firstPart (owed: FactDeliveries[]): number {
  let count = 0
  const end = owed.findIndex(({ deliveries }, i) => (count += deliveries.length) > APPEND_MAX && i > 0)
  return end === -1 ? owed.length : end
}
