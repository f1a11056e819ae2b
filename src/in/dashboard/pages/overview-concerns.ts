import { failedWaiting } from '#projections/deliveries/backlog.ts'
import type { Queue } from '#projections/emails/queue.ts'
import { figuresOf, type Figures } from '#projections/stats/records.ts'
import { mayDo } from '#streams/key/decide.ts'
import type { Domain, Key, Webhook } from '#streams/directory.ts'
import { html, type Html, type Value } from '#src/base/html.ts'
import { ask } from '#src/postgres/run.ts'
import { number, percent, time } from '../parts.ts'
import type { ProjectionReport } from '../operations.ts'
import type { DashboardRooms } from '../rooms.ts'
import type { Visit } from '../visit.ts'
import { sumOf } from './overview-figures.ts'
import { orBehind } from './overview-parts.ts'

/** Something that somebody should look at: what, why, and where it is mended. */
export interface Concern {
  tone: 'bad' | 'warn'
  what: string
  why: Value
  to: string
  /** What the link says. */
  step: string
}

const DAY_MS = 86_400_000
/** Keys are spoken of so long before they end, and after. */
const KEY_BEFORE_MS = 14 * DAY_MS
const KEY_AFTER_MS = 7 * DAY_MS
/** From here on the big mail services begin to turn mail away. Less mail than that says nothing. Source: Gmail's and Yahoo's sender guidelines. */
const BOUNCES = { rateMax: 0.05, leastMail: 100 }
const COMPLAINTS = { rateMax: 0.001, leastMail: 500 }
/** A view that is behind for so long is not merely busy. */
const LAG_S = 15
/** Of one kind, one by one; of more, how many. */
const SHOWN_MAX = 5
const COUNTED_MAX = 1000

/** What is looked at by others, too; null = nobody knows now. */
export interface Known {
  queue: Promise<Queue | null>
  /** Of the installation: for its operators alone. */
  views: Promise<ProjectionReport[] | null>
}

/** All there is to look at, the worst first. */
export async function concernsOf (visit: Visit, rooms: DashboardRooms, { queue, views }: Known): Promise<Concern[]> {
  const { desk: { directory: { now }, settings }, reads } = rooms
  const own = <T extends { account: string }>(things: Map<string, T>): T[] => [...things.values()].filter(({ account }) => account === visit.account.id)
  const webhooks = own(now.webhooks)
  const waiting = orBehind(ask(reads.pool, failedWaiting({ account: visit.account.id, webhooks: webhooks.map(({ id }) => id), max: COUNTED_MAX })))
  const [reputation, waits, operations] = await Promise.all([reputationOf(visit), waiting, visit.isOperator ? operationsOf(rooms, views) : []])
  const all = [
    ...operations,
    ...shown(webhooks.flatMap(webhook => endpointConcern(webhook, visit.nowMs)), '/dashboard/webhooks', 'endpoints'),
    ...shown(own(now.domains).flatMap(domain => domainConcern(domain, settings, visit.nowMs)), '/dashboard/domains', 'domains'),
    ...reputation,
    ...shown((waits ?? []).map(({ webhook, count }) => failedConcern(now.webhooks.get(webhook)!, count)), '/dashboard/webhooks', 'endpoints'),
    ...doubtConcern(await queue),
    ...(mayDo(visit.key, 'keys:read') ? shown(own(now.keys).flatMap(key => keyConcern(key, visit.nowMs)), '/dashboard/keys', 'keys') : [])
  ]
  return [...all.filter(({ tone }) => tone === 'bad'), ...all.filter(({ tone }) => tone === 'warn')]
}

/** The first ones, and how many more there are of the kind. */
function shown (concerns: Concern[], to: string, kind: string): Concern[] {
  const more = concerns.length - SHOWN_MAX
  const others: Concern = { tone: 'warn', what: `${number(more)} more ${kind}`, why: 'They need the same kind of attention.', to, step: `All ${kind}` }
  return more <= 0 ? concerns : [...concerns.slice(0, SHOWN_MAX), others]
}

function endpointConcern ({ id, url, disabled, failingSince }: Webhook, nowMs: number): Concern[] {
  const shared = { to: `/dashboard/webhooks/${id}`, step: 'Look at the endpoint' }
  if (disabled !== null) {
    const why = disabled === 'gone' ? 'It answered 410 Gone: nothing is sent to it.' : 'It did nothing but fail for five days: nothing is sent to it.'
    return [{ ...shared, tone: 'bad', what: `The endpoint ${url} is disabled`, why }]
  }
  if (failingSince === null) return []
  const why = html`Nothing has got through for long: it has failed since ${time(failingSince, nowMs)}. After five days of that it is disabled.`
  return [{ ...shared, tone: 'bad', what: `The endpoint ${url} is failing`, why }]
}

function domainConcern ({ id, name, status, failingSince }: Domain, { requireVerifiedDomains }: { requireVerifiedDomains: boolean }, nowMs: number): Concern[] {
  const shared = { to: `/dashboard/domains/${id}`, step: 'See the DNS records' }
  const follows = requireVerifiedDomains ? 'Mail from it is refused until they are.' : 'Mail from it goes out, and receivers cannot check its signature.'
  if (status === 'failed') return [{ ...shared, tone: 'bad', what: `The domain ${name} has failed`, why: `Its DNS records were wrong for more than 72 hours. ${follows}` }]
  if (status === 'pending') return [{ ...shared, tone: 'warn', what: `The domain ${name} is not verified`, why: `Its DNS records are not seen as they should be. ${follows}` }]
  if (failingSince === null) return []
  const why = html`They have been wrong since ${time(failingSince, nowMs)}. After 72 hours of that it counts as failed.`
  return [{ ...shared, tone: 'bad', what: `The DNS records of ${name} have gone wrong`, why }]
}

