/** How many jobs of one class (background or not) may run and wait in one queue now: `share` in any queue, `max` in
 *  one that drains fast. */
export interface QueueLimits {
  share: number
  max: number
}

export interface EndpointJob {
  /** Jobs with the same key run one after the other, in the order they came. */
  orderingKey: string
  /** A background job runs while no other job waits, or in its turn after many others, and on half of the endpoint's
   *  concurrency at most (at least one). */
  background: boolean
  /** Must not throw. */
  run(): Promise<JobOutcome>
}

/** `success`: true when the endpoint answered as it should, false when it failed, null when the job says nothing about
 *  the endpoint. `holdMs`: how long the endpoint asks not to be called. */
export interface JobOutcome {
  success: boolean | null
  holdMs: number
}

/** `ran`; `full` = enough jobs wait here, come back at a reserved time; `failing` = the endpoint fails, come back
 *  later; `closed` = this process stops. */
export type QueueResult = 'ran' | 'full' | 'failing' | 'closed'

export interface EndpointQueueRules {
  /** Jobs at once while the endpoint works; may change. */
  concurrency(): number
  /** Failures in a row after which the endpoint counts as failing: from then on one job at a time. */
  failuresMax: number
  /** Jobs that may wait for the next probe of a failing endpoint; the others are deferred. Background jobs may not
   *  wait. */
  probesWaitingMax: number
  /** Pause after the first failure of a failing endpoint, in ms. It doubles with each further one up to `pauseMsMax`.
   */
  pauseMs: number
  pauseMsMax: number
  /** A `Retry-After` keeps probes away for so long at most. */
  holdMsMax: number
  /** A queue that, at its throughput of the last second, drains within so many seconds may exceed its share: deferring
   *  costs more than a request. */
  drainSMax: number
  /** Other jobs that go before a waiting background job, and how long that one waits here at most: then it ends as
   *  `full`. */
  backgroundTurns: number
  backgroundWaitMsMax: number
  /** A reservation is at least so far ahead: schedules fire no finer. */
  reserveMsMin: number
  nowMs(): number
}

const WATCH_MS = 1000
/** The first estimate of a request's duration; each request then counts for a tenth. */
const DURATION_MS = 20
const DURATION_WEIGHT = 0.1

interface WaitingJob {
  job: EndpointJob
  sinceMs: number
  end: (result: QueueResult) => void
}

/** The jobs of one class: those that wait, how many run, until when places are reserved. */
class JobClass {
  readonly waiting: WaitingJob[] = []
  running = 0
  reservedMs = 0

  get size (): number {
    return this.running + this.waiting.length
  }
}

/** The jobs of one endpoint in this process. An endpoint that hangs, fails or is slow holds up no other: it has its own
 *  places, and jobs that find none are deferred. While it fails it is probed, one request at a time with growing
 *  pauses; the first success opens the queue again. */
export class EndpointQueue {
  private readonly rules: EndpointQueueRules
  private readonly live = new JobClass()
  private readonly background = new JobClass()
  private readonly runningKeys = new Set<string>()
  private readonly throughput: Throughput
  private failures = 0
  private nextProbeMs = 0
  private heldUntilMs = 0
  private probeTimer: NodeJS.Timeout | null = null
  private watchTimer: NodeJS.Timeout | null = null
  private closed = false
  private exceedsShare = false
  private durationMs = DURATION_MS
  /** Other jobs run since a background job last did. */
  private turns = 0

  constructor (rules: EndpointQueueRules) {
    this.rules = rules
    this.throughput = new Throughput(rules.nowMs)
  }

  /** Runs `job` when its turn comes. Resolves to `ran`, or to why it did not run. */
  add (job: EndpointJob, limits: QueueLimits): Promise<QueueResult> {
    const jobClass = this.classOf(job)
    const refused = this.closed ? 'closed' : this.refusal(jobClass, limits)
    if (refused !== null) return Promise.resolve(refused)
    if (this.exceedsShare || job.background) this.watchTimer ??= setTimeout(() => this.giveBack(), WATCH_MS)
    return new Promise(end => {
      jobClass.waiting.push({ job, sinceMs: this.rules.nowMs(), end })
      this.startJobs()
    })
  }

  /** Reserves a place for one more job that found the queue `full`: Unix ms when a place should be free, by the
   *  duration of the latest requests. */
  reserve (background: boolean): number {
    const jobClass = background ? this.background : this.live
    const fromMs = Math.max(jobClass.reservedMs, this.rules.nowMs() + this.rules.reserveMsMin)
    jobClass.reservedMs = fromMs + this.durationMs / this.placesOf(jobClass)
    return Math.round(jobClass.reservedMs)
  }

  /** Nothing runs or waits, and no failure is remembered: the queue can be dropped. */
  isIdle (): boolean {
    return this.live.waiting.length + this.background.waiting.length + this.runningKeys.size + this.failures === 0
  }

  /** Takes no more jobs; those that wait end as `closed`. */
  close (): void {
    this.closed = true
    if (this.probeTimer !== null) clearTimeout(this.probeTimer)
    if (this.watchTimer !== null) clearTimeout(this.watchTimer)
    for (const entry of [...this.live.waiting.splice(0), ...this.background.waiting.splice(0)]) entry.end('closed')
  }

  private classOf ({ background }: EndpointJob): JobClass {
    return background ? this.background : this.live
  }

  private isFailing (): boolean {
    return this.failures >= this.rules.failuresMax
  }

