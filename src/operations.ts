import { hostname } from 'node:os'
import { projections } from '#projections/list.ts'
import type { Projection } from '#projections/define.ts'
import { figuresOf } from '#projections/stats/records.ts'
import { fares } from '#projections/stats/queries.ts'
import type { Counts } from '#projections/counts.ts'
import { SANDBOX_DOMAIN } from '#streams/key/decide.ts'
import { consumerPlans, streamPlans, type Retention } from '#streams/topology.ts'
import { timestamp, type Clock } from '#src/base/clock.ts'
import { asError, deadline, Late } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import {
  Untold,
  type ConsumerReport,
  type FareReport,
  type Operations,
  type DeadLetterReport,
  type PartReport,
  type ProjectionReport,
  type RateReport,
  type RebuildReport,
  type StreamReport,
  type Told
} from '#src/servers/dashboard/operations.ts'
import type { Part } from '#src/servers/ops/health.ts'
import { keptMail, keptMailAt } from '#src/servers/inbound-smtp/kept.ts'
import type { Bus } from '#src/nats/connect.ts'
import { isUnanswered, JetStreamError } from '#src/nats/errors.ts'
import { consumerStatus, streamStatus, type StreamStatus } from '#src/nats/status.ts'
import { openRebuilder, type Servers } from '#src/workers/projector/rebuild.ts'
import { countDeadLetters, retryDeadLetters } from '#src/workers/projector/dead-letters.ts'
import { createRebuilds, type Rebuild } from '#src/workers/projector/rebuilds.ts'
import {
  beingRebuilt,
  lagBehind,
  newestDeadLetters,
  projectionStatus,
  type ProjectionStatus
} from '#src/workers/projector/status.ts'
import { isMissing, isUnavailable, type Pool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'
import { liveSet } from '#src/postgres/table-sets.ts'
import packageJson from '../package.json' with { type: 'json' }

export interface OperationsOptions {
  bus: Bus
  pool: Pool
  servers: Servers
  retention: Retention
  /** As /readyz has them. */
  parts: Part[]
  roles: Iterable<string>
  clock: Clock
  log: Log
}

/** What the page Operations stands on; `stop` ends what was begun on it. */
export interface OpenOperations extends Operations {
  stop(): Promise<void>
}

/** Each look at somebody who may not answer. */
const LOOK_MS = 2500
const DEAD_LETTERS_MAX = 20
const RETRY_MS = 8000
const FARES_MAX = 200
const HOUR_MS = 3_600_000
/** Whoever looks within this time sees the same. */
const SHARED_MS = 1000
/** Counting all mail of a week takes longer, and changes little. */
const FARES_SHARED_MS = 10_000

const ALL = Object.values<Projection>(projections)

export function openOperations (
  { bus, pool, servers, retention, parts, roles, clock, log }: OperationsOptions
): OpenOperations {
  const rebuilds = createRebuilds({
    build: openRebuilder({ bus, pool, log, ...servers }).build,
    nowMs: () => clock.nowMs()
  })
  const retries = new Map<string, Promise<number>>()
  const stopping = new AbortController()

  const streams = shared(
    SHARED_MS,
    async () =>
      await each(streamPlans(retention), ({ name }) => name, async ({ name }) => await streamStatus(line(), name))
  )
  const consumers = shared(
    SHARED_MS,
    async () =>
      await each(
        Object.values(consumerPlans).flat(),
        plan => plan.durable_name,
        async plan => await consumerStatus(line(), plan)
      )
  )

  /** Nothing is asked of a server that is not there: the client would keep the questions until it is. */
  function line (): Bus {
    if (bus.upSinceMs() === null) throw new Untold('NATS does not answer: this process is not connected to it.')
    return bus
  }

  const views = shared(SHARED_MS, async () => {
    const found = new Map<string, ProjectionStatus | null>()
    const atMs = clock.nowMs()
    const making = await beingRebuilt(pool, ALL)
    // One after the other: this is nobody's first concern, and the connections are everybody's.
    for (const projection of ALL) found.set(projection.name, await projectionStatus(pool, projection))
    return { found, making, atMs }
  })

  const lags = shared(SHARED_MS, async () => {
    const { found } = await views()
    const behind = await Promise.all(ALL.map(async projection => {
      const view = found.get(projection.name)
      return view == null
        ? []
        : [[projection.name, await lagBehind(line(), projection, view.positions, clock.nowMs())] as const]
    }))
    return new Map(behind.flat())
  })

  async function readProjections (): Promise<Told<ProjectionReport[]>> {
    const [seen, behind, held] = await Promise.all([
      look('The views', views()),
      look('How far views are behind', lags()),
      streams()
    ])
    const reports = ALL.map((projection): ProjectionReport => {
      const { name, version } = projection
      const rebuild = rebuilds.of(projection)
      const view = seen.value?.found.get(name)
      return {
        name,
        version,
        lag: behind.value?.get(name) ?? null,
        view: view == null ? null : { deadLetters: view.deadLetters, bytes: view.bytes, madeAt: view.madeAt },
        isMadeElsewhere: seen.value !== null && seen.value.making.has(name) && isOverBefore(rebuild, seen.value.atMs),
        factsMax: messagesIn(projection, held.value),
        rebuild: rebuild === null ? null : reportOf(rebuild)
      }
    })
    return { value: reports, troubles: [...new Set([...seen.troubles, ...behind.troubles])] }
  }

  async function readDeadLetters (): Promise<Told<DeadLetterReport[]>> {
    const { value, troubles } = await look(
      'The dead-lettered facts',
      (async () => {
        const { found } = await views()
        const deadLetters = ALL.filter(({ name }) => (found.get(name)?.deadLetters ?? 0) > 0)
        return await Promise.all(deadLetters.map(async projection => ({
          projection: projection.name,
          count: found.get(projection.name)!.deadLetters,
          facts: await newestDeadLetters(pool, projection, DEAD_LETTERS_MAX)
        })))
      })()
    )
    return { value: value ?? [], troubles }
  }

  const readFares = shared(FARES_SHARED_MS, async () => {
    const toMs = Math.ceil(clock.nowMs() / HOUR_MS) * HOUR_MS
    return await ask(pool, fares({ fromMs: toMs - 7 * 24 * HOUR_MS, recentMs: toMs - 24 * HOUR_MS, limit: FARES_MAX }))
  })

  /** One at a time a view; who asks meanwhile waits for the same. */
  function retrying (projection: Projection): Promise<number> {
    const running = retries.get(projection.name)
    if (running !== undefined) return running
    const work = (async () => {
      await retryDeadLetters(bus, pool, liveSet(projection), log, stopping.signal)
      return await countDeadLetters(pool, liveSet(projection))
    })().finally(() => {
      retries.delete(projection.name)
      views.forget()
    })
    // Nobody may be waiting for it any more.
    work.catch(error =>
      log.warn(
        { projection: projection.name, reason: asError(error).message },
        'dead-lettered facts were not tried to the end'
      )
    )
    retries.set(projection.name, work)
    return work
  }

  return {
    process: {
      host: hostname(),
      roles: [...roles],
      version: packageJson.version,
      sinceMs: Math.round(Date.now() - process.uptime() * 1000)
    },
    parts: async () => await Promise.all(parts.map(reportOfPart)),
    async streams () {
      const { value, troubles } = await streams()
      return { value: value.map(withoutPlace), troubles }
    },
    async consumers () {
      const { value, troubles } = await consumers()
      return { value: joined(value), troubles }
    },
    projections: readProjections,
    async rebuild (name) {
      const refused = await rebuilds.begin(projectionOf(name))
      views.forget()
      return refused
    },
    endRebuild: name => rebuilds.end(projectionOf(name)),
    deadLetters: readDeadLetters,
    async retryDeadLetters (name) {
      try {
        return await deadline(retrying(projectionOf(name)), RETRY_MS, 'It takes longer')
      } catch (error) {
        if (error instanceof Late) return null
        throw untold('The dead-lettered facts', error)
      }
    },
    async reputation () {
      const { value, troubles } = await look('What became of mail', readFares())
      return { value: (value ?? []).filter(({ domain }) => domain !== SANDBOX_DOMAIN).map(fareOf), troubles }
    },
    async mail (options) {
      const { value, troubles } = await look(
        'The mail that came in',
        (async () => await keptMail(line(), options))(),
        3 * LOOK_MS
      )
      if (value === null) return { value: { mails: [], older: null }, troubles }
      return {
        value,
        troubles: value.unread === 0
          ? []
          : [`Mails that this Jetpost cannot read are left out (${value.unread}): most likely a newer one kept them.`]
      }
    },
    mailAt: async seq => await keptMailAt(bus, seq),
    async stop () {
      stopping.abort()
      await Promise.all([rebuilds.stop(), ...[...retries.values()].map(async retry => await retry.catch(() => {}))])
    }
  }
}

function projectionOf (name: string): Projection {
  return ALL.find(projection => projection.name === name)!
}

/** However many ask within a time, one look answers them, and until it is over no other begins, unless it is to be
 *  forgotten. */
function shared<T> (ms: number, find: () => Promise<T>): (() => Promise<T>) & { forget(): void } {
  let last: { found: Promise<T>, untilMs: number } | null = null
  const read = (): Promise<T> => {
    if (last !== null && performance.now() < last.untilMs) return last.found
    const look = { found: find(), untilMs: Infinity }
    const end = () => {
      look.untilMs = performance.now() + ms
    }
    look.found.then(end, end)
    last = look
    return look.found
  }
  return Object.assign(read, {
    forget: () => {
      last = null
    }
  })
}

/** What is found, or null and why not. Throws what is nobody's absence. */
async function look<T> (what: string, finding: Promise<T>, ms = LOOK_MS): Promise<Told<T | null>> {
  try {
    return { value: await deadline(finding, ms, `no answer within ${ms / 1000} s`), troubles: [] }
  } catch (error) {
    return { value: null, troubles: [untold(what, error).message] }
  }
}

/** Of many, each by itself: those that answer, and why others do not, each reason once. */
async function each<P, T> (plans: P[], nameOf: (plan: P) => string, find: (plan: P) => Promise<T>): Promise<Told<T[]>> {
  const found = await Promise.all(plans.map(async plan => await look(nameOf(plan), find(plan))))
  return {
    value: found.flatMap(({ value }) => (value === null ? [] : [value])),
    troubles: [...new Set(found.flatMap(({ troubles }) => troubles))]
  }
}

function untold (what: string, error: unknown): Untold {
  if (error instanceof Untold) return error
  const { message } = asError(error)
  if (error instanceof JetStreamError) return new Untold(`${what}: ${message}.`)
  if (isUnanswered(error) && !(error instanceof Late)) return new Untold(`NATS does not answer: ${message}.`)
  if (isMissing(error)) return new Untold(`${what} cannot be shown: the view is not made yet.`)
  if (isUnavailable(error)) return new Untold(`PostgreSQL does not answer: ${message}.`)
  if (error instanceof Late) return new Untold(`${what} cannot be shown: ${message}.`)
  throw error
}

async function reportOfPart ({ name, check }: Part): Promise<PartReport> {
  const checked = Promise.resolve(check())
  return {
    name,
    reason: await deadline(checked, LOOK_MS, `no answer within ${LOOK_MS / 1000} s`).catch(error =>
      asError(error).message
    )
  }
}

function withoutPlace ({ lastSeq: _lastSeq, ...stream }: StreamStatus): StreamReport {
  return stream
}

/** `deliveries-0` to `deliveries-7` are one. */
function joined (consumers: ConsumerReport[]): ConsumerReport[] {
  const byName = new Map<string, ConsumerReport>()
  for (const consumer of consumers) {
    const name = consumer.name.replace(/-\d+$/, '')
    const before = byName.get(name)
    byName.set(
      name,
      before === undefined ? { ...consumer, name } : {
        ...before,
        pending: before.pending + consumer.pending,
        ackPending: before.ackPending + consumer.ackPending,
        ackPendingMax: before.ackPendingMax + consumer.ackPendingMax,
        redelivered: before.redelivered + consumer.redelivered,
        waiting: before.waiting + consumer.waiting
      }
    )
  }
  return [...byName.values()]
}

/** null = one of them is not known. */
function messagesIn ({ streams }: Projection, found: StreamStatus[]): number | null {
  const counts = streams.map(({ stream }) => found.find(({ name }) => name === stream)?.messages ?? null)
  return counts.includes(null) ? null : counts.reduce<number>((sum, count) => sum + count!, 0)
}

/** What is made at that time is somebody else's. */
function isOverBefore (rebuild: Rebuild | null, atMs: number): boolean {
  return rebuild === null || (rebuild.endedMs !== null && rebuild.endedMs < atMs)
}

function reportOf ({ state, progress, reason, facts, seconds, endedMs }: Rebuild): RebuildReport {
  const { stage, done, total, perS, leftS } = progress ??
    { stage: 'beginning' as const, done: 0, total: 0, perS: 0, leftS: null }
  return {
    state,
    stage,
    done,
    total,
    perS,
    leftS,
    reason,
    facts,
    seconds,
    endedAt: endedMs === null ? null : timestamp(endedMs)
  }
}

function fareOf (
  { account, domain, all, recent }: { account: string, domain: string, all: Counts, recent: Counts }
): FareReport {
  return { account, domain, day: rateOf(recent), week: rateOf(all) }
}

function rateOf (counts: Counts): RateReport {
  const { delivered, bounced, failed, complained, bounce_rate: bounceRate, complaint_rate: complaintRate } = figuresOf(
    counts
  )
  return { settled: delivered + bounced + failed, bounced, bounceRate, delivered, complained, complaintRate }
}
