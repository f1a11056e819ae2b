import { groupsOf } from '#streams/groups.ts'
import { SANDBOX_DOMAIN } from '#streams/key/decide.ts'
import { COUNTED, NOTHING, plus, type Counts } from '#projections/counts.ts'
import { figuresOf, type Figures } from '#projections/stats/records.ts'
import type { Stats } from '#src/client/client.ts'
import { timestamp } from '#src/base/clock.ts'
import { html, type Html } from '#src/base/html.ts'
import { chart, type Series } from '../charts.ts'
import { counted, number, percent } from '../parts.ts'
import type { Visit } from '../visit.ts'

/** A period up to now, and how its charts divide it. */
export interface Period {
  name: string
  text: string
  interval: 'hour' | 'day' | 'month'
  /** Points of its charts, including the present one, which is not complete. */
  points: number
  /** Buckets of the API in a point. */
  joined: number
}

export const PERIODS: Period[] = [
  { name: '24h', text: '24 hours', interval: 'hour', points: 24, joined: 1 },
  { name: '7d', text: '7 days', interval: 'hour', points: 28, joined: 6 },
  { name: '30d', text: '30 days', interval: 'day', points: 30, joined: 1 },
  { name: '12m', text: '12 months', interval: 'month', points: 12, joined: 1 }
]

export function periodOf (query: URLSearchParams): Period {
  return PERIODS.find(({ name }) => name === query.get('period')) ?? PERIODS[1]!
}

/** A point of a chart; `startMs` = Unix ms. */
interface Point {
  startMs: number
  counts: Counts
}

export interface PeriodFigures {
  period: Period
  now: Figures
  before: Figures
  points: Point[]
}

/** Recipients at test addresses that were accepted in a period; other figures leave them out. */
export async function readTests ({ api, nowMs }: Visit, period: Period): Promise<number> {
  const stretch = { ...stretchOf(period, nowMs), from: timestamp(startOf(period, 1, nowMs)) }
  return (await api.stats.get({ ...stretch, destination: SANDBOX_DOMAIN })).totals.accepted
}

/** The statistics of a period and of the one before. */
export async function readFigures ({ api, query, nowMs }: Visit, period: Period): Promise<PeriodFigures> {
  const [domain, tag] = [query.get('domain') ?? '', query.get('tag') ?? '']
  const stats = await api.stats.get({
    ...stretchOf(period, nowMs),
    ...(domain === '' ? {} : { domain }),
    ...(tag === '' ? {} : { tag })
  })
  return figuresOfPeriod(period, stats.buckets, nowMs)
}

/** The request to the API: from the begin of the previous period. A bucket that begins right now is the present one. */
export function stretchOf (period: Period, nowMs: number): { interval: Period['interval'], from: string, to: string } {
  return { interval: period.interval, from: timestamp(startOf(period, 2, nowMs)), to: timestamp(nowMs + 1) }
}

/** `buckets` = of both periods. The last one is not complete, so the bucket it is compared with counts by the same
 *  share. */
export function figuresOfPeriod (period: Period, buckets: Stats['buckets'], nowMs: number): PeriodFigures {
  const { interval, joined } = period
  const beginMs = startOf(period, 1, nowMs)
  const now = buckets.filter(({ start }) => Date.parse(start) >= beginMs)
  const before = buckets.slice(0, now.length)
  const [present, next] = [pointAt(interval, 1, nowMs, 0), pointAt(interval, 1, nowMs, 1)]
  const passed = (nowMs - present) / (next - present)
  const points = groupsOf(now, joined).map(some => ({ startMs: Date.parse(some[0]!.start), counts: sumOf(some) }))
  return {
    period,
    now: figuresOf(sumOf(now)),
    before: figuresOf(plus(sumOf(before.slice(0, -1)), shareOf(before.at(-1)!, passed))),
    points
  }
}

/** Where the `back`-th of the periods up to now begins, in Unix ms. */
function startOf ({ interval, points, joined }: Period, back: number, nowMs: number): number {
  return pointAt(interval, joined, nowMs, 1 - back * points)
}

const LENGTHS_MS = { hour: 3_600_000, day: 86_400_000 }

/** Where the point `by` after the present one begins, in Unix ms: at whole hours and days, so that points do not move
 *  with time. */
function pointAt (interval: Period['interval'], joined: number, nowMs: number, by: number): number {
  const now = new Date(nowMs)
  if (interval === 'month') return Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + by)
  const lengthMs = joined * LENGTHS_MS[interval]
  return nowMs - nowMs % lengthMs + by * lengthMs
}

export function sumOf (buckets: Stats['buckets']): Counts {
  return buckets.reduce<Counts>(plus, NOTHING)
}

function shareOf (counts: Counts, share: number): Counts {
  return Object.fromEntries(COUNTED.map(name => [name, Math.round(counts[name] * share)])) as Counts
}

interface Tile {
  label: string
  value: string
  before: string
  of: string
  /** What its bars count. */
  series: keyof Counts
}

