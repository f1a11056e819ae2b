import { advanceDispatch, moveDelivery, readDispatchCursor, type DispatchCursor } from '#src/actions/delivery.ts'
import type { LiveDirectory } from '#src/actions/directory.ts'
import { causedBy, type FactLog } from '#src/actions/fact-log.ts'
import { sleep } from '#src/base/backoff.ts'
import { timestamp } from '#src/base/clock.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import { repeat } from '#src/base/repeat.ts'
import { Conflict } from '#src/nats/errors.ts'
import { follow } from '#src/nats/follow.ts'
import { getFact, lastSequence } from '#src/nats/get.ts'
import { decodeMessage } from '#src/nats/message.ts'
import { readMessages, readRange } from '#src/nats/range.ts'
import { giveUpReason, type Pending } from '#streams/delivery/decide.ts'
import { QUEUES_BEHIND_MAX, type DispatchAdvanced } from '#streams/delivery/facts.ts'
import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import type { WebhookEntry } from '#streams/directory.ts'
import { DELIVERY_KINDS, subjects, type DeliveryKind } from '#streams/subjects.ts'
import type { DeliveryQueue, Entry } from './delivery-queue.ts'
import type { DirectQueues } from './direct.ts'
import type { DeliveryWorker } from './delivery-worker.ts'
import { Endpoint, type EndpointRules } from './endpoint.ts'

export interface PartitionOptions {
  factLog: FactLog
  directory: LiveDirectory
  worker: DeliveryWorker
  rules: Pick<EndpointRules, 'probeMs' | 'hastenAttemptsMax' | 'memory'>
  /** Whether this process still works the partition. */
  isHeld(): boolean
  /** Told whenever it has begun to work, and when it ends. */
  onChange(): void
  log: Log
}

/** Unless the endpoint's owner chose another number. */
const CONCURRENCY = 8
const FACTS_MAX = 500
const GATHER_MS = 1
/** Deliveries read at once for a queue that has left some in the log. */
const PAGE = { max: 1000, bytesMax: 1024 * 1024 }
/** How often it is looked whether an endpoint was paused, resumed or ended, and more must be read. */
const LOOK_MS = 250
const EXPIRE_MS = 60_000
const CURSOR_MS = 5000
const CURSOR_AGAIN_MS = 1000
const CURSOR_MS_MAX = 30_000
/** A queue so many facts behind has a place of its own in the cursor. */
const BEHIND = 2000
const RESTART_MS = 1000
/** Deliveries that are said again, or expire in a pause, in one look. */
const STEPS_MAX = 500
const RESTORED_AT_ONCE = 4

/** A queue that is read from its own place in the log. */
type Behind = DispatchAdvanced['data']['behind'][number]

/** Dispatches the deliveries of one partition: a fold over its facts, from the cursor on. What has ended is in the log
 *  before the cursor passes it, so that the process that takes the partition over goes on where this process was. */
export class Partition {
  unhealthyReason: string | null = 'starting'
  /** As long as it works. */
  queues: DirectQueues | null = null
  private readonly options: PartitionOptions
  private readonly partition: number
  private readonly endpoints = new Map<string, Endpoint>()
  /** Queues that are being read from their own place. */
  private readonly restoring = new Map<DeliveryQueue, Behind>()
  private readonly stopping = new AbortController()
  private position: Record<DeliveryKind, number> = { delivery: 0, redelivery: 0 }
  private cursor: DispatchCursor | null = null
  /** When it was last looked what a pause has held for too long. */
  private expiredMs = 0
  private readonly running: Promise<void>

  constructor (options: PartitionOptions, partition: number) {
    this.options = options
    this.partition = partition
    this.running = this.run()
  }

  /** Begins nothing any more; resolves when what was under way has ended and the cursor says so. */
  async stop (): Promise<void> {
    this.stopping.abort()
    await this.running
  }

  private async run (): Promise<void> {
    const { signal } = this.stopping
    while (!signal.aborted) {
      await this.work().catch(error => this.onError(asError(error)))
      await this.drain()
      await sleep(RESTART_MS, signal)
    }
  }

