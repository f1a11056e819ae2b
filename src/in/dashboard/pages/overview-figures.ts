import { NOTHING, plus, type Counts } from '#projections/counts.ts'
import { figuresOf, type Figures } from '#projections/stats/records.ts'
import type { Stats } from '#src/client/client.ts'
import { html, type Html } from '#src/base/html.ts'
import { chart, type Series } from '../charts.ts'
import { number, percent } from '../parts.ts'
import type { Visit } from '../visit.ts'

/** A stretch of time up to now that is looked at as a whole. */
export interface Period {
  name: string
  /** As in "the last 7 days". */
  text: string
  interval: 'hour' | 'day' | 'month'
  /** Buckets of the API it is made of, the present one among them, and how many of them are one point of a chart. */
  buckets: number
  joined: number
}

export const PERIODS: Period[] = [
  { name: '24h', text: '24 hours', interval: 'hour', buckets: 24, joined: 1 },
  { name: '7d', text: '7 days', interval: 'hour', buckets: 168, joined: 6 },
  { name: '30d', text: '30 days', interval: 'day', buckets: 30, joined: 1 },
  { name: '12m', text: '12 months', interval: 'month', buckets: 12, joined: 1 }
]

export function periodOf (query: URLSearchParams): Period {
  return PERIODS.find(({ name }) => name === query.get('period')) ?? PERIODS[1]!
}

/** A point of a chart; `startMs` = Unix ms. */
interface Point { startMs: number, counts: Counts }

export interface Telling { period: Period, now: Figures, before: Figures, points: Point[] }

/** What became of mail in a period, and in the one before it. */
export async function tell ({ api, query, nowMs }: Visit, period: Period): Promise<Telling> {
  const { interval, buckets: count, joined } = period
  const [domain, tag] = [query.get('domain') ?? '', query.get('tag') ?? '']
  const stats = await api.stats.get({ interval, from: startOf(period, nowMs), ...(domain === '' ? {} : { domain }), ...(tag === '' ? {} : { tag }) })
  const [before, now] = [stats.buckets.slice(0, -count), stats.buckets.slice(-count)]
  const points = Array.from({ length: Math.ceil(now.length / joined) }, (_, i) => now.slice(i * joined, (i + 1) * joined))
    .map(some => ({ startMs: Date.parse(some[0]!.start), counts: sumOf(some) }))
  return { period, now: figuresOf(sumOf(now)), before: figuresOf(sumOf(before)), points }
}

/** In the first bucket of the period before: the API begins where that does. */
function startOf ({ interval, buckets }: Period, nowMs: number): string {
  const now = new Date(nowMs)
  const back = 2 * buckets - 1
  if (interval === 'month') return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back)).toISOString()
  return new Date(nowMs - back * (interval === 'hour' ? 3_600_000 : 86_400_000)).toISOString()
}

export function sumOf (buckets: Stats['buckets']): Counts {
  return buckets.reduce<Counts>(plus, NOTHING)
}

/** The whole period in figures, each with what it was in the one before. */
export function tiles ({ period, now, before }: Telling): Html {
  const rate = (name: Extract<keyof Figures, `${string}_rate`>) => ({ value: percent(now[name]), before: percent(before[name]) })
  const settled = now.delivered + now.bounced + now.failed
  const list = [
    { label: 'Accepted', value: number(now.accepted), before: number(before.accepted), of: 'recipients' },
    { label: 'Delivered', ...rate('delivery_rate'), of: `${number(now.delivered)} of ${number(settled)}` },
    { label: 'Bounced', ...rate('bounce_rate'), of: `${number(now.bounced)} of ${number(settled)}` },
    { label: 'Complained', ...rate('complaint_rate'), of: `${number(now.complained)} of delivered` },
    { label: 'Not sent', value: number(now.suppressed), before: number(before.suppressed), of: 'suppressed addresses' },
    { label: 'Opened', ...rate('open_rate'), of: `${number(now.opened)} of delivered` },
    { label: 'Clicked', ...rate('click_rate'), of: `${number(now.clicked)} of delivered` },
    { label: 'Unsubscribed', ...rate('unsubscribe_rate'), of: `${number(now.unsubscribed)} of delivered` }
  ]
  return html`<ul class="tiles wide">${list.map(({ label, value, of, before: was }) => html`<li class="tile"><span class="label">${label}</span>
<span class="value">${value}</span><span class="hint">${of}<br>before: ${was}</span></li>`)}</ul>
<p class="hint">The last ${period.text}, each thing counted when it happened; before = the ${period.text} before that.
Delivered and bounced are rates of what was settled, complaints and the rest of what was delivered. Opens and clicks by programs are not counted.</p>`
}

export function charts ({ period, points }: Telling): Html {
  const times = points.map(({ startMs }) => startMs / 1000)
  const labels = points.map(({ startMs }) => labelOf(period, startMs))
  const of = (label: string, name: keyof Counts, tone: Series['tone']): Series => ({ label, tone, values: points.map(({ counts }) => counts[name]) })
  const shared = { times, labels, note: `Recipients by ${lengthOf(period)}, in UTC.` }
  const all = [
    { id: 'volume', title: 'Volume and delivery', series: [of('Accepted', 'accepted', '--busy'), of('Delivered', 'delivered', '--good'), of('Deferred', 'deferred', '--warn')] },
    { id: 'trouble', title: 'Bounces and complaints', series: [of('Bounced', 'bounced', '--bad'), of('Complained', 'complained', '--warn'), of('Failed', 'failed', '--busy')] },
    { id: 'reading', title: 'Opens and clicks', series: [of('Opened', 'opened', '--busy'), of('Clicked', 'clicked', '--good'), of('Unsubscribed', 'unsubscribed', '--warn')] }
  ]
  return html`<div class="grid">${all.map((one, i) => html`<section class="card${i === 0 && ' whole'}">${chart({ ...shared, ...one })}</section>`)}</div>`
}

function lengthOf ({ interval, joined }: Period): string {
  return joined === 1 ? interval : `${joined} ${interval}s`
}

const SAID = Object.fromEntries(Object.entries({
  hour: { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' },
  day: { day: 'numeric', month: 'short' },
  month: { month: 'short', year: 'numeric' }
} satisfies Record<Period['interval'], Intl.DateTimeFormatOptions>).map(([interval, options]) => [interval, new Intl.DateTimeFormat('en-GB', { timeZone: 'UTC', ...options })]))

function labelOf ({ interval }: Period, startMs: number): string {
  return SAID[interval]!.format(startMs)
}
