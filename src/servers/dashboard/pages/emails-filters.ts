import { parseAddress, parseDomain } from '#streams/address.ts'
import { EVENT_TYPES } from '#streams/webhook/facts.ts'
import { EmailStatus } from '#projections/emails/status.ts'
import { knownTime, parseTime, timestamp } from '#src/base/clock.ts'
import { html, type Html } from '#src/base/html.ts'
import type { ListEmailsQuery } from '#src/client/types.ts'
import { icon } from '../icons.ts'
import { field, select, withQuery, type Faults } from '../parts.ts'
import type { Visit } from '../visit.ts'
import { shownAddress } from './email-format.ts'

const NAMES = [
  'q',
  'status',
  'event',
  'to',
  'from',
  'domain',
  'tag',
  'template_id',
  'metadata',
  'created_after',
  'created_before'
] as const
type EmailFilterName = typeof NAMES[number]

const LABELS: Record<EmailFilterName, string> = {
  q: 'Search',
  status: 'Status',
  event: 'Event',
  to: 'To',
  from: 'From',
  domain: 'Sending domain',
  tag: 'Tag',
  template_id: 'Template',
  metadata: 'Metadata',
  created_after: 'Created after (UTC)',
  created_before: 'Created before (UTC)'
}
/** Statuses that are one question, as the tabs above the list ask it. */
export const STATUS_GROUPS: Record<string, { text: string, statuses: readonly EmailStatus[] }> = {
  in_progress: { text: 'In progress', statuses: ['queued', 'sending', 'scheduled', 'deferred'] },
  delivered: { text: 'Delivered', statuses: ['delivered'] },
  attention: { text: 'Needs attention', statuses: ['bounced', 'failed', 'in_doubt', 'partial'] },
  held: { text: 'Not sent', statuses: ['suppressed', 'canceled'] }
}
const DAY = /^\d{4}-\d\d-\d\d$/
const DAY_MS = 86_400_000

/** The filters of a list of emails, as the form has them and as the API takes them. */
export interface EmailListFilters {
  typed: Record<EmailFilterName, string>
  query: ListEmailsQuery
  faults: Faults
  /** How many there are. */
  count: number
}

/** The filters in a URL. The API searches for whole addresses and finds nothing for parts of one: here that is a fault.
 */
export function readFilters (query: URLSearchParams): EmailListFilters {
  const typed = Object.fromEntries(NAMES.map(name => [name, query.get(name)?.trim() ?? ''])) as Record<
    EmailFilterName,
    string
  >
  // The API also takes the short name of an event; the form has the long ones.
  typed.event = EVENT_TYPES.find(type => type === `email.${typed.event}`) ?? typed.event
  const given = NAMES.filter(name => typed[name] !== '')
  const wrong = new Map(given.flatMap(name => {
    const fault = faultOf(name, typed[name])
    return fault === null ? [] : [[name as string, fault] as const]
  }))
  return {
    typed,
    query: wrong.size > 0 ? {} : Object.fromEntries(given.map(name => [name, queryValue(name, typed[name])])),
    faults: { of: name => wrong.get(name) ?? null, summary: wrong.size === 0 ? null : [...wrong.values()].join(' ') },
    count: given.length
  }
}

function faultOf (name: EmailFilterName, text: string): string | null {
  switch (name) {
    case 'to':
    case 'from':
      return parseAddress(text) === null
        ? `${LABELS[name]} must be a full address, such as ada@example.com. Use Search to find parts of an address.`
        : null
    case 'domain':
      return parseDomain(text) === null ? `${LABELS[name]} must be a domain, such as example.com.` : null
    case 'metadata':
      return /^[^=\]]+=/.test(text) ? null : `${LABELS[name]} must be a name and a value, such as order=7.`
    case 'created_after':
    case 'created_before':
      return timeIn(text) === null ? `${LABELS[name]} must be a day, such as 2026-11-21.` : null
    default:
      return null
  }
}

