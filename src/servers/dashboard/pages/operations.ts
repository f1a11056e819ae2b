import { html } from '#src/base/html.ts'
import type { OperationsService } from '#src/operations/operations.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { badge, copyable, detailList, number, pager, refreshed, table, time } from '../parts.ts'
import type { PageResult, Pages, Visit } from '../visit.ts'
import { concernsCard } from './concerns.ts'
import { concernsIn } from './operations-concerns.ts'
import { deadLetterPages } from './operations-dead-letters.ts'
import { mailPages } from './operations-mail.ts'
import { operationsPage, operatorsPages } from './operations-parts.ts'
import { projectionsPages } from './operations-projections.ts'
import { reputationPages } from './operations-reputation.ts'
import { streamsPages } from './operations-streams.ts'

const PAGE = 50
const YOURS = html`<span class="hint">your account: the operator's</span>`

/** The accounts of this installation. */
function accountsPages (pages: Pages, { services: { directory } }: DashboardContext): void {
  pages.get('/operations/accounts', 'operator', async visit => {
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

/** The state of this installation, for its operators. */
export function operationsPages (all: Pages, context: DashboardContext): void {
  const pages = operatorsPages(all)
  const { operations } = context
  pages.get('/operations', 'operator', async visit => await statusPage(visit, operations))
  streamsPages(pages, context)
  projectionsPages(pages, context)
  deadLetterPages(pages, context)
  reputationPages(pages, context)
  accountsPages(pages, context)
  mailPages(pages, context)
}

const REFRESH_S = 5
const ALL_WELL = html`<p class="box good">No problems found.</p>`

async function statusPage (visit: Visit, operations: OperationsService): Promise<PageResult> {
  const { host, roles, version, sinceMs } = operations.process
  const checks = operations.checks()
  const [parts, concerns] = await Promise.all([checks, concernsIn(operations, checks)])
  return operationsPage(
    '',
    html`<div ${refreshed(visit, REFRESH_S, 'status')}>
${concerns.length === 0 ? ALL_WELL : concernsCard(concerns, '/dashboard/operations')}
<section class="card"><h2>This process</h2>${
      detailList([
        ['Host', html`<code>${host}</code>`],
        ['Roles', roles.join(', ')],
        ['Version', version],
        ['Started', time(new Date(sinceMs), visit.nowMs)]
      ])
    }</section>
<section class="card"><h2>Health checks</h2>
<p class="hint">The checks of this process, those of <code>/readyz</code>. Other processes have their own.</p>
<details id="checks"${parts.some(({ reason }) => reason !== null) && html` open`}><summary>${
      parts.filter(({ reason }) => reason === null).length
    } of ${parts.length} are ready</summary>${
      table('Health checks of this process', [
        { name: 'Check', cell: ({ name }) => html`<strong>${name}</strong>` },
        { name: 'Status', cell: ({ reason }) => (reason === null ? badge('ready') : badge('not_ready')) },
        {
          name: 'Details',
          kind: 'wide',
          cell: ({ name, reason }) => reason ?? html`<span class="hint">${meaningOf(name)}</span>`
        }
      ], parts)
    }</details></section></div>`
  )
}

const MEANINGS: Record<string, string> = {
  nats: 'Stores all facts: what was requested and what happened.',
  postgres: 'Stores the projections for lists, searches and statistics.',
  streams: 'Keeps streams and consumers configured.',
  directory: 'Has the accounts, keys, domains and webhooks of the log in memory.',
  sender: "Sends emails and records the servers' replies.",
  webhooks: 'Sends webhook deliveries and retries them.',
  reactions: 'Suppresses addresses after bounces and complaints.',
  records: 'Records each email without its content, for the time after the content has expired.',
  scheduler: 'Starts what is due, finds what was lost, and deletes what has expired.',
  'domain checks': 'Checks the DNS records of domains.',
  usage: 'Closes the usage of past months.',
  erasures: 'Erases addresses from the log.',
  inbound: 'Reads inbound mail: bounces, complaints, unsubscribes.'
}

function meaningOf (name: string): string {
  return name.startsWith('projection ') ? 'Writes facts into its tables.' : MEANINGS[name] ?? ''
}
