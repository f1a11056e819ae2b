import type { FastifyInstance } from 'fastify'
import { AggregatorRegistry, collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import { ALERT_CHANNELS, type AlertChannel } from '#streams/alert/facts.ts'

/** Values of this process, read when Prometheus scrapes. */
export interface Gauges {
  /** Facts waiting for a commit, by stream. */
  appendsPending(): Record<string, number>
  smtpInFlight(): number
  /** Clients of SMTP submission. */
  submissionConnections(): number
  /** Requests whose rate limit was decided without NATS, since the start. */
  limitsInexact(): number
  /** What a projection has yet to write, by projection: facts, and the age of the oldest. */
  projectionLag(): Record<string, { facts: number, seconds: number }>
  /** Facts a projection could not write, by projection. */
  projectionDeadLetters(): Record<string, number>
  /** Alerts that are not over, by kind. */
  alertsOpen(): Record<string, number>
  /** Messages that no worker has finished, by durable consumer; one that is not known is left out. */
  consumerBacklog(): Promise<Record<string, number>>
}

const SMTP_RESULTS = ['delivered', 'deferred', 'bounced', 'failed', 'in_doubt'] as const
const WEBHOOK_RESULTS = ['delivered', 'retrying', 'failed'] as const
const NOTICE_RESULTS = ['told', 'failed', 'given_up'] as const

export interface Metrics {
  registry: Registry
  request(route: string, status: number, seconds: number): void
  /** The end of an SMTP transaction, and why. */
  smtpAttempt(result: typeof SMTP_RESULTS[number], why: string, seconds: number): void
  /** The end of a webhook request. */
  webhookAttempt(result: typeof WEBHOOK_RESULTS[number], seconds: number): void
  /** The answer to a mail that came by SMTP submission. */
  submission(code: number, seconds: number): void
  /** An inbound mail: how it was classified, and what it led to. */
  inboundMail(kind: string, outcome: string): void
  /** The end of a try to tell an alert. */
  alertNotice(channel: AlertChannel, result: typeof NOTICE_RESULTS[number]): void
}

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60]

export function createMetrics (): Metrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const registers = [registry]
  const counter = <Label extends string>(name: string, help: string, labelNames: Label[]) =>
    new Counter({ name, help, labelNames, registers })
  const histogram = <Label extends string>(name: string, help: string, labelNames: Label[]) =>
    new Histogram({ name, help, labelNames, buckets: SECONDS, registers })
  const requests = histogram('jetpost_http_request_seconds', 'HTTP requests by route and status', ['route', 'status'])
  const smtp = histogram('jetpost_smtp_attempt_seconds', 'SMTP transactions by result', ['result'])
  const smtpTotal = counter('jetpost_smtp_attempts_total', 'SMTP transactions by result', ['result'])
  const failures = counter('jetpost_smtp_failures_total', 'Deferrals, bounces and failures by class', [
    'result',
    'class'
  ])
  const webhooks = histogram('jetpost_webhook_attempt_seconds', 'Webhook requests by result', ['result'])
  const submissions = histogram('jetpost_submission_seconds', 'Mails by SMTP submission, by the code of the answer', [
    'code'
  ])
  const inbound = counter('jetpost_inbound_mails_total', 'Inbound mails by kind and outcome', ['kind', 'outcome'])
  const notices = counter('jetpost_alert_notices_total', 'Alert notices by channel and result', ['channel', 'result'])
  // From 0 on: of a series that begins with its first event, `increase()` sees no increase.
  for (const result of SMTP_RESULTS) {
    smtp.zero({ result })
    smtpTotal.inc({ result }, 0)
  }
  for (const result of WEBHOOK_RESULTS) webhooks.zero({ result })
  submissions.zero({ code: 250 })
  for (const channel of ALERT_CHANNELS) for (const result of NOTICE_RESULTS) notices.inc({ channel, result }, 0)
  return {
    registry,
    request: (route, status, seconds) => requests.observe({ route, status }, seconds),
    smtpAttempt: (result, why, seconds) => {
      smtp.observe({ result }, seconds)
      smtpTotal.inc({ result })
      if (result !== 'delivered') failures.inc({ result, class: why })
    },
    webhookAttempt: (result, seconds) => webhooks.observe({ result }, seconds),
    submission: (code, seconds) => submissions.observe({ code }, seconds),
    inboundMail: (kind, outcome) => inbound.inc({ kind, outcome }),
    alertNotice: (channel, result) => notices.inc({ channel, result })
  }
}

/** Adds the gauges, once what they read exists. */
export function watchGauges (metrics: Metrics, gauges: Gauges): void {
  const registers = [metrics.registry]
  gauge('jetpost_appends_pending', 'Facts waiting for a commit', 'stream', gauges.appendsPending)
  const lag = (unit: 'facts' | 'seconds') => () =>
    Object.fromEntries(Object.entries(gauges.projectionLag()).map(([name, figures]) => [name, figures[unit]]))
  gauge('jetpost_projection_lag_facts', 'Facts a projection has yet to write', 'projection', lag('facts'))
  gauge(
    'jetpost_projection_lag_seconds',
    'Age of the oldest fact a projection has yet to write',
    'projection',
    lag('seconds')
  )
  gauge(
    'jetpost_projection_dead_letters',
    'Dead-lettered facts: a projection could not write them',
    'projection',
    gauges.projectionDeadLetters
  )
  gauge('jetpost_alerts_open', 'Alerts that are not over', 'kind', gauges.alertsOpen)
  gauge('jetpost_smtp_in_flight', 'SMTP transactions under way', null, () => ({ '': gauges.smtpInFlight() }))
  gauge(
    'jetpost_submission_connections',
    'Clients of SMTP submission',
    null,
    () => ({ '': gauges.submissionConnections() })
  )
  gauge(
    'jetpost_limits_inexact',
    'Requests whose rate limit was decided without NATS',
    null,
    () => ({ '': gauges.limitsInexact() })
  )
  gauge(
    'jetpost_consumer_backlog',
    'Messages that no worker has finished',
    'consumer',
    () => gauges.consumerBacklog()
  )

  type Figures = Record<string, number>
  function gauge (name: string, help: string, label: string | null, read: () => Figures | Promise<Figures>): void {
    new Gauge({
      name,
      help,
      labelNames: label === null ? [] : [label],
      registers,
      async collect () {
        const figures = await read()
        // What is no longer known must not stay as it was.
        this.reset()
        for (const [value, figure] of Object.entries(figures)) {
          this.set(label === null ? {} : { [label]: value }, figure)
        }
      }
    })
  }
}

export type MetricsReport = Awaited<ReturnType<Registry['getMetricsAsJSON']>>

/** `others` = what the other processes of this start have counted; both are added up. Who asks while an answer is made
 *  gets that one: it takes milliseconds, and anybody may ask. */
export function metricsRoute (
  app: FastifyInstance,
  { registry }: Metrics,
  others?: () => Promise<MetricsReport>
): void {
  let underWay: Promise<string> | null = null

  async function collect (): Promise<string> {
    if (others === undefined) return await registry.metrics()
    const all = AggregatorRegistry.aggregate(await Promise.all([registry.getMetricsAsJSON(), others()]))
    return await all.metrics()
  }

  app.get('/metrics', async (_request, reply) => {
    underWay ??= collect().finally(() => {
      underWay = null
    })
    return await reply.type(registry.contentType).send(await underWay)
  })
}
