import type { Projection } from '#projections/define.ts'
import { projections } from '#projections/list.ts'
import type { Clock } from '#src/base/clock.ts'
import { asError, deadline, Late } from '#src/base/errors.ts'
import { counted, duration } from '#src/base/figures.ts'
import type { Log } from '#src/base/log.ts'
import type { Bus } from '#src/nats/connect.ts'
import type { StreamStatus } from '#src/nats/status.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { liveSet } from '#src/postgres/table-sets.ts'
import { countDeadLetters, retryDeadLetters } from '#src/workers/projector/dead-letters.ts'
import type { Lag } from '#src/workers/projector/lag.ts'
import { openRebuilder, type Servers } from '#src/workers/projector/rebuild.ts'
import { createRebuilds, type Rebuild, type Rebuilds } from '#src/workers/projector/rebuilds.ts'
import {
  beingRebuilt,
  lagBehind,
  newestDeadLetters,
  projectionStatus,
  type DatedDeadLetter,
  type ProjectionStatus
} from '#src/workers/projector/status.ts'
import { cachedFor, reportOn, unavailable, type OperationsReport } from './report.ts'
import { lagState } from './thresholds.ts'

export type { Rebuild } from '#src/workers/projector/rebuilds.ts'

export interface ProjectionReport {
  name: string
  version: number
  /** null = not known now. */
  lag: Lag | null
  /** null = not known now. */
  status: ProjectionStatus | null
  /** Another process rebuilds it now, or its own projector does. */
  isRebuiltElsewhere: boolean
  /** Messages in its streams: a rebuild reads no more facts than that; null = not known now. */
  factsMax: number | null
  /** The last rebuild that was started here, running or ended. */
  rebuild: Rebuild | null
}

export interface ProjectionDeadLetters {
  projection: string
  count: number
  facts: DatedDeadLetter[]
}

export interface ProjectionMonitorOptions {
  bus: Bus
  pool: Pool
  servers: Servers
  clock: Clock
  log: Log
  /** Throws OperationsUnavailable while NATS is away. */
  connected: () => Bus
}

const SHARED_MS = 1000
const DEAD_LETTERS_MAX = 20
const RETRY_MS = 8000

const ALL = Object.values<Projection>(projections)

/** Reports on projections, rebuilds them, and retries their dead-lettered facts. */
export class ProjectionMonitor {
  private readonly options: ProjectionMonitorOptions
  private readonly rebuilds: Rebuilds
  private readonly retries = new Map<string, Promise<number>>()
  private readonly stopping = new AbortController()
  private readonly statuses = cachedFor(SHARED_MS, async () => await this.readStatuses())
  private readonly lags = cachedFor(SHARED_MS, async () => await this.readLags())

  constructor (options: ProjectionMonitorOptions) {
    const { bus, pool, log, servers, clock } = options
    this.options = options
    const { rebuild } = openRebuilder({ bus, pool, log, ...servers })
    this.rebuilds = createRebuilds({ rebuild, nowMs: () => clock.nowMs() })
  }

  /** `streams` = their status, as far as it is known. */
  async report (streams: Promise<OperationsReport<StreamStatus[]>>): Promise<OperationsReport<ProjectionReport[]>> {
    const [statuses, lags, { value: known }] = await Promise.all([
      reportOn('The status of projections', this.statuses()),
      reportOn('The lag of projections', this.lags()),
      streams
    ])
    const reports = ALL.map((projection): ProjectionReport => {
      const { name, version } = projection
      const rebuild = this.rebuilds.of(projection)
      const isRebuilt = statuses.value?.rebuilding.has(name) === true
      return {
        name,
        version,
        lag: lags.value?.get(name) ?? null,
        status: statuses.value?.found.get(name) ?? null,
        isRebuiltElsewhere: isRebuilt && hadEnded(rebuild, statuses.value!.atMs),
        factsMax: messagesIn(projection, known),
        rebuild
      }
    })
    return { value: reports, problems: [...new Set([...statuses.problems, ...lags.problems])] }
  }

  /** Starts a rebuild beside the tables that are read. A sentence when it cannot; null = it has started. */
  async rebuild (name: string): Promise<string | null> {
    const refusal = await this.rebuilds.begin(projectionOf(name))
    this.statuses.forget()
    return refusal
  }

  /** Stops the rebuild that runs in this process; the next one continues from there. False = none runs. */
  stopRebuild (name: string): boolean {
    return this.rebuilds.end(projectionOf(name))
  }

  /** The newest of each projection that has some. */
  async deadLetters (): Promise<OperationsReport<ProjectionDeadLetters[]>> {
    const { value, problems } = await reportOn('The dead-lettered facts', this.readDeadLetters())
    return { value: value ?? [], problems }
  }

