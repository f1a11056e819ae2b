import { JetpostError } from '#src/client/client.ts'
import { html, type Html } from '#src/base/html.ts'
import type { Email } from '#src/client/types.ts'
import { badge, copyable, facts, heading, live, table, tabs, time, withQuery } from '../parts.ts'
import type { DashboardRooms } from '../rooms.ts'
import { Missing, type Pages, type Visit } from '../visit.ts'
import { actionsFor, suppressAct } from './email-actions.ts'
import { previewTab, sourceTab } from './email-content.ts'
import { detailsTab } from './email-details.ts'
import { momentsOf, pastBanner, slider, stepUrl, type Moments } from './email-moments.ts'
import { timeline } from './email-timeline.ts'
import { webhooksTab } from './email-webhooks.ts'
import { named, shownAddress, subjectOf } from './email-words.ts'

type Recipient = Email['recipients'][number]
type Tab = 'timeline' | 'preview' | 'source' | 'details' | 'webhooks'

const TABS: Array<[tab: Tab, text: string]> = [['timeline', 'Timeline'], ['preview', 'Preview'], ['source', 'Source'], ['details', 'Details'], ['webhooks', 'Webhooks']]

/** What is below the tabs, where it does not change with what happens. */
const STILL: Record<Exclude<Tab, 'timeline'>, (visit: Visit, rooms: DashboardRooms, email: Email) => Promise<Html>> = {
  preview: previewTab, source: sourceTab, details: async (visit, _rooms, email) => detailsTab(visit, email), webhooks: webhooksTab
}

/** One email: how it stands, and all there is to know of it. */
export function emailPage (pages: Pages, rooms: DashboardRooms): void {
  pages.get('/emails/:id', async visit => {
    const tab = TABS.find(([name]) => name === visit.query.get('tab'))?.[0] ?? 'timeline'
    const email = await emailOf(visit)
    const moments = tab === 'timeline' || visit.query.has('step') ? await momentsOf(rooms, visit, email.id, email.created_at) : null
    const to = moments === null ? null : stepUrl(visit, moments)
    if (to !== null) return { to }
    const isPast = visit.query.has('as_of')
    const still = tab === 'timeline' ? null : await STILL[tab](visit, rooms, email)
    const page = html`<div ${isPast ? html`id="email"` : live(visit, 'emails', 'email')}>${head(visit, email)}${tabsOf(visit, tab)}
${moments !== null && timelineTab(visit, email, moments)}</div>${still}`
    return { title: subjectOf(email.subject), section: 'emails', page }
  })
}

async function emailOf ({ api, params, query }: Visit): Promise<Email> {
  const asOf = query.get('as_of')
  try {
    return await (asOf === null ? api.emails.get(params.id!) : api.emails.getAsOf(params.id!, asOf))
  } catch (error) {
    if (!(error instanceof JetpostError) || error.status !== 404) throw error
    throw new Missing(asOf === null ? 'There is no such email in this account.' : 'There is no such email in this account, or it was not asked for yet at that time.')
  }
}

function head (visit: Visit, email: Email): Html {
  const { id, from, to, cc, bcc, status, scheduled_at: at, created_at: createdAt, test, subject } = email
  const asOf = visit.query.get('as_of')
  const state = html`${badge(status)}${test && html` ${badge('test')}`}${status === 'scheduled' && html` ${time(at, visit.nowMs)}`}`
  return html`${heading(subjectOf(subject), asOf === null ? actionsFor(visit, email) : null, html`<a href="/dashboard/emails">Emails</a>`)}
${asOf !== null && pastBanner(visit, asOf)}
<section class="card" aria-label="The email">${facts([
  ['Status', state],
  ['From', shownAddress(from)],
  ['To', named(to)],
  cc.length === 0 ? null : ['Cc', named(cc)],
  bcc.length === 0 ? null : ['Bcc', named(bcc)],
  ['Accepted', time(createdAt, visit.nowMs)],
  ['Id', copyable(id, 'Copy the id')]
])}</section>
${recipientsTable(visit, email)}`
}

