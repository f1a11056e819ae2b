import { availableParallelism } from 'node:os'
import type { Client } from 'pg'
import type { Projection } from '#projections/define.ts'
import { projections } from '#projections/list.ts'
import type { Log } from '#src/base/log.ts'
import { countAfter } from '#src/nats/consumer.ts'
import { lastSequence, lastSequenceUnder } from '#src/nats/get.ts'
import type { Bus } from '#src/nats/connect.ts'
import { moveCheckpoints, readPositions, type Positions } from '#src/postgres/checkpoint.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { inTransaction, transact } from '#src/postgres/query.ts'
import { liveSet, makeIndexes, makeTables, rebuildingSet, type TableSet } from '#src/postgres/table-sets.ts'
import { alone } from './exclusive.ts'
import { readRerecorded, type Part } from './cut.ts'
import { fillPart, readOn, type ReadingOptions } from './part.ts'
import { finish, prepare, type Plan } from './prepare.ts'
import { createProgress, type OnProgress } from './progress.ts'
import { dropRetired, isThere, swap } from './swap.ts'
import { fillOnThread, type Servers } from './threads.ts'

export type { Progress } from './progress.ts'
export type { Servers } from './threads.ts'
export { dropSet } from './swap.ts'

export interface RebuildOptions {
  why: string
  signal: AbortSignal
  onProgress: OnProgress
  /** Asked once nobody else can be at it: somebody may have been. */
  isNeeded?(): Promise<boolean>
}

export interface Filled {
  positions: Positions
  /** Read for it, and in what time. */
  facts: number
  seconds: number
}

/** Makes a view anew from the log, beside the one that is read, and puts it in its place; null when it was not needed.
 *  Throws Busy when somebody else is at it, what PostgreSQL and NATS throw, and the signal's reason. What was done by
 *  then stays: the next one goes on from there. */
export type RebuildProjection = (projection: Projection, options: RebuildOptions) => Promise<Filled | null>

export interface FillOptions {
  signal: AbortSignal
  /** false = without the indexes that only readers need. */
  indexes?: boolean
  onProgress?: OnProgress
}

export interface Rebuilder {
  build: RebuildProjection
  /** Fills a set, whatever its schema, up to what the streams hold when it is called, and makes its indexes. Goes on
   *  where an unfinished one of the same texts stopped. Throws like `build`. */
  fill(set: TableSet, options: FillOptions): Promise<Filled>
  /** Brings a filled set to these positions, rows and checkpoints; a stream that has come further stays there. Throws
   *  like `build`. */
  advance(set: TableSet, to: Positions, signal: AbortSignal): Promise<void>
}

/** Without servers there are no threads. */
export interface RebuilderOptions extends Partial<Servers> {
  bus: Bus
  pool: Pool
  log: Log
}

/** Below this threads take longer to start than the work takes. */
const SMALL = 20_000
/** One reads while another writes, on each core. */
const PARTS_MAX = 4
/** In the thread that does everything else too: it is held up for a few milliseconds at a time. */
const CHUNK = 500
/** So near to the end of the streams that the rest is done while others wait. */
const NEAR = 500
const ROUNDS_MAX = 50

