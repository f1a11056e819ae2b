import type { Projection } from '#projections/define.ts'
import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { backoffMs, sleep } from '#src/base/backoff.ts'
import { asError, errorCode } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import type { Role } from '#src/base/role.ts'
import type { Bus } from '#src/nats/connect.ts'
import { follow } from '#src/nats/follow.ts'
import { moveCheckpoints, readPositions, type Positions } from '#src/postgres/checkpoint.ts'
import { isUnavailable, type Pool } from '#src/postgres/pool.ts'
import { inTransaction } from '#src/postgres/run.ts'
import { together } from './together.ts'

export interface Projector extends Role {
  /** Its projection's name. */
  projection: string
  /** Age in seconds of the oldest fact it holds and has not written; 0 when it has written all it was given. */
  lagS (): number
}

export interface ProjectorOptions {
  bus: Bus
  pool: Pool
  log: Log
}

/** Facts of one stream, in order, at least one. */
interface Batch {
  stream: string
  facts: Recorded<AnyFact>[]
}

/** Another projector has moved the checkpoint. */
class Overtaken extends Error {}

const BATCH_MAX = 500
/** A transaction costs PostgreSQL about the same however few facts it brings; a read waits this long at most. */
const GATHER_MS = 20
/** PostgreSQL says so when the database has not been migrated yet. */
const UNDEFINED_TABLE = '42P01'
const FAULT_PAUSE_MS = 5000
/** Between two looks at a rival's checkpoint. */
const LOOK_MS = 500
/** Following goes on by itself and tells of each failure anew within this time: after it, silence means it works. */
const TROUBLE_STAYS_MS = 10_000

/** One projector for each projection. */
export function createProjectors ({ projections, ...options }: ProjectorOptions & { projections: Record<string, Projection> }): Projector[] {
  return Object.values(projections).map(projection => createProjector(projection, options))
}

/** Writes the facts of a projection's streams into its tables for ever, one transaction at a time: the rows, and the checkpoint by
 *  compare-and-set. Any number may run: one writes, the others find the checkpoint moved and wait. Outlives NATS and PostgreSQL being away. */
function createProjector (projection: Projection, { bus, pool, log: parent }: ProjectorOptions): Projector {
  const name = `projection ${projection.name}`
  const log = parent.child({ projection: projection.name })
  const stopping = new AbortController()
  let trouble: string | null = null
  let busTrouble = { text: '', toldMs: -Infinity }
  let oldestMs: number | null = null

  async function run (): Promise<void> {
    let overtaken = false
    while (!stopping.signal.aborted) {
      try {
        if (overtaken) await patiently(untilStill)
        await followOn(await patiently(() => readPositions(pool, projection)))
      } catch (error) {
        oldestMs = null
        overtaken = error instanceof Overtaken
        if (!overtaken) await rest(`cannot read a fact: ${asError(error).message}`)
      }
    }
  }

  /** Follows from `positions` until told to stop, a fact cannot be read, or another projector moves the checkpoint. */
  async function followOn (positions: Positions): Promise<void> {
    const ending = new AbortController()
    const signal = AbortSignal.any([stopping.signal, ending.signal])
    try {
      for await (const batches of together(projection.streams.map(({ stream, filter }) => read(stream, filter, positions[stream]!, signal)))) {
        oldestMs = Math.min(...batches.map(({ facts }) => Date.parse(facts[0]!.fact.time)))
        await patiently(() => write(batches, positions))
        oldestMs = null
      }
    } finally {
      ending.abort()
    }
  }

  async function * read (stream: string, filter: string, afterSeq: number, signal: AbortSignal): AsyncGenerator<Batch> {
    for await (const facts of follow(bus, { stream, filter, afterSeq, batchMax: BATCH_MAX, gatherMs: GATHER_MS, signal, onTrouble })) yield { stream, facts }
  }

  async function write (batches: Batch[], positions: Positions): Promise<void> {
    const moves = batches.map(({ stream, facts }) => ({ stream, from: positions[stream]!, to: facts.at(-1)!.seq }))
    const statements = projection.project(batches.flatMap(({ facts }) => facts))
    await inTransaction(pool, async run => {
      if (!await moveCheckpoints(run, projection, moves)) throw new Overtaken()
      for (const statement of statements) await run(statement)
    })
    for (const { stream, to } of moves) positions[stream] = to
  }

  /** Returns once nobody has moved the checkpoint between two looks: whoever overtook us is gone, or there is nothing to do. */
  async function untilStill (): Promise<void> {
    for (let before = ''; !stopping.signal.aborted;) {
      const now = JSON.stringify(await readPositions(pool, projection))
      if (now === before) return
      before = now
      await sleep(LOOK_MS, stopping.signal)
    }
  }

  /** Tries again until it works: soon while PostgreSQL is away, every 5 s when it does not take what we write. Stops only when told to. */
  async function patiently<T> (attempt: () => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        const result = await attempt()
        trouble = null
        return result
      } catch (error) {
        if (error instanceof Overtaken || stopping.signal.aborted) throw error
        const away = isUnavailable(error) || errorCode(error) === UNDEFINED_TABLE
        // The message alone: the driver's other fields quote rows.
        if (away) await rest(`PostgreSQL does not answer: ${asError(error).message}`, backoffMs(tries, 100, 2000))
        else await rest(`PostgreSQL does not take what facts say: ${asError(error).message} (${errorCode(error)})`)
      }
    }
  }

  async function rest (why: string, pauseMs = FAULT_PAUSE_MS): Promise<void> {
    if (stopping.signal.aborted) return
    if (trouble !== why) log.warn({ reason: why }, 'projection interrupted')
    trouble = why
    await sleep(pauseMs, stopping.signal)
  }

  function onTrouble (error: Error): void {
    busTrouble = { text: `NATS does not give its facts: ${error.message}`, toldMs: Date.now() }
  }

  const running = run()
  return {
    name,
    projection: projection.name,
    trouble: () => trouble ?? (Date.now() - busTrouble.toldMs < TROUBLE_STAYS_MS ? busTrouble.text : null),
    lagS: () => (oldestMs === null ? 0 : Math.max(0, (Date.now() - oldestMs) / 1000)),
    async stop () {
      stopping.abort()
      await running
    }
  }
}
