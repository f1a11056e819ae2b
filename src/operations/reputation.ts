import { number, percent } from '#src/base/figures.ts'
import type { RateReport, ReputationReport } from './operations.ts'
import { BOUNCES, COMPLAINTS, rateState } from './thresholds.ts'

/** A rate with its threshold: `part` bounces or complaints `of` so many emails. */
export interface Share {
  part: number
  of: number
  rate: number | null
  limit: typeof BOUNCES
}

export const bouncesIn = ({ bounced, settled, bounceRate }: RateReport): Share => ({
  part: bounced,
  of: settled,
  rate: bounceRate,
  limit: BOUNCES
})
export const complaintsIn = ({ complained, delivered, complaintRate }: RateReport): Share => ({
  part: complained,
  of: delivered,
  rate: complaintRate,
  limit: COMPLAINTS
})

/** A rate above its threshold. */
export interface RateAlarm {
  kind: 'bounce_rate' | 'complaint_rate'
  what: string
  why: string
}

/** Rates above their thresholds. */
export function alarmsIn ({ domain, day, week }: ReputationReport): RateAlarm[] {
  const alarm = (kind: RateAlarm['kind'], what: string, shareIn: (rate: RateReport) => Share) => {
    const periods = [{ ...shareIn(day), when: '24 hours' }, { ...shareIn(week), when: '7 days' }]
    const over = periods.find(({ part, of, limit }) => rateState(part, of, limit) === 'over')
    if (over === undefined) return []
    const { part, of, rate, limit, when } = over
    return [{
      kind,
      what: `${percent(rate)} of emails from ${domain} ${what} in the last ${when}`,
      why: `${number(part)} of ${number(of)}. ${limit.advice}`
    }]
  }
  return [
    ...alarm('bounce_rate', 'bounced', bouncesIn),
    ...alarm('complaint_rate', 'were marked as spam', complaintsIn)
  ]
}
