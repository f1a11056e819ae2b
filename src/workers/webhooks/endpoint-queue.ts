import { createSpeed } from './speed.ts'

/** How one endpoint is doing, and what waits for it in this process. */
export interface EndpointQueue {
  /** Runs `job` when its turn comes. Resolves to how it went, or to why it did not run. */
  offer(job: EndpointQueueJob, room: Room): Promise<EndpointQueueEnd>
  /** Unix ms when a place should be free for one more of those that found the lane `full`, at the pace of late. Each
   *  call books one. */
  book(background: boolean): number
  /** Nothing runs, waits or is remembered: it can be forgotten. */
  idle(): boolean
  /** Takes nothing more; what waits ends as `released`. */
  close(): void
}

/** How many like it (background, or not) may run and wait here now: `share` for any lane, `most` for a quick one. */
export interface Room {
  share: number
  most: number
}

export interface EndpointQueueJob {
  /** Jobs with the same key run one after the other, in the order they came. */
  key: string
  /** Runs while no other job waits, or in its turn after many others, and on half of the places at most (at least one).
   */
  background: boolean
  /** Must not throw. */
  run(): Promise<Ran>
}

/** `fine`: true when the endpoint answered as it should, false when it failed, null when this tells nothing about it.
 *  `holdMs`: for so long it asks to be left alone. */
export interface Ran {
  fine: boolean | null
  holdMs: number
}

/** `ran`; `full` = enough waits here, come back at a booked time; `failing` = the endpoint fails, come back later;
 *  `released` = this process stops. */
export type EndpointQueueEnd = 'ran' | 'full' | 'failing' | 'released'

export interface EndpointQueueRules {
  /** Jobs at once while all is well; may change. */
  concurrency(): number
  /** Failures in a row that make the lane a failing one: from then on one job at a time. */
  failuresMax: number
  /** Jobs that may wait for the next probe of a failing lane; the others are deferred. In the background none may. */
  probesWaitingMax: number
  /** Pause after the first failure of a failing lane, doubling with each further one up to the second. */
  pauseMs: number
  pauseMsMax: number
  /** An endpoint that asks to be left alone is not probed for so long at most. */
  holdMsMax: number
  /** A lane that, at its pace of the last second, works off all it has within so many takes more than its share:
   *  putting off costs more than a request. */
  briskS: number
  /** Others that go before one in the background, and for how long it waits here at most: then it is put off as `full`.
   */
  backgroundTurns: number
  backgroundMsMax: number
  /** A booked place is at least so far away: schedules fire no finer. */
  bookMsMin: number
  nowMs(): number
}

const LOOK_MS = 1000
/** A request takes so long as long as nothing is known; then each says a tenth. */
const GUESS_MS = 20
const NEWS = 0.1

interface Entry {
  job: EndpointQueueJob
  sinceMs: number
  end: (end: EndpointQueueEnd) => void
}

/** Jobs of one kind: those that wait, how many run, until when places are booked. */
interface Kind {
  queue: Entry[]
  running: number
  bookedMs: number
}

/** A lane of its own for each endpoint, so that one which hangs, fails or is slow holds up nobody else: it has its own
 *  places, and what finds none is deferred. While an endpoint fails it is probed, one request at a time with growing
 *  pauses; the first success opens the lane again. */
