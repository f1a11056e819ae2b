import { parentPort, workerData } from 'node:worker_threads'
import { projections } from '#projections/list.ts'
import { asError, errorCode } from '#src/base/errors.ts'
import { createLog } from '#src/base/log.ts'
import { connectBus } from '#src/nats/connect.ts'
import { createPool, isUnavailable } from '#src/postgres/pool.ts'
import { projectPart } from './project-range.ts'
import type { ThreadMessage, ThreadTask } from './spawn-rebuild-thread.ts'

/** Fewer cost more of PostgreSQL's time (2,000: a tenth), more cost memory. */
const CHUNK = 4000

/** The thread of `projectPartOnThread`: does its one task, with connections of its own, and ends. */
async function run ({ servers, projection, schema, part, upTo }: ThreadTask): Promise<void> {
  const log = createLog('silent')
  const bus = await connectBus({
    url: servers.natsUrl,
    creds: servers.natsCreds,
    name: `jetpost rebuild ${part.n}`,
    log
  })
  const pool = createPool(servers.databaseUrl, log)
  await projectPart(part, {
    bus,
    pool,
    set: { projection: projections[projection], schema },
    upTo,
    chunk: CHUNK,
    // The thread is ended as a whole.
    signal: new AbortController().signal,
    onFacts: facts => post({ facts }),
    onDeadLetter: ({ stream, seq, subject }, reason) => post({ deadLetter: { stream, seq, subject }, reason }),
    onError: ({ message }) => post({ interruption: message })
  })
  await pool.end()
  await bus.close()
}

function post (message: ThreadMessage): void {
  parentPort!.postMessage(message)
}

// A driver's error cannot be posted whole. The parent ends the thread.
await run(workerData as ThreadTask).then(
  () => post({ done: true }),
  error => post({ failed: asError(error).message, code: errorCode(error), unavailable: isUnavailable(error) })
)
