import type { TableComparison, WrongRow } from '#src/workers/projector/verify/compare.ts'
import type { GoneCounts } from '#src/workers/projector/verify/gaps.ts'
import type { LogVerification } from '#src/workers/projector/verify/log.ts'
import type { ProjectionVerification } from '#src/workers/projector/verify/projection.ts'
import { paint } from '../style.ts'
import { durationText } from '../text.ts'

export function isCleanProjection (
  { tables, deadLetters }: Pick<ProjectionVerification, 'tables' | 'deadLetters'>
): boolean {
  return deadLetters.count === 0 && tables.every(isCleanTable)
}

export function isCleanLog ({ found }: Pick<LogVerification, 'found'>): boolean {
  return found.length === 0
}

function isCleanTable ({ missing, surplus, different }: TableComparison): boolean {
  return missing + surplus + different === 0
}

/** What was verified, and what was found. */
export interface VerifyReport {
  ok: boolean
  projections: ProjectionVerification[]
  /** Projections that were rebuilt. */
  repaired: string[]
  log: LogVerification | null
}

/** For a person: what was compared, and what is wrong with it. */
export function linesOf ({ ok, projections, repaired, log }: VerifyReport): string[] {
  return [
    ...projections.flatMap(one => projectionLines(one, repaired.includes(one.projection))),
    ...(log === null ? [] : logLines(log)),
    ok ? paint('green', 'Everything is correct.') : paint('red', 'Something is wrong.')
  ]
}

const number = (count: number): string => count.toLocaleString('en')
const seconds = (count: number): string => `${count.toFixed(1)} s`

function projectionLines (verification: ProjectionVerification, isNew: boolean): string[] {
  const { projection, facts, tables, deadLetters } = verification
  const verdict = isCleanProjection(verification)
    ? paint('green', 'matches the log')
    : paint('red', 'DIFFERS from the log')
  return [
    `${projection}: ${isNew ? 'rebuilt, and now ' : ''}${verdict} (${number(facts)} facts, ${
      seconds(verification.seconds)
    }, live projection held for ${durationText(verification.heldMs)})`,
    ...tables.flatMap(tableLines),
    ...(deadLetters.count === 0
      ? []
      : [
        `  ${number(deadLetters.count)} facts are dead-lettered: ${
          list(deadLetters.examples.map(({ stream, seq }) => `${stream} ${seq}`), deadLetters.count)
        }`
      ])
  ]
}

function tableLines (table: TableComparison): string[] {
  const { table: name, compared, missing, surplus, different, examples } = table
  if (isCleanTable(table)) return [`  ${name}: ${number(compared)} rows`]
  return [
    `  ${name}: of ${number(compared)} rows ${number(missing)} are missing and ${number(different)} different; ${
      number(surplus)
    } are surplus`,
    ...examples.map(rowLine)
  ]
}

function rowLine ({ key, what, columns }: WrongRow): string {
  const name = Object.entries(key).map(([column, value]) => `${column} ${String(value)}`).join(', ')
  return `    ${name}: ${what}${columns.length === 0 ? '' : ` in ${columns.join(', ')}`}`
}

/** Each kind of finding in words that follow a count. */
const KINDS: Record<LogVerification['found'][number]['kind'], string> = {
  unreadable: 'cannot be read',
  id: 'have another id than their message',
  duplicate: 'ids occur more than once',
  subject: 'are on the wrong subject',
  gap: 'gaps are unexplained',
  cause: 'have a cause that does not exist',
  pointer: 'point at the wrong sequence',
  history: 'recipients have a history that the rules do not allow',
  object: 'times content and request do not match'
}

function logLines (log: LogVerification): string[] {
  return [
    `log: ${isCleanLog(log) ? paint('green', 'consistent') : paint('red', 'NOT consistent')} (${seconds(log.seconds)})`,
    ...log.streams.map(({ stream, first, last, facts, gone }) =>
      `  ${stream}: ${number(facts)} facts, ${first} to ${last}${goneText(gone)}`
    ),
    ...log.found.flatMap(foundLines)
  ]
}

function foundLines ({ kind, count, examples }: LogVerification['found'][number]): string[] {
  return [
    `  ${number(count)} ${KINDS[kind]}`,
    ...examples.map(({ where, message }) => `    ${where}: ${message}`),
    ...more(count - examples.length)
  ]
}

function goneText ({ aged, expired, erased }: GoneCounts): string {
  const reasons = [[aged, 'by age'], [expired, 'by their own time to live'], [erased, 'by erasures']] as const
  const parts = reasons.filter(([count]) => count > 0).map(([count, why]) => `${number(count)} ${why}`)
  return parts.length === 0 ? '' : `; removed: ${parts.join(', ')}`
}

function more (count: number): string[] {
  return count > 0 ? [`    and ${number(count)} more`] : []
}

function list (items: string[], count: number): string {
  return `${items.join(', ')}${count > items.length ? ' …' : ''}`
}