/** Bars over the period, for the eye: the charts below have the figures. */
function bars (values: number[]): Html {
  const [width, height] = [4, 20]
  const most = Math.max(1, ...values)
  const shapes = values.map((value, i) => {
    const px = Math.max(1, Math.ceil(value / most * height))
    return html`<rect x="${i * width}" y="${height - px}" width="3" height="${px}"/>`
  })
  return html`<svg class="spark" width="${values.length * width}" height="${height}" aria-hidden="true">${shapes}</svg>`
}

/** Each total beside that of the previous period. */
function tileList (now: Figures, before: Figures): Tile[] {
  const rate = (name: Extract<keyof Figures, `${string}_rate`>) => ({
    value: percent(now[name]),
    before: percent(before[name])
  })
  const settled = now.delivered + now.bounced + now.failed
  return [
    {
      label: 'Accepted',
      series: 'accepted',
      value: number(now.accepted),
      before: number(before.accepted),
      of: 'recipients'
    },
    {
      label: 'Delivered',
      series: 'delivered',
      ...rate('delivery_rate'),
      of: `${number(now.delivered)} of ${number(settled)}`
    },
    {
      label: 'Bounced',
      series: 'bounced',
      ...rate('bounce_rate'),
      of: `${number(now.bounced)} of ${number(settled)}`
    },
    {
      label: 'Got spam complaints',
      series: 'complained',
      ...rate('complaint_rate'),
      of: `${number(now.complained)} of delivered`
    },
    {
      label: 'Not sent',
      series: 'suppressed',
      value: number(now.suppressed),
      before: number(before.suppressed),
      of: 'suppressed addresses'
    },
    { label: 'Opened', series: 'opened', ...rate('open_rate'), of: `${number(now.opened)} of delivered` },
    { label: 'Clicked', series: 'clicked', ...rate('click_rate'), of: `${number(now.clicked)} of delivered` },
    {
      label: 'Unsubscribed',
      series: 'unsubscribed',
      ...rate('unsubscribe_rate'),
      of: `${number(now.unsubscribed)} of delivered`
    }
  ]
}

/** The totals of the period with their bars. `tests` = recipients that are left out. */
export function tiles ({ period, now, before, points }: PeriodFigures, tests: number): Html {
  const items = tileList(now, before).map(({ label, value, of, before: was, series }) =>
    html`<li class="tile"><span class="label">${label}</span>
<span class="value">${value}</span><span class="hint">${of}<br>before: ${was}</span>${
      bars(points.map(({ counts }) => counts[series]))
    }</li>`
  )
  const since = labelOf(period, points[0]!.startMs)
  return html`<ul class="tiles wide">${items}</ul>
<p class="hint">Since ${since} (UTC). Compared with the previous ${period.text}. Delivery and bounce rates are shares of
delivered, bounced and failed recipients; other rates are shares of delivered ones. Opens and clicks by programs are not
counted.${tests > 0 && html` Test addresses of ${SANDBOX_DOMAIN} are left out: ${counted(tests, 'recipient')}.`}</p>`
}

export function charts ({ period, points }: PeriodFigures): Html {
  const times = points.map(({ startMs }) => startMs / 1000)
  const labels = points.map(({ startMs }, i) =>
    `${labelOf(period, startMs)}${i === points.length - 1 ? ', so far' : ''}`
  )
  const of = (label: string, name: keyof Counts, tone: Series['tone']): Series => ({
    label,
    tone,
    values: points.map(({ counts }) => counts[name])
  })
  const shared = { times, labels, note: `Recipients per ${lengthOf(period)}, in UTC. The shaded part is not complete.` }
  const all = [
    {
      id: 'volume',
      title: 'Volume and delivery',
      series: [
        of('Accepted', 'accepted', '--busy'),
        of('Delivered', 'delivered', '--good'),
        of('Deferred', 'deferred', '--warn')
      ]
    },
    {
      id: 'problems',
      title: 'Bounces and complaints',
      series: [
        of('Bounced', 'bounced', '--bad'),
        of('Complained', 'complained', '--warn'),
        of('Failed', 'failed', '--busy')
      ]
    },
    {
      id: 'reading',
      title: 'Engagement',
      series: [
        of('Opened', 'opened', '--busy'),
        of('Clicked', 'clicked', '--good'),
        of('Unsubscribed', 'unsubscribed', '--warn')
      ]
    }
  ]
  return html`<div class="grid">${
    all.map((one, i) => html`<section class="card${i === 0 && ' whole'}">${chart({ ...shared, ...one })}</section>`)
  }</div>`
}

function lengthOf ({ interval, joined }: Period): string {
  return joined === 1 ? interval : `${joined} ${interval}s`
}

const LABEL_FORMATS = Object.fromEntries(
  Object.entries(
    {
      hour: { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' },
      day: { day: 'numeric', month: 'short' },
      month: { month: 'short', year: 'numeric' }
    } satisfies Record<Period['interval'], Intl.DateTimeFormatOptions>
  ).map(([interval, options]) => [interval, new Intl.DateTimeFormat('en-GB', { timeZone: 'UTC', ...options })])
)

function labelOf ({ interval }: Period, startMs: number): string {
  return LABEL_FORMATS[interval]!.format(startMs)
}
