import type { PastEmail } from '#projections/emails/activity.ts'
import type { DeliveryRecord } from '#projections/deliveries/queries.ts'
import { html, type Html } from '#src/base/html.ts'
import { curlFor, FIRST_EMAIL } from '../curl.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { icon } from '../icons.ts'
import { badge, codeBlock, counted, empty, pager, time, withQuery } from '../parts.ts'
import type { Visit } from '../visit.ts'
import { deliveryAt, hadEvent, type ActivityPage, type ListedEmail } from './activity-past.ts'
import { shownAddress, titleOf } from './email-format.ts'
import type { EmailListFilters } from './emails-filters.ts'

interface ListOptions {
  page: ActivityPage
  filters: EmailListFilters
  /** null = now. */
  atMs: number | null
  selected: string | null
}

/** One row an email, the newest first; each is a link as a whole. */
export function activityList (
  visit: Visit,
  context: DashboardContext,
  { page, filters: { count }, atMs, selected }: ListOptions
): Html {
  const { rows, nextCursor, pasts, deliveries } = page
  if (rows.length === 0) return html`<div id="rows">${noneOf(visit, context, count, atMs)}</div>`
  const hooks = hooksByEmail(deliveries, atMs ?? Infinity)
  const lines = rows.map(row =>
    rowOf(visit, row, {
      past: pasts.get(row.id),
      hooks: hooks.get(row.id) ?? [],
      atMs: atMs ?? Infinity,
      isSelected: row.id === selected
    })
  )
  return html`<div id="rows"><button type="button" class="fresh" hidden></button>
<ol class="mails" aria-label="Emails, newest first">${lines}</ol>${pager(visit, nextCursor)}</div>`
}

interface RowOptions {
  past: PastEmail | undefined
  hooks: DeliveryRecord[]
  atMs: number
  isSelected: boolean
}

function rowOf ({ nowMs }: Visit, row: ListedEmail, { past, hooks, atMs, isSelected }: RowOptions): Html {
  const { id, from, status, scheduled_at: at, test, created_at: createdAt } = row
  return html`<li id="${id}" class="mail"${isSelected && html` data-selected`}>
<span class="state">${badge(status)}</span>
<span class="whom">${recipients(row)}</span>
<span class="what"><a href="/dashboard/emails/${id}">${titleOf(row)}</a>${test && html` ${badge('test')}`}</span>
<span class="from" title="${shownAddress(from)}">${nameOf(from).name}</span>
<span class="marks">${past !== undefined && engagement(past, atMs)}${hookMark(hooks)}</span>
<span class="when">${time(status === 'scheduled' ? at : createdAt, nowMs)}</span></li>`
}

/** `Ada <ada@example.com>` in its parts; without a name the address is the name. */
export function nameOf (mailbox: string): { name: string, address: string | null } {
  const shown = shownAddress(mailbox)
  const [, quoted, address] = /^(.+) <([^<>]+)>$/.exec(shown) ?? []
  if (quoted === undefined) return { name: shown, address: null }
  return { name: quoted.replace(/^"(.*)"$/, '$1').replaceAll(/\\(.)/g, '$1'), address: address! }
}

function recipients ({ to, cc, bcc }: ListedEmail): Html {
  const [first = '', ...others] = [...to, ...cc, ...bcc]
  const { name, address } = nameOf(first)
  return html`<span class="name">${name}</span>${address !== null && html` <span class="soft">${address}</span>`}${
    others.length > 0 && html` <span class="soft">+${others.length}</span>`
  }`
}

const MARKS: Array<[event: string, drawing: string, title: string, tone: string]> = [
  ['email.opened', 'eye', 'Opened', 'busy'],
  ['email.clicked', 'mouse-pointer-click', 'Clicked', 'good'],
  ['email.complained', 'flag', 'Got a spam complaint', 'bad'],
  ['email.unsubscribed', 'user-round-x', 'Unsubscribed', 'warn']
]

function engagement (past: PastEmail, atMs: number): Html[] {
  return MARKS.flatMap(([event, drawing, title, tone]) =>
    hadEvent(past, atMs, event) ? [html`<span class="mark ${tone}">${icon(drawing, title)}</span>`] : []
  )
}

function hooksByEmail (deliveries: DeliveryRecord[], atMs: number): Map<string, DeliveryRecord[]> {
  const known = deliveries.flatMap(one => deliveryAt(one, atMs) ?? [])
  const byEmail = new Map<string, DeliveryRecord[]>()
  for (const delivery of known) {
    for (const email of new Set(delivery.events.map(event => event.email))) {
      byEmail.set(email, [...byEmail.get(email) ?? [], delivery])
    }
  }
  return byEmail
}

/** The webhooks of an email in one mark: the worst state of them. */
function hookMark (hooks: DeliveryRecord[]): Html | null {
  if (hooks.length === 0) return null
  const bad = hooks.filter(({ state }) => state === 'failed' || state === 'retrying').length
  const text = bad > 0 ? `${bad} of ${counted(hooks.length, 'webhook')} failing` : counted(hooks.length, 'webhook')
  const tone = bad > 0 ? 'bad' : hooks.every(({ state }) => state === 'delivered') ? 'soft' : 'busy'
  return html`<span class="mark ${tone}">${icon('webhook', text)}</span>`
}

function noneOf (visit: Visit, { publicUrl }: DashboardContext, filterCount: number, atMs: number | null): Html {
  if (filterCount > 0) {
    return empty(
      'No results',
      'No email matches these filters.',
      html`<p><a class="button" href="/dashboard/emails">Clear the filters</a></p>`
    )
  }
  if (visit.query.has('cursor')) {
    return empty(
      'No older emails',
      'This is the end of the list.',
      html`<p><a class="button" href="/dashboard/emails">Newest</a></p>`
    )
  }
  if (atMs !== null) {
    return empty(
      'No emails yet at that time',
      'The first one came later.',
      html`<p><a class="button" href="${withQuery(visit, { as_of: null })}">Back to now</a></p>`
    )
  }
  return firstSteps(publicUrl)
}

function firstSteps (publicUrl: string): Html {
  const first = new URLSearchParams(FIRST_EMAIL).toString()
  return empty(
    'No emails yet',
    html`Emails appear here once Jetpost accepts them. The email below stays in the built-in mail catcher.
To send it, you need an <a href="/dashboard/keys">API key</a>.`,
    html`${codeBlock(curlFor(publicUrl, '/api/emails', FIRST_EMAIL), 'The first email by curl')}
<p>Or <a href="/dashboard/emails/new?${first}">send it from this page</a>.</p>`
  )
}
