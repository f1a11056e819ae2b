import { html } from '#src/base/html.ts'
import { copyable, number, pager, table, time } from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import type { Pages, Visit } from '../visit.ts'
import { operationsPage } from './operations-parts.ts'

const PAGE = 50
const YOURS = html`<span class="hint">your account: the operator's</span>`

/** The accounts of this installation. */
export function accountsPages (pages: Pages, { services: { directory } }: DashboardContext): void {
  pages.get('/operations/accounts', async visit => {
    const { rows, next } = pageOf(visit)
    const has = (entities: Iterable<{ account: string }>) => countsBy(entities, new Set(rows.map(({ id }) => id)))
    const [keys, domains, webhooks] = [
      has(directory.now.keys.values()),
      has(directory.now.domains.values()),
      has(directory.now.webhooks.values())
    ]
    return operationsPage(
      '/accounts',
      html`<section class="card"><h2>Accounts</h2>
<p class="hint">Each account has its own keys, domains, emails and webhooks, and sees nothing of the others.
<code>jetpost accounts create "Name"</code> creates one, and <code>jetpost keys</code> its first key.</p>
${
        table('Accounts', [
          {
            name: 'Account',
            kind: 'wide',
            cell: ({ id, name }) =>
              html`<strong>${name}</strong> ${id === visit.account.id && YOURS}<br>${copyable(id, 'Copy the id')}`
          },
          { name: 'Keys', kind: 'num', cell: ({ id }) => number(keys.get(id) ?? 0) },
          { name: 'Domains', kind: 'num', cell: ({ id }) => number(domains.get(id) ?? 0) },
          { name: 'Webhooks', kind: 'num', cell: ({ id }) => number(webhooks.get(id) ?? 0) },
          { name: 'Created', cell: ({ createdAt }) => time(createdAt, visit.nowMs) }
        ], rows)
      }</section>${pager(visit, next)}`
    )
  })

  /** Newest first: ids are ordered by time. */
  function pageOf ({ query }: Visit) {
    const cursor = query.get('cursor')
    const found = [...directory.now.accounts.values()]
      .filter(({ id }) => cursor === null || id < cursor)
      .toSorted((a, b) => (a.id < b.id ? 1 : -1))
    const rows = found.slice(0, PAGE)
    return { rows, next: found.length > PAGE ? rows.at(-1)!.id : null }
  }
}

function countsBy (entities: Iterable<{ account: string }>, accounts: Set<string>): Map<string, number> {
  const counts = new Map<string, number>()
  for (const { account } of entities) if (accounts.has(account)) counts.set(account, (counts.get(account) ?? 0) + 1)
  return counts
}
