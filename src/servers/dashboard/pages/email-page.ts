import { knownAt } from '#projections/emails/as-of.ts'
import { factsOf } from '#src/actions/email-past.ts'
import { timestamp } from '#src/base/clock.ts'
import { html, type Html, type Value } from '#src/base/html.ts'
import { JetpostError } from '#src/client/client.ts'
import type { Email } from '#src/client/types.ts'
import type { Scope } from '#streams/key/facts.ts'
import { isUser } from '#streams/session/decide.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { admits } from '../permits.ts'
import {
  badge,
  copyable,
  counted,
  detailList,
  empty,
  exact,
  heading,
  hiddenField,
  live,
  number,
  table,
  tabs,
  time,
  withQuery
} from '../parts.ts'
import { NotPermitted, PageNotFound, type Pages, type Visit } from '../visit.ts'
import { actionsFor, type EmailRecipient, suppressionCell, type SuppressionsByAddress } from './email-actions.ts'
import { previewTab, sourceTab } from './email-content.ts'
import { named, shownAddress, tagsOf, titleOf } from './email-format.ts'
import { timeline } from './email-timeline.ts'
import { deliveryList } from './webhook-deliveries.ts'
import { nextAttempt } from './webhook-format.ts'

const NONE = empty(
  'No webhook deliveries',
  html`Jetpost sends the events of an email to the <a href="/dashboard/webhooks">endpoints</a> that subscribe to them.
The deliveries appear here.`
)

/** The webhook deliveries of the email's events. */
async function webhooksTab (visit: Visit, context: DashboardContext, { id }: Email): Promise<Html> {
  const { rows } = await deliveryList(visit, context, { email: id }, NONE)
  return html`<section aria-labelledby="webhooks-title"><h2 id="webhooks-title">Webhook deliveries</h2>
<div ${live(visit, 'deliveries', 'deliveries')}>${rows}</div></section>`
}

/** When Jetpost learnt something about an email: the times its facts were stored, a little after they happened. */
interface Moments {
  /** RFC 3339, oldest first; the first is the request. */
  all: string[]
  /** By the fact's id. */
  of: Map<string, string>
}

/** Throws when NATS does not answer. */
async function momentsOf (
  { services }: DashboardContext,
  visit: Visit,
  id: string,
  createdAt: string
): Promise<Moments> {
  const facts = knownAt(await factsOf(services.factLog.bus, { account: visit.account.id, id }), Infinity)
  // Never before the request, whatever another machine's clock says.
  const atOf = (storedMs: number) => timestamp(Math.max(storedMs, Date.parse(createdAt)))
  const of = new Map(facts.map(({ fact, storedMs }) => [fact.id, atOf(storedMs)]))
  return { all: [...new Set([createdAt, ...of.values()])].sort(), of }
}

/** Where a step of the slider leads: the email at that time. The slider's last step means now, whatever has happened
 *  since. The slider keeps the focus. */
function stepUrl (visit: Visit, { all }: Moments): string | null {
  if (!visit.query.has('step')) return null
  const step = Number(visit.query.get('step'))
  const last = Number(visit.query.get('last') ?? NaN)
  return `${withQuery(visit, { step: null, last: null, as_of: step >= last ? null : all[step - 1] ?? null })}#step`
}

/** Parameters of the page that stay when the slider moves. */
const KEPT_PARAMETERS = ['recipient', 'all']

/** A slider over the moments. It submits itself when it moves; without scripts there is a button. */
function timeSlider (visit: Visit, email: Email, { all }: Moments): Html | null {
  if (all.length < 2) return null
  const asOf = visit.query.get('as_of')
  const now = all.length
  const step = asOf === null ? now : Math.max(1, all.filter(at => Date.parse(at) <= Date.parse(asOf)).length)
  const text = asOf === null ? 'now' : `at ${exact(asOf)}`
  const link = (to: number, label: string) =>
    html`<a class="button" href="${withQuery(visit, { as_of: to === now ? null : all[to - 1]! })}#step">${label}</a>`
  const kept = KEPT_PARAMETERS.flatMap(name => {
    const value = visit.query.get(name)
    return value === null ? [] : [hiddenField(name, value)]
  })
  const marks = html`min="1" max="${now}" value="${step}" aria-valuetext="${text}" autocomplete="off" data-submit`
  return html`<form method="get" action="/dashboard/emails/${email.id}" class="slider">
<label for="step">Time travel <span class="at">${text}</span></label>
${kept}
<div>${step > 1 && link(step - 1, 'Earlier')}<input type="range" id="step" name="step" ${marks}>
${hiddenField('last', now)}${
    step < now && link(step + 1, 'Later')
  }<noscript><button>Show</button></noscript></div></form>`
}

