import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { sleep } from '#src/base/backoff.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import type { Bus } from './connect.ts'
import { follow } from './follow.ts'
import { lastSequence } from './get.ts'

const GATHER_MS = 20
const FACTS_MAX = 500
const RETRY_MS = 1000
const INTERRUPTED = 'live updates interrupted'

/** Notifies listeners that something may have happened in their account: they read for themselves what it was. So
 *  nothing is held here, and nothing skipped. It follows the log only while there is a listener. */
export interface ChangeNotifier {
  /** Calls `notify` from now on until the function that this returns is called; once as soon as nothing more is missed,
   *  since something may have happened before. */
  listen(account: string, notify: () => void): () => void
  /** Resolves once it no longer follows. */
  stop(): Promise<void>
}

interface Listener {
  account: string
  notify: () => void
}

export function createChangeNotifier (
  bus: Bus,
  source: { stream: string, filter: string },
  log: Log
): ChangeNotifier {
  const notifier = new LogChangeNotifier(bus, source, log)
  return { listen: (account, notify) => notifier.listen(account, notify), stop: () => notifier.stop() }
}

class LogChangeNotifier {
  private readonly bus: Bus
  private readonly source: { stream: string, filter: string }
  private readonly log: Log
  private readonly listeners = new Set<Listener>()
  private following: AbortController | null = null
  private isUpToDate = false
  private running = Promise.resolve()

  constructor (bus: Bus, source: { stream: string, filter: string }, log: Log) {
    this.bus = bus
    this.source = source
    this.log = log
  }

  listen (account: string, notify: () => void): () => void {
    const listener = { account, notify }
    this.listeners.add(listener)
    if (this.isUpToDate) notify()
    if (this.following === null) {
      this.following = new AbortController()
      // The one before may still be on its way out.
      this.running = Promise.all([this.running, this.run(this.following.signal)]).then(() => {})
    }
    return () => {
      this.listeners.delete(listener)
      if (this.listeners.size > 0) return
      this.following?.abort()
      this.following = null
      this.isUpToDate = false
    }
  }

  async stop (): Promise<void> {
    this.following?.abort()
    await this.running
  }

  private async run (signal: AbortSignal): Promise<void> {
    const { stream } = this.source
    while (!signal.aborted) {
      try {
        const options = {
          ...this.source,
          afterSeq: await lastSequence(this.bus, stream),
          batchMax: FACTS_MAX,
          gather: () => sleep(GATHER_MS),
          shared: true,
          signal,
          onError: (err: Error) => this.log.warn({ err, stream }, INTERRUPTED),
          onFollowing: () => this.begin(signal)
        }
        for await (const facts of follow(this.bus, options)) this.notify(facts)
      } catch (error) {
        this.log.warn({ err: asError(error), stream }, INTERRUPTED)
        await sleep(RETRY_MS, signal)
      }
    }
  }

  private begin (signal: AbortSignal): void {
    if (signal.aborted) return
    this.isUpToDate = true
    for (const { notify } of this.listeners) notify()
  }

  private notify (facts: Recorded<AnyFact>[]): void {
    const accounts = new Set(facts.map(({ fact }) => fact.account))
    for (const { account, notify } of this.listeners) if (accounts.has(account)) notify()
  }
}
