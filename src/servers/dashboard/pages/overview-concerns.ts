import { failedWaiting } from '#projections/deliveries/backlog.ts'
import type { Queue } from '#projections/emails/queue.ts'
import type { Counts } from '#projections/counts.ts'
import { domainsInUse } from '#streams/domain/decide.ts'
import type { DomainEntry, KeyEntry, WebhookEntry } from '#streams/directory.ts'
import { mustBeVerified } from '#src/actions/email.ts'
import type { Services } from '#src/actions/services.ts'
import { html } from '#src/base/html.ts'
import { mailWarnings } from '#src/base/mail-links.ts'
import { ask } from '#src/postgres/query.ts'
import { BOUNCES, COMPLAINTS, rateState } from '#src/operations/thresholds.ts'
import { counted, number, percent, time } from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import type { Visit } from '../visit.ts'
import { worstFirst, type Concern } from './concerns.ts'
import { concernsIn } from './operations-concerns.ts'
import { sumOf } from './overview-figures.ts'
import { ifAvailable } from '../error-pages.ts'
import { COUNTED_MAX } from './overview-queue.ts'
import { countText } from './webhook-queries.ts'

const DAY_MS = 86_400_000
/** A key is mentioned so long before and after it expires. */
const KEY_BEFORE_MS = 14 * DAY_MS
const KEY_AFTER_MS = 7 * DAY_MS
/** Concerns of one kind that are shown; the others are counted. */
const SHOWN_MAX = 5
const FAILED_MAX = 1000

/** Everything that needs attention, the worst first; `queue` null = unknown. */
export async function concernsOf (
  visit: Visit,
  context: DashboardContext,
  queue: Promise<Queue | null>
): Promise<Concern[]> {
  const { services, operations, reads } = context
  const { directory: { now } } = services
  const own = <T extends { account: string }>(entities: Map<string, T>): T[] =>
    [...entities.values()].filter(({ account }) => account === visit.account.id)
  const webhooks = own(now.webhooks)
  const waiting = ifAvailable(
    ask(
      reads.pool,
      failedWaiting({ account: visit.account.id, webhooks: webhooks.map(({ id }) => id), max: FAILED_MAX })
    )
  )
  const [reputation, waits, all] = await Promise.all([
    reputationOf(visit),
    waiting,
    visit.isOperator ? concernsIn(operations) : []
  ])
  const settingConcerns = visit.isOperator ? mailConcerns(context) : []
  // An endpoint may have been deleted in the meantime.
  const failed = (waits ?? []).flatMap(({ webhook, count }) => {
    const found = now.webhooks.get(webhook)
    return found === undefined ? [] : failedConcern(found, count)
  })
  return worstFirst([
    ...all,
    ...settingConcerns,
    ...shown(webhooks.flatMap(webhook => endpointConcern(webhook, visit.nowMs)), '/dashboard/webhooks', 'endpoint'),
    ...shown(
      own(now.domains).flatMap(domain => domainConcern(domain, services, visit.nowMs)),
      '/dashboard/domains',
      'domain'
    ),
    ...reputation,
    ...shown(failed, '/dashboard/webhooks', 'endpoint'),
    ...doubtConcern(await queue),
    ...shown(own(now.keys).flatMap(key => keyConcern(key, visit.nowMs)), '/dashboard/keys', 'key')
  ]).filter(({ to }) => visit.may('GET', to))
}

/** What harms the mail of all accounts, and settings can mend. */
function mailConcerns ({ services: { directory: { now }, settings } }: DashboardContext): Concern[] {
  return mailWarnings(settings, domainsInUse(now.domains.values())).map(warning => ({
    ...warning,
    tone: 'warn',
    to: '/dashboard/operations',
    step: 'Open operations'
  }))
}

/** The worst concerns of a kind, and how many more there are. */
export function shown (concerns: Concern[], to: string, kind: string): Concern[] {
  const sorted = worstFirst(concerns)
  const [worst, ...others] = sorted.slice(SHOWN_MAX)
  if (worst === undefined) return sorted
  const rest = {
    tone: worst.tone,
    what: counted(1 + others.length, `more ${kind}`),
    why: 'They have similar problems.',
    to,
    step: `Show all ${kind}s`
  }
  return [...sorted.slice(0, SHOWN_MAX), rest]
}

function endpointConcern ({ id, url, disabled, failingSince }: WebhookEntry, nowMs: number): Concern[] {
  const shared = { to: `/dashboard/webhooks/${id}`, step: 'Open endpoint' }
  if (disabled !== null) {
    const why = disabled === 'gone'
      ? 'It answered 410 Gone. Jetpost sends nothing to it.'
      : 'All its deliveries failed for five days. Jetpost sends nothing to it.'
    return [{ ...shared, tone: 'bad', what: `Endpoint ${url} is disabled`, why }]
  }
  if (failingSince === null) return []
  const why = html`No delivery has succeeded since ${time(failingSince, nowMs)}. After five days, Jetpost disables it.`
  return [{ ...shared, tone: 'bad', what: `Endpoint ${url} is failing`, why }]
}