/** Above a page of the past. */
function pastBanner (visit: Visit, asOf: string): Html {
  return html`<p class="box warn" role="note">You see this email as of <strong>${exact(asOf)}</strong>.
<a href="${withQuery(visit, { as_of: null })}">Back to now</a></p>`
}

/** Listed at first, those that did not get the email before the others. */
const FIRST = 10

/** The state of each recipient. `suppressions` = null where the page is of the past. */
export function recipientsTable (
  visit: Visit,
  { id, recipients }: Email,
  suppressions: SuppressionsByAddress | null
): Html {
  const isShort = recipients.length > FIRST && visit.query.get('all') !== '1'
  const rows = isShort
    ? recipients.toSorted((a, b) => Number(a.status === 'delivered') - Number(b.status === 'delivered')).slice(0, FIRST)
    : recipients
  const timeOf = (at: string) => (suppressions === null ? time : nextAttempt)(at, visit.nowMs)
  const events = (recipient: EmailRecipient) =>
    html`${engagementOf(visit, recipient)}${
      suppressions !== null && suppressionCell(visit, id, recipient, suppressions)
    }`
  const list = table<EmailRecipient>(
    'Recipients',
    [
      { name: 'Recipient', kind: 'wide', cell: recipient => recipientCell(visit, recipient, recipients.length > 1) },
      { name: 'Status', cell: recipient => statusCell(recipient, timeOf) },
      { name: 'Attempts', kind: 'num', cell: ({ attempts }) => attempts },
      { name: 'Last reply', kind: 'wide', cell: replyCell },
      { name: 'Events', cell: events }
    ],
    rows,
    ({ n }) => `recipient-${n}`
  )
  const showAll = html`<p class="pager">
<a class="button" href="${withQuery(visit, { all: '1' })}">Show all ${recipients.length}</a></p>`
  return html`<section class="recipients" aria-labelledby="recipients-title">
<h2 id="recipients-title">${counted(recipients.length, 'recipient')}</h2>
${list}${isShort && showAll}</section>`
}

function recipientCell (visit: Visit, { n, address, name, kind }: EmailRecipient, isOneOfMany: boolean): Html {
  const text = shownAddress(address)
  const href = withQuery(visit, { recipient: String(n), until: null })
  const link = isOneOfMany
    ? html`<a href="${href}" title="Show this recipient's timeline only">${text}</a>`
    : text
  return html`${link}${kind !== 'to' && html` <span class="hint">${kind}</span>`}${
    name !== null && html`<br><span class="hint">${name}</span>`
  }`
}

function statusCell ({ status, next_attempt_at: next }: EmailRecipient, timeOf: (at: string) => Html): Html {
  if (next === null) return badge(status)
  const when = status === 'scheduled' ? timeOf(next) : html`next attempt ${timeOf(next)}`
  return html`${badge(status)} <span class="hint">${when}</span>`
}

function replyCell ({ last_response: last }: EmailRecipient): Html {
  if (last === null) return html`<span class="none">–</span>`
  const { response, error, smtp_code: code, enhanced_code: enhanced, host } = last
  const text = response || error || [code, enhanced].filter(part => part !== null).join(' ')
  return html`<code>${text}</code>${host !== null && html`<br><span class="hint">${host}</span>`}`
}

/** Opens, clicks, complaints and unsubscribes. */
function engagementOf (
  { nowMs }: Visit,
  { opened_at: opened, clicked_at: clicked, complained_at: complained, unsubscribed_at: unsubscribed }: EmailRecipient
): Html[] {
  return Object.entries({ opened, clicked, complained, unsubscribed }).flatMap(([name, at]) =>
    at === null ? [] : [html`<div>${badge(name)} <span class="hint">${time(at, nowMs)}</span></div>`]
  )
}

type EmailTab = 'timeline' | 'preview' | 'source' | 'details' | 'webhooks'

