import { html } from '#src/base/html.ts'
import type { OperationsService } from '#src/operations/operations.ts'
import { badge, detailList, refreshed, table, time } from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import type { PageResult, Pages, Visit } from '../visit.ts'
import { concernsCard } from './concerns.ts'
import { accountsPages } from './operations-accounts.ts'
import { concernsIn } from './operations-concerns.ts'
import { mailPages } from './operations-mail.ts'
import { deadLetterPages } from './operations-dead-letters.ts'
import { operationsPage, operatorsOnly } from './operations-parts.ts'
import { projectionsPages } from './operations-projections.ts'
import { reputationPages } from './operations-reputation.ts'
import { streamsPages } from './operations-streams.ts'

/** How this installation runs, for who runs it. */
export function operationsPages (all: Pages, context: DashboardContext): void {
  const pages = operatorsOnly(all)
  const { operations } = context
  pages.get('/operations', async visit => await statusPage(visit, operations))
  streamsPages(pages, context)
  projectionsPages(pages, context)
  deadLetterPages(pages, context)
  reputationPages(pages, context)
  accountsPages(pages, context)
  mailPages(pages, context)
}

const EVERY_S = 5
const ALL_WELL =
  html`<p class="box good">All is well: every role works, nothing waits for long, and nothing is dead-lettered.</p>`

async function statusPage (visit: Visit, operations: OperationsService): Promise<PageResult> {
  const { host, roles, version, sinceMs } = operations.process
  const asked = operations.checks()
  const [parts, concerns] = await Promise.all([asked, concernsIn(operations, asked)])
  return operationsPage(
    '',
    html`<div ${refreshed(visit, EVERY_S, 'status')}>
${concerns.length === 0 ? ALL_WELL : concernsCard(concerns, '/dashboard/operations')}
<section class="card"><h2>This process</h2>${
      detailList([
        ['Host', html`<code>${host}</code>`],
        ['Roles', roles.join(', ')],
        ['Version', version],
        ['Started', time(new Date(sinceMs), visit.nowMs)]
      ])
    }</section>
<section class="card"><h2>Roles</h2>
<p class="hint">What this process does, as <code>/readyz</code> tells it. Where several processes share the work, each tells of its own.</p>
${
      table('Roles of this process', [
        { name: 'Role', cell: ({ name }) => html`<strong>${name}</strong>` },
        { name: 'State', cell: ({ reason }) => (reason === null ? badge('ready') : badge('not_ready')) },
        {
          name: 'What it does, or why it does not',
          kind: 'wide',
          cell: ({ name, reason }) => reason ?? html`<span class="hint">${meaningOf(name)}</span>`
        }
      ], parts)
    }</section></div>`
  )
}

const MEANINGS: Record<string, string> = {
  nats: 'The log: everything that was asked for, and what became of it.',
  postgres: 'The views that lists, searches and figures are read from.',
  streams: 'Keeps the streams and consumers of the log as they should be.',
  directory: 'Knows accounts, keys, domains and webhooks, up to date with the log.',
  sender: 'Sends mail and records what servers answered.',
  webhooks: 'Calls webhook endpoints, and again when they fail.',
  reactions: 'Suppresses addresses after bounces and complaints.',
  records: 'Keeps a record of each email beside its outcomes, without its content.',
  scheduler: 'Sees to it that nothing accepted is forgotten, and clears away what is past its time.',
  'domain checks': 'Looks at the DNS of domains again and again.',
  usage: 'Closes the counts of months that are over.',
  erasures: 'Takes what is to be forgotten out of the log.',
  inbound: 'Reads mail that came back: bounces, complaints, unsubscriptions.'
}

function meaningOf (name: string): string {
  return name.startsWith('projection ') ? 'Writes what the log says into its view.' : MEANINGS[name] ?? ''
}
