import { formBatches, readBatchCursor, readWaiting, scheduleBatch, type WaitingMembers } from '#src/actions/batch.ts'
import type { LiveDirectory } from '#src/actions/directory.ts'
import type { Appenders } from '#src/actions/appenders.ts'
import { batchDueMs, batchRules, isBatchReady } from '#streams/delivery/batch.ts'
import { sleep } from '#src/base/backoff.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'

export interface GathererOptions {
  appenders: Appenders
  directory: LiveDirectory
  log: Log
}

/** Puts one endpoint's events into batches. What waits is in the log, so any number of processes may do so. */
export interface Gatherer {
  /** An event of this sequence has come. Resolves once it is in a batch, or a schedule will have somebody look who may
   *  be another process. Throws what kept it from that. */
  joined(seq: number): Promise<void>
  /** The same for whatever waits in the log. */
  look(): Promise<void>
  /** The endpoint's schedule has fired: there is none any more. */
  fired(): Promise<void>
  /** Looks when the endpoint has changed so that what waits is due earlier. */
  heed(): void
  /** Nothing waits here: it can be forgotten. */
  idle(): boolean
  /** Forms nothing more; what waits has its schedule. */
  close(): void
}

/** Between two looks at the log for one endpoint, unless a batch is full for all we know: others may have seen the rest
 *  of it. */
const LOOK_MS = 100
/** The process that set the schedule forms the batch in time; the schedule is for when it is gone, and mostly replaced
 *  before it fires. */
const SCHEDULE_LATE_MS = 1000
const SCHEDULE_MS_MIN = 250
/** Before the log is read again. */
const TURN_MS = 100
/** After a look that failed. */
const AGAIN_MS = 1000
const CATCH_UP_MS = 2000

export function createGatherer ({ appenders, directory, log }: GathererOptions, webhook: string): Gatherer {
  const { clock } = appenders
  let through = 0
  /** Waiting in the log when last looked at, and come since. */
  let waiting = 0
  let come = 0
  /** The sequence of the member that the schedule is for; null = there may be none. */
  let scheduledFor: number | null = null
  let timer: NodeJS.Timeout | null = null
  /** What the timer is for. */
  let oldestMs = 0
  let dueMs = 0
  /** The latest member that we know must be in the log. */
  let newest = 0
  const leaving = new AbortController()
  let now: Promise<void> | null = null
  let next: Promise<void> | null = null
  let hurry = new AbortController()
  let lookedMs = -Infinity

  /** One look at a time; all who ask while one is under way share the next. */
  function look (): Promise<void> {
    next ??= lookNext()
    return next
  }

  async function lookNext (): Promise<void> {
    hurry = new AbortController()
    await now?.catch(() => {})
    const pauseMs = lookedMs + LOOK_MS - performance.now()
    if (pauseMs > 0 && !leaving.signal.aborted && !isFull()) await sleep(pauseMs, hurry.signal)
    next = null
    now = lookNow().finally(() => {
      now = null
    })
    await now
  }

  async function lookNow (): Promise<void> {
    if (timer !== null) clearTimeout(timer)
    timer = null
    come = 0
    try {
      const left = await form()
      lookedMs = performance.now()
      waiting = left?.count ?? 0
      if (left !== null) return await remember(left)
      if (newest > through) throw new Error('an event has not reached every copy of the log yet')
    } catch (error) {
      wake(AGAIN_MS)
      throw error
    }
  }

  /** Forms what is ready, and says what is left. */
  async function form (): Promise<WaitingMembers | null> {
    for (;;) {
      const cursor = await readBatchCursor(appenders, webhook)
      through = Math.max(through, cursor.through)
      const left = await readWaiting(appenders, webhook, cursor)
      if (left === null || leaving.signal.aborted || !isReady(left)) return left
      // An endpoint that is new here seems to want no batches, one that has changed others.
      if (!await directory.catchUp(CATCH_UP_MS)) throw new Error('the directory is behind')
      const formed = await formBatches(appenders, webhook, cursor, rules())
      if (formed === 0) return left
      // Another was quicker, and the copy of the log that we read may not have heard of it yet.
      if (formed === null) await sleep(TURN_MS, leaving.signal)
      else log.debug({ webhook, batches: formed }, 'webhook batches formed')
    }
  }

  function isReady ({ count, oldest }: WaitingMembers): boolean {
    return isBatchReady(count, oldest.joinedMs, rules(), clock.nowMs())
  }

  /** Here by a timer, and by a schedule for when we are gone. */
  async function remember ({ oldest }: WaitingMembers): Promise<void> {
    const nowMs = clock.nowMs()
    oldestMs = oldest.joinedMs
    dueMs = batchDueMs(oldestMs, rules())
    wake(Math.max(1, dueMs - nowMs))
    if (scheduledFor === oldest.seq) return
    await scheduleBatch(appenders, webhook, Math.max(dueMs + SCHEDULE_LATE_MS, nowMs + SCHEDULE_MS_MIN))
    scheduledFor = oldest.seq
  }

  function wake (ms: number): void {
    if (leaving.signal.aborted) return
    timer ??= setTimeout(() => {
      timer = null
      lookSoon()
    }, ms)
  }

  function lookSoon (): void {
    look().catch(error => {
      if (!leaving.signal.aborted) log.warn({ err: asError(error), webhook }, 'webhook batches wait')
    })
    hurry.abort()
  }

  function rules () {
    return batchRules(directory.now.webhooks.get(webhook))
  }

  function isFull (): boolean {
    return waiting + come >= rules().maxEvents
  }

  return {
    look,
    async joined (seq) {
      if (seq <= through) return
      come++
      newest = Math.max(newest, seq)
      const looked = look()
      if (isFull()) hurry.abort()
      await looked
    },
    async fired () {
      scheduledFor = null
      await look()
    },
    heed () {
      if (timer !== null && batchDueMs(oldestMs, rules()) < dueMs) lookSoon()
    },
    idle: () => now === null && next === null && timer === null,
    close () {
      leaving.abort()
      if (timer !== null) clearTimeout(timer)
      hurry.abort()
    }
  }
}
