import { availableParallelism } from 'node:os'
import type { Client } from 'pg'
import type { Projection } from '#projections/define.ts'
import { projections } from '#projections/list.ts'
import type { Log } from '#src/base/log.ts'
import type { Bus } from '#src/nats/connect.ts'
import { countAfter } from '#src/nats/consumer.ts'
import { lastSequence, lastSequenceUnder } from '#src/nats/get.ts'
import { moveCheckpoints, readPositions, type Positions } from '#src/postgres/checkpoint.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { inTransaction, transact } from '#src/postgres/query.ts'
import { createIndexes, createTables, liveSet, rebuildingSet, type TableSet } from '#src/postgres/table-sets.ts'
import { exclusively } from './exclusive.ts'
import { readRerecorded, type RebuildPart } from './parts.ts'
import { finish, prepare, type RebuildPlan } from './prepare.ts'
import { createProgressMeter, type OnProgress, type ProgressMeter } from './progress.ts'
import { projectPart, projectRange, type ProjectingOptions } from './project-range.ts'
import { projectPartOnThread, type Servers } from './spawn-rebuild-thread.ts'
import { dropRetired, exists, swap } from './swap.ts'

export type { RebuildProgress } from './progress.ts'
export type { Servers } from './spawn-rebuild-thread.ts'
export { dropSet } from './swap.ts'

export interface RebuildOptions {
  why: string
  signal: AbortSignal
  onProgress: OnProgress
  /** Called once no other process can be rebuilding it: one may just have finished. */
  isNeeded?(): Promise<boolean>
}

export interface RebuildResult {
  positions: Positions
  /** Read for it, and in what time. */
  facts: number
  seconds: number
}

/** Rebuilds a projection from the log beside the live tables, and swaps it in; null when it was not needed. Throws
 *  AlreadyRebuilding, what PostgreSQL and NATS throw, and the signal's reason. What was done by then stays: the next
 *  rebuild goes on from there. */
export type RebuildProjection = (projection: Projection, options: RebuildOptions) => Promise<RebuildResult | null>

export interface RebuildSetOptions {
  signal: AbortSignal
  /** false = without the indexes that only readers need. */
  indexes?: boolean
  onProgress?: OnProgress
}

export interface Rebuilder {
  rebuild: RebuildProjection
  /** Rebuilds a table set, whatever its schema, up to what the streams hold when it is called, and creates its indexes.
   *  Goes on where an unfinished rebuild by the same SQL stopped. Throws like `rebuild`. */
  rebuildSet(set: TableSet, options: RebuildSetOptions): Promise<RebuildResult>
  /** Brings a rebuilt set to these positions, rows and checkpoints; a stream that has come further stays there. Throws
   *  like `rebuild`. */
  advance(set: TableSet, to: Positions, signal: AbortSignal): Promise<void>
}

/** Without `natsUrl` and `databaseUrl` there are no threads. */
export interface RebuilderOptions extends Partial<Servers> {
  bus: Bus
  pool: Pool
  log: Log
}

/** Below this threads take longer to start than the work takes. */
const FEW_FACTS = 20_000
/** One reads while another writes, on each core. */
const PARTS_MAX = 4
/** In the thread that does everything else too: it is held up for a few milliseconds at a time. */
const CHUNK = 500
/** So near to the end of the streams that the rest is done while others wait. */
const NEAR_FACTS = 500
const ROUNDS_MAX = 50

interface Run {
  signal: AbortSignal
  progress: ProgressMeter
}

export function openRebuilder (options: RebuilderOptions): Rebuilder {
  const rebuilder = new LogRebuilder(options)
  return {
    rebuild: (projection, rebuildOptions) => rebuilder.rebuild(projection, rebuildOptions),
    rebuildSet: (set, setOptions) => rebuilder.rebuildSet(set, setOptions),
    advance: (set, to, signal) => rebuilder.advance(set, to, signal)
  }
}

class LogRebuilder {
  private readonly bus: Bus
  private readonly pool: Pool
  private readonly log: Log
  private readonly servers: Servers | null

  constructor ({ bus, pool, log, natsUrl, natsCreds = null, databaseUrl }: RebuilderOptions) {
    this.bus = bus
    this.pool = pool
    this.log = log
    this.servers = natsUrl === undefined || databaseUrl === undefined ? null : { natsUrl, natsCreds, databaseUrl }
  }

