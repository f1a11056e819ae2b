import type { Projection, Source } from '#projections/define.ts'
import { backoffMs, sleep } from '#src/base/backoff.ts'
import { asError, errorCode } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import type { Role } from '#src/base/role.ts'
import type { Bus } from '#src/nats/connect.ts'
import { follow } from '#src/nats/follow.ts'
import { lastSequence } from '#src/nats/get.ts'
import { tryDecode } from '#src/nats/message.ts'
import { isUnanswered } from '#src/nats/errors.ts'
import { readPositions, type Positions } from '#src/postgres/checkpoint.ts'
import { isMissing, isUnavailable, type Pool } from '#src/postgres/pool.ts'
import { isMade, liveSet } from '#src/postgres/table-sets.ts'
import { Busy } from './exclusive.ts'
import type { RebuildProjection } from './rebuild.ts'
import { createLagMeter, type Lag } from './lag.ts'
import { countDeadLetters, retryDeadLetters } from './dead-letters.ts'
import { progressText } from './progress.ts'
import { markUsed, tidy } from './swap.ts'
import { together } from './together.ts'
import { createWriter, Overtaken, type Item } from './write.ts'

export interface Projector extends Role {
  /** Its projection's name. */
  projection: string
  lag(): Lag
  /** Facts that could not be written, by the last look. */
  deadLetters(): number
}

export interface ProjectorOptions {
  bus: Bus
  pool: Pool
  log: Log
  /** Makes a view anew from the log, beside the one that is read. */
  build: RebuildProjection
}

/** Facts of one stream, in order, at least one. */
type Batch = Item[]

const BATCH_MAX = 500
/** A transaction costs PostgreSQL about the same however few facts it brings; a read waits this long at most. */
const GATHER_MS = 20
const FAULT_PAUSE_MS = 5000
/** Before a view that is gone is made anew: it may be the database that is. */
const MISSING_PAUSE_MS = 500
/** Between two looks at a rival's checkpoint. */
const LOOK_MS = 500
/** Following goes on by itself and tells of each failure anew within this time: after it, silence means it works. */
const TROUBLE_STAYS_MS = 10_000
/** Between two looks at what is dead-lettered or left over. */
const TEND_MS = 600_000

/** One projector for each projection. */
export function createProjectors (
  { projections, ...options }: ProjectorOptions & { projections: Record<string, Projection> }
): Projector[] {
  return Object.values(projections).map(projection => createProjector(projection, options))
}

/** Writes the facts of a projection's streams into its tables for ever, one transaction at a time: the rows, and the
 *  checkpoint by compare-and-set. Any number may run: one writes, the others find the checkpoint moved and wait. Makes
 *  the view where there is none, or one of another log. Outlives NATS and PostgreSQL being away. */
