import type { LiveDirectory } from '#src/actions/directory.ts'
import type { FactLog } from '#src/actions/fact-log.ts'
import type { MayCallPrivate } from '#src/actions/services.ts'
import { asError, deadline } from '#src/base/errors.ts'
import { newId } from '#src/base/id.ts'
import type { Log } from '#src/base/log.ts'
import { repeat } from '#src/base/repeat.ts'
import type { Role } from '#src/base/role.ts'
import type { Vault } from '#src/base/secret.ts'
import type { Resolve } from '#src/dns/guard.ts'
import { LeaseTable } from '#src/nats/lease.ts'
import { GAPS_S } from '#streams/delivery/decide.ts'
import { WEBHOOK_PARTITIONS } from '#streams/subjects.ts'
import { Requester, type OnAttempt } from './attempt.ts'
import type { BodyCache } from './body-cache.ts'
import { DeliveryWorker } from './delivery-worker.ts'
import type { DirectQueues } from './direct.ts'
import { EndpointHealth } from './endpoint-health.ts'
import type { PartitionSource } from './fanout.ts'
import { Partition } from './partition.ts'
import { createPoster, type Poster } from './post.ts'

export interface DispatchOptions {
  factLog: FactLog
  directory: LiveDirectory
  vault: Vault
  bodies: BodyCache
  /** Whose endpoints may have http and private addresses. */
  mayCallPrivate: MayCallPrivate
  /** How host names are resolved; by default by DNS and the system. */
  resolve?: Resolve
  log: Log
  /** In [0, 1); tests pass their own. */
  random?: () => number
  /** Seconds between attempts; by default the contract's. */
  gapsS?: readonly number[]
  /** One request, from DNS to the end of the response. */
  timeoutMs?: number
  onAttempt?: OnAttempt
  /** After so long without a sign of its process a partition goes to another; 10 s by default. */
  leaseMs?: number
}

const TIMEOUT_MS = 15_000
/** When this process stops, requests may take so long to end. */
const STOP_MS = 3000
const FREE_MS = 2000
const LEASES_AGAIN_MS = 500
const LEASES_MS_MAX = 30_000
const PARTITIONS = Array.from({ length: WEBHOOK_PARTITIONS }, (_, partition) => String(partition))

/** Sends the deliveries. Each partition of the endpoints is worked by one process at a time, so that what is owed to an
 *  endpoint has one order, one limit and one memory; the processes that run this share the partitions. */
export function startDispatch (options: DispatchOptions): Role & PartitionSource {
  return new Dispatch(options)
}

class Dispatch implements Role, PartitionSource {
  readonly name = 'webhook dispatch'
  private readonly options: DispatchOptions
  /** Each has connections of its own: one that was opened to a private address must not serve an account that may not
   *  call it. */
  private readonly posters: { anywhere: Poster, publicOnly: Poster }
  private readonly health: EndpointHealth
  private readonly worker: DeliveryWorker
  private readonly gapsS: readonly number[]
  private readonly memory = { whole: 0 }
  private readonly partitions = new Map<string, Partition>()
  /** Partitions that end. */
  private readonly ending = new Map<string, Promise<void>>()
  private readonly leases: LeaseTable
  private readonly rounds: Role
  private changed = () => {}

  constructor (options: DispatchOptions) {
    const { random = Math.random, gapsS = GAPS_S, timeoutMs = TIMEOUT_MS, factLog, leaseMs } = options
    this.options = options
    this.gapsS = gapsS
    const posterTo = (allowPrivate: boolean) => createPoster({ resolve: options.resolve, timeoutMs, allowPrivate })
    this.posters = { anywhere: posterTo(true), publicOnly: posterTo(false) }
    this.health = new EndpointHealth(options)
    const posterOf = (account: string) => this.posters[options.mayCallPrivate(account) ? 'anywhere' : 'publicOnly']
    const requester = new Requester({ ...options, posterOf, health: this.health, random, gapsS })
    this.worker = new DeliveryWorker({ ...options, requester })
    this.leases = new LeaseTable(factLog.bus, {
      kind: 'webhooks',
      names: PARTITIONS,
      holder: newId('ev', factLog.clock.nowMs()),
      leaseMs
    })
    this.rounds = repeat({
      name: 'webhook partitions',
      round: () => this.round(),
      againMs: LEASES_AGAIN_MS,
      roundMsMax: LEASES_MS_MAX,
      onError: error => this.onError(error)
    })
  }

  queuesOf (partition: number): DirectQueues | null {
    return this.partitions.get(String(partition))?.queues ?? null
  }

  onChange (act: () => void): void {
    this.changed = act
  }

  unhealthyReason (): string | null {
    const waiting = [...this.partitions.values()].map(({ unhealthyReason }) => unhealthyReason)
    return this.rounds.unhealthyReason() ?? waiting.find(reason => reason !== null) ?? null
  }

  async stop (): Promise<void> {
    await this.rounds.stop()
    this.worker.stop()
    const posters = Object.values(this.posters)
    // Requests that have not ended are made again by another process, with the same id.
    const cutting = setTimeout(() => posters.forEach(poster => poster.cut()), STOP_MS)
    await Promise.all([...this.partitions.keys()].map(name => this.end(name)))
    await Promise.all(this.ending.values())
    clearTimeout(cutting)
    // Leases that cannot be given back end by themselves.
    await deadline(this.leases.leave(), FREE_MS, 'no answer').catch(asError)
    await Promise.all([...posters.map(poster => poster.close()), this.health.settled()])
  }

  private async round (): Promise<number> {
    const { surplus, nextMs } = await this.leases.round()
    for (const name of PARTITIONS) {
      if (this.leases.isHeld(name)) this.begin(name)
      else void this.end(name)
    }
    if (surplus !== null) {
      void this.end(surplus).then(() => this.leases.free(surplus)).catch(error => this.onError(error))
    }
    return nextMs
  }

  /** One that has not ended begins again in a later round. */
  private begin (name: string): void {
    if (this.partitions.has(name) || this.ending.has(name)) return
    const { gapsS } = this
    const partition = new Partition({
      ...this.options,
      worker: this.worker,
      rules: { probeMs: gapsS[0]! * 200, hastenAttemptsMax: gapsS.length - 2, memory: this.memory },
      isHeld: () => this.leases.isHeld(name),
      onChange: () => this.changed()
    }, Number(name))
    this.partitions.set(name, partition)
  }

  /** Requests may take long to end: nothing waits for that, and its lease is renewed meanwhile. */
  private end (name: string): Promise<void> {
    const partition = this.partitions.get(name)
    if (partition === undefined) return this.ending.get(name) ?? Promise.resolve()
    this.partitions.delete(name)
    const ended = partition.stop().finally(() => this.ending.delete(name))
    this.ending.set(name, ended)
    return ended
  }

  private onError (error: unknown): void {
    this.options.log.warn({ err: asError(error) }, 'webhook partitions not renewed; retrying')
  }
}