const TABS: Array<[tab: EmailTab, text: string, scope: Scope]> = [
  ['timeline', 'Timeline', 'emails:metadata'],
  ['preview', 'Preview', 'emails:read'],
  ['source', 'Source', 'emails:read'],
  ['details', 'Details', 'emails:metadata'],
  ['webhooks', 'Webhooks', 'webhooks:read']
]

/** The tabs that do not change with the email's state. */
const STILL: Record<
  Exclude<EmailTab, 'timeline'>,
  (visit: Visit, context: DashboardContext, email: Email) => Promise<Html>
> = {
  preview: previewTab,
  source: sourceTab,
  details: async (visit, _context, email) => detailsTab(visit, email),
  webhooks: webhooksTab
}

/** One email: its status and everything known about it. */
export function emailPage (pages: Pages, context: DashboardContext): void {
  pages.get('/emails/:id', 'emails:metadata', async visit => {
    const [tab, , scope] = TABS.find(([name]) => name === visit.query.get('tab')) ?? TABS[0]!
    if (!admits(scope, visit.principal)) throw new NotPermitted(scope)
    const email = await emailOf(visit)
    const moments = tab === 'timeline' || visit.query.has('step')
      ? await momentsOf(context, visit, email.id, email.created_at)
      : null
    const to = moments === null ? null : stepUrl(visit, moments)
    if (to !== null) return { to }
    const isPast = visit.query.has('as_of')
    const still = tab === 'timeline' ? null : await STILL[tab](visit, context, email)
    const suppressions = tab !== 'timeline' || isPast ? null : await suppressionsOf(visit, context, email)
    const page = html`<div ${isPast ? html`id="email"` : live(visit, 'emails', 'email')}>${
      headOf(visit, context, email)
    }${tabsOf(visit, tab)}
${moments !== null && timelineTab(visit, email, moments, suppressions)}</div>${still}`
    return { title: titleOf(email), section: 'emails', page }
  })
}

async function emailOf ({ api, params, query }: Visit): Promise<Email> {
  const asOf = query.get('as_of')
  try {
    return await (asOf === null ? api.emails.get(params.id!) : api.emails.getAsOf(params.id!, asOf))
  } catch (error) {
    if (!(error instanceof JetpostError) || error.status !== 404) throw error
    throw new PageNotFound(
      asOf === null
        ? 'This email does not exist in this account.'
        : 'This email does not exist in this account, or did not exist at that time.'
    )
  }
}

function headOf (
  visit: Visit,
  { services: { settings: { contentRetentionMs } } }: DashboardContext,
  email: Email
): Html {
  const { id, from, to, cc, bcc, status, scheduled_at: at, created_at: createdAt, test } = email
  const asOf = visit.query.get('as_of')
  const state = html`${badge(status)}${test && html` ${badge('test')}`}${
    status === 'scheduled' && html` ${time(at, visit.nowMs)}`
  }`
  const above = html`<a href="/dashboard/emails">Emails</a> / ${copyable(id, 'Copy the id')}`
  return html`${heading(titleOf(email), asOf === null ? actionsFor(visit, email, contentRetentionMs) : null, above)}
${asOf !== null && pastBanner(visit, asOf)}
<section class="card" aria-label="The email">${
    detailList([
      ['Status', state],
      ['From', shownAddress(from)],
      ['To', named(to)],
      cc.length === 0 ? null : ['Cc', named(cc)],
      bcc.length === 0 ? null : ['Bcc', named(bcc)],
      ['Accepted', time(createdAt, visit.nowMs)]
    ])
  }</section>`
}

function tabsOf (visit: Visit, current: EmailTab): Html {
  const base = `/dashboard/emails/${encodeURIComponent(visit.params.id!)}`
  // The other tabs are the same at any time.
  return tabs(
    'Parts of the email',
    TABS.filter(([, , scope]) => admits(scope, visit.principal)).map(([name, text]) => ({
      text,
      isCurrent: name === current,
      href: name === current ? visit.url : name === 'timeline' ? base : `${base}?tab=${name}`
    }))
  )
}

async function suppressionsOf (
  { account }: Visit,
  { services }: DashboardContext,
  { recipients }: Email
): Promise<SuppressionsByAddress> {
  const found = await services.suppressions.standing(account.id, recipients.map(({ address }) => address))
  return new Map(recipients.map(({ address }, i) => [address, found[i]!]))
}

