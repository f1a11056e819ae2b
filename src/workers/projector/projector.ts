import type { Projection, Source } from '#projections/define.ts'
import { backoffMs, sleep } from '#src/base/backoff.ts'
import { asError, errorCode } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import { repeat } from '#src/base/repeat.ts'
import type { Role } from '#src/base/role.ts'
import type { Bus } from '#src/nats/connect.ts'
import { isUnanswered } from '#src/nats/errors.ts'
import { follow } from '#src/nats/follow.ts'
import { isBeyond } from '#src/nats/certain.ts'
import { tryDecode } from '#src/nats/message.ts'
import { readPositions, type Positions } from '#src/postgres/checkpoint.ts'
import { isMissing, isUnavailable, type Pool } from '#src/postgres/pool.ts'
import { isCreated, liveSet, type TableSet } from '#src/postgres/table-sets.ts'
import { SharedCommit, type Commit } from './commit.ts'
import { countDeadLetters, retryDeadLetters } from './dead-letters.ts'
import { AlreadyRebuilding } from './exclusive.ts'
import { Gathering } from './gathering.ts'
import { LagMeter, type Lag } from './lag.ts'
import { progressText } from './progress.ts'
import type { RebuildProjection } from './rebuild.ts'
import { dropUnused, markUsed } from './swap.ts'
import { createWriter, Overtaken, type StreamItem, type Writer } from './write.ts'

/** Merges several endless sources: each turn yields what is ready of all of them, at least one item. It reads one item
 *  ahead per source, no more: a slow reader holds the sources up. Ends when all have ended; throws when one throws. */
async function* mergeReady<T> (sources: Array<AsyncIterator<T>>): AsyncGenerator<T[]> {
  const ready: T[] = []
  const idle: Array<AsyncIterator<T>> = []
  const awaited = new Map<AsyncIterator<T>, Promise<void>>()

  function readNext (source: AsyncIterator<T>): void {
    const next = source.next().then(({ done, value }) => {
      awaited.delete(source)
      if (done === true) return
      ready.push(value)
      idle.push(source)
    })
    // It may fail while nobody waits for it; the race below hears of it.
    next.catch(() => {})
    awaited.set(source, next)
  }

  for (const source of sources) readNext(source)
  while (awaited.size > 0 || ready.length > 0) {
    if (ready.length === 0) await Promise.race(awaited.values())
    // One turn of the event loop: what became ready at the same time comes along.
    await new Promise(setImmediate)
    if (ready.length === 0) continue
    const taken = ready.splice(0)
    for (const source of idle.splice(0)) readNext(source)
    yield taken
  }
}

export interface Projector extends Role {
  /** Its projection's name. */
  projection: string
  lag(): Lag
  /** Facts that could not be written, as last counted. */
  deadLetters(): number
  /** How far its rebuild has come: `43 %, 2 min left`; null = it is not being rebuilt here. */
  rebuilding(): string | null
}

export interface ProjectorOptions {
  bus: Bus
  pool: Pool
  log: Log
  rebuild: RebuildProjection
  /** Facts that nobody waits for are gathered for so long; 250 ms unless given. */
  patientMs?: number
}

const BATCH_MAX = 500
const FAULT_PAUSE_MS = 5000
/** Before tables that are missing are rebuilt: the whole database may be. */
const MISSING_PAUSE_MS = 500
/** Between two reads of another projector's checkpoint. */
const POLL_MS = 500
/** NATS reports each failure to follow within this time: after it, silence means it works. */
const INTERRUPTION_MS = 10_000
/** Between two retries of dead letters, and two cleanups. */
const MAINTENANCE_MS = 600_000

/** What the projectors of a process share. */
interface SharedWriting extends ProjectorOptions {
  gathering: Gathering
  commit: Commit
}

/** One projector for each projection. */
export function createProjectors (
  { projections, ...options }: ProjectorOptions & { projections: Record<string, Projection> }
): Projector[] {
  const all = Object.values(projections)
  const { commit } = new SharedCommit(options.pool, all.map(liveSet))
  const gathering = new Gathering({ ...options, members: all.length })
  return all.map(projection => startProjector(projection, { ...options, gathering, commit }))
}

function startProjector (projection: Projection, options: SharedWriting): Projector {
  const projector = new LogProjector(projection, options)
  return {
    name: `projection ${projection.name}`,
    projection: projection.name,
    unhealthyReason: () => projector.unhealthyReason(),
    lag: () => projector.lag(),
    deadLetters: () => projector.deadLetters(),
    rebuilding: () => projector.rebuilding(),
    stop: () => projector.stop()
  }
}