function tabsOf (visit: Visit, current: Tab): Html {
  const base = `/dashboard/emails/${encodeURIComponent(visit.params.id!)}`
  // What is in the other tabs did not change with time.
  return tabs('Parts of the email', TABS.map(([name, text]) => ({
    text, isCurrent: name === current, href: name === current ? visit.url : name === 'timeline' ? base : `${base}?tab=${name}`
  })))
}

function timelineTab (visit: Visit, email: Email, moments: Moments): Html {
  const wish = Number(visit.query.get('recipient') ?? NaN)
  const chosen = email.recipients.find(({ n }) => n === wish)
  const only = chosen === undefined ? null : html`<p class="hint">Only what happened to ${shownAddress(chosen.address)}. <a href="${withQuery(visit, { recipient: null, part: null })}">Show all</a></p>`
  return html`<section class="card" aria-labelledby="timeline-title"><h2 id="timeline-title">Timeline</h2>${slider(visit, email, moments)}${only}
${timeline(visit, { email, n: chosen?.n ?? null, momentOf: id => moments.of.get(id) })}</section>`
}

function recipientsTable (visit: Visit, { id, recipients }: Email): Html {
  const base = `/dashboard/emails/${id}`
  const isPast = visit.query.has('as_of')
  return html`<section class="recipients" aria-labelledby="recipients-title"><h2 id="recipients-title">Recipients</h2>${table('Recipients', [
    { name: 'Recipient', kind: 'wide', cell: recipient => recipientCell(recipient, recipients.length === 1 || isPast ? null : `${base}?recipient=${recipient.n}`) },
    { name: 'Status', cell: ({ status, next_attempt_at: next }) => html`${badge(status)}${next !== null && html` <span class="hint">${status === 'scheduled' ? '' : 'next attempt '}${time(next, visit.nowMs)}</span>`}` },
    { name: 'Attempts', kind: 'num', cell: ({ attempts }) => attempts },
    { name: 'Last reply', kind: 'wide', cell: replyCell },
    { name: 'Then', cell: recipient => thenCell(visit, recipient, isPast ? null : id) }
  ], recipients)}</section>`
}

function recipientCell ({ address, name, kind }: Recipient, href: string | null): Html {
  const text = shownAddress(address)
  return html`${href === null ? text : html`<a href="${href}" title="Only what happened to this recipient">${text}</a>`}${kind !== 'to' && html` <span class="hint">${kind}</span>`}
${name !== null && html`<br><span class="hint">${name}</span>`}`
}

function replyCell ({ last_response: last }: Recipient): Html {
  if (last === null) return html`<span class="none">–</span>`
  const { response, error, smtp_code: code, enhanced_code: enhanced, host } = last
  const words = response ?? error ?? [code, enhanced].filter(part => part !== null).join(' ')
  return html`<code>${words}</code>${host !== null && html`<br><span class="hint">${host}</span>`}`
}

/** What became of it after the delivery, and what can be done about an address that takes no mail. */
function thenCell (visit: Visit, recipient: Recipient, email: string | null): Html {
  const { opened_at: opened, clicked_at: clicked, complained_at: complained, unsubscribed_at: unsubscribed, status, address } = recipient
  const marks = ([['opened', opened], ['clicked', clicked], ['complained', complained], ['unsubscribed', unsubscribed]] as const)
    .flatMap(([name, at]) => (at === null ? [] : [html`<div>${badge(name)} <span class="hint">${time(at, visit.nowMs)}</span></div>`]))
  const suppression = status === 'suppressed' ? html`<a href="/dashboard/suppressions?address=${encodeURIComponent(address)}">Why</a>` : null
  return html`${marks}${suppression}${email !== null && suppressAct(visit, email, recipient)}`
}
