import { parseAddress } from '#streams/address.ts'
import { REASONS, type SuppressionReason } from '#streams/suppression/facts.ts'
import type { ListSuppressionsAnswer, ListSuppressionsQuery, Suppression } from '#src/client/client.ts'
import { html, type Html } from '#src/base/html.ts'
import {
  actionButton,
  badge,
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
import type { PageResult, Pages, Visit } from '../visit.ts'

const WHY: Record<SuppressionReason, string> = {
  bounce: 'Bounced',
  complaint: 'Marked as spam',
  unsubscribe: 'Unsubscribed',
  manual: 'Added by hand'
}
const TONES = { bounce: 'bad', complaint: 'bad', unsubscribe: 'warn', manual: 'calm' } as const
const LIST = '/dashboard/suppressions'
const NO_ADDRESS: Faults = fault('Nothing was lifted: this is no address.')
const NONE: ListSuppressionsAnswer = { data: [], has_more: false, next_cursor: null }

/** Who gets no mail of the account, and why. */
export function suppressionsPages (pages: Pages): void {
  pages.get('/suppressions', async visit => {
    try {
      return answer('Suppressions', await foundPage(visit, NO_FAULTS))
    } catch (error) {
      const faults = faultsIn(error)
      return answer('Suppressions', listPage(visit, NONE, faults), faults)
    }
  })

  pages.get('/suppressions/new', async visit => answer('Suppress an address', newPage(visit, NO_FAULTS)))

  pages.post('/suppressions', async visit => {
    const [address, reason] = [
      (visit.form.get('address') ?? '').trim(),
      (visit.form.get('reason') ?? 'manual') as SuppressionReason
    ]
    try {
      await visit.api.suppressions.create({ address, reason })
      const less = reason === 'unsubscribe'
        ? 'no more mail of this account that offers to unsubscribe'
        : 'no mail of this account from now on'
      return { to: LIST, notice: `${address} gets ${less}.` }
    } catch (error) {
      const faults = postFaultsIn(error)
      return answer('Suppress an address', newPage(visit, faults), faults)
    }
  })

  pages.post('/suppressions/lift', async visit => {
    const address = visit.form.get('address') ?? ''
    try {
      await visit.api.suppressions.delete(address)
      return { to: listUrl(visit), notice: `${address} may have mail again.` }
    } catch (error) {
      const faults = parseAddress(address) === null ? NO_ADDRESS : faultsIn(error)
      return answer('Suppressions', await foundPage(visit, faults), faults)
    }
  })
}

/** The list with the search and the place in it that somebody has come from. */
function listUrl ({ query }: Visit): string {
  return query.size === 0 ? LIST : `${LIST}?${query}`
}

function answer (title: string, page: Html, faults: Faults = NO_FAULTS): PageResult {
  return { title, section: 'suppressions', page, status: faults === NO_FAULTS ? 200 : 422 }
}

function queryIn (query: URLSearchParams): ListSuppressionsQuery {
  return Object.fromEntries(['address', 'reason', 'cursor'].flatMap(name => {
    const value = query.get(name)?.trim() ?? ''
    return value === '' ? [] : [[name, value]]
  }))
}

const ACTIONS =
  html`<a class="button" href="/dashboard/erasures">Erasures</a><a class="button primary" href="/dashboard/suppressions/new">Suppress an address</a>`

async function foundPage (visit: Visit, faults: Faults): Promise<Html> {
  return listPage({ ...visit, url: listUrl(visit) }, await visit.api.suppressions.page(queryIn(visit.query)), faults)
}

function listPage (visit: Visit, { data, next_cursor: next }: ListSuppressionsAnswer, faults: Faults): Html {
  const [address, reason] = [visit.query.get('address') ?? '', visit.query.get('reason') ?? '']
  const isFiltered = address !== '' || reason !== '' || visit.query.has('cursor')
  return html`${heading('Suppressions', ACTIONS)}
<p class="hint">Addresses that mail of this account is not sent to: they bounced, complained or unsubscribed, or somebody said so.
An unsubscribe holds back only mail that offers to.</p>${
    faultBox(faults)
  }<form class="filters" method="get" action="/dashboard/suppressions" role="search">
${
    field({
      name: 'address',
      label: 'The whole address',
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
      'Nobody here',
      'No address is suppressed that is like this.',
      html`<a class="button" href="/dashboard/suppressions">All suppressions</a>`
    )
  }
  return empty(
    'Nobody is suppressed',
    html`An address comes here by itself when its server rejects it for good, or when somebody marks your mail as spam or unsubscribes.
Mail to the sandbox (<code>bounced@sandbox.jetpost.test</code>) shows how that looks, and never touches this list.`
  )
}

function rowsOf (visit: Visit, data: Suppression[]): Html {
  return table<Suppression>('Suppressed addresses', [
    {
      name: 'Address',
      kind: 'wide',
      cell: ({ address }) => address ?? html`<span class="none">forgotten: the hash of the address alone is kept</span>`
    },
    {
      name: 'Why',
      cell: ({ reasons }) =>
        reasons.map(({ reason, email_id: email, since }) =>
          html`<div>${badge(WHY[reason], TONES[reason])} ${time(since, visit.nowMs)}
${email !== null && html`· <a href="/dashboard/emails/${email}">the email</a>`}</div>`
        )
    },
    { name: 'Lift', cell: ({ address, reasons }) => address !== null && removeButton(visit, address, reasons) }
  ], data)
}

const OPTED_OUT = 'They asked not to have it: send only if they have asked for it again since.'
const MAY_BOUNCE = 'If it bounces again, it is suppressed again.'

function removeButton (visit: Visit, address: string, reasons: Suppression['reasons']): Html {
  const warned = reasons.some(({ reason }) => reason === 'complaint' || reason === 'unsubscribe')
    ? OPTED_OUT
    : MAY_BOUNCE
  const confirm =
    `Mail to ${address} goes out again, whatever the reasons were. ${warned} Mail that was held back stays unsent.`
  return actionButton(visit, 'Lift', {
    action: visit.url.replace(LIST, `${LIST}/lift`),
    fields: { address },
    confirm,
    confirmLabel: 'Lift it'
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
<p>It gets no mail of this account from now on. What a server is taking at this moment may still arrive.</p>
${field({ name: 'address', label: 'Address', required: true, value: visit.form.get('address') ?? '' }, faults)}
${select('reason', 'Reason', choices([...REASONS].reverse()), reason)}
<p class="hint">The other reasons are for lists brought along from elsewhere. An unsubscribe holds back only mail that offers to.</p>
<div><button class="primary">Suppress it</button></div>`
    )
  }`
}