/** Writes the facts of a projection's streams into its tables for ever, one transaction at a time: the rows, and the
 *  checkpoint by compare-and-set. Any number may run: one writes, the others find the checkpoint moved and wait.
 *  Rebuilds the projection where its tables are missing, or are of another log. Outlives outages of NATS and
 *  PostgreSQL. */
class LogProjector {
  private readonly projection: Projection
  private readonly bus: Bus
  private readonly pool: Pool
  private readonly log: Log
  private readonly rebuild: RebuildProjection
  private readonly set: TableSet
  private readonly meter: LagMeter
  private readonly writer: Writer
  private readonly gathering: Gathering
  private readonly stopping = new AbortController()
  private readonly maintenance: Role
  private readonly running: Promise<void>
  private problem: string | null = 'starting'
  private interruption = { reason: '', atMs: -Infinity }
  private progress: string | null = null
  private deadLetterCount = 0
  private retryDueMs = 0

  constructor (projection: Projection, { bus, pool, log, rebuild, gathering, commit }: SharedWriting) {
    this.projection = projection
    this.bus = bus
    this.pool = pool
    this.log = log.child({ projection: projection.name })
    this.rebuild = rebuild
    this.set = liveSet(projection)
    this.meter = new LagMeter(bus, projection)
    const onDeadLetter = this.onDeadLetter.bind(this)
    this.gathering = gathering
    this.writer = createWriter({ set: this.set, commit, onDeadLetter })
    this.maintenance = repeat({
      name: `maintenance of ${projection.name}`,
      // At the start it would hold up the first batch.
      firstInMs: MAINTENANCE_MS,
      round: () => this.maintain(),
      againMs: MAINTENANCE_MS,
      roundMsMax: MAINTENANCE_MS,
      onError: ({ message }) => this.log.warn({ reason: message }, 'cleanup failed; it is retried')
    })
    this.running = this.run()
  }

  unhealthyReason (): string | null {
    const { reason, atMs } = this.interruption
    return this.problem ?? (Date.now() - atMs < INTERRUPTION_MS ? reason : null)
  }

  lag (): Lag {
    return this.meter.read()
  }

  deadLetters (): number {
    return this.deadLetterCount
  }

  rebuilding (): string | null {
    return this.progress
  }

  async stop (): Promise<void> {
    this.stopping.abort()
    this.gathering.leave()
    await Promise.all([this.running, this.maintenance.stop(), this.meter.stop()])
  }

  private async run (): Promise<void> {
    let overtaken = false
    while (!this.stopping.signal.aborted) {
      try {
        if (overtaken) await this.retry(() => this.untilStill())
        const positions = await this.retry(() => this.readyPositions())
        await this.retry(() => markUsed(this.pool, this.set))
        await this.retry(() => this.retryDeadLetters())
        await this.followFrom(positions)
        overtaken = false
      } catch (error) {
        this.meter.reset()
        overtaken = error instanceof Overtaken
        const { message } = asError(error)
        if (isMissing(error)) await this.pause(`the projection's tables are missing: ${message}`, MISSING_PAUSE_MS)
        else if (!overtaken) await this.pause(`cannot follow the log: ${message}`)
      }
    }
  }

  /** Where to go on from. Rebuilds the projection first when it must. */
  private async readyPositions (): Promise<Positions> {
    for (;;) {
      this.stopping.signal.throwIfAborted()
      const why = await this.whyRebuild()
      if (why === null) return await readPositions(this.pool, this.set)
      await this.rebuildFirst(why)
    }
  }

  /** null = the tables are there, by this code's SQL and of this log. */
  private async whyRebuild (): Promise<string | null> {
    if (!await isCreated(this.pool, this.set)) return 'its tables are missing, or of another version'
    const positions = await readPositions(this.pool, this.set)
    for (const { stream } of this.projection.streams) {
      if (await isBeyond(this.bus, stream, positions[stream]!, this.stopping.signal)) {
        return `it has seen more of ${stream} than there is: the log is another one`
      }
    }
    return null
  }

  private async rebuildFirst (why: string): Promise<void> {
    this.problem = `rebuilding: ${why}`
    this.log.info({ reason: why }, 'projection must be rebuilt')
    try {
      await this.rebuild(this.projection, {
        why,
        signal: this.stopping.signal,
        onProgress: progress => {
          this.progress = progressText(progress)
          this.problem = `rebuilding: ${this.progress}`
        },
        isNeeded: async () => await this.whyRebuild() !== null
      })
    } catch (error) {
      if (!(error instanceof AlreadyRebuilding)) throw error
      this.report('another process is rebuilding it')
      await sleep(POLL_MS, this.stopping.signal)
    } finally {
      this.progress = null
    }
  }