  async rebuild (projection: Projection, options: RebuildOptions): Promise<RebuildResult | null> {
    const { isNeeded, signal: given } = options
    const result = await exclusively(this.pool, rebuildingSet(projection), given, async (client, signal) => {
      if (isNeeded !== undefined && !await isNeeded()) return null
      if (await this.isFirstStart(client, projection)) return await createEmpty(client, projection)
      return await this.rebuildAndSwap(client, projection, { ...options, signal })
    })
    await dropRetired(this.pool, projection).catch(({ message }: Error) =>
      this.log.warn(
        { projection: projection.name, reason: message },
        'replaced tables are still being read; they will be dropped later'
      )
    )
    return result
  }

  async rebuildSet (
    set: TableSet,
    { signal: given, indexes = true, onProgress = () => {} }: RebuildSetOptions
  ): Promise<RebuildResult> {
    return await exclusively(this.pool, set, given, async (client, signal) => {
      const progress = createProgressMeter(onProgress)
      await this.project(client, set, { signal, progress }, indexes)
      return { positions: await readPositions(this.pool, set), ...progress.sum() }
    })
  }

  async advance (set: TableSet, to: Positions, signal: AbortSignal): Promise<void> {
    await this.advanceTo(set, to, { signal, progress: createProgressMeter(() => {}) })
  }

  /** Nothing to read, and no live tables to replace. */
  private async isFirstStart (client: Client, projection: Projection): Promise<boolean> {
    if (await exists(client, liveSet(projection))) return false
    const last = await Promise.all(
      projection.streams.map(async ({ stream, filter }) => await lastSequenceUnder(this.bus, stream, filter))
    )
    return last.every(seq => seq === 0)
  }

  private async rebuildAndSwap (
    client: Client,
    projection: Projection,
    { why, signal, onProgress }: RebuildOptions
  ): Promise<RebuildResult> {
    const set = rebuildingSet(projection)
    this.log.info({ projection: projection.name, why }, 'rebuilding projection from the log')
    const run = { signal, progress: createProgressMeter(onProgress) }
    await this.project(client, set, run, true)
    await this.catchUp(set, run)
    await swap(client, this.pool, projection, signal, async (live, inTime) => {
      const last = await this.ends(projection)
      // A live set that has seen more than the log holds is of another log.
      const to = Object.entries(live).map(([stream, seq]) => [stream, Math.min(seq, last[stream] ?? 0)])
      await this.advanceTo(set, Object.fromEntries(to), { ...run, signal: inTime })
    })
    const { facts, seconds } = run.progress.sum()
    this.log.info({ projection: projection.name, facts, seconds }, 'projection rebuilt and swapped in')
    return { positions: await readPositions(this.pool, liveSet(projection)), facts, seconds }
  }

  /** Projects all that the streams hold now into a set. */
  private async project (client: Client, set: TableSet, run: Run, indexes: boolean): Promise<void> {
    const { projection } = set
    // First: what was re-recorded by then lies before the ends.
    const rerecorded = await readRerecorded(this.bus, projection)
    const upTo = await this.ends(projection)
    const count = await this.partCount(projection, { rerecorded, upTo })
    const parts = await prepare(client, set, { parts: count, rerecorded, upTo })
    if (parts === null) return await this.advanceTo(set, upTo, run)
    const facts = await this.countFacts(parts)
    run.progress.begin('facts', facts)
    await this.projectParts(set, parts, upTo, facts, run)
    run.progress.begin('indexes', facts)
    await finish(client, set, upTo, indexes)
  }

  private async partCount (
    projection: Projection,
    { rerecorded, upTo }: Omit<RebuildPlan, 'parts'>
  ): Promise<number> {
    const first = (stream: string) => Math.min(...rerecorded[stream] ?? [0])
    const counts = await Promise.all(
      projection.streams.map(async ({ stream, filter }) =>
        upTo[stream]! > first(stream) ? await countAfter(this.bus, stream, filter, first(stream)) : 0
      )
    )
    if (sumOf(counts) < FEW_FACTS) return 1
    return Math.min(PARTS_MAX, Math.max(2, availableParallelism()))
  }