  private async work (): Promise<void> {
    const { bus } = this.options.factLog
    const ending = new AbortController()
    const signal = AbortSignal.any([this.stopping.signal, ending.signal])
    const cursor = await readDispatchCursor(this.options.factLog, this.partition)
    const endSeq = await lastSequence(bus, 'WEBHOOKS')
    this.position = { delivery: cursor.delivery, redelivery: cursor.redelivery }
    this.beginBehind(cursor.behind)
    await Promise.all(DELIVERY_KINDS.map(kind => this.restore(kind, cursor[kind], endSeq, signal)))
    // Cut off, the fold lacks deliveries that a cursor must not pass.
    if (signal.aborted) return
    for (const { queues } of this.endpoints.values()) {
      for (const kind of DELIVERY_KINDS) if (!this.restoring.has(queues[kind])) queues[kind].folded(endSeq)
    }
    this.position = { delivery: endSeq, redelivery: endSeq }
    this.cursor = cursor
    this.unhealthyReason = null
    for (const endpoint of this.endpoints.values()) endpoint.pump()
    this.open(signal)
    const rounds = [this.looks(), this.cursors(ending)]
    try {
      await Promise.all([
        this.restoreBehind(endSeq, signal),
        ...DELIVERY_KINDS.map(kind => this.follow(kind, endSeq, signal))
      ])
    } finally {
      this.queues = null
      this.options.onChange()
      ending.abort()
      await Promise.all(rounds.map(round => round.stop()))
    }
  }

  /** From now on deliveries may come before their facts. */
  private open (signal: AbortSignal): void {
    this.queues = {
      accepts: (id, afterSeq) => {
        if (signal.aborted || !this.options.isHeld() || this.position.delivery < afterSeq) return false
        const endpoint = this.endpointOf(id)
        const isPaused = this.options.directory.now.webhooks.get(id)?.paused === true
        return !isPaused && !endpoint.isFailing() && endpoint.queues.delivery.hasRoom()
      },
      take: ({ owed, fact }, inTurn) => {
        const endpoint = this.endpointOf(owed.webhook)
        const dueAt = timestamp(this.options.factLog.clock.nowMs())
        endpoint.queues.delivery.offerDirect(
          { owed, ...causedBy(fact), attempts: 0, firstAttemptAt: null, dueAt },
          this.position.delivery + 1,
          inTurn
        )
        endpoint.pump()
      },
      logged: ({ owed }, seq) => this.endpointOf(owed.webhook).queues.delivery.foretell(owed.delivery, seq)
    }
    this.options.onChange()
  }

  /** What the partition's queues have come to since the cursor, but for those with a place of their own. */
  private async restore (kind: DeliveryKind, afterSeq: number, endSeq: number, signal: AbortSignal): Promise<void> {
    const filters = [subjects.deliveryFacts(kind, this.partition)]
    const { factLog: { bus } } = this.options
    const onError = (error: Error) => this.onError(error)
    for await (const page of readRange(bus, { stream: 'WEBHOOKS', filters, afterSeq, endSeq, signal, onError })) {
      for (const message of page) {
        const queue = this.queueOf(message.subject.split('.')[3]!, kind)
        if (!this.restoring.has(queue)) queue.apply(decodeMessage(message))
      }
    }
  }

  private beginBehind (all: Behind[]): void {
    for (const behind of all) {
      const queue = this.queueOf(behind.webhook, behind.kind)
      queue.foldFrom(behind.through)
      this.restoring.set(queue, behind)
    }
  }

  /** The nearest first: a queue with one old delivery must not wait for those of dead endpoints. */
  private async restoreBehind (endSeq: number, signal: AbortSignal): Promise<void> {
    const left = [...this.restoring].toSorted(([, a], [, b]) => b.through - a.through)
    await Promise.all(Array.from({ length: RESTORED_AT_ONCE }, async () => {
      for (let next = left.shift(); next !== undefined && !signal.aborted; next = left.shift()) {
        await this.restoreQueue(...next, endSeq, signal)
      }
    }))
  }

