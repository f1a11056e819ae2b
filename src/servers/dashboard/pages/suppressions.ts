import { Readable } from 'node:stream'
import { parseAddress } from '#streams/address.ts'
import { SANDBOX_DOMAIN } from '#streams/key/decide.ts'
import { REASONS, type SuppressionReason } from '#streams/suppression/facts.ts'
import { EXPORT_TYPES } from '#src/actions/export.ts'
import { exportSuppressions } from '#src/actions/suppression-export.ts'
import type {
  ImportSuppressionsAnswer,
  ListSuppressionsAnswer,
  ListSuppressionsQuery,
  Suppression
} from '#src/client/client.ts'
import { html, type Html } from '#src/base/html.ts'
import {
  buttonTo,
  actionButton,
  badge,
  counted,
  empty,
  fault,
  faultBox,
  faultsIn,
  field,
  form,
  heading,
  NO_FAULTS,
  pager,
  select,
  table,
  time,
  postFaultsIn,
  type Faults
} from '../parts.ts'
import type { Reads } from '#src/postgres/reads.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { download } from '../download.ts'
import type { PageResult, Pages, Visit } from '../visit.ts'

const WHY: Record<SuppressionReason, string> = {
  bounce: 'Bounced',
  complaint: 'Marked as spam',
  unsubscribe: 'Unsubscribed',
  manual: 'Added manually'
}
const TONES = { bounce: 'bad', complaint: 'bad', unsubscribe: 'warn', manual: 'calm' } as const
const LIST = '/dashboard/suppressions'
const NO_ADDRESS: Faults = fault('This is not an address. Nothing was removed.')
const NONE: ListSuppressionsAnswer = { data: [], has_more: false, next_cursor: null }

/** Suppressed addresses: the list, adding and removing one, importing and exporting many. */
export function suppressionsPages (pages: Pages, { reads }: DashboardContext): void {
  pages.get('/suppressions', 'suppressions:read', async visit => {
    try {
      return pageResult('Suppressions', await foundPage(visit, NO_FAULTS))
    } catch (error) {
      const faults = faultsIn(error)
      return pageResult('Suppressions', listPage(visit, NONE, faults), faults)
    }
  })

  pages.get(
    '/suppressions/new',
    'suppressions:write',
    async visit => pageResult('Suppress an address', newPage(visit, NO_FAULTS))
  )

  pages.post('/suppressions', 'suppressions:write', async visit => {
    const [address, reason] = [
      (visit.form.get('address') ?? '').trim(),
      (visit.form.get('reason') ?? 'manual') as SuppressionReason
    ]
    try {
      await visit.api.suppressions.create({ address, reason })
      const scope = reason === 'unsubscribe' ? 'no emails with an unsubscribe link' : 'no emails'
      return { to: LIST, notice: `${address} is suppressed: it gets ${scope} from this account.` }
    } catch (error) {
      const faults = postFaultsIn(error)
      return pageResult('Suppress an address', newPage(visit, faults), faults)
    }
  })

  pages.post('/suppressions/remove', 'suppressions:write', async visit => {
    const address = visit.form.get('address') ?? ''
    try {
      await visit.api.suppressions.delete(address)
      return { to: listUrl(visit), notice: `${address} can get emails again.` }
    } catch (error) {
      const faults = parseAddress(address) === null ? NO_ADDRESS : faultsIn(error)
      return pageResult('Suppressions', await foundPage(visit, faults), faults)
    }
  })

  suppressionFilePages(pages, reads)
}

/** Importing and exporting many. */
function suppressionFilePages (pages: Pages, reads: Reads): void {
  pages.get('/suppressions/export', 'suppressions:read', async visit => {
    const wanted = { account: visit.account.id, reason: null, afterMs: null, beforeMs: null }
    const lines = await exportSuppressions(reads, wanted, 'csv')
    return download(EXPORT_TYPES.csv, 'suppressions.csv', Readable.from(lines, { objectMode: false }))
  })

  pages.get(
    '/suppressions/import',
    'suppressions:write',
    async visit => pageResult('Import suppressions', importPage(visit, NO_FAULTS, null))
  )

  pages.post('/suppressions/import', 'suppressions:write', async visit => {
    try {
      const report = await visit.api.suppressions.import(visit.form.get('addresses') ?? '', reasonIn(visit))
      return pageResult('Import suppressions', importPage(visit, NO_FAULTS, report))
    } catch (error) {
      const faults = postFaultsIn(error)
      return pageResult('Import suppressions', importPage(visit, faults, null), faults)
    }
  })
}

