/** The second process of a start: the roles beside the api. It does what the first tells it, and ends with it. */
import { asError, Complaint } from '#src/base/errors.ts'
import { createLog, type Log } from '#src/base/log.ts'
import { reasonOf, type HealthCheck } from '#src/base/role.ts'
import type { AppContext } from './context.ts'
import { checksOf, watchApp } from './listen.ts'
import { openContext } from './open-context.ts'
import { startRoles } from './roles.ts'
import type { Answers, Assignment, FromWorkers, PartReport, ToWorkers } from './workers-protocol.ts'

const stack = new AsyncDisposableStack()
/** null until its roles run. */
let context: AppContext | null = null

// A terminal, or a service manager, sends these to both processes: the first says when to stop.
process.on('SIGINT', () => {})
process.on('SIGTERM', () => {})
// Its servers end with it, and nothing that is kept only here is owed to anybody.
process.on('disconnect', () => process.exit(1))
process.on('message', (message: ToWorkers) => void obey(message))

async function obey (message: ToWorkers): Promise<void> {
  switch (message.type) {
    case 'start':
      return await begin(message.assignment)
    case 'stop':
      return await end(context?.log ?? null)
    case 'ask':
      tell({ type: 'answer', id: message.id, value: await answerTo(message.what) })
  }
}

async function begin ({ config, servers, catcherUrl }: Assignment): Promise<void> {
  const log = createLog(config.logLevel)
  try {
    const opened = await openContext(config, { log, say: line => log.info(line), servers }, stack)
    await startRoles(opened, catcherUrl)
    watchApp(opened)
    context = opened
    tell({ type: 'started', inboundPort: opened.inbound?.port ?? null })
  } catch (error) {
    tell({ type: 'failed', message: asError(error).message, isComplaint: error instanceof Complaint })
    await end(log, 1)
  }
}

async function end (log: Log | null, code = 0): Promise<void> {
  await stack.disposeAsync().catch(err => log?.warn({ err }, 'the workers did not stop cleanly'))
  log?.flush()
  process.exit(code)
}

async function answerTo (what: keyof Answers): Promise<Answers[keyof Answers]> {
  if (context === null) return []
  return what === 'metrics'
    ? await context.metrics.registry.getMetricsAsJSON()
    : await Promise.all(checksOf(context).map(reportOf))
}

async function reportOf (part: HealthCheck): Promise<PartReport> {
  return { name: part.name, reason: await reasonOf(part), details: part.details?.() ?? {} }
}

function tell (message: FromWorkers): void {
  // The other side may be gone.
  process.send?.(message, () => {})
}
