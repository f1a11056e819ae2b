import { emptyDirectory, evolveDirectory, type Directory } from '#streams/directory.ts'
import { sleep } from '#src/base/backoff.ts'
import type { Log } from '#src/base/log.ts'
import { asError, Late } from '#src/base/errors.ts'
import type { Role } from '#src/base/role.ts'
import type { Bus } from '#src/nats/connect.ts'
import { follow } from '#src/nats/follow.ts'
import { lastSequence, lastSequenceUnder } from '#src/nats/get.ts'

/** The directory of this process, kept up to date from CONTROL within milliseconds. */
export interface LiveDirectory extends Role {
  now: Directory
  /** Resolves to true once sequence `seq` of CONTROL is folded in, to false when `timeoutMs` ends before. */
  reached(seq: number, timeoutMs: number): Promise<boolean>
  /** Resolves to true once everything that was in CONTROL under `control.` when called is folded in; false when it
   *  takes longer. Throws when NATS is away. */
  catchUp(timeoutMs: number): Promise<boolean>
  /** Resolves once it holds what was in the log at the call, or could not in time. Looks are shared by all who wait for
   *  one, and apart: however many unauthenticated clients ask for what does not exist, NATS is asked no more often. */
  look(): Promise<void>
}

/** Without suppressions and templates, which are too many and too large to hold. */
const FILTER = 'control.>'

/** How long an answer waits until this node's directory holds what it has written, and a read until it holds what was
 *  written before. */
export const SEEN_MS = 2000
const LOOK_GAP_MS = 20
const LOOK_MS = 1000

interface Waiter {
  seq: number
  resolve: () => void
}

/** Follows CONTROL from its start. Wait for `catchUp` before serving. */
export function followDirectory (bus: Bus, log: Log): LiveDirectory {
  const now = emptyDirectory()
  const stopping = new AbortController()
  const waiters = new Set<Waiter>()
  let foldedSeq = 0
  let unhealthyReason: string | null = null

  async function run (): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        await fold()
      } catch (error) {
        tell(asError(error))
        await sleep(5000, stopping.signal)
      }
    }
  }

  async function fold (): Promise<void> {
    const facts = follow(bus, {
      stream: 'CONTROL',
      filter: FILTER,
      afterSeq: foldedSeq,
      batchMax: 500,
      gatherMs: 0,
      signal: stopping.signal,
      onError: tell,
      onFollowing: () => {
        unhealthyReason = null
      }
    })
    for await (const batch of facts) {
      for (const recorded of batch) evolveDirectory(now, recorded)
      foldedSeq = batch.at(-1)!.seq
      for (const waiter of waiters) if (waiter.seq <= foldedSeq) waiter.resolve()
    }
  }

  function tell (error: Error): void {
    unhealthyReason = `the directory cannot follow CONTROL: ${error.message}`
    log.warn({ err: error }, 'directory interrupted')
  }

  async function reached (seq: number, timeoutMs: number): Promise<boolean> {
    if (seq <= foldedSeq) return true
    const timeUp = new AbortController()
    const waiter: Waiter = { seq, resolve: () => timeUp.abort() }
    waiters.add(waiter)
    await sleep(timeoutMs, timeUp.signal)
    waiters.delete(waiter)
    return seq <= foldedSeq
  }

  /** The stream's last sequence may be a suppression's or a template's, which are not folded: it proves "all seen", and
   *  never "behind". */
  async function catchUp (timeoutMs: number): Promise<boolean> {
    if (await lastSequence(bus, 'CONTROL') <= foldedSeq) return true
    return await reached(await lastSequenceUnder(bus, 'CONTROL', FILTER), timeoutMs)
  }

  const running = run()
  return {
    name: 'directory',
    now,
    reached,
    catchUp,
    look: sharedLook(catchUp),
    unhealthyReason: () => unhealthyReason,
    async stop () {
      stopping.abort()
      await running
    }
  }
}

function sharedLook (catchUp: LiveDirectory['catchUp']): () => Promise<void> {
  let next: Promise<void> | null = null
  let lastMs = 0

  async function begin (): Promise<void> {
    await sleep(Math.max(0, lastMs + LOOK_GAP_MS - performance.now()))
    lastMs = performance.now()
    // Who comes from now on may know of later writes than this look will see.
    next = null
    await catchUp(LOOK_MS).catch(() => false)
  }

  return () => (next ??= begin())
}

const CATCH_UP_MS = 5000

/** Whose a domain is, or null. When it does not seem to be `expected`'s, the directory catches up with the log first.
 *  Throws when it cannot. */
export async function ownerOf (
  directory: Pick<LiveDirectory, 'now' | 'catchUp'>,
  domain: string,
  expected: string
): Promise<string | null> {
  const owner = () => directory.now.domains.get(domain)?.account ?? null
  if (owner() === expected) return expected
  if (!await directory.catchUp(CATCH_UP_MS)) throw new Late('the directory is behind the log')
  return owner()
}

/** How many of these an account has. */
export function countOf (things: Iterable<{ account: string }>, account: string): number {
  let count = 0
  for (const thing of things) if (thing.account === account) count++
  return count
}