/** The list with the search and the page that the visitor came from. */
function listUrl ({ query }: Visit): string {
  return query.size === 0 ? LIST : `${LIST}?${query}`
}

function pageResult (title: string, page: Html, faults: Faults = NO_FAULTS): PageResult {
  return { title, section: 'suppressions', page, status: faults === NO_FAULTS ? 200 : 422 }
}

function queryIn (query: URLSearchParams): ListSuppressionsQuery {
  return Object.fromEntries(['address', 'reason', 'cursor'].flatMap(name => {
    const value = query.get(name)?.trim() ?? ''
    return value === '' ? [] : [[name, value]]
  }))
}

function actionsOf (visit: Visit): Html {
  const to = (path: string, text: string, options?: Parameters<typeof buttonTo>[3]) =>
    buttonTo(visit, `/dashboard${path}`, text, options)
  return html`${to('/erasures', 'Erasures')}
${to('/suppressions/import', 'Import')}
${to('/suppressions/export', 'Export', { download: true })}
${to('/suppressions/new', 'Suppress an address', { primary: true })}`
}

async function foundPage (visit: Visit, faults: Faults): Promise<Html> {
  return listPage({ ...visit, url: listUrl(visit) }, await visit.api.suppressions.page(queryIn(visit.query)), faults)
}

function listPage (visit: Visit, { data, next_cursor: next }: ListSuppressionsAnswer, faults: Faults): Html {
  const [address, reason] = [visit.query.get('address') ?? '', visit.query.get('reason') ?? '']
  const isFiltered = address !== '' || reason !== '' || visit.query.has('cursor')
  return html`${heading('Suppressions', actionsOf(visit))}
<p class="hint">Jetpost does not send to these addresses: they bounced, complained, unsubscribed or were added manually.
An unsubscribe only holds back emails with an unsubscribe link.</p>${faultBox(faults)}
<form class="filters" method="get" action="/dashboard/suppressions" role="search">
${
    field({
      name: 'address',
      label: 'Full address',
      value: address,
      type: 'search',
      placeholder: 'ada@example.com'
    }, faults)
  }
${
    select('reason', 'Reason', [['', 'All'], ...choices(REASONS)], reason, html`data-submit`)
  }<button>Search</button></form>
${data.length === 0 ? emptyList(isFiltered, faults) : rowsOf(visit, data)}${pager(visit, next)}`
}

function choices (reasons: readonly SuppressionReason[]): Array<[value: string, text: string]> {
  return reasons.map(name => [name, WHY[name]])
}

function emptyList (isFiltered: boolean, faults: Faults): Html | null {
  if (faults !== NO_FAULTS) return null
  if (isFiltered) {
    return empty(
      'No results',
      'No suppression matches these filters.',
      html`<a class="button" href="/dashboard/suppressions">All suppressions</a>`
    )
  }
  return empty(
    'No suppressions yet',
    html`Jetpost adds an address when its server rejects it for good, or when the recipient marks your email as spam or
unsubscribes. Emails to test addresses, such as <code>bounced@${SANDBOX_DOMAIN}</code>, add nothing.`
  )
}

function rowsOf (visit: Visit, data: Suppression[]): Html {
  return table<Suppression>('Suppressed addresses', [
    {
      name: 'Address',
      kind: 'wide',
      cell: ({ address }) => address ?? html`<span class="none">erased: only its hash is stored</span>`
    },
    {
      name: 'Reason',
      cell: ({ reasons }) =>
        reasons.map(({ reason, email_id: email, since }) =>
          html`<div>${badge(WHY[reason], TONES[reason])} ${time(since, visit.nowMs)}
${email !== null && html`· <a href="/dashboard/emails/${email}">email</a>`}</div>`
        )
    },
    { name: 'Remove', cell: ({ address, reasons }) => address !== null && removeButton(visit, address, reasons) }
  ], data)
}

