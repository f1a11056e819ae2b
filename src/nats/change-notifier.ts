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
const AGAIN_MS = 1000

/** Tells those who listen that something may have happened in their account: what it was, each reads for itself. So
 *  nothing is held here, and nothing skipped. It follows the log only while somebody listens. */
export interface ChangeNotifier {
  /** `ring` is called from now on, until the function that this returns is; once as soon as nothing more is missed,
   *  since something may have been before. */
  listen(account: string, ring: () => void): () => void
  /** Resolves once it follows no more. */
  stop(): Promise<void>
}

export function createChangeNotifier (
  bus: Bus,
  { stream, filter }: { stream: string, filter: string },
  log: Log
): ChangeNotifier {
  const listeners = new Set<{ account: string, ring: () => void }>()
  let following: AbortController | null = null
  let isFollowed = false
  let running = Promise.resolve()

  async function run (signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        const options = {
          stream,
          filter,
          afterSeq: await lastSequence(bus, stream),
          batchMax: FACTS_MAX,
          gatherMs: GATHER_MS,
          signal
        }
        const onError = (err: Error) => log.warn({ err, stream }, 'nobody is told what happens, for now')
        for await (const facts of follow(bus, { ...options, onError, onFollowing: () => began(signal) })) ring(facts)
      } catch (error) {
        log.warn({ err: asError(error), stream }, 'nobody is told what happens, for now')
        await sleep(AGAIN_MS, signal)
      }
    }
  }

  function began (signal: AbortSignal): void {
    if (signal.aborted) return
    isFollowed = true
    ring(null)
  }

  /** null = everywhere. */
  function ring (facts: Recorded<AnyFact>[] | null): void {
    const accounts = facts === null ? null : new Set(facts.map(({ fact }) => fact.account))
    for (const listener of listeners) if (accounts === null || accounts.has(listener.account)) listener.ring()
  }

  return {
    listen (account, ringThem) {
      const listener = { account, ring: ringThem }
      listeners.add(listener)
      if (isFollowed) ringThem()
      if (following === null) {
        following = new AbortController()
        // The one before may still be on its way out.
        running = Promise.all([running, run(following.signal)]).then(() => {})
      }
      return () => {
        listeners.delete(listener)
        if (listeners.size > 0) return
        following?.abort()
        following = null
        isFollowed = false
      }
    },
    async stop () {
      following?.abort()
      await running
    }
  }
}
