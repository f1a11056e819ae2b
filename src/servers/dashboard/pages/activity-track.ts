import { timestamp } from '#src/base/clock.ts'
import { html, type Html } from '#src/base/html.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { icon } from '../icons.ts'
import { counted, duration, hiddenField, time, withQuery } from '../parts.ts'
import type { Visit } from '../visit.ts'
import type { ActivityPage } from './activity-past.ts'
import { nameOf } from './activity-list.ts'
import { titleOf } from './email-format.ts'

/** The newest ones; of more the track would be a line. */
const DOTS_MAX = 400

/** A kind of dot: in which level it stands, its colour, and its name. */
type Kind = [name: string, level: 0 | 1 | 2, tone: string, text: string]

const KINDS: Kind[] = [
  ['email.requested', 0, 'calm', 'Accepted'],
  ['email.attempted', 0, 'busy', 'Sent'],
  ['email.delivered', 0, 'good', 'Delivered'],
  ['email.deferred', 0, 'warn', 'Deferred'],
  ['email.bounced', 0, 'bad', 'Bounced'],
  ['email.failed', 0, 'bad', 'Failed'],
  ['email.in_doubt', 0, 'warn', 'In doubt'],
  ['email.suppressed', 0, 'warn', 'Not sent: suppressed'],
  ['email.canceled', 0, 'calm', 'Canceled'],
  ['email.rescheduled', 0, 'busy', 'Rescheduled'],
  ['email.retry_requested', 0, 'busy', 'Retry requested'],
  ['email.opened', 1, 'busy', 'Opened'],
  ['email.clicked', 1, 'good', 'Clicked'],
  ['email.complained', 1, 'bad', 'Got a spam complaint'],
  ['email.unsubscribed', 1, 'warn', 'Unsubscribed'],
  ['hook.delivered', 2, 'good', 'Webhook delivered'],
  ['hook.failed', 2, 'bad', 'Webhook failed']
]
const PLACES = new Map(KINDS.map(([name], i) => [name, i]))

interface Dot {
  atMs: number
  kind: number
  /** Its email's place in the list. */
  row: number
}

function dotsOf ({ rows, pasts, deliveries }: ActivityPage): Dot[] {
  const places = new Map(rows.map(({ id }, i) => [id, i]))
  const mail = rows.flatMap(({ id }, row) => {
    const past = pasts.get(id)
    if (past === undefined) return []
    const moments = [{ atMs: past.createdMs, type: 'email.requested' }, ...past.moments]
    return moments.map(({ atMs, type }) => ({ atMs, kind: PLACES.get(type) ?? -1, row }))
  })
  const hooks = deliveries.flatMap(({ events, tries }) =>
    tries.map(({ at, status }) => ({
      atMs: at.getTime(),
      kind: PLACES.get(status !== null && status >= 200 && status < 300 ? 'hook.delivered' : 'hook.failed')!,
      row: places.get(events[0]!.email) ?? -1
    }))
  )
  return [...mail, ...hooks].filter(({ kind }) => kind >= 0).sort((a, b) => a.atMs - b.atMs).slice(-DOTS_MAX)
}

/** The events of the listed emails, a dot each, in the order and at the distances of time. activity.js draws them; the
 *  links beside it go from event to event without a script. */
export function timeTrack (
  visit: Visit,
  context: DashboardContext,
  page: ActivityPage,
  atMs: number | null
): Html | null {
  const dots = dotsOf(page)
  if (dots.length < 2) return null
  const times = [...new Set(dots.map(dot => dot.atMs))]
  const fromMs = times[0]!
  const text = atMs === null ? 'now' : timestamp(atMs)
  const data = {
    from: fromMs,
    to: visit.nowMs,
    at: atMs,
    kinds: KINDS.map(([, level, tone, name]) => [level, tone, name]),
    rows: page.rows.map(row => [nameOf([...row.to, ...row.cc, ...row.bcc][0] ?? '').name, titleOf(row).slice(0, 60)]),
    dots: dots.map(dot => [dot.atMs - fromMs, dot.kind, dot.row])
  }
  const end = atMs ?? Infinity
  const place = times.filter(ms => ms <= end).length
  return html`<section id="track" class="track" aria-label="Time travel" data-track="${JSON.stringify(data)}">
<div class="track-head"><div class="steps-of-time">${
    step(visit, times, Math.max(0, place - 2), 'Previous event', 'chevron-left')
  }
<button type="button" class="round" data-play aria-label="Play" title="Play">${icon('play')}</button>
${step(visit, times, place, 'Next event', 'chevron-right')}</div>
<p class="track-at"><strong>Time travel</strong> <span class="at" id="track-at">${text}</span></p>
<p class="hint">${counted(dots.length, 'event')} in ${duration(visit.nowMs - fromMs)}</p></div>
<div class="line" id="track-line" role="slider" tabindex="0" aria-label="Time" aria-valuemin="0"
 aria-valuemax="${times.length}" aria-valuenow="${atMs === null ? times.length : place}" aria-valuetext="${text}">
<div id="track-dots" data-own></div></div>
<div class="ends">${
    time(timestamp(fromMs), visit.nowMs)
  }<span class="hint">Drag to select a range to replay</span><span>now</span></div>
${rangeForm(visit, context)}</section>`
}

/** A link to the event at that place; without one the last event is left: now. */
function step (visit: Visit, times: number[], place: number, label: string, drawing: string): Html {
  const at = times[place]
  const href = withQuery(visit, { as_of: at === undefined ? null : timestamp(at) })
  return html`<a class="button round" href="${href}" aria-label="${label}" title="${label}">${icon(drawing)}</a>`
}

/** What lies in the chosen range, and its replay to an endpoint. activity.js fills and shows it. */
function rangeForm (visit: Visit, { services: { directory: { now } } }: DashboardContext): Html {
  const endpoints = [...now.webhooks.values()].filter(({ account, disabled }) =>
    account === visit.account.id && disabled === null
  )
  const mayReplay = endpoints.length > 0 && visit.may('GET', '/dashboard/webhooks/x/replay')
  const options = endpoints.slice(0, 100).map(({ id, url }) =>
    html`<option value="/dashboard/webhooks/${id}/replay">${url}</option>`
  )
  const replay = html`<label class="unseen" for="range-endpoint">Endpoint</label>
<select id="range-endpoint">${options}</select><button class="primary">${icon('rotate-ccw')}Replay…</button>`
  return html`<form id="range" class="range" method="get" hidden data-own>${
    hiddenField('what', 'window')
  }<input type="hidden" name="from"><input type="hidden" name="to">
<p role="status"></p>${mayReplay && replay}<button type="button" class="quiet" data-clear>Clear</button></form>`
}
