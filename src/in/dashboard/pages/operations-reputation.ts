import { html, type Html } from '#src/base/html.ts'
import type { FareReport, RateReport } from '../operations.ts'
import { badge, empty, number, percent, table } from '../parts.ts'
import type { DashboardRooms } from '../rooms.ts'
import type { Pages } from '../visit.ts'
import { operationsPage, troubleBox } from './operations-parts.ts'

/** Above these, mailbox providers begin to put off or refuse a sender's mail. */
const BOUNCE_RATE_MAX = 0.05
const COMPLAINT_RATE_MAX = 0.001
/** Of fewer, a single bounce says too much; and one complaint is no rate at all. */
const MAILS_MIN = 100
const COMPLAINTS_MIN = 2

const NOTHING = 'Here stands, for each sending domain, how much of its mail came back, and how often people called it spam.'

/** How mail of each sending domain fares. */
export function reputationPages (pages: Pages, { operations, desk }: DashboardRooms): void {
  pages.get('/operations/reputation', async () => {
    const { value, troubles } = await operations.reputation()
    const nothing = troubles.length === 0 && empty('No mail in the last 7 days', NOTHING)
    return operationsPage('/reputation', html`${troubleBox(troubles)}${value.length === 0 ? nothing : html`<section class="card">
<h2>Bounces and complaints by sending domain</h2>
<p class="hint">Providers lose their trust in a sender from about ${percent(BOUNCE_RATE_MAX)} bounces or ${percent(COMPLAINT_RATE_MAX)} complaints on.
A rate counts here from ${MAILS_MIN} mails on, complaints from the second one on. Those are first of which most came back; the sandbox is left out.</p>
${table('Bounces and complaints by sending domain', [
  { name: 'Domain', kind: 'wide', cell: ({ domain, account }) => html`<strong>${domain}</strong><br><span class="hint">${nameOf(account)}</span>` },
  { name: 'Bounces, 24 h', cell: ({ day }) => bounces(day) },
  { name: 'Bounces, 7 d', cell: ({ week }) => bounces(week) },
  { name: 'Complaints, 24 h', cell: ({ day }) => complaints(day) },
  { name: 'Complaints, 7 d', cell: ({ week }) => complaints(week) }
], value)}</section>
<p class="hint">Too many bounces: an old or bought list; send to addresses that asked for it and were confirmed. Too many complaints:
people do not know why they get the mail, or cannot get rid of it.
Bounced and complaining addresses are suppressed by themselves.</p>`}`)
  })

  function nameOf (account: string): string {
    return desk.directory.now.accounts.get(account)?.name ?? account
  }
}

type Judgement = 'over' | 'near' | 'fine' | 'few'

function judge (rate: number | null, of: number, limit: number, isTelling: boolean): Judgement {
  if (rate === null || of < MAILS_MIN) return 'few'
  if (rate > limit && isTelling) return 'over'
  return rate > limit / 2 && isTelling ? 'near' : 'fine'
}

const ofBounces = ({ bounceRate, settled }: RateReport): Judgement => judge(bounceRate, settled, BOUNCE_RATE_MAX, true)
const ofComplaints = ({ complaintRate, delivered, complained }: RateReport): Judgement => judge(complaintRate, delivered, COMPLAINT_RATE_MAX, complained >= COMPLAINTS_MIN)

function bounces (rate: RateReport): Html {
  return cell(rate.bounceRate, rate.bounced, rate.settled, ofBounces(rate))
}

function complaints (rate: RateReport): Html {
  return cell(rate.complaintRate, rate.complained, rate.delivered, ofComplaints(rate))
}

function cell (rate: number | null, part: number, of: number, judgement: Judgement): Html {
  if (of === 0) return html`<span class="none">–</span>`
  const word = judgement === 'over' ? badge('too many', 'bad') : judgement === 'near' ? badge('watch', 'warn') : null
  return html`${percent(rate)}<br><span class="hint">${number(part)} of ${number(of)}</span>${word !== null && html`<br>${word}`}`
}

/** What is over its limit, in sentences. */
export function alarmsIn ({ domain, day, week }: FareReport): string[] {
  const of = (what: string, judgeOf: (rate: RateReport) => Judgement, rateOf: (rate: RateReport) => number | null): string[] => {
    const [rate, span] = judgeOf(day) === 'over' ? [day, '24 hours'] : [week, '7 days']
    return judgeOf(rate) === 'over' ? [`${percent(rateOf(rate))} of the mail of ${domain} ${what} in the last ${span}.`] : []
  }
  return [...of('bounced', ofBounces, ({ bounceRate }) => bounceRate), ...of('was called spam', ofComplaints, ({ complaintRate }) => complaintRate)]
}