function keyConcern ({ id, name, expiresMs }: Key, nowMs: number): Concern[] {
  if (expiresMs === null || expiresMs > nowMs + KEY_BEFORE_MS || expiresMs < nowMs - KEY_AFTER_MS) return []
  const isOver = expiresMs <= nowMs
  const end = time(new Date(expiresMs), nowMs)
  const why = isOver ? html`It ended ${end}: whoever still uses it gets 401.` : html`It ends ${end}: whoever uses it gets 401 from then on.`
  return [{ tone: 'warn', what: `The key ${name} ${isOver ? 'has expired' : 'expires soon'}`, why, to: `/dashboard/keys/${id}`, step: 'Look at the key' }]
}

function failedConcern ({ id, url }: Webhook, count: number): Concern {
  const many = count >= COUNTED_MAX ? `${number(COUNTED_MAX)} or more deliveries` : `${number(count)} ${count === 1 ? 'delivery' : 'deliveries'}`
  const why = 'They are not tried any more, and can be replayed for as long as the log of deliveries holds them: 30 days.'
  return { tone: 'warn', what: `${many} to ${url} failed`, why, to: `/dashboard/webhooks/${id}`, step: 'See them' }
}

function doubtConcern (queue: Queue | null): Concern[] {
  const count = queue?.counts.in_doubt ?? 0
  if (count === 0) return []
  const why = 'The line broke before the mail server\'s last word: they may have arrived, or not. Those that are not held are tried once more.'
  return [{ tone: 'warn', what: `${number(count)} ${count === 1 ? 'email is' : 'emails are'} in doubt`, why, to: '/dashboard/emails?status=in_doubt', step: 'Look at them' }]
}

/** Bounces and complaints of the last day and week; of the week only what the day does not say already. */
async function reputationOf ({ api, nowMs }: Visit): Promise<Concern[]> {
  const stats = await orBehind(api.stats.get({ interval: 'hour', from: new Date(nowMs - 7 * DAY_MS + 3_600_000).toISOString() }))
  if (stats === null) return []
  const [week, day] = [figuresOf(sumOf(stats.buckets)), figuresOf(sumOf(stats.buckets.slice(-24)))]
  return [tooMany(day, week, bouncesIn), tooMany(day, week, complaintsIn)].flatMap(concern => concern ?? [])
}

function tooMany (day: Figures, week: Figures, concernIn: (figures: Figures, when: string) => Concern | null): Concern | null {
  return concernIn(day, 'in the last 24 hours') ?? concernIn(week, 'in the last 7 days')
}

function bouncesIn ({ bounced, delivered, failed, bounce_rate: rate }: Figures, when: string): Concern | null {
  const settled = bounced + delivered + failed
  if (settled < BOUNCES.leastMail || rate === null || rate <= BOUNCES.rateMax) return null
  const why = `${number(bounced)} of ${number(settled)} recipients ${when}. Above 5 % mail services begin to distrust the sender: see where the addresses come from.`
  return { tone: 'bad', what: `${percent(rate)} of mail bounced`, why, to: '/dashboard/emails?status=bounced', step: 'See what bounced' }
}

function complaintsIn ({ complained, delivered, complaint_rate: rate }: Figures, when: string): Concern | null {
  if (delivered < COMPLAINTS.leastMail || rate === null || rate <= COMPLAINTS.rateMax) return null
  const why = `${number(complained)} of ${number(delivered)} delivered ${when}. Above 0.1 % mail services begin to file the sender's mail as spam.`
  return { tone: 'bad', what: `${percent(rate)} of mail was marked as spam`, why, to: '/dashboard/emails?event=complained', step: 'See who complained' }
}

const SILENT = 'PostgreSQL or NATS is slow or away. What was accepted is safe in the log; lists may not be up to date.'

/** Of the installation. */
async function operationsOf ({ operations }: DashboardRooms, reports: Known['views']): Promise<Concern[]> {
  const [parts, views] = await Promise.all([orBehind(operations.parts()), reports])
  const concern = (tone: Concern['tone'], what: string, why: Value): Concern => ({ tone, what, why, to: '/dashboard/operations', step: 'Open operations' })
  if (parts === null || views === null) return [concern('bad', 'Something does not answer', SILENT)]
  return [
    ...parts.flatMap(({ name, reason }) => (reason === null ? [] : [concern('bad', `The part ${name} is not ready`, reason)])),
    ...views.flatMap(({ name, lag }) => (lag === null || lag.seconds <= LAG_S ? [] : [concern('warn', `The view ${name} is behind the log`,
      `By ${number(lag.facts)} facts, the oldest of them ${number(Math.round(lag.seconds))} s old. Sending goes on; lists show less than has happened.`)])),
    ...views.flatMap(({ name, view }) => (view === null || view.parked === 0 ? [] : [concern('bad', `Facts are missing in the view ${name}: ${number(view.parked)}`,
      'They could not be written and are parked: they are in the log, and lists do without them.')]))
  ]
}

export function concernsCard (concerns: Concern[]): Html {
  if (concerns.length === 0) return html`<section class="card"><h2>What needs attention</h2><p class="hint">Nothing, as far as Jetpost can see.</p></section>`
  return html`<section class="card"><h2>What needs attention</h2><ul class="concerns">${concerns.map(({ tone, what, why, to, step }) =>
    html`<li class="${tone}"><div><strong>${what}</strong><p>${why}</p></div><a class="button" href="${to}">${step}<span class="unseen">: ${what}</span></a></li>`)}</ul></section>`
}
