import type { Projection } from '#projections/define.ts'
import { projections } from '#projections/list.ts'
import { asError, Complaint } from '#src/base/errors.ts'
import type { RebuildProgress } from '#src/workers/projector/rebuild.ts'
import type { TableComparison, WrongRow } from '#src/workers/projector/verify/compare.ts'
import type { GoneCounts } from '#src/workers/projector/verify/gaps.ts'
import { type LogProgress, type LogVerification, verifyLog } from '#src/workers/projector/verify/log.ts'
import { type ProjectionVerification, verifyProjection } from '#src/workers/projector/verify/projection.ts'
import { type CliCommand, misused, readArgs } from './command.ts'
import { type ProjectionServices, withRebuilder } from './rebuild-projections.ts'
import { paint } from './style.ts'
import { durationText } from './text.ts'

function isCleanProjection (
  { tables, deadLetters }: Pick<ProjectionVerification, 'tables' | 'deadLetters'>
): boolean {
  return deadLetters.count === 0 && tables.every(isCleanTable)
}

function isCleanLog ({ found }: Pick<LogVerification, 'found'>): boolean {
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
function linesOf ({ ok, projections, repaired, log }: VerifyReport): string[] {
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

const OPTIONS = { repair: { type: 'boolean', default: false } } as const

export const verify: CliCommand = {
  usage: 'jetpost verify [<projection>|log|all] [--repair] [--json]',
  details:
    `  Runs while the service does. A projection is rebuilt from the log beside the live one, and both are compared
  row by row at the same position of the log. Every fact of the log is read: whether it decodes, is on its
  subject under its id, has its cause, and follows the rules; and for every missing sequence why it is
  missing: by age, by its own time to live, or by a recorded erasure. Nothing personal is printed.
  The projections are ${Object.keys(projections).join(', ')}.
  --repair  rebuilds projections that differ from the log, and compares again; the log itself never changes
  Exit code: 0 all is well, 1 something is wrong or could not be checked, 2 the command was not understood.`,
  async run (args) {
    const { values, positionals: [what = 'all', ...more] } = readArgs(args, OPTIONS)
    if (more.length > 0 || (what !== 'all' && what !== 'log' && !Object.hasOwn(projections, what))) {
      throw misused(verify)
    }
    const wanted = what === 'all'
      ? Object.values(projections)
      : Object.values<Projection>(projections).filter(({ name }) => name === what)
    const report = await withRebuilder(
      'silent',
      async services =>
        await examine(services, wanted, { log: what === 'all' || what === 'log', repairs: values.repair })
    )
    if (!report.ok) process.exitCode = 1
    console.log(values.json ? JSON.stringify(report, null, 2) : linesOf(report).join('\n'))
  }
}

async function examine (
  services: ProjectionServices,
  wanted: Projection[],
  { log, repairs }: { log: boolean, repairs: boolean }
): Promise<VerifyReport> {
  const stopping = new AbortController()
  const stop = () => stopping.abort(new Complaint('Interrupted.'))
  process.once('SIGINT', stop).once('SIGTERM', stop)
  try {
    const verifications: ProjectionVerification[] = []
    const repaired: string[] = []
    for (const projection of wanted) {
      let verified = await compare(services, projection, stopping.signal)
      if (repairs && !isCleanProjection(verified)) {
        await repair(services, projection, stopping.signal)
        repaired.push(projection.name)
        verified = await compare(services, projection, stopping.signal)
      }
      verifications.push(verified)
    }
    const proof = log ? await prove(services, stopping.signal) : null
    const ok = verifications.every(isCleanProjection) && (proof === null || isCleanLog(proof))
    return { ok, projections: verifications, repaired, log: proof }
  } catch (error) {
    throw stopping.signal.aborted ? asError(stopping.signal.reason) : error
  } finally {
    process.off('SIGINT', stop).off('SIGTERM', stop)
  }
}

async function prove ({ bus, pool }: ProjectionServices, signal: AbortSignal): Promise<LogVerification> {
  const onProgress = progressLine<LogProgress>(({ stream, done, total }) => [`log: ${stream}`, done, total])
  return await verifyLog({ bus, pool, nowMs: Date.now, signal, onProgress })
}

async function compare (
  { bus, pool, builder }: ProjectionServices,
  projection: Projection,
  signal: AbortSignal
): Promise<ProjectionVerification> {
  return await verifyProjection(projection, {
    bus,
    pool,
    rebuilder: builder,
    nowMs: Date.now,
    signal,
    onProgress: ofRebuild(projection.name)
  })
}

async function repair ({ builder }: ProjectionServices, projection: Projection, signal: AbortSignal): Promise<void> {
  say(`${projection.name}: differs from the log: rebuilding it`)
  await builder.rebuild(projection, { why: 'it differs from the log', signal, onProgress: ofRebuild(projection.name) })
}

function ofRebuild (name: string): (progress: RebuildProgress) => void {
  return progressLine(({ stage, done, total }) => [`${name}: ${stage}`, done, total])
}

const EVERY_MS = 2000

/** A line every two seconds, for somebody who waits. */
function progressLine<P> (of: (progress: P) => [what: string, done: number, total: number]): (progress: P) => void {
  let lastMs = performance.now()
  return progress => {
    if (performance.now() - lastMs < EVERY_MS) return
    lastMs = performance.now()
    const [what, done, total] = of(progress)
    say(`${what}, ${done.toLocaleString('en')} of ${total.toLocaleString('en')} facts`)
  }
}

/** Beside the report, which may go into a file. */
function say (line: string): void {
  process.stderr.write(`${line}\n`)
}
