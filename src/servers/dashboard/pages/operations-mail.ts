import { html, type Html } from '#src/base/html.ts'
import { download } from '../download.ts'
import type { InboundMailSummary } from '#src/operations/inbound-mail.ts'
import { codeBlock, empty, detailList, heading, pager, select, size, table, time } from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { PageNotFound, type Pages, type Visit } from '../visit.ts'
import { operationsPage, problemBox } from './operations-parts.ts'

const PAGE = '/dashboard/operations/mail'
/** Of the source; the whole of what is kept is to be had as a file. */
const SHOWN_BYTES_MAX = 64 * 1024

/** Mail that came in at the bounce domain: programs read bounces and complaints, and this is where people read the
 *  rest. */
export function mailPages (pages: Pages, { operations }: DashboardContext): void {
  pages.get('/operations/mail', async visit => {
    const isAll = visit.query.get('show') === 'all'
    const { value: { mails, older }, problems } = await operations.mail({
      before: numberIn(visit.query.get('cursor')),
      onlyToPeople: !isAll
    })
    return operationsPage(
      '/mail',
      html`<form method="get" action="${PAGE}" class="filters">
${
        select(
          'show',
          'Show',
          [['people', 'Mail to postmaster and abuse'], ['all', 'All mail that came in']],
          isAll ? 'all' : 'people',
          html`data-submit`
        )
      }
<button>Show</button>
<p class="hint field grow">Bounces, complaints and unsubscriptions are read by Jetpost itself. What people write to your bounce domain is for you to read.</p></form>
${problemBox(problems)}${mails.length > 0 ? listOf(visit, mails) : problems.length === 0 && nothing(older)}${
        pager(visit, older === null ? null : String(older))
      }`
    )
  })

  pages.get('/operations/mail/:seq', async visit => {
    const { about, raw } = await mailOf(visit)
    const source = raw.toString('utf8', 0, SHOWN_BYTES_MAX)
    const rest = raw.length < about.sizeBytes
      ? ` Of ${size(about.sizeBytes)} the first ${size(raw.length)} were kept.`
      : ''
    const download = html`<a class="button" href="${PAGE}/${about.seq}/source" download>Download the source</a>`
    return {
      title: about.subject ?? 'Mail',
      section: 'operations',
      page: html`${
        heading(about.subject ?? 'Mail without a subject', download, html`<a href="${PAGE}">Mail received</a>`)
      }
<section class="card">${
        detailList([
          ['From', html`<code>${senderOf(about)}</code>`],
          ['To', html`<code>${about.to.join(', ')}</code>`],
          ['Came', time(about.at, visit.nowMs)],
          ['From the host', html`<code>${about.remote}</code>`],
          ['Size', size(about.sizeBytes)],
          ['Id', html`<code>${about.id}</code>`]
        ])
      }</section>
<section class="card"><h2>Source</h2>
<p class="hint">Written by a stranger: nothing in it is to be trusted, least of all who it says it is from.${rest}${
        raw.length > SHOWN_BYTES_MAX && ' This is its beginning.'
      }</p>
${codeBlock(source, 'Source of the mail')}</section>`
    }
  })

  pages.get('/operations/mail/:seq/source', async visit => {
    const { about, raw } = await mailOf(visit)
    return download('application/octet-stream', `${about.id}.eml`, raw)
  })

  async function mailOf ({ params: { seq } }: Visit) {
    const found = numberIn(seq!) === null ? null : await operations.mailAt(Number(seq))
    if (found === null) {
      throw new PageNotFound('There is no such mail: it may be older than mail is kept, or kept by a newer Jetpost.')
    }
    return found
  }
}

/** A sequence, or null for any other text. */
function numberIn (text: string | null): number | null {
  return text !== null && /^[1-9]\d{0,14}$/.test(text) ? Number(text) : null
}

function nothing (older: number | null): Html {
  if (older !== null) {
    return empty('None here', 'None of the mails that were looked through is of this kind. There are older ones.')
  }
  return empty(
    'No mail to read',
    html`Complaints about mail from here are written to <code>abuse@</code> and <code>postmaster@</code> your bounce domain,
and whoever runs it should read them: they come here.
Set <code>JETPOST_INBOUND_PORT</code> and <code>JETPOST_BOUNCE_DOMAIN</code> to receive mail.`
  )
}

const senderOf = ({ from }: InboundMailSummary): string => (from === '' ? '<>' : from)

function summaryOf (mail: InboundMailSummary): Html {
  const { seq, subject, to } = mail
  const others = to.length > 3 && ` and ${to.length - 3} more`
  return html`<a href="${PAGE}/${seq}">${subject === null || subject === '' ? 'Without a subject' : subject}</a><br>
<span class="hint">from <code>${senderOf(mail)}</code> to <code>${to.slice(0, 3).join(', ')}</code>${others}</span>`
}

function listOf (visit: Visit, mails: InboundMailSummary[]): Html {
  return table('Mail that came in', [
    { name: 'Mail', kind: 'wide', cell: summaryOf },
    { name: 'Size', kind: 'num', cell: ({ sizeBytes }) => size(sizeBytes) },
    { name: 'Came', cell: ({ at }) => time(at, visit.nowMs) }
  ], mails)
}
