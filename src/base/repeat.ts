import { sleep } from './backoff.ts'
import { asError, Late } from './errors.ts'
import type { Role } from './role.ts'

/** What the rounds have come to. */
export interface RepeatState {
  /** Unix ms: when a round was last done; before that, the start. */
  doneMs: number
  /** Why the last round failed; null = it did not. */
  error: Error | null
}

export interface RepeatOptions {
  name: string
  /** One round; never two at once. Resolves to the ms until the next (Infinity = not before it is woken), or to null
   *  when it is not done and must come again after `againMs`. It ends soon after `signal` is aborted: by stop, or by
   *  its deadline. */
  round(signal: AbortSignal): Promise<number | null> | number | null
  /** Ms from the start to the first round. At once when left out. */
  firstInMs?: number
  /** Ms until the next round after one that has failed. */
  againMs: number
  /** Deadline of a round in ms: it has failed then, and the next one begins once it has ended. For every round that
   *  touches a network. */
  roundMsMax?: number
  /** A round has failed; not while stopping. */
  onError(error: Error): void
  /** Why it is unhealthy, or null. When left out: the error of the last round. */
  unhealthyReason?(state: RepeatState): string | null
}

export interface Repeated extends Role {
  /** Ends the pause. During a round: another follows at once, unless it fails. */
  wake(): void
}

/** Runs round after round until it is stopped. */
export function repeat (options: RepeatOptions): Repeated {
  return new Repeater(options)
}

/** Longer ones end at once in Node. */
const TIMER_MS_MAX = 2 ** 31 - 1

class Repeater implements Repeated {
  readonly name: string
  private readonly options: RepeatOptions
  private readonly stopping = new AbortController()
  private readonly running: Promise<void>
  private readonly state: RepeatState = { doneMs: Date.now(), error: null }
  private pause = new AbortController()
  private woken = false

  constructor (options: RepeatOptions) {
    this.name = options.name
    this.options = options
    this.running = this.run()
  }

  unhealthyReason (): string | null {
    const { unhealthyReason = ({ error }) => error?.message ?? null } = this.options
    return unhealthyReason(this.state)
  }

  wake (): void {
    this.woken = true
    this.pause.abort()
  }

  async stop (): Promise<void> {
    this.stopping.abort()
    this.pause.abort()
    await this.running
  }

  private async run (): Promise<void> {
    await this.wait(this.options.firstInMs ?? 0)
    while (!this.stopping.signal.aborted) {
      this.woken = false
      const nextMs = await this.runOnce()
      await this.wait(this.woken && this.state.error === null ? 0 : nextMs)
    }
  }

  private async wait (ms: number): Promise<void> {
    if (this.stopping.signal.aborted) return
    this.pause = new AbortController()
    await sleep(Math.min(ms, TIMER_MS_MAX), this.pause.signal)
  }

  /** Resolves to the ms until the next round. */
  private async runOnce (): Promise<number> {
    const { round, againMs, roundMsMax } = this.options
    const ending = new AbortController()
    const expire = () => {
      this.fail(new Late(`it takes longer than ${roundMsMax} ms`))
      ending.abort()
    }
    const timer = roundMsMax === undefined ? undefined : setTimeout(expire, roundMsMax)
    try {
      const nextMs = await round(AbortSignal.any([this.stopping.signal, ending.signal]))
      if (ending.signal.aborted || nextMs === null) return againMs
      this.state.doneMs = Date.now()
      this.state.error = null
      return nextMs
    } catch (thrown) {
      if (!ending.signal.aborted) this.fail(asError(thrown))
      return againMs
    } finally {
      clearTimeout(timer)
    }
  }

  private fail (error: Error): void {
    if (this.stopping.signal.aborted) return
    this.state.error = error
    this.options.onError(error)
  }
}