function domainConcern (
  { id, name, account, status, failingSince }: DomainEntry,
  services: Services,
  nowMs: number
): Concern[] {
  const shared = { to: `/dashboard/domains/${id}`, step: 'Open DNS records' }
  const follows = mustBeVerified(services, account)
    ? 'Emails from it are refused.'
    : 'Emails from it are sent, but receivers cannot verify them.'
  if (status === 'failed') {
    return [{
      ...shared,
      tone: 'bad',
      what: `Domain ${name} has failed`,
      why: `Its DNS records were wrong for more than 72 hours. ${follows}`
    }]
  }
  if (status === 'pending') {
    return [{
      ...shared,
      tone: 'warn',
      what: `Domain ${name} is not verified`,
      why: `Its required DNS records are not confirmed yet. ${follows}`
    }]
  }
  if (failingSince === null) return []
  const why = html`Required records have been wrong since ${
    time(failingSince, nowMs)
  }. After 72 hours the domain fails.`
  return [{ ...shared, tone: 'bad', what: `DNS records of ${name} are wrong`, why }]
}

function keyConcern ({ id, name, expiresMs }: KeyEntry, nowMs: number): Concern[] {
  if (expiresMs === null || expiresMs > nowMs + KEY_BEFORE_MS || expiresMs < nowMs - KEY_AFTER_MS) return []
  const isOver = expiresMs <= nowMs
  const end = time(new Date(expiresMs), nowMs)
  const why = isOver
    ? html`It expired ${end}. Requests with it get 401.`
    : html`It expires ${end}. Requests with it will get 401.`
  return [{
    tone: 'warn',
    what: `Key ${name} ${isOver ? 'has expired' : 'expires soon'}`,
    why,
    to: `/dashboard/keys/${id}`,
    step: 'Open key'
  }]
}

function failedConcern ({ id, url }: WebhookEntry, count: number): Concern {
  const many = `${countText(count, FAILED_MAX)} ${count === 1 ? 'delivery' : 'deliveries'}`
  return {
    tone: 'warn',
    what: `${many} to ${url} failed`,
    why: 'Jetpost does not retry them. You can replay them for 30 days.',
    to: `/dashboard/webhooks/${id}?state=failed`,
    step: 'Show deliveries'
  }
}

function doubtConcern (queue: Queue | null): Concern[] {
  const count = queue?.counts.in_doubt ?? 0
  if (count === 0) return []
  const why = 'The connection broke before the mail server answered, so they may have arrived. ' +
    'Retry those that Jetpost does not retry itself.'
  const what = `${countText(count, COUNTED_MAX)} ${count === 1 ? 'email is' : 'emails are'} in doubt`
  return [{ tone: 'warn', what, why, to: '/dashboard/emails?status=in_doubt', step: 'Show emails' }]
}

/** Bounces and complaints of the last day, or else of the last week. */
async function reputationOf ({ api, nowMs }: Visit): Promise<Concern[]> {
  const stats = await ifAvailable(
    api.stats.get({ interval: 'hour', from: new Date(nowMs - 7 * DAY_MS + 3_600_000).toISOString() })
  )
  if (stats === null) return []
  const [week, day] = [sumOf(stats.buckets), sumOf(stats.buckets.slice(-24))]
  return [bouncesIn, complaintsIn].flatMap(concernIn =>
    concernIn(day, 'in the last 24 hours') ?? concernIn(week, 'in the last 7 days') ?? []
  )
}

function bouncesIn ({ bounced, delivered, failed }: Counts, when: string): Concern | null {
  const settled = bounced + delivered + failed
  if (rateState(bounced, settled, BOUNCES) !== 'over') return null
  const why = `${number(bounced)} of ${number(settled)} recipients ${when}. ${BOUNCES.advice}`
  return {
    tone: 'bad',
    what: `${percent(bounced / settled)} of emails bounced`,
    why,
    to: '/dashboard/emails?status=bounced',
    step: 'Show bounced emails'
  }
}

function complaintsIn ({ complained, delivered }: Counts, when: string): Concern | null {
  if (rateState(complained, delivered, COMPLAINTS) !== 'over') return null
  const why = `${number(complained)} of ${number(delivered)} delivered ${when}. ${COMPLAINTS.advice}`
  return {
    tone: 'bad',
    what: `${percent(complained / delivered)} of emails were marked as spam`,
    why,
    to: '/dashboard/emails?event=complained',
    step: 'Show complaints'
  }
}
