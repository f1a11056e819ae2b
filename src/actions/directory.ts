import { Newer } from '#streams/catalog.ts'
import { domainKey, emptyDirectory, evolveDirectory, type Directory } from '#streams/directory.ts'
import { sleep } from '#src/base/backoff.ts'
import type { Log } from '#src/base/log.ts'
import { asError, Late } from '#src/base/errors.ts'
import type { Role } from '#src/base/role.ts'
import type { Bus } from '#src/nats/connect.ts'
import { follow } from '#src/nats/follow.ts'
import { lastSequence, lastSequenceUnder } from '#src/nats/get.ts'

/** Without suppressions and templates, which are too many and too large to hold. */
const FILTER = 'control.>'

/** How long an answer waits until this node's directory holds what it has written, and a read until it holds what was
 *  written before. */
export const SEEN_MS = 2000
const LOOK_GAP_MS = 20
const LOOK_MS = 1000
const RETRY_MS = 5000

interface Waiter {
  seq: number
  resolve: () => void
}

/** The directory of this process, kept up to date from CONTROL within milliseconds. */
export interface LiveDirectory extends Role {
  now: Directory
  /** Resolves to true once sequence `seq` of CONTROL is folded in, to false when `timeoutMs` ends before. */
  reached(seq: number, timeoutMs: number): Promise<boolean>
  /** Resolves to true once everything that was in CONTROL under `control.` when called is folded in; false when it
   *  takes longer. Throws when NATS is away. */
  catchUp(timeoutMs: number): Promise<boolean>
  /** Resolves once it holds what was in the log at the call, or could not in time. All who wait share one look, and
   *  looks have gaps: however many unauthenticated clients bring unknown keys, NATS is asked no more often. */
  look(): Promise<void>
  /** Resolves to the reason when the log holds what only a newer Jetpost can read. */
  overtaken: Promise<string>
}

/** Follows CONTROL from its start. Wait for `catchUp` before serving. */
export function followDirectory (bus: Bus, log: Log): LiveDirectory {
  const follower = new DirectoryFollower(bus, log)
  return {
    name: follower.name,
    now: follower.now,
    reached: async (seq, timeoutMs) => await follower.reached(seq, timeoutMs),
    catchUp: async timeoutMs => await follower.catchUp(timeoutMs),
    look: async () => await follower.look(),
    overtaken: follower.overtaken,
    unhealthyReason: () => follower.unhealthyReason(),
    stop: async () => await follower.stop()
  }
}

class DirectoryFollower {
  readonly name = 'directory'
  readonly now: Directory = emptyDirectory()
  readonly overtaken: Promise<string>
  private readonly setOvertaken: (reason: string) => void
  private readonly bus: Bus
  private readonly log: Log
  private readonly stopping = new AbortController()
  private readonly waiters = new Set<Waiter>()
  private readonly running: Promise<void>
  private foldedSeq = 0
  private interruption: Error | null = null
  private nextLook: Promise<void> | null = null
  private lastLookMs = 0

  constructor (bus: Bus, log: Log) {
    const { promise, resolve } = Promise.withResolvers<string>()
    this.overtaken = promise
    this.setOvertaken = resolve
    this.bus = bus
    this.log = log
    this.running = this.run()
  }

  async reached (seq: number, timeoutMs: number): Promise<boolean> {
    if (seq <= this.foldedSeq) return true
    const timeUp = new AbortController()
    const waiter: Waiter = { seq, resolve: () => timeUp.abort() }
    this.waiters.add(waiter)
    await sleep(timeoutMs, AbortSignal.any([timeUp.signal, this.stopping.signal]))
    this.waiters.delete(waiter)
    return seq <= this.foldedSeq
  }

  async catchUp (timeoutMs: number): Promise<boolean> {
    // The stream's last sequence may be a suppression's or a template's, which are not folded: it proves "all seen",
    // and never "behind".
    if (await lastSequence(this.bus, 'CONTROL') <= this.foldedSeq) return true
    return await this.reached(await lastSequenceUnder(this.bus, 'CONTROL', FILTER), timeoutMs)
  }

  async look (): Promise<void> {
    await (this.nextLook ??= this.beginLook())
  }

  unhealthyReason (): string | null {
    return this.interruption === null ? null : `the directory cannot follow CONTROL: ${this.interruption.message}`
  }

  async stop (): Promise<void> {
    this.stopping.abort()
    await this.running
  }

  private async run (): Promise<void> {
    while (!this.stopping.signal.aborted) {
      try {
        await this.fold()
      } catch (error) {
        this.interrupted(asError(error))
        await sleep(RETRY_MS, this.stopping.signal)
      }
    }
  }

  private async fold (): Promise<void> {
    const facts = follow(this.bus, {
      stream: 'CONTROL',
      filter: FILTER,
      afterSeq: this.foldedSeq,
      batchMax: 500,
      gather: () => sleep(0),
      shared: true,
      signal: this.stopping.signal,
      onError: error => this.interrupted(error),
      onFollowing: () => {
        this.interruption = null
      }
    })
    for await (const batch of facts) {
      for (const recorded of batch) evolveDirectory(this.now, recorded)
      this.foldedSeq = batch.at(-1)!.seq
      for (const waiter of this.waiters) if (waiter.seq <= this.foldedSeq) waiter.resolve()
    }
  }

  private interrupted (error: Error): void {
    this.interruption = error
    if (error instanceof Newer) this.setOvertaken(error.message)
    this.log.warn({ err: error }, 'directory interrupted; following CONTROL again')
  }

  private async beginLook (): Promise<void> {
    await sleep(Math.max(0, this.lastLookMs + LOOK_GAP_MS - performance.now()))
    this.lastLookMs = performance.now()
    // Who comes from now on may know of later writes than this look will see.
    this.nextLook = null
    await this.catchUp(LOOK_MS).catch(() => false)
  }
}

const CATCH_UP_MS = 5000

/** Whether an account has a domain. When it does not seem to, the directory catches up with the log first. Throws when
 *  it cannot. */
export async function hasDomain (
  directory: Pick<LiveDirectory, 'now' | 'catchUp'>,
  account: string,
  name: string
): Promise<boolean> {
  const isThere = () => directory.now.domains.has(domainKey(account, name))
  if (isThere()) return true
  if (!await directory.catchUp(CATCH_UP_MS)) throw new Late('the directory is behind the log')
  return isThere()
}

/** How many of these an account has. */
export function countOf (things: Iterable<{ account: string }>, account: string): number {
  let count = 0
  for (const thing of things) if (thing.account === account) count++
  return count
}
