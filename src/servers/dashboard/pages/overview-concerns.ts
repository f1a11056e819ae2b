import { failedWaiting } from '#projections/deliveries/backlog.ts'
import type { Queue } from '#projections/emails/queue.ts'
import type { Counts } from '#projections/counts.ts'
import { mayDo } from '#streams/key/decide.ts'
import type { DomainEntry, KeyEntry, WebhookEntry } from '#streams/directory.ts'
import { html } from '#src/base/html.ts'
import { ask } from '#src/postgres/query.ts'
import { BOUNCES, COMPLAINTS, judge } from '../judges.ts'
import { counted, number, percent, time } from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import type { Visit } from '../visit.ts'
import { worstFirst, type Concern } from './concerns.ts'
import { concernsIn } from './operations-concerns.ts'
import { sumOf } from './overview-figures.ts'
import { orBehind } from '../behind.ts'
import { COUNTED_MAX } from './overview-queue.ts'
import { countText } from './webhook-reads.ts'

const DAY_MS = 86_400_000
/** Keys are spoken of so long before they end, and after. */
const KEY_BEFORE_MS = 14 * DAY_MS
const KEY_AFTER_MS = 7 * DAY_MS
/** Of one kind, one by one; of more, how many. */
const SHOWN_MAX = 5
const FAILED_MAX = 1000