  private async restoreQueue (
    queue: DeliveryQueue,
    { webhook, through: afterSeq }: Behind,
    endSeq: number,
    signal: AbortSignal
  ): Promise<void> {
    const { factLog: { bus } } = this.options
    const filters = [queue.subject, `${queue.subject}.>`]
    const onError = (error: Error) => this.onError(error)
    for await (const page of readRange(bus, { stream: 'WEBHOOKS', filters, afterSeq, endSeq, signal, onError })) {
      for (const message of page) queue.apply(decodeMessage(message))
    }
    if (signal.aborted) return
    queue.folded(endSeq)
    this.restoring.delete(queue)
    this.endpoints.get(webhook)?.pump()
  }

  private async follow (kind: DeliveryKind, afterSeq: number, signal: AbortSignal): Promise<void> {
    const facts = follow(this.options.factLog.bus, {
      stream: 'WEBHOOKS',
      filter: subjects.deliveries(kind, this.partition),
      afterSeq,
      batchMax: FACTS_MAX,
      gather: () => sleep(GATHER_MS),
      signal,
      onError: error => this.onError(error),
      onFollowing: () => {
        this.unhealthyReason = null
      }
    })
    for await (const batch of facts) {
      const touched = new Set<Endpoint>()
      for (const recorded of batch) {
        const endpoint = this.endpointOf(recorded.subject.split('.')[3]!)
        endpoint.queues[kind].offer(recorded)
        touched.add(endpoint)
      }
      this.position[kind] = batch.at(-1)!.seq
      for (const endpoint of touched) endpoint.pump()
    }
  }

  private looks () {
    return repeat({
      name: 'webhook endpoints',
      round: async () => {
        const nowMs = this.options.factLog.clock.nowMs()
        const expires = nowMs - this.expiredMs >= EXPIRE_MS
        if (expires) this.expiredMs = nowMs
        for (const endpoint of this.endpoints.values()) {
          await this.look(endpoint, expires).catch(error => this.onError(asError(error)))
        }
        return LOOK_MS
      },
      againMs: CURSOR_AGAIN_MS,
      onError: error => this.onError(error)
    })
  }

  private async look (endpoint: Endpoint, expires: boolean): Promise<void> {
    if (endpoint.isIdle()) {
      endpoint.close()
      this.endpoints.delete(endpoint.id)
      return
    }
    const webhook = this.options.directory.now.webhooks.get(endpoint.id)
    for (const kind of DELIVERY_KINDS) {
      const queue = endpoint.queues[kind]
      if (queue.wantsMore) await this.refill(queue)
      if (webhook?.paused !== true) await this.move(queue)
      else if (expires) await this.expire(queue, webhook)
    }
    if (webhook === undefined || webhook.disabled !== null) endpoint.release()
    else endpoint.pump()
  }

  /** Reads what was left in the log. */
  private async refill (queue: DeliveryQueue): Promise<void> {
    const { bus } = this.options.factLog
    const { subject: filter, leftBehind } = queue
    const { messages } = await readMessages(bus, 'WEBHOOKS', { filter, afterSeq: queue.position }, PAGE)
    queue.refill(messages.map(decodeMessage))
    if (messages.length > 0) return
    // A replica may not have it yet: only the leader says that there is no more.
    const from = { seq: queue.position + 1, next_by_subj: filter }
    if (await getFact(bus, 'WEBHOOKS', from, 'leader') === null) queue.atEnd(leftBehind)
  }

  /** What a pause has held for too long ends. */
  private async expire (queue: DeliveryQueue, webhook: WebhookEntry): Promise<void> {
    const { factLog: { clock }, worker } = this.options
    const { account } = webhook
    const reasonOf = ({ attempts, firstAttemptAt, dueMs }: Entry) =>
      giveUpReason({ account, attempts, firstAttemptAt, dueAt: timestamp(dueMs) }, webhook, clock.nowMs())
    await this.stepAll(queue, queue.waiting().filter(entry => reasonOf(entry) !== null), async (pending, entry) => {
      return await worker.giveUp(pending, reasonOf(entry)!)
    })
  }

  private async move (queue: DeliveryQueue): Promise<void> {
    await this.stepAll(queue, queue.lagging(), async pending => await moveDelivery(this.options.factLog, pending))
  }

