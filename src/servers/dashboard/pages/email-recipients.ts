import { html, type Html } from '#src/base/html.ts'
import type { Email } from '#src/client/types.ts'
import { badge, counted, table, time, withQuery } from '../parts.ts'
import type { Visit } from '../visit.ts'
import { suppressionCell, type EmailRecipient, type SuppressionsByAddress } from './email-actions.ts'
import { shownAddress } from './email-format.ts'
import { nextAttempt } from './webhook-format.ts'

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