function createProjector (projection: Projection, { bus, pool, log: parent, build }: ProjectorOptions): Projector {
  const set = liveSet(projection)
  const name = `projection ${projection.name}`
  const log = parent.child({ projection: projection.name })
  const stopping = new AbortController()
  const meter = createLagMeter(bus)
  const writer = createWriter({ pool, set, onDeadLetter })
  let unhealthyReason: string | null = 'starting'
  let busTrouble = { text: '', toldMs: -Infinity }
  let deadLetters = 0
  let retryDueMs = 0

  async function run (): Promise<void> {
    let overtaken = false
    while (!stopping.signal.aborted) {
      try {
        if (overtaken) await patiently(untilStill)
        const positions = await patiently(ready)
        await patiently(() => markUsed(pool, set))
        await patiently(tryDeadLetters)
        await followOn(positions)
        overtaken = false
      } catch (error) {
        meter.lost()
        overtaken = error instanceof Overtaken
        if (isMissing(error)) await rest(`the view is not there: ${asError(error).message}`, MISSING_PAUSE_MS)
        else if (!overtaken) await rest(`facts cannot be followed: ${asError(error).message}`)
      }
    }
  }

  /** Where to go on from. Makes the view first where that is needed. */
  async function ready (): Promise<Positions> {
    for (;;) {
      stopping.signal.throwIfAborted()
      const why = await whyAnew()
      if (why === null) return await readPositions(pool, set)
      await make(why)
    }
  }

  /** null = there is a view by this code's texts, of this log. */
  async function whyAnew (): Promise<string | null> {
    if (!await isMade(pool, set)) return 'it is not there'
    const positions = await readPositions(pool, set)
    for (const { stream } of projection.streams) {
      if (positions[stream]! > await lastSequence(bus, stream)) {
        return `it has seen more of ${stream} than there is: the log is another one`
      }
    }
    return null
  }

  async function make (why: string): Promise<void> {
    unhealthyReason = `the view is made from the log: ${why}`
    log.info({ reason: why }, 'the view is made from the log')
    try {
      await build(projection, {
        why,
        signal: stopping.signal,
        onProgress: progress => {
          unhealthyReason = `the view is made from the log: ${progressText(progress)}`
        },
        isNeeded: async () => await whyAnew() !== null
      })
    } catch (error) {
      if (!(error instanceof Busy)) throw error
      tell('the view is made from the log by another process')
      await sleep(LOOK_MS, stopping.signal)
    }
  }

  /** Follows from `positions` until told to stop, another projector moves the checkpoint, or the log turns out to be
   *  another one. */
  async function followOn (positions: Positions): Promise<void> {
    const ending = new AbortController()
    try {
      for await (const batches of together(projection.streams.map(source => read(source, positions, ending)))) {
        const items = batches.flat()
        meter.holds(items)
        // When PostgreSQL went away in the middle of a batch that was halved, its first half is written.
        await patiently(() => writer.write(items.filter(({ stream, seq }) => seq > positions[stream]!), positions))
        meter.wrote(items)
        await patiently(tryDeadLetters)
      }
    } finally {
      ending.abort()
    }
  }

  async function* read (
    { stream, filter }: Source,
    positions: Positions,
    ending: AbortController
  ): AsyncGenerator<Batch> {
    const signal = AbortSignal.any([stopping.signal, ending.signal])
    const onFollowing = (consumer: string) => {
      meter.follows(stream, consumer)
      endIfForeign(stream, positions, ending).catch(onError)
    }
    for await (
      const found of follow(bus, {
        stream,
        filter,
        afterSeq: positions[stream]!,
        batchMax: BATCH_MAX,
        gatherMs: GATHER_MS,
        signal,
        onError,
        onFollowing
      }, tryDecode)
    ) {
      yield found.map(item => ({ stream, ...item }))
    }
  }

  /** A stream that was lost is made again, empty, by whoever finds it missing. */
  async function endIfForeign (stream: string, positions: Positions, ending: AbortController): Promise<void> {
    if (positions[stream]! > await lastSequence(bus, stream)) ending.abort()
  }

  /** Before it follows, and now and then. */
  async function tryDeadLetters (): Promise<void> {
    if (Date.now() < retryDueMs) return
    await retryDeadLetters(bus, pool, set, log, stopping.signal)
    deadLetters = await countDeadLetters(pool, set)
    retryDueMs = Date.now() + TEND_MS
  }

  /** Says again that this version is in use, and clears away what is left of earlier views: not at the start, where it
   *  would hold up the first look. */
  async function tend (): Promise<void> {
    await markUsed(pool, set)
    const dropped = await tidy(pool, projection)
    if (dropped.length > 0) log.info({ dropped }, 'what was left of earlier views is dropped')
  }

  /** Returns once nobody has moved the checkpoint between two looks: whoever overtook us is gone, or there is nothing
   *  to do. */
  async function untilStill (): Promise<void> {
    for (let before = ''; !stopping.signal.aborted;) {
      const now = JSON.stringify(await readPositions(pool, set))
      if (now === before) return
      before = now
      await sleep(LOOK_MS, stopping.signal)
    }
  }

  /** Tries again until it works: soon while NATS or PostgreSQL is away, every 5 s when it does not take what we write.
   *  Stops only when told to. */
  async function patiently<T> (attempt: () => Promise<T>): Promise<T> {
    for (let tries = 1;; tries++) {
      try {
        const result = await attempt()
        unhealthyReason = null
        return result
      } catch (error) {
        if (error instanceof Overtaken || stopping.signal.aborted || isMissing(error)) throw error
        // The message alone: the driver's other fields quote rows.
        const silent = isUnanswered(error) ? 'NATS' : isUnavailable(error) ? 'PostgreSQL' : null
        if (silent !== null) {
          await rest(`${silent} does not answer: ${asError(error).message}`, backoffMs(tries, 100, 2000))
        } else await rest(`PostgreSQL does not take what facts say: ${asError(error).message} (${errorCode(error)})`)
      }
    }
  }

  async function rest (why: string, pauseMs = FAULT_PAUSE_MS): Promise<void> {
    if (stopping.signal.aborted) return
    tell(why)
    await sleep(pauseMs, stopping.signal)
  }

  function tell (why: string): void {
    if (unhealthyReason !== why) log.warn({ reason: why }, 'projection interrupted')
    unhealthyReason = why
  }

  function onError (error: Error): void {
    busTrouble = { text: `NATS does not give its facts: ${error.message}`, toldMs: Date.now() }
  }

  function onDeadLetter (item: Pick<Item, 'stream' | 'seq' | 'subject'>, reason: string): void {
    deadLetters++
    log.error({ ...item, reason }, 'fact dead-lettered: the view goes on without it')
  }

  const tending = setInterval(() => {
    tend().catch(error => log.warn({ reason: asError(error).message }, 'what is left of earlier views stays for now'))
  }, TEND_MS)
  const running = run()
  return {
    name,
    projection: projection.name,
    unhealthyReason: () =>
      unhealthyReason ?? (Date.now() - busTrouble.toldMs < TROUBLE_STAYS_MS ? busTrouble.text : null),
    lag: meter.read,
    deadLetters: () => deadLetters,
    async stop () {
      stopping.abort()
      clearInterval(tending)
      meter.stop()
      await running
    }
  }
}
