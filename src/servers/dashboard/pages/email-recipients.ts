import { html, type Html } from '#src/base/html.ts'
import type { Email } from '#src/client/types.ts'
import { badge, counted, table, time, withQuery } from '../parts.ts'
import type { Visit } from '../visit.ts'
import { suppressionCell, type SuppressionsByAddress } from './email-actions.ts'
import { shownAddress } from './email-format.ts'
import { nextTry } from './webhook-format.ts'

type EmailRecipient = Email['recipients'][number]

/** As many are listed at first, those that did not get it before the others. */
const FIRST = 10

/** How the email stands with each of its recipients. `standings` = null where the page is of the past. */
export function recipientsTable (
  visit: Visit,
  { id, recipients }: Email,
  standings: SuppressionsByAddress | null
): Html {
  const isShort = recipients.length > FIRST && visit.query.get('all') !== '1'
  const rows = isShort
    ? recipients.toSorted((a, b) => Number(a.status === 'delivered') - Number(b.status === 'delivered')).slice(0, FIRST)
    : recipients
  return html`<section class="recipients" aria-labelledby="recipients-title"><h2 id="recipients-title">${
    counted(recipients.length, 'recipient')
  }</h2>
${
    table(
      'Recipients',
      [
        {
          name: 'Recipient',
          kind: 'wide',
          cell: recipient => recipientCell(visit, recipient, recipients.length > 1)
        },
        {
          name: 'Status',
          cell: recipient => statusCell(recipient, next => (standings === null ? time : nextTry)(next, visit.nowMs))
        },
        { name: 'Attempts', kind: 'num', cell: ({ attempts }) => attempts },
        { name: 'Last reply', kind: 'wide', cell: replyCell },
        {
          name: 'Then',
          cell: recipient =>
            html`${engagementOf(visit, recipient)}${
              standings !== null && suppressionCell(visit, id, recipient, standings)
            }`
        }
      ],
      rows,
      ({ n }) => `recipient-${n}`
    )
  }${
    isShort && html`<p class="pager">
<a class="button" href="${withQuery(visit, { all: '1' })}">Show all ${recipients.length}</a></p>`
  }</section>`
}

function recipientCell (visit: Visit, { n, address, name, kind }: EmailRecipient, isOneOfMany: boolean): Html {
  const text = shownAddress(address)
  const link = isOneOfMany
    ? html`<a href="${
      withQuery(visit, { recipient: String(n), until: null })
    }" title="Only what happened to this recipient">${text}</a>`
    : text
  return html`${link}${kind !== 'to' && html` <span class="hint">${kind}</span>`}${
    name !== null && html`<br><span class="hint">${name}</span>`
  }`
}

function statusCell ({ status, next_attempt_at: next }: EmailRecipient, told: (at: string) => Html): Html {
  const when = next === null ? null : status === 'scheduled' ? told(next) : html`next attempt ${told(next)}`
  return html`${badge(status)}${when !== null && html` <span class="hint">${when}</span>`}`
}

function replyCell ({ last_response: last }: EmailRecipient): Html {
  if (last === null) return html`<span class="none">–</span>`
  const { response, error, smtp_code: code, enhanced_code: enhanced, host } = last
  const words = response || error || [code, enhanced].filter(part => part !== null).join(' ')
  return html`<code>${words}</code>${host !== null && html`<br><span class="hint">${host}</span>`}`
}

/** What became of it after the delivery. */
function engagementOf (
  { nowMs }: Visit,
  { opened_at: opened, clicked_at: clicked, complained_at: complained, unsubscribed_at: unsubscribed }: EmailRecipient
): Html[] {
  return ([['opened', opened], ['clicked', clicked], ['complained', complained], [
    'unsubscribed',
    unsubscribed
  ]] as const)
    .flatMap((
      [name, at]
    ) => (at === null ? [] : [html`<div>${badge(name)} <span class="hint">${time(at, nowMs)}</span></div>`]))
}
