import { html, type Html } from '#src/base/html.ts'
import { download } from '../download.ts'
import type { InboundMailSummary } from '#src/operations/inbound-mail.ts'
import type { OperationsService } from '#src/operations/operations.ts'
import { codeBlock, empty, detailList, heading, pager, select, size, table, time } from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { PageNotFound, type PageResult, type Pages, type Visit } from '../visit.ts'
import { operationsPage, problemBox } from './operations-parts.ts'

const PAGE = '/dashboard/operations/mail'
/** Of the source; the download has all that is stored. */
const SHOWN_BYTES_MAX = 64 * 1024

/** Mail to the bounce domain. Jetpost reads bounces and complaints itself; here people read the rest. */
export function mailPages (pages: Pages, { operations }: DashboardContext): void {
  pages.get('/operations/mail', 'operator', async visit => await listPage(visit, operations))

  pages.get('/operations/mail/:seq', 'operator', async visit => {
    const { about: mail, raw } = await findMail(visit, operations)
    const page = mailPage(visit, mail, raw)
    return { title: mail.subject ?? 'Inbound mail', section: 'operations', page }
  })

  pages.get('/operations/mail/:seq/source', 'operator', async visit => {
    const { about: { id }, raw } = await findMail(visit, operations)
    return download('application/octet-stream', `${id}.eml`, raw)
  })
}

async function findMail ({ params: { seq } }: Visit, operations: OperationsService) {
  const found = numberIn(seq!) === null ? null : await operations.mailAt(Number(seq))
  if (found !== null) return found
  throw new PageNotFound('This mail does not exist, has expired, or was stored by a newer version of Jetpost.')
}

/** A sequence number; null for any other text. */
function numberIn (text: string | null): number | null {
  return text !== null && /^[1-9]\d{0,14}$/.test(text) ? Number(text) : null
}

async function listPage (visit: Visit, operations: OperationsService): Promise<PageResult> {
  const isAll = visit.query.get('show') === 'all'
  const before = numberIn(visit.query.get('cursor'))
  const { value: { mails, older }, problems } = await operations.mail({ before, onlyToPeople: !isAll })
  const list = mails.length > 0 ? listOf(visit, mails) : problems.length === 0 && emptyList(older)
  return operationsPage(
    '/mail',
    html`${filterForm(isAll)}
${problemBox(problems)}${list}${pager(visit, older === null ? null : String(older))}`
  )
}

function filterForm (isAll: boolean): Html {
  const options: Array<[string, string]> = [['people', 'Mail to postmaster and abuse'], ['all', 'All inbound mail']]
  return html`<form method="get" action="${PAGE}" class="filters">
${select('show', 'Show', options, isAll ? 'all' : 'people', html`data-submit`)}
<button>Show</button>
<p class="hint field grow">Jetpost processes bounces, complaints and unsubscribes itself. Mail that people write to your
bounce domain is for you to read.</p></form>`
}

function emptyList (older: number | null): Html {
  if (older !== null) return empty('No results here', 'The mails searched so far do not match. There are older ones.')
  return empty(
    'No inbound mail',
    html`Mail to <code>abuse@</code> and <code>postmaster@</code> your bounce domain appears here: people complain to
these addresses. To receive mail, set <code>JETPOST_INBOUND_PORT</code> and <code>JETPOST_BOUNCE_DOMAIN</code>.`
  )
}

function mailPage (visit: Visit, mail: InboundMailSummary, raw: Buffer): Html {
  const source = raw.toString('utf8', 0, SHOWN_BYTES_MAX)
  const isCut = raw.length < mail.sizeBytes
  const stored = isCut ? ` Stored: the first ${size(raw.length)} of ${size(mail.sizeBytes)}.` : ''
  const shown = raw.length > SHOWN_BYTES_MAX ? ` Shown: the first ${size(SHOWN_BYTES_MAX)}.` : ''
  const save = html`<a class="button" href="${PAGE}/${mail.seq}/source" download>Download source</a>`
  const details = detailList([
    ['From', html`<code>${senderOf(mail)}</code>`],
    ['To', html`<code>${mail.to.join(', ')}</code>`],
    ['Received', time(mail.at, visit.nowMs)],
    ['Client', html`<code>${mail.remote}</code>`],
    ['Size', size(mail.sizeBytes)],
    ['Id', html`<code>${mail.id}</code>`]
  ])
  return html`${heading(mail.subject ?? '(no subject)', save, html`<a href="${PAGE}">Inbound mail</a>`)}
<section class="card">${details}</section>
<section class="card"><h2>Source</h2>
<p class="hint">Do not trust its content or its sender: anybody can write to this address.${stored}${shown}</p>
${codeBlock(source, 'Source of the mail')}</section>`
}

const senderOf = ({ from }: InboundMailSummary): string => (from === '' ? '<>' : from)

function summaryOf (mail: InboundMailSummary): Html {
  const { seq, subject, to } = mail
  const others = to.length > 3 && ` and ${to.length - 3} more`
  return html`<a href="${PAGE}/${seq}">${subject === null || subject === '' ? '(no subject)' : subject}</a><br>
<span class="hint">from <code>${senderOf(mail)}</code> to <code>${to.slice(0, 3).join(', ')}</code>${others}</span>`
}

function listOf (visit: Visit, mails: InboundMailSummary[]): Html {
  return table('Inbound mail', [
    { name: 'Mail', kind: 'wide', cell: summaryOf },
    { name: 'Size', kind: 'num', cell: ({ sizeBytes }) => size(sizeBytes) },
    { name: 'Received', cell: ({ at }) => time(at, visit.nowMs) }
  ], mails)
}