  /** Some of the entries, each taken meanwhile: no request is made for it. */
  private async stepAll (
    queue: DeliveryQueue,
    entries: Entry[],
    step: (pending: Pending, entry: Entry) => Promise<Recorded<AnyFact>>
  ): Promise<void> {
    for (const entry of entries.slice(0, STEPS_MAX)) {
      if (this.stopping.signal.aborted || !this.options.isHeld()) return
      if (entry.direct !== null || !queue.takeOne(entry)) continue
      try {
        const pending = await this.options.worker.pendingOf(entry, queue)
        if (pending === null) queue.forget(entry)
        else queue.apply(await step(pending, entry))
      } catch (error) {
        queue.putBack(entry, entry.dueMs)
        throw error
      }
    }
  }

  /** Says how far the partition has come. Refused = another process works it: this one begins again, if it still may.
   */
  private cursors (ending: AbortController) {
    return repeat({
      name: 'webhook dispatch cursor',
      round: async () => {
        await this.advance().catch(error => {
          if (!(error instanceof Conflict)) throw error
          this.onError(error)
          ending.abort()
        })
        return CURSOR_MS
      },
      firstInMs: CURSOR_MS,
      againMs: CURSOR_AGAIN_MS,
      roundMsMax: CURSOR_MS_MAX,
      onError: error => this.onError(error)
    })
  }

  private async advance (): Promise<void> {
    const { cursor } = this
    if (cursor === null || !this.options.isHeld()) return
    const { seq, ...before } = cursor
    const now = this.reached()
    if (JSON.stringify(now) === JSON.stringify(before)) return
    this.cursor = { ...now, seq: await advanceDispatch(this.options.factLog, now, seq) }
  }

  private reached (): DispatchAdvanced['data'] {
    const now = { partition: this.partition, ...this.position, behind: [] as Behind[] }
    const late: Behind[] = []
    for (const { id: webhook, queues } of this.endpoints.values()) {
      for (const kind of DELIVERY_KINDS) {
        const through = queues[kind].through()
        const isLate = this.restoring.has(queues[kind]) || through < this.position[kind] - BEHIND
        if (isLate) late.push({ webhook, kind, through })
        else now[kind] = Math.min(now[kind], through)
      }
    }
    late.sort((a, b) => a.through - b.through)
    now.behind = late.slice(0, QUEUES_BEHIND_MAX)
    for (const { kind, through } of late.slice(QUEUES_BEHIND_MAX)) now[kind] = Math.min(now[kind], through)
    return now
  }

  /** Waits for what is under way, says how far that has come, and forgets all. */
  private async drain (): Promise<void> {
    for (const endpoint of this.endpoints.values()) endpoint.close()
    while ([...this.endpoints.values()].some(endpoint => endpoint.isBusy())) await sleep(10)
    await this.advance().catch(() => {})
    for (const { queues } of this.endpoints.values()) for (const kind of DELIVERY_KINDS) queues[kind].close()
    this.endpoints.clear()
    this.restoring.clear()
    this.cursor = null
  }

  private queueOf (webhook: string, kind: DeliveryKind): DeliveryQueue {
    return this.endpointOf(webhook).queues[kind]
  }

  private endpointOf (id: string): Endpoint {
    const known = this.endpoints.get(id)
    if (known !== undefined) return known
    const { factLog, directory, worker, rules } = this.options
    const endpoint = new Endpoint(id, {
      ...rules,
      concurrency: () => directory.now.webhooks.get(id)?.concurrency ?? CONCURRENCY,
      mayStart: running =>
        this.cursor !== null && this.options.isHeld() && directory.now.webhooks.get(id)?.paused !== true &&
        worker.hasRoom(running),
      deliver: (entry, queue) => worker.deliver(id, entry, queue, () => endpoint.pump()),
      nowMs: () => factLog.clock.nowMs()
    }, this.position)
    if (this.cursor !== null) { for (const kind of DELIVERY_KINDS) endpoint.queues[kind].folded(this.position[kind]) }
    this.endpoints.set(id, endpoint)
    return endpoint
  }

  private onError (error: Error): void {
    if (this.stopping.signal.aborted) return
    this.unhealthyReason = `webhook deliveries wait: ${error.message}`
    this.options.log.warn({ err: error, partition: this.partition }, 'webhook dispatch interrupted; retrying')
  }
}