export function openRebuilder (
  { bus, pool, log, natsUrl, natsCreds = null, databaseUrl }: RebuilderOptions
): Rebuilder {
  const servers = natsUrl === undefined || databaseUrl === undefined ? null : { natsUrl, natsCreds, databaseUrl }

  const build: RebuildProjection = async (projection, { why, signal: given, onProgress, isNeeded }) => {
    const set = rebuildingSet(projection)
    const filled = await alone(pool, set, given, async (client, signal) => {
      if (isNeeded !== undefined && !await isNeeded()) return null
      if (await isFirst(client, projection)) return await makeFirst(client, projection)
      log.info({ projection: projection.name, why }, 'a view is made from the log')
      const progress = createProgress(onProgress)
      await fillWith(client, set, { signal, indexes: true, progress })
      await catchUp(set, { signal, progress })
      await swap(client, pool, projection, signal, async (live, inTime) => {
        const last = await ends(projection)
        // A live set that has seen more than the log holds is of another log.
        await readTo(
          set,
          Object.fromEntries(Object.entries(live).map(([stream, seq]) => [stream, Math.min(seq, last[stream] ?? 0)])),
          { signal: inTime, progress }
        )
      })
      const made = { positions: await readPositions(pool, liveSet(projection)), ...progress.sum() }
      log.info(
        { projection: projection.name, facts: made.facts, seconds: made.seconds },
        'a view is made and in its place'
      )
      return made
    })
    const onKept = ({ message }: Error) =>
      log.warn(
        { projection: projection.name, reason: message },
        'the view that was replaced is still read: it is dropped later'
      )
    await dropRetired(pool, projection).catch(onKept)
    return filled
  }

  /** There is nothing to read, and nothing to put it in the place of: as at the first start of all. */
  async function isFirst (client: Client, projection: Projection): Promise<boolean> {
    if (await isThere(client, liveSet(projection))) return false
    const last = await Promise.all(
      projection.streams.map(async ({ stream, filter }) => await lastSequenceUnder(bus, stream, filter))
    )
    return last.every(seq => seq === 0)
  }

  async function fill (
    set: TableSet,
    { signal: given, indexes = true, onProgress = () => {} }: FillOptions
  ): Promise<Filled> {
    return await alone(pool, set, given, async (client, signal) => {
      const progress = createProgress(onProgress)
      await fillWith(client, set, { signal, indexes, progress })
      return { positions: await readPositions(pool, set), ...progress.sum() }
    })
  }

  type Filling = Pick<ReadingOptions, 'signal'> & { progress: ReturnType<typeof createProgress> }

  async function fillWith (
    client: Client,
    set: TableSet,
    { signal, indexes, progress }: Filling & { indexes: boolean }
  ): Promise<void> {
    const { projection } = set
    // First: what is told by then lies before the ends.
    const rerecorded = await readRerecorded(bus, projection)
    const upTo = await ends(projection)
    const parts = await prepare(client, set, {
      parts: await partsFor(projection, { rerecorded, upTo }),
      rerecorded,
      upTo
    })
    if (parts === null) return await readTo(set, upTo, { signal, progress })
    const count = await countOf(parts)
    progress.begin('facts', count)
    await fillParts(set, parts, upTo, count, { signal, progress })
    progress.begin('indexes', count)
    await finish(client, set, upTo, indexes)
  }

  async function partsFor (projection: Projection, { rerecorded, upTo }: Omit<Plan, 'parts'>): Promise<number> {
    const first = (stream: string) => Math.min(...rerecorded[stream] ?? [0])
    const counts = await Promise.all(
      projection.streams.map(async ({ stream, filter }) =>
        upTo[stream]! > first(stream) ? await countAfter(bus, stream, filter, first(stream)) : 0
      )
    )
    const isSmall = counts.reduce((sum, count) => sum + count, 0) < SMALL
    return isSmall ? 1 : Math.min(PARTS_MAX, Math.max(2, availableParallelism()))
  }

  async function countOf (parts: Part[]): Promise<number> {
    const counts = await Promise.all(
      parts.flatMap(({ sources, positions }) =>
        sources.flatMap(({ stream, filters }) =>
          filters.map(async filter => await countAfter(bus, stream, filter, positions[stream]!))
        )
      )
    )
    return counts.reduce((sum, count) => sum + count, 0)
  }

  /** Side by side; when one fails the others are ended first. */
  async function fillParts (
    set: TableSet,
    parts: Part[],
    upTo: Positions,
    count: number,
    { signal: given, progress }: Filling
  ): Promise<void> {
    const failed = new AbortController()
    const options = { ...reading(set, progress), upTo, signal: AbortSignal.any([given, failed.signal]) }
    const name = nameOf(set)
    const fillOne = async (part: Part) =>
      servers === null || name === null || count < SMALL
        ? await fillPart(part, options)
        : await fillOnThread({ servers, projection: name, schema: set.schema, part, upTo }, options)
    const work = parts.map(async part =>
      await fillOne(part).catch(error => {
        failed.abort(error)
        throw error
      })
    )
    await Promise.allSettled(work)
    given.throwIfAborted()
    failed.signal.throwIfAborted()
  }

  function reading (set: TableSet, progress: Filling['progress']): Omit<ReadingOptions, 'upTo' | 'signal'> {
    const of = log.child({ view: set.schema })
    return {
      bus,
      pool,
      set,
      chunk: CHUNK,
      onFacts: progress.add,
      onDeadLetter: ({ stream, seq, subject }, reason) =>
        of.error({ stream, seq, subject, reason }, 'fact dead-lettered: the view that is made goes on without it'),
      onError: ({ message }) => of.warn({ reason: message }, 'NATS does not give facts to the view that is made')
    }
  }

  /** Nearer and nearer to what happens meanwhile. */
  async function catchUp (set: TableSet, { signal, progress }: Filling): Promise<void> {
    for (let rounds = 0; rounds < ROUNDS_MAX; rounds++) {
      const before = progress.sum().facts
      await readTo(set, await ends(set.projection), { signal, progress }, 'catching up')
      if (progress.sum().facts - before < NEAR) return
    }
  }

  async function readTo (
    set: TableSet,
    to: Positions,
    { signal, progress }: Filling,
    stage?: 'catching up'
  ): Promise<void> {
    const positions = await readPositions(pool, set)
    const upTo = Object.fromEntries(
      Object.entries(positions).map(([stream, seq]) => [stream, Math.max(seq, to[stream] ?? 0)])
    )
    if (stage !== undefined) {
      progress.begin(
        stage,
        Object.entries(upTo).reduce((sum, [stream, seq]) => sum + seq - positions[stream]!, 0)
      )
    }
    await readOn(positions, { ...reading(set, progress), upTo, signal })
    // Where the last fact is that is read lies behind what others wait for.
    const moves = Object.entries(upTo).filter(([stream, seq]) => seq > positions[stream]!).map(([stream, to]) => ({
      stream,
      from: positions[stream]!,
      to
    }))
    if (moves.length > 0) await inTransaction(pool, set, async run => await moveCheckpoints(run, set, moves))
  }

  async function ends ({ streams }: Projection): Promise<Positions> {
    return Object.fromEntries(
      await Promise.all(streams.map(async ({ stream }) => [stream, await lastSequence(bus, stream)]))
    )
  }

  return {
    build,
    fill,
    advance: async (set, to, signal) => await readTo(set, to, { signal, progress: createProgress(() => {}) })
  }
}

/** The name by which a thread knows a projection, when it is one of ours. */
function nameOf ({ projection }: TableSet): keyof typeof projections | null {
  const found = Object.entries<Projection>(projections).find(([, one]) => one === projection)
  return found === undefined ? null : found[0] as keyof typeof projections
}

async function makeFirst (client: Client, projection: Projection): Promise<Filled> {
  await transact(client, async () => {
    await makeTables(client, liveSet(projection))
    await makeIndexes(client, liveSet(projection))
  })
  return { positions: Object.fromEntries(projection.streams.map(({ stream }) => [stream, 0])), facts: 0, seconds: 0 }
}
