import type { Projection } from '#projections/define.ts'
import { projections } from '#projections/list.ts'
import { asError, Complaint } from '#src/base/errors.ts'
import type { RebuildProgress } from '#src/workers/projector/rebuild.ts'
import { verifyLog, type LogProgress, type LogVerification } from '#src/workers/projector/verify/log.ts'
import { verifyProjection, type ProjectionVerification } from '#src/workers/projector/verify/projection.ts'
import { misused, readArgs, type CliCommand } from './command.ts'
import { withRebuilder, type ProjectionServices } from './rebuild-projections.ts'
import { isCleanLog, isCleanProjection, linesOf, type VerifyReport } from './verify/report.ts'

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
