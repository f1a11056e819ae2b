import { html, type Html } from '#src/base/html.ts'
import { BOUNCES, COMPLAINTS, rateState } from '../thresholds.ts'
import type { RateReport, ReputationReport } from '#src/operations/operations.ts'
import { badge, empty, number, percent, table } from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import type { Pages } from '../visit.ts'
import { operationsPage, problemBox } from './operations-parts.ts'

const NOTHING =
  'Here stands, for each sending domain, how much of its mail came back, and how often people called it spam.'

/** How mail of each sending domain fares. */
export function reputationPages (pages: Pages, { operations, services }: DashboardContext): void {
  pages.get('/operations/reputation', async () => {
    const { value, problems } = await operations.reputation()
    const nothing = problems.length === 0 && empty('No mail in the last 7 days', NOTHING)
    return operationsPage(
      '/reputation',
      html`${problemBox(problems)}${
        value.length === 0 ? nothing : html`<section class="card">
<h2>Bounces and complaints by sending domain</h2>
<p class="hint">Providers lose their trust in a sender from about ${percent(BOUNCES.rateMax)} bounces or ${
          percent(COMPLAINTS.rateMax)
        } complaints on.
A rate counts here from ${BOUNCES.ofMin} mails on, complaints from the second one on. Those are first of which most came back; the sandbox is left out.</p>
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
<p class="hint">Too many bounces: an old or bought list; send to addresses that asked for it and were confirmed. Too many complaints:
people do not know why they get the mail, or cannot get rid of it.
Bounced and complaining addresses are suppressed by themselves.</p>`
      }`
    )
  })

  function nameOf (account: string): string {
    return services.directory.now.accounts.get(account)?.name ?? account
  }
}

/** Of a stretch of time: what came back, and of how many. */
interface Share {
  part: number
  of: number
  rate: number | null
  limit: typeof BOUNCES
}

const bouncesIn = ({ bounced, settled, bounceRate }: RateReport): Share => ({
  part: bounced,
  of: settled,
  rate: bounceRate,
  limit: BOUNCES
})
const complaintsIn = ({ complained, delivered, complaintRate }: RateReport): Share => ({
  part: complained,
  of: delivered,
  rate: complaintRate,
  limit: COMPLAINTS
})

function cell ({ part, of, rate, limit }: Share): Html {
  if (of === 0) return html`<span class="none">–</span>`
  const word = { over: badge('too many', 'bad'), near: badge('watch', 'warn'), fine: null }[rateState(part, of, limit)]
  return html`${percent(rate)}<br><span class="hint">${number(part)} of ${number(of)}</span>${
    word !== null && html`<br>${word}`
  }`
}

/** What is over its limit, and by what it is judged. */
export function alarmsIn ({ domain, day, week }: ReputationReport): Array<{ what: string, why: string }> {
  const alarm = (what: string, shareIn: (rate: RateReport) => Share) => {
    const stretches = [{ ...shareIn(day), when: '24 hours' }, { ...shareIn(week), when: '7 days' }]
    const over = stretches.find(({ part, of, limit }) => rateState(part, of, limit) === 'over')
    if (over === undefined) return []
    const { part, of, rate, limit, when } = over
    return [{
      what: `${percent(rate)} of the mail of ${domain} ${what} in the last ${when}`,
      why: `${number(part)} of ${number(of)}. ${limit.advice}`
    }]
  }
  return [...alarm('bounced', bouncesIn), ...alarm('was called spam', complaintsIn)]
}