const OPTED_OUT = 'The recipient did not want your emails: send again only if they asked for it.'
const MAY_BOUNCE = 'If it bounces again, it is suppressed again.'

function removeButton (visit: Visit, address: string, reasons: Suppression['reasons']): Html {
  const hasOptedOut = reasons.some(({ reason }) => reason === 'complaint' || reason === 'unsubscribe')
  const confirm = `Jetpost sends emails to ${address} again. ${hasOptedOut ? OPTED_OUT : MAY_BOUNCE} ` +
    'Emails held back so far stay unsent.'
  return actionButton(visit, 'Remove', {
    action: visit.url.replace(LIST, `${LIST}/remove`),
    fields: { address },
    confirm,
    confirmLabel: 'Remove suppression'
  })
}

function newPage (visit: Visit, faults: Faults): Html {
  const reason = visit.form.get('reason') ?? 'manual'
  return html`${heading('Suppress an address', null, html`<a href="/dashboard/suppressions">Suppressions</a>`)}${
    faultBox(faults)
  }
${
    form(
      visit,
      { action: '/dashboard/suppressions', class: 'card fields' },
      html`
<p>The address gets no more emails from this account, except one that is being delivered right now.</p>
${field({ name: 'address', label: 'Address', required: true, value: visit.form.get('address') ?? '' }, faults)}
${select('reason', 'Reason', choices([...REASONS].reverse()), reason)}
<p class="hint">The other reasons are for imported lists. An unsubscribe only holds back emails with an unsubscribe
link.</p>
<div><button class="primary">Suppress address</button></div>`
    )
  }`
}

/** '' = each line says its own. */
function reasonIn ({ form: given }: Visit): { reason?: SuppressionReason } {
  const reason = REASONS.find(name => name === given.get('reason'))
  return reason === undefined ? {} : { reason }
}

function importPage (visit: Visit, faults: Faults, report: ImportSuppressionsAnswer | null): Html {
  const typed = report === null ? (visit.form.get('addresses') ?? '').replaceAll('\r\n', '\n') : ''
  const reason = visit.form.get('reason') ?? ''
  return html`${heading('Import suppressions', null, html`<a href="/dashboard/suppressions">Suppressions</a>`)}${
    faultBox(faults)
  }${report !== null && reportOf(report)}
${
    form(
      visit,
      { action: '/dashboard/suppressions/import', class: 'card fields', guard: faults },
      html`
<p>One address a line, or CSV whose first line names the columns: <code>address</code> or <code>email</code>, and
perhaps <code>reason</code>. At most 50,000 lines. Addresses that are suppressed already stay as they are.</p>
${field({ name: 'addresses', label: 'Addresses', value: typed, rows: 16, code: true, required: true }, faults)}
${select('reason', 'Reason', [['', 'As each line says, else added manually'], ...choices(REASONS)], reason)}
<div><button class="primary">Import</button></div>`
    )
  }`
}

const LINES_SHOWN = 100

function reportOf ({ lines, added, unchanged, refused }: ImportSuppressionsAnswer): Html {
  const left = refused.length - LINES_SHOWN
  return html`<div class="box ${refused.length === 0 ? 'good' : 'warn'}" role="status">
<p>${counted(lines, 'line')}: ${added} added, ${unchanged} unchanged, ${refused.length} refused.</p></div>
${
    refused.length > 0 && table('Refused lines', [
      { name: 'Line', kind: 'num', cell: ({ line }) => line },
      { name: 'Why', kind: 'wide', cell: ({ message }) => message }
    ], refused.slice(0, LINES_SHOWN))
  }
${left > 0 && html`<p class="hint">${counted(left, 'more line')} refused.</p>`}`
}