  /** Follows from `positions` until told to stop, another projector moves the checkpoint, or the log turns out to be
   *  another one. */
  private async followFrom (positions: Positions): Promise<void> {
    const ending = new AbortController()
    this.meter.follow(positions)
    try {
      const sources = this.projection.streams.map(source => this.itemsOf(source, positions, ending))
      for await (const batches of mergeReady(sources)) {
        const items = batches.flat()
        this.meter.received(items)
        await this.retry(() => {
          // When PostgreSQL fails in the middle of a batch that was halved, its first half is written.
          const unwritten = items.filter(({ stream, seq }) => seq > positions[stream]!)
          return this.writer.write(unwritten, positions)
        })
        this.meter.wrote(items)
        await this.retry(() => this.retryDeadLetters())
      }
    } finally {
      ending.abort()
    }
  }

  /** In order, at least one at a time. */
  private async *itemsOf (
    { stream, filter }: Source,
    positions: Positions,
    ending: AbortController
  ): AsyncGenerator<StreamItem[]> {
    const onError = this.onInterruption.bind(this)
    const options = {
      stream,
      filter,
      afterSeq: positions[stream]!,
      batchMax: BATCH_MAX,
      gather: () => this.gathering.wait(),
      shared: true,
      signal: AbortSignal.any([this.stopping.signal, ending.signal]),
      onError,
      onFollowing: () => {
        this.endIfForeign(stream, positions, ending).catch(onError)
      }
    }
    for await (const batch of follow(this.bus, options, tryDecode)) yield batch.map(item => ({ stream, ...item }))
  }

  /** A stream that was lost is recreated empty by the first process that finds it missing. */
  private async endIfForeign (stream: string, positions: Positions, ending: AbortController): Promise<void> {
    if (await isBeyond(this.bus, stream, positions[stream]!, ending.signal)) ending.abort()
  }

  /** Before it follows, and now and then. */
  private async retryDeadLetters (): Promise<void> {
    if (Date.now() < this.retryDueMs) return
    await retryDeadLetters(this.bus, this.pool, this.set, this.log, this.stopping.signal)
    this.deadLetterCount = await countDeadLetters(this.pool, this.set)
    this.retryDueMs = Date.now() + MAINTENANCE_MS
  }

  /** Marks this version as used, and drops table sets that are not. Resolves to the ms until the next time. */
  private async maintain (): Promise<number> {
    await markUsed(this.pool, this.set)
    const dropped = await dropUnused(this.pool, this.projection)
    if (dropped.length > 0) this.log.info({ dropped }, 'unused tables dropped')
    return MAINTENANCE_MS
  }

  /** Returns once nobody has moved the checkpoint between two reads: the projector that overtook us is gone, or there
   *  is nothing to do. */
  private async untilStill (): Promise<void> {
    for (let before = ''; !this.stopping.signal.aborted;) {
      const now = JSON.stringify(await readPositions(this.pool, this.set))
      if (now === before) return
      before = now
      await sleep(POLL_MS, this.stopping.signal)
    }
  }

  /** Retries until it works: soon while NATS or PostgreSQL does not answer, every 5 s when PostgreSQL refuses what we
   *  write. Throws only on stop, when another projector has taken over, and when tables are missing. */
  private async retry<T> (attempt: () => Promise<T>): Promise<T> {
    for (let tries = 1;; tries++) {
      try {
        const result = await attempt()
        this.problem = null
        return result
      } catch (error) {
        if (error instanceof Overtaken || this.stopping.signal.aborted || isMissing(error)) throw error
        // The message alone: the driver's other fields quote rows.
        const { message } = asError(error)
        const silent = isUnanswered(error) ? 'NATS' : isUnavailable(error) ? 'PostgreSQL' : null
        if (silent !== null) await this.pause(`${silent} does not answer: ${message}`, backoffMs(tries, 100, 2000))
        else await this.pause(`PostgreSQL refuses the rows: ${message} (${errorCode(error)})`)
      }
    }
  }

  private async pause (why: string, ms = FAULT_PAUSE_MS): Promise<void> {
    if (this.stopping.signal.aborted) return
    this.report(why)
    await sleep(ms, this.stopping.signal)
  }

  private report (why: string): void {
    if (this.problem !== why) this.log.warn({ reason: why }, 'projection interrupted')
    this.problem = why
  }

  private onInterruption ({ message }: Error): void {
    this.interruption = { reason: `NATS interrupted the stream of facts: ${message}`, atMs: Date.now() }
  }

  private onDeadLetter (item: Pick<StreamItem, 'stream' | 'seq' | 'subject'>, reason: string): void {
    this.deadLetterCount++
    this.log.error({ ...item, reason }, 'fact dead-lettered: the projection goes on without it')
  }
}