export function createEndpointQueue (rules: EndpointQueueRules): EndpointQueue {
  const live: Kind = { queue: [], running: 0, bookedMs: 0 }
  const background: Kind = { queue: [], running: 0, bookedMs: 0 }
  const running = new Set<string>()
  let failures = 0
  let nextProbeMs = 0
  let heldUntilMs = 0
  let timer: NodeJS.Timeout | null = null
  let closed = false
  const speed = createSpeed(rules.nowMs)
  let watch: NodeJS.Timeout | null = null
  /** Has it taken more than its share? */
  let greedy = false
  /** What a request takes, about. */
  let durationMs = GUESS_MS
  /** Of others, since one in the background last ran. */
  let turns = 0

  const failing = () => failures >= rules.failuresMax
  const kindOf = (job: Pick<EndpointQueueJob, 'background'>) => job.background ? background : live
  /** Behind a probe: a replay must not take the place of what is new. */
  const waitingMax = (kind: Kind) => kind === live ? rules.probesWaitingMax : 0
  const placesOf = (kind: Kind) => kind === live ? rules.concurrency() : Math.max(1, rules.concurrency() >> 1)

  function offer (job: EndpointQueueJob, room: Room): Promise<EndpointQueueEnd> {
    const kind = kindOf(job)
    if (closed) return Promise.resolve('released')
    const waiting = kind.running + kind.queue.length
    if (failing() && waiting >= Math.min(room.share, 1 + waitingMax(kind))) return Promise.resolve('failing')
    if (waiting >= room.share) {
      if (kind !== live || waiting >= Math.min(room.most, speed.aSecond() * rules.briskS)) {
        return Promise.resolve('full')
      }
      greedy = true
    }
    if (greedy || job.background) watch ??= setTimeout(look, LOOK_MS)
    return new Promise(end => {
      kind.queue.push({ job, sinceMs: rules.nowMs(), end })
      pump()
    })
  }

  /** Gives places back that others may need: of a lane that took more than its share because it was quick and stands
   *  still now, and of what has waited in the background for too long. */
  function look (): void {
    const over = greedy && speed.aSecond() === 0 ? live.queue.splice(rules.concurrency()) : []
    greedy &&= speed.aSecond() > 0 && live.queue.length > 0
    const old = background.queue.findIndex(({ sinceMs }) => rules.nowMs() - sinceMs < rules.backgroundMsMax)
    for (const entry of [...over, ...background.queue.splice(0, old === -1 ? Infinity : old)]) entry.end('full')
    watch = greedy || background.queue.length > 0 ? setTimeout(look, LOOK_MS) : null
  }

  function pump (): void {
    if (turns >= rules.backgroundTurns) start(background, 1)
    start(live)
    if (live.queue.length === 0) start(background)
  }

  function start (kind: Kind, max = Infinity): void {
    const { queue } = kind
    for (let i = 0, started = 0; i < queue.length && started < max && mayRun(kind);) {
      // A key that runs, or waits further ahead, keeps its order.
      const { key } = queue[i]!.job
      if (running.has(key) || queue.findIndex(entry => entry.job.key === key) < i) i++
      else {
        started++
        void run(queue.splice(i, 1)[0]!)
      }
    }
    if (queue.length === 0) kind.bookedMs = 0
  }

  function mayRun (kind: Kind): boolean {
    if (closed || running.size >= (failing() ? 1 : rules.concurrency()) || kind.running >= placesOf(kind)) return false
    const waitMs = failing() ? nextProbeMs - rules.nowMs() : 0
    if (waitMs > 0) {
      timer ??= setTimeout(() => {
        timer = null
        pump()
      }, waitMs)
    }
    return waitMs <= 0
  }

  async function run ({ job, end }: Entry): Promise<void> {
    const probe = failing()
    const startedMs = rules.nowMs()
    running.add(job.key)
    kindOf(job).running++
    turns = job.background || background.queue.length === 0 ? 0 : turns + 1
    const { fine, holdMs } = await job.run()
    running.delete(job.key)
    kindOf(job).running--
    speed.ended()
    durationMs += (rules.nowMs() - startedMs - durationMs) * NEWS
    if (fine === true) failures = heldUntilMs = 0
    if (fine === false) fail(probe, holdMs)
    end('ran')
    pump()
  }

  /** Those that were already under way when the lane began to fail say nothing new. */
  function fail (probe: boolean, holdMs: number): void {
    const nowMs = rules.nowMs()
    failures = probe ? failures + 1 : Math.min(failures + 1, rules.failuresMax)
    heldUntilMs = Math.max(heldUntilMs, nowMs + Math.min(holdMs, rules.holdMsMax))
    if (!failing()) return
    const pauseMs = rules.pauseMs * 2 ** Math.min(failures - rules.failuresMax, 30)
    nextProbeMs = Math.max(heldUntilMs, nowMs + Math.min(pauseMs, rules.pauseMsMax))
    for (const kind of [live, background]) for (const entry of kind.queue.splice(waitingMax(kind))) entry.end('failing')
  }

  function book (inBackground: boolean): number {
    const kind = inBackground ? background : live
    kind.bookedMs = Math.max(kind.bookedMs, rules.nowMs() + rules.bookMsMin) + durationMs / placesOf(kind)
    return Math.round(kind.bookedMs)
  }

  function close (): void {
    closed = true
    if (timer !== null) clearTimeout(timer)
    if (watch !== null) clearTimeout(watch)
    for (const entry of [...live.queue.splice(0), ...background.queue.splice(0)]) entry.end('released')
  }

  return { offer, book, close, idle: () => live.queue.length + background.queue.length + running.size + failures === 0 }
}