  /** Jobs that may wait for a probe: a replay must not take the place of a new event. */
  private probesWaitingMax (jobClass: JobClass): number {
    return jobClass === this.live ? this.rules.probesWaitingMax : 0
  }

  private placesOf (jobClass: JobClass): number {
    const concurrency = this.rules.concurrency()
    return jobClass === this.live ? concurrency : Math.max(1, concurrency >> 1)
  }

  private refusal (jobClass: JobClass, { share, max }: QueueLimits): 'full' | 'failing' | null {
    const { size } = jobClass
    if (this.isFailing() && size >= Math.min(share, 1 + this.probesWaitingMax(jobClass))) return 'failing'
    if (size < share) return null
    const drainable = this.throughput.perSecond() * this.rules.drainSMax
    if (jobClass !== this.live || size >= Math.min(max, drainable)) return 'full'
    this.exceedsShare = true
    return null
  }

  /** Gives places back that others may need: those beyond its share when the queue has stopped draining, and those of
   *  background jobs that have waited too long. */
  private giveBack (): void {
    const { live, background, rules } = this
    const stalled = this.throughput.perSecond() === 0
    const excess = this.exceedsShare && stalled ? live.waiting.splice(rules.concurrency()) : []
    this.exceedsShare &&= !stalled && live.waiting.length > 0
    const young = background.waiting.findIndex(({ sinceMs }) => rules.nowMs() - sinceMs < rules.backgroundWaitMsMax)
    const old = background.waiting.splice(0, young === -1 ? Infinity : young)
    for (const entry of [...excess, ...old]) entry.end('full')
    const watched = this.exceedsShare || background.waiting.length > 0
    this.watchTimer = watched ? setTimeout(() => this.giveBack(), WATCH_MS) : null
  }

  private startJobs (): void {
    if (this.turns >= this.rules.backgroundTurns) this.startOf(this.background, 1)
    this.startOf(this.live)
    if (this.live.waiting.length === 0) this.startOf(this.background)
  }

  private startOf (jobClass: JobClass, max = Infinity): void {
    const { waiting } = jobClass
    for (let i = 0, started = 0; i < waiting.length && started < max && this.mayRun(jobClass);) {
      const { orderingKey } = waiting[i]!.job
      // Behind a job with the same key that runs, or waits further ahead.
      const behind = this.runningKeys.has(orderingKey) ||
        waiting.findIndex(({ job }) => job.orderingKey === orderingKey) < i
      if (behind) i++
      else {
        started++
        void this.run(waiting.splice(i, 1)[0]!)
      }
    }
    if (waiting.length === 0) jobClass.reservedMs = 0
  }

  private mayRun (jobClass: JobClass): boolean {
    const failing = this.isFailing()
    if (this.closed || this.runningKeys.size >= (failing ? 1 : this.rules.concurrency())) return false
    if (jobClass.running >= this.placesOf(jobClass)) return false
    const waitMs = failing ? this.nextProbeMs - this.rules.nowMs() : 0
    if (waitMs > 0) this.probeTimer ??= setTimeout(() => this.probe(), waitMs)
    return waitMs <= 0
  }

  private probe (): void {
    this.probeTimer = null
    this.startJobs()
  }

  private async run ({ job, end }: WaitingJob): Promise<void> {
    const jobClass = this.classOf(job)
    const probe = this.isFailing()
    const startedMs = this.rules.nowMs()
    this.runningKeys.add(job.orderingKey)
    jobClass.running++
    this.turns = job.background || this.background.waiting.length === 0 ? 0 : this.turns + 1
    const { success, holdMs } = await job.run()
    this.runningKeys.delete(job.orderingKey)
    jobClass.running--
    this.throughput.count()
    this.durationMs += (this.rules.nowMs() - startedMs - this.durationMs) * DURATION_WEIGHT
    if (success === true) this.failures = this.heldUntilMs = 0
    if (success === false) this.fail(probe, holdMs)
    end('ran')
    this.startJobs()
  }

  /** Requests that were under way when the endpoint began to fail count no further. */
  private fail (probe: boolean, holdMs: number): void {
    const { rules } = this
    const nowMs = rules.nowMs()
    this.failures = probe ? this.failures + 1 : Math.min(this.failures + 1, rules.failuresMax)
    this.heldUntilMs = Math.max(this.heldUntilMs, nowMs + Math.min(holdMs, rules.holdMsMax))
    if (!this.isFailing()) return
    const pauseMs = rules.pauseMs * 2 ** Math.min(this.failures - rules.failuresMax, 30)
    this.nextProbeMs = Math.max(this.heldUntilMs, nowMs + Math.min(pauseMs, rules.pauseMsMax))
    for (const jobClass of [this.live, this.background]) {
      for (const entry of jobClass.waiting.splice(this.probesWaitingMax(jobClass))) entry.end('failing')
    }
  }
}

/** Jobs that ended in the last whole second, or in this one if there are more already. */
class Throughput {
  private readonly nowMs: () => number
  private second = 0
  private current = 0
  private previous = 0

  constructor (nowMs: () => number) {
    this.nowMs = nowMs
  }

  count (): void {
    this.turnSecond()
    this.current++
  }

  perSecond (): number {
    this.turnSecond()
    return Math.max(this.current, this.previous)
  }

  private turnSecond (): void {
    const second = Math.floor(this.nowMs() / 1000)
    if (second === this.second) return
    this.previous = second === this.second + 1 ? this.current : 0
    this.second = second
    this.current = 0
  }
}
