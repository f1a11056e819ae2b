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
import type { PageResult, Pages, Visit } from '../visit.ts'

const REDRAWN_S = 3
const MISMATCH: Faults = {
  of: name => (name === 'again' ? 'This is not the same address.' : null),
  summary: 'Nothing was done: the two addresses are not the same.'
}
const COUNT_LABELS: Record<keyof Erasure['counts'], string> = {
  emails: 'Emails it was in',
  recipients: 'Times it was a recipient',
  canceled: 'Not sent any more',
  suppressions: 'Suppressions',
  inbound: 'Mails that came back',
  messages: 'Messages deleted from the log'
}

/** People who are forgotten: asking for it, and the receipts. */
export function erasuresPages (pages: Pages): void {
  pages.get('/erasures', async visit => {
    const { data, next_cursor: next } = await visit.api.erasures.page(cursorOf(visit))
    const list = data.length === 0 ? NOBODY : rowsOf(visit, data)
    const moves = data.some(({ status }) => status === 'pending')
      ? refreshed(visit, REDRAWN_S, 'erasures')
      : html`id="erasures"`
    return answer(
      'Erasures',
      html`${heading('Erasures', ERASE_LINK, html`<a href="/dashboard/suppressions">Suppressions</a>`)}
<p class="hint">Who asked to be forgotten, known by the hash of the address alone.</p><div ${moves}>${list}</div>${
        pager(visit, next)
      }`
    )
  })

  pages.get('/erasures/new', async visit => answer('Forget an address', newPage(visit, NO_FAULTS)))

  pages.post('/erasures', async visit => {
    const [address, again] = ['address', 'again'].map(name => (visit.form.get(name) ?? '').trim()) as [string, string]
    try {
      if (address.toLowerCase() !== again.toLowerCase()) {
        return answer('Forget an address', newPage(visit, MISMATCH), MISMATCH)
      }
      const { id } = await visit.api.erasures.create({ address })
      return { to: `/dashboard/erasures/${id}`, notice: 'It is under way. This page is the receipt.' }
    } catch (error) {
      const faults = postFaultsIn(error)
      return answer('Forget an address', newPage(visit, faults), faults)
    }
  })

  pages.get(
    '/erasures/:id',
    async visit => answer('Receipt of an erasure', receiptPage(visit, await visit.api.erasures.get(visit.params.id!)))
  )
}

function answer (title: string, page: Html, faults: Faults = NO_FAULTS): PageResult {
  return { title, section: 'suppressions', page, status: faults === NO_FAULTS ? 200 : 422 }
}

const ERASE_LINK = html`<a class="button primary" href="/dashboard/erasures/new">Forget an address</a>`
const NOBODY = empty(
  'Nobody is forgotten yet',
  'When a person asks for it, what is kept about their address is deleted from the log and from every list. Numbers stay.'
)
const CONFIRM_ERASURE =
  'All mail to this address, and what was told of it, is deleted from the log and from every list. Nobody can bring it back.'

function rowsOf (visit: Visit, data: Erasure[]): Html {
  return table<Erasure>('Erasures', [
    {
      name: 'Receipt',
      kind: 'wide',
      cell: ({ id }) => html`<a href="/dashboard/erasures/${id}"><code>${id}</code></a>`
    },
    { name: 'State', cell: ({ status }) => badge(status) },
    { name: 'Emails', kind: 'num', cell: ({ counts }) => number(counts.emails) },
    { name: 'Deleted from the log', kind: 'num', cell: ({ counts }) => number(counts.messages) },
    { name: 'Asked', cell: ({ requested_at: at }) => time(at, visit.nowMs) },
    { name: 'Completed', cell: ({ completed_at: at }) => time(at, visit.nowMs) }
  ], data)
}

function newPage (visit: Visit, faults: Faults): Html {
  const [address, again] = ['address', 'again'].map(name => visit.form.get(name) ?? '') as [string, string]
  return html`${heading('Forget an address', null, html`<a href="/dashboard/erasures">Erasures</a>`)}${faultBox(faults)}
${
    form(
      visit,
      {
        action: '/dashboard/erasures',
        class: 'card fields',
        confirm: CONFIRM_ERASURE,
        confirmLabel: 'Forget it for good'
      },
      html`<p class="box bad"><strong>This cannot be undone.</strong> What still waits for the address is canceled.
The mail to it, and what was told of it, is deleted from the log and from every list. What is counted stays: how many, when, and that it is suppressed, by its hash alone.</p>
${field({ name: 'address', label: 'Address to forget', required: true, value: address }, faults)}
${
        field({ name: 'again', label: 'The same address again', required: true, value: again }, faults)
      }<div><button class="danger">Forget this address</button></div>`
    )
  }`
}

function receiptPage (visit: Visit, erasure: Erasure): Html {
  const { id, status, address_hash: hash, requested_at: requestedAt, completed_at: completedAt, counts, remains } =
    erasure
  const names = Object.keys(COUNT_LABELS) as Array<keyof Erasure['counts']>
  return html`${heading('Receipt of an erasure', null, html`<a href="/dashboard/erasures">Erasures</a>`)}
<div ${status === 'pending' ? refreshed(visit, REDRAWN_S, 'receipt') : html`id="receipt"`}>
<section class="card"><h2>As it stands</h2>${
    detailList([
      ['State', badge(status)],
      ['Asked', time(requestedAt, visit.nowMs)],
      ['Completed', completedAt === null ? 'not yet: this page shows it by itself' : exact(completedAt)]
    ])
  }<p>${
    copyable(id, 'Copy the id')
  }</p><p class="hint">SHA-256 of the address in lower case, by which whoever knows the address can tell that it is meant:<br>
${copyable(hash, 'Copy the hash')}</p></section>
<section class="card"><h2>What was done</h2>${
    detailList(names.map(name => [COUNT_LABELS[name], number(counts[name])]))
  }</section>
${
    remains.length > 0 && html`<section class="card"><h2>What it cannot reach, and when that is gone</h2>
<ul>${
      remains.map(({ what, until }) => html`<li>${what}${until !== null && html` Gone on ${exact(until)}.`}</li>`)
    }</ul></section>`
  }</div>`
}
