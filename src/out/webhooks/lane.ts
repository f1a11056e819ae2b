/** How one endpoint is doing, and what waits for it in this process. */
export interface Lane {
  /** Runs `job` when its turn comes. Resolves to how it went, or to why it did not run. `limit` = how many may run and wait here now. */
  offer (job: LaneJob, limit: number): Promise<LaneEnd>
  /** Unix ms when a place should be free for one more of those that found the lane `full`, at the pace of late. Each call books one. */
  book (): number
  /** Nothing runs, waits or is remembered: it can be forgotten. */
  idle (): boolean
  /** Takes nothing more; what waits ends as `released`. */
  close (): void
}

export interface LaneJob {
  /** Jobs with the same key run one after the other, in the order they came. */
  key: string
  /** True when the endpoint answered as it should, false when it failed, null when this tells nothing about it. Must not throw. */
  run (): Promise<boolean | null>
}

/** `ran`; `full` = enough waits here, come back at a booked time; `failing` = the endpoint fails, come back later; `released` = this
 *  process stops. */
export type LaneEnd = 'ran' | 'full' | 'failing' | 'released'

export interface LaneRules {
  /** Jobs at once while all is well; may change. */
  concurrency (): number
  /** Failures in a row that make the lane a failing one: from then on one job at a time. */
  failuresMax: number
  /** Jobs that may wait for the next probe of a failing lane; the others are parked. */
  probesWaitingMax: number
  /** Pause after the first failure of a failing lane, doubling with each further one up to the second. */
  pauseMs: number
  pauseMsMax: number
  /** A booked place is at least so far away: schedules fire no finer. */
  bookMsMin: number
  nowMs (): number
}

interface Entry { job: LaneJob, end: (end: LaneEnd) => void }

/** A lane of its own for each endpoint, so that one which hangs, fails or is slow holds up nobody else: it has its own places, and what
 *  finds none is parked. While an endpoint fails it is probed, one request at a time with growing pauses; the first success opens the lane
 *  again. */
export function createLane (rules: LaneRules): Lane {
  const queue: Entry[] = []
  const running = new Set<string>()
  let failures = 0
  let nextProbeMs = 0
  let timer: NodeJS.Timeout | null = null
  let closed = false
  /** About the shortest of the last hundred: what the endpoint needs when it is not we who are slow. */
  let durationMs = 0
  let bookedMs = 0

  const failing = () => failures >= rules.failuresMax
  const room = (limit: number) => failing() ? Math.min(limit, 1 + rules.probesWaitingMax) : limit

  function offer (job: LaneJob, limit: number): Promise<LaneEnd> {
    if (closed) return Promise.resolve('released')
    if (running.size + queue.length >= room(limit)) return Promise.resolve(failing() ? 'failing' : 'full')
    return new Promise(end => {
      queue.push({ job, end })
      pump()
    })
  }

  function pump (): void {
    for (let i = 0; i < queue.length && mayRun();) {
      // A key that runs, or waits further ahead, keeps its order.
      const { key } = queue[i]!.job
      if (running.has(key) || queue.findIndex(entry => entry.job.key === key) < i) i++
      else void run(queue.splice(i, 1)[0]!)
    }
  }

  function mayRun (): boolean {
    if (closed || running.size >= (failing() ? 1 : rules.concurrency())) return false
    const waitMs = failing() ? nextProbeMs - rules.nowMs() : 0
    if (waitMs > 0) timer ??= setTimeout(() => { timer = null; pump() }, waitMs)
    return waitMs <= 0
  }

  async function run ({ job, end }: Entry): Promise<void> {
    const probe = failing()
    const startedMs = rules.nowMs()
    running.add(job.key)
    const fine = await job.run()
    running.delete(job.key)
    durationMs = Math.min(rules.nowMs() - startedMs, durationMs * 1.02 + 0.1)
    if (fine === true) failures = 0
    if (fine === false) fail(probe)
    end('ran')
    pump()
  }

  /** Those that were already under way when the lane began to fail say nothing new. */
  function fail (probe: boolean): void {
    failures = probe ? failures + 1 : Math.min(failures + 1, rules.failuresMax)
    if (!failing()) return
    const pauseMs = rules.pauseMs * 2 ** Math.min(failures - rules.failuresMax, 30)
    nextProbeMs = rules.nowMs() + Math.min(pauseMs, rules.pauseMsMax)
    for (const entry of queue.splice(rules.probesWaitingMax)) entry.end('failing')
  }

  function book (): number {
    bookedMs = Math.max(bookedMs, rules.nowMs() + rules.bookMsMin) + durationMs / rules.concurrency()
    return Math.round(bookedMs)
  }

  function close (): void {
    closed = true
    if (timer !== null) clearTimeout(timer)
    for (const entry of queue.splice(0)) entry.end('released')
  }

  return { offer, book, close, idle: () => queue.length === 0 && running.size === 0 && failures === 0 }
}
