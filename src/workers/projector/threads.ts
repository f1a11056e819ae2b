import { Worker } from 'node:worker_threads'
import type { projections } from '#projections/list.ts'
import type { Positions } from '#src/postgres/checkpoint.ts'
import type { Part } from './cut.ts'
import type { ReadingOptions } from './part.ts'
import type { Item } from './write.ts'

/** What a thread connects to. */
export interface Servers {
  natsUrl: string
  natsCreds: string | null
  databaseUrl: string
}

/** What a thread does: plain data. */
export interface Job {
  servers: Servers
  projection: keyof typeof projections
  schema: string
  part: Part
  upTo: Positions
}

/** What it says, once or more often. */
export type Word =
  | { facts: number }
  | { deadLetters: Pick<Item, 'stream' | 'seq' | 'subject'>, reason: string }
  | { unhealthyReason: string }
  | { done: true }
  | { failed: string, code: string, unavailable: boolean }

/** A chunk as it comes, as facts and as rows; more is a fault. */
const MEMORY = { maxOldGenerationSizeMb: 384, maxYoungGenerationSizeMb: 64 }

/** A part on a thread of its own: the rest of the process goes on meanwhile. Ends it when `signal` is aborted; what it
 *  had not committed is as if it had not been. */
export async function fillOnThread (
  job: Job,
  { signal, onFacts, onDeadLetter, onError }: Pick<ReadingOptions, 'signal' | 'onFacts' | 'onDeadLetter' | 'onError'>
): Promise<void> {
  signal.throwIfAborted()
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const worker = new Worker(new URL('./thread.ts', import.meta.url), {
    execArgv: [],
    workerData: job,
    resourceLimits: MEMORY
  })
  const end = () => reject(signal.reason)
  signal.addEventListener('abort', end, { once: true })
  worker.on('message', (word: Word) => {
    if ('facts' in word) onFacts(word.facts)
    else if ('deadLetters' in word) onDeadLetter(word.deadLetters, word.reason)
    else if ('unhealthyReason' in word) onError(new Error(word.unhealthyReason))
    else if ('failed' in word) {
      reject(Object.assign(new Error(word.failed), { code: word.unavailable ? 'ECONNRESET' : word.code }))
    } else resolve()
  })
  worker.on('error', reject)
  worker.on('exit', () => reject(new Error('a thread of the build ended')))
  try {
    await promise
  } finally {
    signal.removeEventListener('abort', end)
    await worker.terminate()
  }
}
