import { html, type Html } from '#src/base/html.ts'
import type { ListEmailsAnswer } from '#src/client/types.ts'
import { curlFor, FIRST_EMAIL } from '../curl.ts'
import {
  buttonTo,
  badge,
  codeBlock,
  empty,
  faultBox,
  faultsIn,
  heading,
  live,
  pager,
  table,
  time,
  type Faults
} from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import type { Pages, Visit } from '../visit.ts'
import { pageById } from '../find-by-id.ts'
import { emailActions } from './email-actions.ts'
import { emailContentPages } from './email-content.ts'
import { newEmailPages } from './email-new.ts'
import { emailPage } from './email-page.ts'
import { shownAddress, tagsOf, titleOf } from './email-format.ts'
import { filterForm, readFilters, withoutBlanks, type EmailListFilters } from './emails-filters.ts'

const ROWS = 25
type ListedEmail = ListEmailsAnswer['data'][number]

/** Emails: the list, a single one, and a new one. */
export function emailsPages (pages: Pages, context: DashboardContext): void {
  pages.get('/emails', 'emails:list', async visit => {
    const tidy = withoutBlanks(visit.url, visit.query)
    if (tidy !== null) return { to: tidy }
    const byId = await pageById(visit, context, visit.query.get('q')?.trim() ?? '')
    if (byId !== null) return { to: byId }
    const filters = readFilters(visit.query)
    const { found, faults } = await find(visit, filters)
    const newLink = buttonTo(visit, '/dashboard/emails/new', 'Send an email', { primary: true })
    const page = html`${heading('Emails', newLink)}
${filterForm(filters, faults)}${faultBox(faults)}
${found !== null && html`<div ${live(visit, 'emails', 'rows')}>${listOf(visit, context, found, filters)}</div>`}`
    return { title: 'Emails', section: 'emails', status: found === null ? 422 : 200, page }
  })

  newEmailPages(pages)
  emailPage(pages, context)
  emailContentPages(pages)
  emailActions(pages)
}

/** A page of the list, or what is wrong with the filters. */
async function find (
  { api, query }: Visit,
  { query: filters, faults }: EmailListFilters
): Promise<{ found: ListEmailsAnswer | null, faults: Faults }> {
  if (faults.summary !== null) return { found: null, faults }
  const cursor = query.get('cursor') ?? undefined
  return await api.emails.page({ ...filters, limit: ROWS, cursor }).then(
    found => ({ found, faults }),
    error => ({ found: null, faults: faultsIn(error) })
  )
}

function listOf (
  visit: Visit,
  context: DashboardContext,
  { data, next_cursor: next }: ListEmailsAnswer,
  { count }: EmailListFilters
): Html {
  if (data.length > 0) return html`${rowsOf(visit, data)}${pager(visit, next)}`
  if (count > 0) {
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
  return firstSteps(context)
}

function rowsOf ({ nowMs }: Visit, rows: ListedEmail[]): Html {
  return table(
    'Emails, newest first',
    [
      { name: 'Subject', kind: 'wide', cell: row => html`<a href="/dashboard/emails/${row.id}">${titleOf(row)}</a>` },
      { name: 'To', kind: 'wide', cell: toCell },
      { name: 'Status', cell: row => statusCell(row, nowMs) },
      { name: 'Tags', kind: 'late', cell: ({ tags }) => tagsOf(tags) },
      { name: 'Accepted', cell: ({ created_at: at }) => time(at, nowMs) }
    ],
    rows,
    ({ id }) => id
  )
}

function toCell ({ to, cc, bcc }: ListedEmail): Html {
  const [first, ...others] = [...to, ...cc, ...bcc]
  return html`${shownAddress(first ?? '')}${
    others.length > 0 && html` <span class="hint">and ${others.length} more</span>`
  }`
}

function statusCell ({ status, scheduled_at: at, test }: ListedEmail, nowMs: number): Html {
  return html`${badge(status)}${test && html` ${badge('test')}`}${
    status === 'scheduled' && html` <span class="hint">${time(at, nowMs)}</span>`
  }`
}

function firstSteps ({ publicUrl }: DashboardContext): Html {
  const first = new URLSearchParams(FIRST_EMAIL).toString()
  return empty(
    'No emails yet',
    html`Emails appear here once Jetpost accepts them. The email below stays in the built-in mail catcher.
To send it, you need an <a href="/dashboard/keys">API key</a>.`,
    html`${codeBlock(curlFor(publicUrl, '/api/emails', FIRST_EMAIL), 'The first email by curl')}
<p>Or <a href="/dashboard/emails/new?${first}">send it from this page</a>.</p>`
  )
}
