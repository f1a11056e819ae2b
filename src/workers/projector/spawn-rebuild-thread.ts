import { Worker } from 'node:worker_threads'
import type { projections } from '#projections/list.ts'
import { EXEC_ARGV } from '#src/base/exec-argv.ts'
import type { Positions } from '#src/postgres/checkpoint.ts'
import type { RebuildPart } from './parts.ts'
import type { ProjectingOptions } from './project-range.ts'
import type { StreamItem } from './write.ts'

/** What a thread connects to. */
export interface Servers {
  natsUrl: string
  natsCreds: string | null
  databaseUrl: string
}

/** What a thread does: plain data. */
export interface ThreadTask {
  servers: Servers
  projection: keyof typeof projections
  schema: string
  part: RebuildPart
  upTo: Positions
}

/** What it posts, once or more often. */
export type ThreadMessage =
  | { facts: number }
  | { deadLetter: Pick<StreamItem, 'stream' | 'seq' | 'subject'>, reason: string }
  | { interruption: string }
  | { done: true }
  | { failed: string, code: string, unavailable: boolean }

/** A chunk as it comes, as facts and as rows; more is a fault. */
const MEMORY = { maxOldGenerationSizeMb: 384, maxYoungGenerationSizeMb: 64 }

type ThreadOptions = Pick<ProjectingOptions, 'signal' | 'onFacts' | 'onDeadLetter' | 'onError'>

/** Projects a part on a thread of its own: the rest of the process goes on meanwhile. Ends it when `signal` is aborted;
 *  what it had not committed is as if it had not been. */
export async function projectPartOnThread (task: ThreadTask, options: ThreadOptions): Promise<void> {
  const { signal, onFacts, onDeadLetter, onError } = options
  signal.throwIfAborted()
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const worker = new Worker(new URL('./rebuild-thread.ts', import.meta.url), {
    execArgv: EXEC_ARGV,
    workerData: task,
    resourceLimits: MEMORY
  })
  const end = () => reject(signal.reason)
  signal.addEventListener('abort', end, { once: true })
  worker.on('message', (message: ThreadMessage) => {
    if ('facts' in message) onFacts(message.facts)
    else if ('deadLetter' in message) onDeadLetter(message.deadLetter, message.reason)
    else if ('interruption' in message) onError(new Error(message.interruption))
    else if ('failed' in message) {
      reject(Object.assign(new Error(message.failed), { code: message.unavailable ? 'ECONNRESET' : message.code }))
    } else resolve()
  })
  worker.on('error', reject)
  worker.on('exit', () => reject(new Error('a thread of the rebuild ended')))
  try {
    await promise
  } finally {
    signal.removeEventListener('abort', end)
    await worker.terminate()
  }
}
