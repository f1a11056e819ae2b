import { html, type Html } from '#src/base/html.ts'
import { bouncesIn, complaintsIn, type Share } from '#src/operations/reputation.ts'
import { BOUNCES, COMPLAINTS, rateState } from '#src/operations/thresholds.ts'
import { badge, empty, number, percent, table } from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import type { Pages } from '../visit.ts'
import { operationsPage, problemBox } from './operations-parts.ts'

const NOTHING = 'Bounce and complaint rates by sending domain appear here.'

/** Bounce and complaint rates by sending domain. */
export function reputationPages (pages: Pages, { operations, services }: DashboardContext): void {
  pages.get('/operations/reputation', 'operator', async () => {
    const { value, problems } = await operations.reputation()
    const nothing = problems.length === 0 && empty('No emails in the last 7 days', NOTHING)
    return operationsPage(
      '/reputation',
      html`${problemBox(problems)}${
        value.length === 0 ? nothing : html`<section class="card">
<h2>Bounces and complaints by sending domain</h2>
<p class="hint">Mailbox providers lose trust in a sender above ${percent(BOUNCES.rateMax)} bounces or
${percent(COMPLAINTS.rateMax)} complaints. Rates are judged from ${BOUNCES.ofMin} emails and two complaints on. Without
the sandbox; the domain with the most bounces is first.</p>
${
          table('Bounces and complaints by sending domain', [
            {
              name: 'Domain',
              kind: 'wide',
              cell: ({ domain, account }) =>
                html`<strong>${domain}</strong><br><span class="hint">${nameOf(account)}</span>`
            },
            { name: 'Bounces, 24 h', cell: ({ day }) => cell(bouncesIn(day)) },
            { name: 'Bounces, 7 d', cell: ({ week }) => cell(bouncesIn(week)) },
            { name: 'Complaints, 24 h', cell: ({ day }) => cell(complaintsIn(day)) },
            { name: 'Complaints, 7 d', cell: ({ week }) => cell(complaintsIn(week)) }
          ], value)
        }</section>
<p class="hint">Too many bounces: the list is old or was bought. Send to addresses that asked for it and were confirmed.
Too many complaints: people do not know why they get the email, or cannot unsubscribe. Jetpost suppresses addresses that
bounced or complained.</p>`
      }`
    )
  })

  function nameOf (account: string): string {
    return services.directory.now.accounts.get(account)?.name ?? account
  }
}

function cell ({ part, of, rate, limit }: Share): Html {
  if (of === 0) return html`<span class="none">–</span>`
  const mark = { over: badge('too many', 'bad'), near: badge('watch', 'warn'), fine: null }[rateState(part, of, limit)]
  return html`${percent(rate)}<br><span class="hint">${number(part)} of ${number(of)}</span>${
    mark !== null && html`<br>${mark}`
  }`
}
