import { hostname } from 'node:os'
import type { Counts } from '#projections/counts.ts'
import { fares } from '#projections/stats/queries.ts'
import { figuresOf } from '#projections/stats/records.ts'
import { SANDBOX_DOMAIN } from '#streams/key/decide.ts'
import { consumerPlans, streamPlans, type Retention } from '#streams/topology.ts'
import type { Clock } from '#src/base/clock.ts'
import { asError, deadline } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import type { HealthCheck } from '#src/base/role.ts'
import type { Bus } from '#src/nats/connect.ts'
import { consumerStatus, streamStatus, type ConsumerStatus, type StreamStatus } from '#src/nats/status.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'
import type { Servers } from '#src/workers/projector/rebuild.ts'
import packageJson from '../../package.json' with { type: 'json' }
import { readInboundMail, readInboundMailAt, type InboundMailOptions, type InboundMailPage } from './inbound-mail.ts'
import { ProjectionMonitor } from './projection-monitor.ts'
import { cachedFor, OperationsUnavailable, QUERY_MS, reportOn, reportOnEach, type OperationsReport } from './report.ts'

export interface OperationsServiceOptions {
  bus: Bus
  pool: Pool
  servers: Servers
  retention: Retention
  /** Those of /readyz. */
  checks: HealthCheck[]
  roles: Iterable<string>
  clock: Clock
  log: Log
}

/** One part of this process; `reason` = why it is not ready. */
export interface CheckReport {
  name: string
  reason: string | null
}

/** What became of the mails of a time. */
export interface RateReport {
  /** Mails with an end, and how many of them came back. */
  settled: number
  bounced: number
  bounceRate: number | null
  delivered: number
  complained: number
  complaintRate: number | null
}

/** Of one sending domain. */
export interface ReputationReport {
  account: string
  domain: string
  day: RateReport
  week: RateReport
}

/** Callers within this time share a result. */
const SHARED_MS = 1000
/** Counting all mail of a week takes longer, and changes little. */
const REPUTATION_SHARED_MS = 10_000
const DOMAINS_MAX = 200
const HOUR_MS = 3_600_000

/** What the Operations pages show and do. Each query has a deadline, and callers within a second share it. */
export class OperationsService {
  readonly projections: ProjectionMonitor
  readonly process: { host: string, roles: string[], version: string, sinceMs: number }
  private readonly options: OperationsServiceOptions
  private readonly readStreams = cachedFor(SHARED_MS, async () => {
    const plans = streamPlans(this.options.retention)
    return await reportOnEach(plans, ({ name }) => name, async ({ name }) => await streamStatus(this.connected(), name))
  })
  private readonly readConsumers = cachedFor(SHARED_MS, async () => {
    const plans = Object.values(consumerPlans).flat()
    return await reportOnEach(plans, plan => plan.durable_name, async plan => {
      return await consumerStatus(this.connected(), plan)
    })
  })
  private readonly readReputation = cachedFor(REPUTATION_SHARED_MS, async () => {
    const toMs = Math.ceil(this.options.clock.nowMs() / HOUR_MS) * HOUR_MS
    const query = fares({ fromMs: toMs - 7 * 24 * HOUR_MS, recentMs: toMs - 24 * HOUR_MS, limit: DOMAINS_MAX })
    return await ask(this.options.pool, query)
  })

  constructor (options: OperationsServiceOptions) {
    const { bus, pool, servers, clock, log, roles } = options
    this.options = options
    this.projections = new ProjectionMonitor({ bus, pool, servers, clock, log, connected: () => this.connected() })
    this.process = {
      host: hostname(),
      roles: [...roles],
      version: packageJson.version,
      sinceMs: Math.round(Date.now() - process.uptime() * 1000)
    }
  }

  /** The parts of this process, those of /readyz, with the reasons. */
  async checks (): Promise<CheckReport[]> {
    return await Promise.all(this.options.checks.map(async ({ name, check }) => {
      const checked = deadline(Promise.resolve(check()), QUERY_MS, `no answer within ${QUERY_MS / 1000} s`)
      return { name, reason: await checked.catch(error => asError(error).message) }
    }))
  }

  async streams (): Promise<OperationsReport<StreamStatus[]>> {
    return await this.readStreams()
  }

  /** Durable consumers; the partitions of one are added up. */
  async consumers (): Promise<OperationsReport<ConsumerStatus[]>> {
    const { value, problems } = await this.readConsumers()
    return { value, problems }
  }

  async projectionReports () {
    return await this.projections.report(this.readStreams())
  }

  /** Bounce and complaint rates by sending domain, without the sandbox's. */
  async reputation (): Promise<OperationsReport<ReputationReport[]>> {
    const { value, problems } = await reportOn('Bounce and complaint rates', this.readReputation())
    const domains = (value ?? []).filter(({ domain }) => domain !== SANDBOX_DOMAIN)
    return { value: domains.map(reputationOf), problems }
  }

  /** Mail that came in, the newest first. */
  async mail (options: InboundMailOptions): Promise<OperationsReport<InboundMailPage>> {
    const query = (async () => await readInboundMail(this.connected(), options))()
    const { value, problems } = await reportOn('The inbound mail', query, 3 * QUERY_MS)
    if (value === null) return { value: { mails: [], older: null, unread: 0 }, problems }
    if (value.unread === 0) return { value, problems }
    const unread = `This version of Jetpost cannot read ${value.unread} of the mails: a newer version stored them.`
    return { value, problems: [unread] }
  }

  /** One of them with its source; null = it is gone. Throws what `isUnanswered` knows. */
  async mailAt (seq: number) {
    return await readInboundMailAt(this.options.bus, seq)
  }

  async stop (): Promise<void> {
    await this.projections.stop()
  }

  /** Nothing is requested of a server that is away: the client would queue the requests until it is back. */
  private connected (): Bus {
    const { bus } = this.options
    if (bus.upSinceMs() === null) {
      throw new OperationsUnavailable('NATS does not answer: this process is not connected to it.')
    }
    return bus
  }
}

function reputationOf (
  { account, domain, all, recent }: { account: string, domain: string, all: Counts, recent: Counts }
): ReputationReport {
  return { account, domain, day: rateOf(recent), week: rateOf(all) }
}

function rateOf (counts: Counts): RateReport {
  const figures = figuresOf(counts)
  const { delivered, bounced, failed, complained } = figures
  return {
    settled: delivered + bounced + failed,
    bounced,
    bounceRate: figures.bounce_rate,
    delivered,
    complained,
    complaintRate: figures.complaint_rate
  }
}