/** Unix ms. A day begins at midnight UTC. */
function timeIn (text: string): number | null {
  return parseTime(DAY.test(text) ? `${text}T00:00:00Z` : text)
}

function queryValue (name: EmailFilterName, text: string): unknown {
  if (name === 'created_after') return timestamp(knownTime(timeIn(text)!))
  // A day includes all of its hours.
  if (name === 'created_before') return timestamp(knownTime(timeIn(text)! + (DAY.test(text) ? DAY_MS : 0)))
  if (name === 'status') return STATUS_GROUPS[text]?.statuses ?? [text]
  if (name === 'event' || name === 'tag') return [text]
  if (name !== 'metadata') return text
  const cut = text.indexOf('=')
  return { [text.slice(0, cut)]: text.slice(cut + 1) }
}

/** The URL without the empty parameters that a form sends; null = it has none. */
export function withoutBlanks (url: string, query: URLSearchParams): string | null {
  const given = [...query].filter(([, value]) => value.trim() !== '')
  if (given.length === query.size) return null
  const text = new URLSearchParams(given).toString()
  return url.split('?')[0]! + (text === '' ? '' : `?${text}`)
}

/** The form above the list. `faults` = found here or by the API. */
export function filterForm ({ typed, count }: EmailListFilters, faults: Faults): Html {
  const line = (name: EmailFilterName, more: object = {}) =>
    field({ name, label: LABELS[name], value: typed[name], ...more }, faults)
  const choice = (name: 'status' | 'event', values: string[]) =>
    select(name, LABELS[name], [['', 'Any'], ...values.map(optionOf)], typed[name], html`data-submit`)
  // A browser's date field would hide a text that is not a day.
  const day = (name: EmailFilterName) =>
    line(name, {
      type: typed[name] === '' || (DAY.test(typed[name]) && timeIn(typed[name]) !== null) ? 'date' : 'text'
    })
  const statuses = EmailStatus.anyOf.map(({ const: state }) => state)
  const groups = Object.keys(STATUS_GROUPS).filter(name => name === typed.status && !statuses.some(one => one === name))
  return html`<form method="get" action="/dashboard/emails" role="search" aria-label="Emails" class="finder">
<div class="find">${icon('search')}${
    line('q', { type: 'search', placeholder: 'Subject, sender, recipient or id' })
  }</div><button>Search</button>
<details class="more"${count > 0 && faults.summary !== null && html` open`}><summary>More filters</summary>
<div class="card"><div class="columns">${choice('status', [...groups, ...statuses])}${
    choice('event', [...EVENT_TYPES])
  }${line('to')}${line('from')}${line('domain')}${line('tag')}${line('metadata', { placeholder: 'order=7' })}${
    line('template_id', { placeholder: 'tpl_…' })
  }
${day('created_after')}${day('created_before')}</div><div class="actions"><button class="primary">Apply</button>${
    count > 0 && html`<a class="button" href="/dashboard/emails">Clear</a>`
  }</div></div></details></form>`
}

/** The filters that hold, each with a way to remove it. */
export function chips (visit: Visit, { typed }: EmailListFilters): Html | null {
  const given = NAMES.filter(name => typed[name] !== '')
  if (given.length === 0) return null
  const items = given.map(name => {
    const text = name === 'status' ? STATUS_GROUPS[typed.status]?.text ?? optionOf(typed.status)[1] : typed[name]
    const href = withQuery(visit, { [name]: null, cursor: null, email: null })
    return html`<li><a class="chip" href="${href}" title="Remove this filter"><span class="soft">${
      LABELS[name]
    }</span> ${shownAddress(text)}${icon('x')}</a></li>`
  })
  return html`<ul class="chips" aria-label="Filters">${items}</ul>`
}

function optionOf (value: string): [value: string, text: string] {
  return [value, value.replace(/^email\./, '').replaceAll('_', ' ')]
}
