import { parentPort, workerData } from 'node:worker_threads'
import { projections } from '#projections/list.ts'
import { asError, errorCode } from '#src/base/errors.ts'
import { createLog } from '#src/base/log.ts'
import { connectBus } from '#src/nats/connect.ts'
import { createPool, isUnavailable } from '#src/postgres/pool.ts'
import { fillPart } from './part.ts'
import type { Job, Word } from './threads.ts'

/** Fewer cost more of PostgreSQL's time (2,000: a tenth), more cost memory. */
const CHUNK = 4000

/** The thread of `fillOnThread`: does its one job, with connections of its own, and ends. */
async function run ({ servers, projection, schema, part, upTo }: Job): Promise<void> {
  const log = createLog('silent')
  const bus = await connectBus({
    url: servers.natsUrl,
    creds: servers.natsCreds,
    name: `jetpost builder ${part.n}`,
    log
  })
  const pool = createPool(servers.databaseUrl, log)
  await fillPart(part, {
    bus,
    pool,
    set: { projection: projections[projection], schema },
    upTo,
    chunk: CHUNK,
    // The thread is ended as a whole.
    signal: new AbortController().signal,
    onFacts: facts => say({ facts }),
    onDeadLetter: ({ stream, seq, subject }, reason) => say({ deadLetters: { stream, seq, subject }, reason }),
    onError: ({ message }) => say({ unhealthyReason: message })
  })
  await pool.end()
  await bus.close()
}

function say (word: Word): void {
  parentPort!.postMessage(word)
}

// A driver's error does not come through whole. Whoever hears of the end ends the thread.
await run(workerData as Job).then(
  () => say({ done: true }),
  error => say({ failed: asError(error).message, code: errorCode(error), unavailable: isUnavailable(error) })
)
