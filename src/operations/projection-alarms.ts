import { counted, duration } from '#src/base/figures.ts'
import type { ProjectionReport } from './projection-monitor.ts'
import { lagState } from './thresholds.ts'

/** What is wrong with a projection. */
export interface ProjectionAlarm {
  kind: 'projection_lag' | 'dead_letters'
  what: string
  why: string
}

/** What is not known is not wrong. */
export function projectionAlarms (
  { name, lag, status }: Pick<ProjectionReport, 'name' | 'lag' | 'status'>
): ProjectionAlarm[] {
  const alarms: ProjectionAlarm[] = []
  if (lag !== null && lagState(lag) === 'behind') {
    const by = `By ${counted(lag.facts, 'fact')} and ${duration(lag.seconds * 1000)}.`
    alarms.push({
      kind: 'projection_lag',
      what: `Projection ${name} is behind the log`,
      why: `${by} Emails are still sent; lists are out of date.`
    })
  }
  const deadLetters = status?.deadLetters ?? 0
  if (deadLetters > 0) {
    alarms.push({
      kind: 'dead_letters',
      what: `Projection ${name} has ${counted(deadLetters, 'dead-lettered fact')}`,
      why: 'It could not write them. Lists lack them; the log has them.'
    })
  }
  return alarms
}