/** The state of each recipient and the timeline, now or at the time of the slider. */
function timelineTab (visit: Visit, email: Email, moments: Moments, suppressions: SuppressionsByAddress | null): Html {
  const number = Number(visit.query.get('recipient') ?? NaN)
  const chosen = email.recipients.find(({ n }) => n === number)
  const only = chosen === undefined ? null : html`<p class="hint">Only ${shownAddress(chosen.address)}.
<a href="${withQuery(visit, { recipient: null, until: null })}">Show all</a></p>`
  return html`${timeSlider(visit, email, moments)}${recipientsTable(visit, email, suppressions)}
<section class="card" aria-labelledby="timeline-title"><h2 id="timeline-title">Timeline</h2>${only}
${timeline(visit, { email, n: chosen?.n ?? null, momentOf: id => moments.of.get(id) })}</section>`
}

/** The request, beside content and recipients. */
function detailsTab (visit: Visit, email: Email): Html {
  const { headers, attachments, metadata, timeline } = email
  const messageIds = [
    ...new Map(
      timeline.flatMap(({ message_id: id, recipient }) => (id === undefined ? [] : [[id, recipient ?? ''] as const]))
    ).entries()
  ]
  return html`<section class="card" aria-labelledby="request-title"><h2 id="request-title">Request</h2>${
    detailList(requestDetails(visit, email))
  }</section>
${
    listed('Metadata', Object.entries(metadata), [
      { name: 'Name', cell: ([name]) => html`<code>${name}</code>` },
      { name: 'Value', kind: 'wide', cell: ([, value]) => html`<code>${JSON.stringify(value)}</code>` }
    ])
  }
${
    listed('Custom headers', headers, [
      { name: 'Name', cell: ({ name }) => html`<code>${name}</code>` },
      { name: 'Value', kind: 'wide', cell: ({ value }) => html`<code>${value}</code>` }
    ])
  }
${
    listed('Attachments', attachments, [
      { name: 'Name', kind: 'wide', cell: ({ filename }) => filename },
      {
        name: 'Type',
        cell: ({ content_type: type, content_id: id }) =>
          html`${type}${id !== null && html` <span class="hint">cid:${id}</span>`}`
      },
      { name: 'Bytes', kind: 'num', cell: ({ size_bytes: size }) => number(size) }
    ])
  }
${
    listed('Message-IDs', messageIds, [
      { name: 'Message-ID', kind: 'wide', cell: ([id]) => copyable(id, 'Copy the Message-ID') },
      { name: 'Recipient', cell: ([, address]) => shownAddress(address) }
    ])
  }`
}

function requestDetails (visit: Visit, email: Email): Array<[string, Value] | null> {
  const {
    key_id: key,
    template,
    tags,
    track,
    unsubscribe,
    reply_to: replyTo,
    created_at: at,
    scheduled_at: scheduledAt,
    test
  } = email
  return [
    ['Accepted', exact(at)],
    scheduledAt === null ? null : ['Scheduled for', exact(scheduledAt)],
    ['Sent by', html`${senderOf(visit, key)}${test && html` ${badge('test')}`}`],
    template === null
      ? null
      : [
        'Template',
        html`<a href="/dashboard/templates/${template.id}"><code>${template.id}</code></a> version ${template.version}`
      ],
    replyTo.length === 0 ? null : ['Reply to', replyTo.map(shownAddress).join(', ')],
    ['Tags', tags.length === 0 ? '–' : tagsOf(tags, tags.length)],
    ['Tracking', [track.opens && 'opens', track.clicks && 'clicks'].filter(Boolean).join(' and ') || 'off'],
    ['Unsubscribe link', unsubscribe ? 'yes' : 'no']
  ]
}

/** The key, or the person; a link where the visitor may follow it. */
function senderOf (visit: Visit, id: string): Html {
  const href = `/dashboard/${isUser({ id }) ? 'people' : 'keys'}/${id}`
  return visit.may('GET', href) ? html`<a href="${href}"><code>${id}</code></a>` : html`<code>${id}</code>`
}

/** A table; null without rows. */
function listed<Row> (title: string, rows: Row[], columns: Parameters<typeof table<Row>>[1]): Html | null {
  return rows.length === 0
    ? null
    : html`<section class="card"><h2>${title}</h2>${table(title, columns, rows)}</section>`
}