  private async countFacts (parts: RebuildPart[]): Promise<number> {
    const counts = await Promise.all(
      parts.flatMap(({ sources, positions }) =>
        sources.flatMap(({ stream, filters }) =>
          filters.map(async filter => await countAfter(this.bus, stream, filter, positions[stream]!))
        )
      )
    )
    return sumOf(counts)
  }

  /** Side by side; when one fails the others are ended first. */
  private async projectParts (
    set: TableSet,
    parts: RebuildPart[],
    upTo: Positions,
    facts: number,
    { signal, progress }: Run
  ): Promise<void> {
    const failed = new AbortController()
    const options = { ...this.projectingOptions(set, progress), upTo, signal: AbortSignal.any([signal, failed.signal]) }
    const projection = nameOf(set)
    const { servers } = this
    const projectOne = async (part: RebuildPart) =>
      servers === null || projection === null || facts < FEW_FACTS
        ? await projectPart(part, options)
        : await projectPartOnThread({ servers, projection, schema: set.schema, part, upTo }, options)
    const working = parts.map(async part =>
      await projectOne(part).catch(error => {
        failed.abort(error)
        throw error
      })
    )
    await Promise.allSettled(working)
    signal.throwIfAborted()
    failed.signal.throwIfAborted()
  }

  private projectingOptions (set: TableSet, progress: ProgressMeter): Omit<ProjectingOptions, 'upTo' | 'signal'> {
    const log = this.log.child({ tables: set.schema })
    return {
      bus: this.bus,
      pool: this.pool,
      set,
      chunk: CHUNK,
      onFacts: facts => progress.add(facts),
      onDeadLetter: ({ stream, seq, subject }, reason) =>
        log.error({ stream, seq, subject, reason }, 'fact dead-lettered: the rebuild goes on without it'),
      onError: ({ message }) => log.warn({ reason: message }, 'NATS interrupted the rebuild; it goes on')
    }
  }

  /** Nearer and nearer to what happens meanwhile. */
  private async catchUp (set: TableSet, run: Run): Promise<void> {
    for (let rounds = 0; rounds < ROUNDS_MAX; rounds++) {
      const before = run.progress.sum().facts
      await this.advanceTo(set, await this.ends(set.projection), run, 'catching up')
      if (run.progress.sum().facts - before < NEAR_FACTS) return
    }
  }

  private async advanceTo (
    set: TableSet,
    to: Positions,
    { signal, progress }: Run,
    stage?: 'catching up'
  ): Promise<void> {
    const positions = await readPositions(this.pool, set)
    const upTo = Object.fromEntries(
      Object.entries(positions).map(([stream, seq]) => [stream, Math.max(seq, to[stream] ?? 0)])
    )
    const ahead = () => Object.entries(upTo).filter(([stream, seq]) => seq > positions[stream]!)
    if (stage !== undefined) progress.begin(stage, sumOf(ahead().map(([stream, seq]) => seq - positions[stream]!)))
    await projectRange(positions, { ...this.projectingOptions(set, progress), upTo, signal })
    // The last fact that was read lies before the position others wait for.
    const moves = ahead().map(([stream, seq]) => ({ stream, from: positions[stream]!, to: seq }))
    if (moves.length > 0) await inTransaction(this.pool, [set], async run => await moveCheckpoints(run, set, moves))
  }

  private async ends ({ streams }: Projection): Promise<Positions> {
    return Object.fromEntries(
      await Promise.all(streams.map(async ({ stream }) => [stream, await lastSequence(this.bus, stream)]))
    )
  }
}

function sumOf (counts: number[]): number {
  return counts.reduce((sum, count) => sum + count, 0)
}

/** The name by which a thread knows a projection, when it is one of ours. */
function nameOf ({ projection }: TableSet): keyof typeof projections | null {
  const found = Object.entries<Projection>(projections).find(([, one]) => one === projection)
  return found === undefined ? null : found[0] as keyof typeof projections
}

async function createEmpty (client: Client, projection: Projection): Promise<RebuildResult> {
  await transact(client, async () => {
    await createTables(client, liveSet(projection))
    await createIndexes(client, liveSet(projection))
  })
  return { positions: Object.fromEntries(projection.streams.map(({ stream }) => [stream, 0])), facts: 0, seconds: 0 }
}