  /** Retries the dead-lettered facts of a projection. How many stay; null = it takes longer, and continues. Throws
   *  OperationsUnavailable. */
  async retryDeadLetters (name: string): Promise<number | null> {
    try {
      return await deadline(this.retry(projectionOf(name)), RETRY_MS, 'It takes longer')
    } catch (error) {
      if (error instanceof Late) return null
      throw unavailable('The dead-lettered facts', error)
    }
  }

  /** Rebuilds stop; retries end after the fact they are at. */
  async stop (): Promise<void> {
    this.stopping.abort()
    const retries = [...this.retries.values()].map(async retry => await retry.catch(() => {}))
    await Promise.all([this.rebuilds.stop(), ...retries])
  }

  private async readStatuses () {
    const { pool, clock } = this.options
    const found = new Map<string, ProjectionStatus | null>()
    const atMs = clock.nowMs()
    const rebuilding = await beingRebuilt(pool, ALL)
    // One after the other: the connections are shared with the API, which comes first.
    for (const projection of ALL) found.set(projection.name, await projectionStatus(pool, projection))
    return { found, rebuilding, atMs }
  }

  private async readLags (): Promise<Map<string, Lag>> {
    const { clock, connected } = this.options
    const { found } = await this.statuses()
    const lags = await Promise.all(ALL.map(async projection => {
      const status = found.get(projection.name)
      if (status == null) return []
      return [[projection.name, await lagBehind(connected(), projection, status.positions, clock.nowMs())] as const]
    }))
    return new Map(lags.flat())
  }

  private async readDeadLetters (): Promise<ProjectionDeadLetters[]> {
    const { found } = await this.statuses()
    const countOf = ({ name }: Projection) => found.get(name)?.deadLetters ?? 0
    const affected = ALL.filter(projection => countOf(projection) > 0)
    return await Promise.all(affected.map(async projection => ({
      projection: projection.name,
      count: countOf(projection),
      facts: await newestDeadLetters(this.options.pool, projection, DEAD_LETTERS_MAX)
    })))
  }

  /** One at a time a projection; later callers get the same. */
  private retry (projection: Projection): Promise<number> {
    const { name } = projection
    const running = this.retries.get(name)
    if (running !== undefined) return running
    const work = this.retryAll(projection).finally(() => {
      this.retries.delete(name)
      this.statuses.forget()
    })
    // The caller may have left.
    work.catch(error => {
      this.options.log.warn({ projection: name, reason: asError(error).message }, 'retry of dead-lettered facts failed')
    })
    this.retries.set(name, work)
    return work
  }

  private async retryAll (projection: Projection): Promise<number> {
    const { bus, pool, log } = this.options
    await retryDeadLetters(bus, pool, liveSet(projection), log, this.stopping.signal)
    return await countDeadLetters(pool, liveSet(projection))
  }
}

function projectionOf (name: string): Projection {
  return ALL.find(projection => projection.name === name)!
}

/** null = the size of one of them is not known. */
function messagesIn ({ streams }: Projection, known: StreamStatus[]): number | null {
  const counts = streams.map(({ stream }) => known.find(({ name }) => name === stream)?.messages ?? null)
  return counts.includes(null) ? null : counts.reduce<number>((sum, count) => sum + count!, 0)
}

/** A rebuild seen at that time is then another process's. */
function hadEnded (rebuild: Rebuild | null, atMs: number): boolean {
  return rebuild === null || (rebuild.endedMs !== null && rebuild.endedMs < atMs)
}

/** What is wrong with a projection. */
interface ProjectionAlarm {
  kind: 'projection_lag' | 'dead_letters'
  what: string
  why: string
}

/** What is not known is not wrong. */
export function projectionAlarms (
  { name, lag, status }: Pick<ProjectionReport, 'name' | 'lag' | 'status'>
): ProjectionAlarm[] {
  const alarms: ProjectionAlarm[] = []
  if (lag !== null && lagState(lag) === 'behind') {
    const by = `By ${counted(lag.facts, 'fact')} and ${duration(lag.seconds * 1000)}.`
    alarms.push({
      kind: 'projection_lag',
      what: `Projection ${name} is behind the log`,
      why: `${by} Emails are still sent; lists are out of date.`
    })
  }
  const deadLetters = status?.deadLetters ?? 0
  if (deadLetters > 0) {
    alarms.push({
      kind: 'dead_letters',
      what: `Projection ${name} has ${counted(deadLetters, 'dead-lettered fact')}`,
      why: 'It could not write them. Lists lack them; the log has them.'
    })
  }
  return alarms
}
