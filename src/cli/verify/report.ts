import type { TableComparison, WrongRow } from '#src/workers/projector/verify/compare.ts'
import type { GoneCounts } from '#src/workers/projector/verify/gaps.ts'
import type { LogVerification } from '#src/workers/projector/verify/log.ts'
import type { ProjectionVerification } from '#src/workers/projector/verify/projection.ts'

export function isCleanView ({ tables, deadLetters }: Pick<ProjectionVerification, 'tables' | 'deadLetters'>): boolean {
  return deadLetters.count === 0 && tables.every(isCleanTable)
}

export function isCleanLog ({ found }: Pick<LogVerification, 'found'>): boolean {
  return found.length === 0
}

function isCleanTable ({ missing, surplus, different }: TableComparison): boolean {
  return missing + surplus + different === 0
}

interface Report {
  ok: boolean
  views: ProjectionVerification[]
  repaired: string[]
  log: LogVerification | null
}

/** For a person: what was looked at, and what is wrong with it. */
export function linesOf ({ ok, views, repaired, log }: Report): string[] {
  return [
    ...views.flatMap(view => viewLines(view, repaired.includes(view.projection))),
    ...(log === null ? [] : logLines(log)),
    ok ? 'All is as it should be.' : 'Something is not as it should be.'
  ]
}

const number = (count: number): string => count.toLocaleString('en')
const seconds = (count: number): string => `${count.toFixed(1)} s`

function viewLines (view: ProjectionVerification, isNew: boolean): string[] {
  const { projection, facts, tables, deadLetters } = view
  const verdict = isCleanView(view) ? 'as the log says' : 'NOT as the log says'
  return [
    `${projection}: ${isNew ? 'made anew, and now ' : ''}${verdict} (${number(facts)} facts, ${
      seconds(view.seconds)
    }, live view held for ${number(view.heldMs)} ms)`,
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

/** What each kind of finding is called. */
const CALLED: Record<LogVerification['found'][number]['kind'], string> = {
  unreadable: 'cannot be read',
  id: 'have another id than their message',
  duplicate: 'ids are there more than once',
  subject: 'lie on a subject that is not theirs',
  gap: 'gaps have no reason',
  cause: 'have a cause that is nowhere',
  pointer: 'point at the wrong place',
  history: 'recipients cannot have come to this by the rules',
  object: 'times content and request do not go together'
}

function logLines (log: LogVerification): string[] {
  return [
    `log: ${isCleanLog(log) ? 'consistent' : 'NOT consistent'} (${seconds(log.seconds)})`,
    ...log.streams.map(({ stream, first, last, facts, gone }) =>
      `  ${stream}: ${number(facts)} facts, ${first} to ${last}${goneText(gone)}`
    ),
    ...log.found.flatMap(foundLines)
  ]
}

function foundLines ({ kind, count, examples }: LogVerification['found'][number]): string[] {
  return [
    `  ${number(count)} ${CALLED[kind]}`,
    ...examples.map(({ where, message }) => `    ${where}: ${message}`),
    ...more(count - examples.length)
  ]
}

function goneText ({ aged, expired, erased }: GoneCounts): string {
  const reasons = [[aged, 'by age'], [expired, 'by a time of their own'], [erased, 'erased']] as const
  const told = reasons.filter(([count]) => count > 0).map(([count, why]) => `${number(count)} ${why}`)
  return told.length === 0 ? '' : `; gone are ${told.join(', ')}`
}

function more (count: number): string[] {
  return count > 0 ? [`    and ${number(count)} more`] : []
}

function list (items: string[], count: number): string {
  return `${items.join(', ')}${count > items.length ? ' …' : ''}`
}
