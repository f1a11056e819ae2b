import { formBatches, readBatchCursor, readWaiting, scheduleBatch, type WaitingMembers } from '#src/actions/batch.ts'
import type { LiveDirectory } from '#src/actions/directory.ts'
import type { FactLog } from '#src/actions/fact-log.ts'
import { batchDueMs, batchRules, isBatchReady, type BatchRules } from '#streams/delivery/batch.ts'
import { sleep } from '#src/base/backoff.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'

export interface BatcherOptions {
  factLog: FactLog
  directory: LiveDirectory
  log: Log
}

/** Between two reads of the log for one endpoint, unless a batch is full as far as we know: other processes may have
 *  seen the rest of it. */
const FLUSH_EVERY_MS = 100
/** The process that set the schedule forms the batch in time; the schedule is for when that process is gone, and mostly
 *  replaced before it fires. */
const BATCH_SCHEDULE_SLACK_MS = 1000
const SCHEDULE_MS_MIN = 250
/** Before the log is read again after a conflict. */
const CONFLICT_MS = 100
/** After a flush that failed. */
const RETRY_MS = 1000
const CATCH_UP_MS = 2000

/** Puts one endpoint's events into batches. The waiting events are in the log, so any number of processes may do so. */
export class Batcher {
  private readonly options: BatcherOptions
  private readonly webhook: string
  /** All members up to this sequence are in batches. */
  private through = 0
  /** Members that waited in the log at the last flush, and those that joined since. */
  private waiting = 0
  private joinedSince = 0
  /** The sequence of the latest member that must be in the log. */
  private newest = 0
  /** The sequence of the member that the schedule is for; null = there may be no schedule. */
  private scheduledFor: number | null = null
  private timer: NodeJS.Timeout | null = null
  /** When the oldest waiting member joined, and when the timer fires for it. */
  private oldestMs = 0
  private dueMs = 0
  private readonly closing = new AbortController()
  private current: Promise<void> | null = null
  private next: Promise<void> | null = null
  /** Ends the pause before the next flush. */
  private hurry = new AbortController()
  private flushedMs = -Infinity

  constructor (options: BatcherOptions, webhook: string) {
    this.options = options
    this.webhook = webhook
  }

  /** Forms the batches that are ready. Resolves once every member in the log is in a batch, or a schedule will have
   *  some process flush again. One flush at a time: all callers during one share the next. Throws what kept it from
   *  that. */
  flush (): Promise<void> {
    this.next ??= this.flushNext()
    return this.next
  }

  /** A member of this sequence has joined. Resolves and throws as `flush` does. */
  async joined (seq: number): Promise<void> {
    if (seq <= this.through) return
    this.joinedSince++
    this.newest = Math.max(this.newest, seq)
    const flushed = this.flush()
    if (this.isFull()) this.hurry.abort()
    await flushed
  }

  /** The endpoint's schedule has fired: there is none any more. */
  async scheduleFired (): Promise<void> {
    this.scheduledFor = null
    await this.flush()
  }

  /** Flushes when the endpoint's settings have changed so that the batch is due earlier. */
  checkSettings (): void {
    if (this.timer !== null && batchDueMs(this.oldestMs, this.rules()) < this.dueMs) this.flushSoon()
  }

  /** Nothing waits in this process: the batcher can be dropped. */
  isIdle (): boolean {
    return this.current === null && this.next === null && this.timer === null
  }

  /** Forms no more batches; waiting members have their schedule. */
  close (): void {
    this.closing.abort()
    this.stopTimer()
    this.hurry.abort()
  }

  private async flushNext (): Promise<void> {
    this.hurry = new AbortController()
    await this.current?.catch(() => {})
    const pauseMs = this.flushedMs + FLUSH_EVERY_MS - performance.now()
    if (pauseMs > 0 && !this.closing.signal.aborted && !this.isFull()) await sleep(pauseMs, this.hurry.signal)
    this.next = null
    this.current = this.flushNow().finally(() => {
      this.current = null
    })
    await this.current
  }

  private async flushNow (): Promise<void> {
    this.stopTimer()
    this.joinedSince = 0
    try {
      const left = await this.form()
      this.flushedMs = performance.now()
      this.waiting = left?.count ?? 0
      if (left !== null) return await this.schedule(left)
      if (this.newest > this.through) throw new Error('an event has not reached every replica of the log yet')
    } catch (error) {
      this.startTimer(RETRY_MS)
      throw error
    }
  }

  /** Forms the batches that are ready; resolves to the members that still wait, or null. */
  private async form (): Promise<WaitingMembers | null> {
    const { factLog, directory, log } = this.options
    const { webhook, closing: { signal } } = this
    for (;;) {
      const cursor = await readBatchCursor(factLog, webhook)
      this.through = Math.max(this.through, cursor.through)
      const left = await readWaiting(factLog, webhook, cursor)
      if (left === null || signal.aborted || !this.isReady(left)) return left
      // Until the directory has caught up, a new endpoint seems to want no batches, and a changed one others.
      if (!await directory.catchUp(CATCH_UP_MS)) throw new Error('the directory is behind')
      const formed = await formBatches(factLog, webhook, cursor, this.rules())
      if (formed === 0) return left
      // Another process was first, and the replica that we read may not have its append yet.
      if (formed === null) await sleep(CONFLICT_MS, signal)
      else log.debug({ webhook, batches: formed }, 'webhook batches formed')
    }
  }

  private isReady ({ count, oldest }: WaitingMembers): boolean {
    return isBatchReady(count, oldest.joinedMs, this.rules(), this.options.factLog.clock.nowMs())
  }

  /** By a timer in this process, and by a schedule should this process be gone. */
  private async schedule ({ oldest }: WaitingMembers): Promise<void> {
    const { factLog } = this.options
    const nowMs = factLog.clock.nowMs()
    this.oldestMs = oldest.joinedMs
    this.dueMs = batchDueMs(this.oldestMs, this.rules())
    this.startTimer(Math.max(1, this.dueMs - nowMs))
    if (this.scheduledFor === oldest.seq) return
    await scheduleBatch(factLog, this.webhook, Math.max(this.dueMs + BATCH_SCHEDULE_SLACK_MS, nowMs + SCHEDULE_MS_MIN))
    this.scheduledFor = oldest.seq
  }

  private startTimer (ms: number): void {
    if (this.closing.signal.aborted) return
    this.timer ??= setTimeout(() => {
      this.timer = null
      this.flushSoon()
    }, ms)
  }

  private stopTimer (): void {
    if (this.timer !== null) clearTimeout(this.timer)
    this.timer = null
  }

  private flushSoon (): void {
    this.flush().catch(error => {
      if (this.closing.signal.aborted) return
      this.options.log.warn({ err: asError(error), webhook: this.webhook }, 'webhook batches interrupted; retrying')
    })
    this.hurry.abort()
  }

  private rules (): BatchRules {
    return batchRules(this.options.directory.now.webhooks.get(this.webhook))
  }

  private isFull (): boolean {
    return this.waiting + this.joinedSince >= this.rules().maxEvents
  }
}