/** All there is to look at, the worst first; `queue` null = nobody knows now. */
export async function concernsOf (
  visit: Visit,
  context: DashboardContext,
  queue: Promise<Queue | null>
): Promise<Concern[]> {
  const { services: { directory: { now }, settings }, operations, reads } = context
  const own = <T extends { account: string }>(things: Map<string, T>): T[] =>
    [...things.values()].filter(({ account }) => account === visit.account.id)
  const webhooks = own(now.webhooks)
  const waiting = orBehind(
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
  // An endpoint may have been deleted meanwhile.
  const failed = (waits ?? []).flatMap(({ webhook, count }) => {
    const found = now.webhooks.get(webhook)
    return found === undefined ? [] : failedConcern(found, count)
  })
  return worstFirst([
    ...all,
    ...shown(webhooks.flatMap(webhook => endpointConcern(webhook, visit.nowMs)), '/dashboard/webhooks', 'endpoint'),
    ...shown(
      own(now.domains).flatMap(domain => domainConcern(domain, settings, visit.nowMs)),
      '/dashboard/domains',
      'domain'
    ),
    ...reputation,
    ...shown(failed, '/dashboard/webhooks', 'endpoint'),
    ...doubtConcern(await queue),
    ...(mayDo(visit.key, 'keys:read')
      ? shown(own(now.keys).flatMap(key => keyConcern(key, visit.nowMs)), '/dashboard/keys', 'key')
      : [])
  ])
}

/** The worst ones of a kind, and how many more there are. */
export function shown (concerns: Concern[], to: string, kind: string): Concern[] {
  const sorted = worstFirst(concerns)
  const [worst, ...others] = sorted.slice(SHOWN_MAX)
  if (worst === undefined) return sorted
  const rest = {
    tone: worst.tone,
    what: counted(1 + others.length, `more ${kind}`),
    why: 'They need the same kind of attention.',
    to,
    step: `All ${kind}s`
  }
  return [...sorted.slice(0, SHOWN_MAX), rest]
}

function endpointConcern ({ id, url, disabled, failingSince }: WebhookEntry, nowMs: number): Concern[] {
  const shared = { to: `/dashboard/webhooks/${id}`, step: 'Look at the endpoint' }
  if (disabled !== null) {
    const why = disabled === 'gone'
      ? 'It answered 410 Gone: nothing is sent to it.'
      : 'It did nothing but fail for five days: nothing is sent to it.'
    return [{ ...shared, tone: 'bad', what: `The endpoint ${url} is disabled`, why }]
  }
  if (failingSince === null) return []
  const why = html`Nothing has got through for long: it has failed since ${
    time(failingSince, nowMs)
  }. After five days of that it is disabled.`
  return [{ ...shared, tone: 'bad', what: `The endpoint ${url} is failing`, why }]
}

function domainConcern (
  { id, name, status, failingSince }: DomainEntry,
  { requireVerifiedDomains }: { requireVerifiedDomains: boolean },
  nowMs: number
): Concern[] {
  const shared = { to: `/dashboard/domains/${id}`, step: 'See the DNS records' }
  const follows = requireVerifiedDomains
    ? 'Mail from it is refused until they are.'
    : 'Mail from it goes out, and receivers cannot check its signature.'
  if (status === 'failed') {
    return [{
      ...shared,
      tone: 'bad',
      what: `The domain ${name} has failed`,
      why: `Its DNS records were wrong for more than 72 hours. ${follows}`
    }]
  }
  if (status === 'pending') {
    return [{
      ...shared,
      tone: 'warn',
      what: `The domain ${name} is not verified`,
      why: `Its DNS records are not seen as they should be. ${follows}`
    }]
  }
  if (failingSince === null) return []
  const why = html`They have been wrong since ${time(failingSince, nowMs)}. After 72 hours of that it counts as failed.`
  return [{ ...shared, tone: 'bad', what: `The DNS records of ${name} have gone wrong`, why }]
}

function keyConcern ({ id, name, expiresMs }: KeyEntry, nowMs: number): Concern[] {
  if (expiresMs === null || expiresMs > nowMs + KEY_BEFORE_MS || expiresMs < nowMs - KEY_AFTER_MS) return []
  const isOver = expiresMs <= nowMs
  const end = time(new Date(expiresMs), nowMs)
  const why = isOver
    ? html`It ended ${end}: whoever still uses it gets 401.`
    : html`It ends ${end}: whoever uses it gets 401 from then on.`
  return [{
    tone: 'warn',
    what: `The key ${name} ${isOver ? 'has expired' : 'expires soon'}`,
    why,
    to: `/dashboard/keys/${id}`,
    step: 'Look at the key'
  }]
}

function failedConcern ({ id, url }: WebhookEntry, count: number): Concern {
  const many = `${countText(count, FAILED_MAX)} ${count === 1 ? 'delivery' : 'deliveries'}`
  const why =
    'They are not tried any more, and can be replayed for as long as the log of deliveries holds them: 30 days.'
  return {
    tone: 'warn',
    what: `${many} to ${url} failed`,
    why,
    to: `/dashboard/webhooks/${id}?state=failed`,
    step: 'See them'
  }
}

function doubtConcern (queue: Queue | null): Concern[] {
  const count = queue?.counts.in_doubt ?? 0
  if (count === 0) return []
  const why =
    "The line broke before the mail server's last word: they may have arrived, or not. Those that are not held are tried once more."
  const what = `${countText(count, COUNTED_MAX)} ${count === 1 ? 'email is' : 'emails are'} in doubt`
  return [{ tone: 'warn', what, why, to: '/dashboard/emails?status=in_doubt', step: 'Look at them' }]
}

/** Bounces and complaints of the last day and week; of the week only what the day does not say already. */
async function reputationOf ({ api, nowMs }: Visit): Promise<Concern[]> {
  const stats = await orBehind(
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
  if (judge(bounced, settled, BOUNCES) !== 'over') return null
  const why = `${number(bounced)} of ${number(settled)} recipients ${when}. ${BOUNCES.advice}`
  return {
    tone: 'bad',
    what: `${percent(bounced / settled)} of mail bounced`,
    why,
    to: '/dashboard/emails?status=bounced',
    step: 'See what bounced'
  }
}

function complaintsIn ({ complained, delivered }: Counts, when: string): Concern | null {
  if (judge(complained, delivered, COMPLAINTS) !== 'over') return null
  const why = `${number(complained)} of ${number(delivered)} delivered ${when}. ${COMPLAINTS.advice}`
  return {
    tone: 'bad',
    what: `${percent(complained / delivered)} of mail was marked as spam`,
    why,
    to: '/dashboard/emails?event=complained',
    step: 'See who complained'
  }
}
