import { foldAddress } from '#streams/suppression/decide.ts'
import type { Erasure } from '#src/client/client.ts'
import { html, type Html } from '#src/base/html.ts'
import {
  badge,
  copyable,
  cursorOf,
  empty,
  exact,
  detailList,
  faultBox,
  field,
  form,
  heading,
  NO_FAULTS,
  number,
  pager,
  refreshed,
  table,
  time,
  postFaultsIn,
  type Faults
} from '../parts.ts'
import { confirmed } from '../confirm.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import type { PageResult, Pages, Visit } from '../visit.ts'

const REFRESH_S = 3
const MISMATCH: Faults = {
  of: name => (name === 'confirmation' ? 'This must be the same address.' : null),
  summary: 'The two addresses must be the same. Nothing was erased.'
}
const COUNT_LABELS: Record<keyof Erasure['counts'], string> = {
  emails: 'Emails',
  recipients: 'Recipients',
  canceled: 'Canceled recipients',
  suppressions: 'Suppressions',
  inbound: 'Inbound emails',
  messages: 'Messages deleted from the log'
}

/** Erasures: the list, erasing an address, and the receipts. */
export function erasuresPages (pages: Pages, context: DashboardContext): void {
  pages.get('/erasures', 'erasures:write', async visit => {
    const { data, next_cursor: next } = await visit.api.erasures.page(cursorOf(visit))
    const list = data.length === 0 ? EMPTY : rowsOf(visit, data)
    const marks = data.some(({ status }) => status === 'pending')
      ? refreshed(visit, REFRESH_S, 'erasures')
      : html`id="erasures"`
    return pageResult(
      'Erasures',
      html`${heading('Erasures', ERASE_LINK, html`<a href="/dashboard/suppressions">Suppressions</a>`)}
<p class="hint">Erased addresses. Jetpost stores only their hashes.</p>
<div ${marks}>${list}</div>${pager(visit, next)}`
    )
  })

  pages.get('/erasures/new', 'erasures:write', async visit => pageResult('Erase a person', newPage(visit, NO_FAULTS)))

  confirmed(pages, context).post('/erasures', 'erasures:write', async visit => {
    const [address, confirmation] = FIELDS.map(name => (visit.form.get(name) ?? '').trim()) as [string, string]
    try {
      if (foldAddress(address) !== foldAddress(confirmation)) {
        return pageResult('Erase a person', newPage(visit, MISMATCH), MISMATCH)
      }
      const { id } = await visit.api.erasures.create({ address })
      return { to: `/dashboard/erasures/${id}`, notice: 'Erasure started. This page is its receipt.' }
    } catch (error) {
      const faults = postFaultsIn(error)
      return pageResult('Erase a person', newPage(visit, faults), faults)
    }
  })

  pages.get('/erasures/:id', 'erasures:write', async visit => {
    return pageResult('Erasure receipt', receiptPage(visit, await visit.api.erasures.get(visit.params.id!)))
  })
}

const FIELDS = ['address', 'confirmation']

function pageResult (title: string, page: Html, faults: Faults = NO_FAULTS): PageResult {
  return { title, section: 'suppressions', page, status: faults === NO_FAULTS ? 200 : 422 }
}

const ERASE_LINK = html`<a class="button primary" href="/dashboard/erasures/new">Erase a person</a>`
const EMPTY = empty(
  'No erasures yet',
  'When a person asks for it, erase their address. Jetpost deletes it from the log and every list. Statistics stay.'
)
const CONFIRM_ERASURE =
  'All emails to this address, and everything recorded about them, are deleted from the log and ' +
  'from every list. This cannot be undone.'

function rowsOf (visit: Visit, data: Erasure[]): Html {
  return table<Erasure>('Erasures', [
    {
      name: 'Receipt',
      kind: 'wide',
      cell: ({ id }) => html`<a href="/dashboard/erasures/${id}"><code>${id}</code></a>`
    },
    { name: 'Status', cell: ({ status }) => badge(status) },
    { name: 'Emails', kind: 'num', cell: ({ counts }) => number(counts.emails) },
    { name: 'Deleted from the log', kind: 'num', cell: ({ counts }) => number(counts.messages) },
    { name: 'Requested', cell: ({ requested_at: at }) => time(at, visit.nowMs) },
    { name: 'Completed', cell: ({ completed_at: at }) => time(at, visit.nowMs) }
  ], data)
}

function newPage (visit: Visit, faults: Faults): Html {
  const [address, confirmation] = FIELDS.map(name => visit.form.get(name) ?? '') as [string, string]
  return html`${heading('Erase a person', null, html`<a href="/dashboard/erasures">Erasures</a>`)}${faultBox(faults)}
${
    form(
      visit,
      {
        action: '/dashboard/erasures',
        class: 'card fields',
        confirm: CONFIRM_ERASURE,
        confirmLabel: 'Erase for good'
      },
      html`<p class="box bad"><strong>This cannot be undone.</strong> Emails that wait for the address are canceled.
All emails to it, and everything recorded about them, are deleted from the log and from every list. Statistics stay, and
so does its suppression, by the hash of the address.</p>
${field({ name: 'address', label: 'Address', required: true, value: address }, faults)}
${field({ name: 'confirmation', label: 'Repeat the address', required: true, value: confirmation }, faults)}
<div><button class="danger">Erase address</button></div>`
    )
  }`
}

function receiptPage (visit: Visit, erasure: Erasure): Html {
  const {
    id,
    status,
    address_hash: hash,
    requested_at: requestedAt,
    completed_at: completedAt,
    counts,
    looked_through: places,
    remains
  } = erasure
  const names = Object.keys(COUNT_LABELS) as Array<keyof Erasure['counts']>
  const details = detailList([
    ['Status', badge(status)],
    ['Requested', time(requestedAt, visit.nowMs)],
    ['Completed', completedAt === null ? 'not yet' : exact(completedAt)]
  ])
  const rest = remains.map(({ what, until }) =>
    html`<li>${what}${until !== null && html` Gone on ${exact(until)}.`}</li>`
  )
  const looked = places.map(place => html`<li>${place}</li>`)
  return html`${heading('Erasure receipt', null, html`<a href="/dashboard/erasures">Erasures</a>`)}
<div ${status === 'pending' ? refreshed(visit, REFRESH_S, 'receipt') : html`id="receipt"`}>
<section class="card"><h2>Details</h2>${details}<p>${copyable(id, 'Copy the id')}</p>
<p class="hint">Hash of the address under a key of this service, the same for each erasure of it:<br>
${copyable(hash, 'Copy the hash')}</p></section>
<section class="card"><h2>Erased</h2>${
    detailList(names.map(name => [COUNT_LABELS[name], number(counts[name])]))
  }</section>
${
    looked.length > 0 && html`<section class="card"><h2>Looked through</h2>
<p class="hint">The address was taken out of these places.</p><ul>${looked}</ul></section>`
  }${
    rest.length > 0 && html`<section class="card"><h2>Out of reach</h2>
<p class="hint">Traces of the address can stay in these places.</p><ul>${rest}</ul></section>`
  }</div>`
}
