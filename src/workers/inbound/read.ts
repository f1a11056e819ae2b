import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { deadline } from '#src/base/errors.ts'
import type { Report } from '#src/feedback/report.ts'

/** Reads mail that strangers made, on a thread of its own: however long one takes, the rest of the process goes on. */
export interface Reader {
  /** One at a time, in turn. Throws when the mail takes too long or breaks the reader; the next is read all the same.
   */
  read(raw: Uint8Array): Promise<Report>
  stop(): Promise<void>
}

export interface ReaderOptions {
  /** For one mail. An ordinary one takes a few milliseconds. */
  readMs?: number
  /** The module that says 'ready' and then answers each mail. */
  thread?: URL
}

const READ_MS = 5000
/** Modules are loaded on a machine that may have just started. */
const START_MS = 30_000
/** What grows step by step ends the thread here. One allocation beyond all measure would end the process: how much a
 *  reader may take for a mail of 512 kB is bounded by its own code, how long it may take by this one. */
const MEMORY = { maxOldGenerationSizeMb: 192, maxYoungGenerationSizeMb: 32, stackSizeMb: 4 }

/** `ended` rejects when it is over. */
interface Thread {
  worker: Worker
  ended: Promise<never>
}

/** The thread starts with the first mail, and again with the next one after it was ended. */
export function createReader (
  { readMs = READ_MS, thread = new URL('./thread.ts', import.meta.url) }: ReaderOptions = {}
): Reader {
  let running: Thread | null = null
  let turn: Promise<unknown> = Promise.resolve()

  async function open (): Promise<Thread> {
    const worker = new Worker(thread, { execArgv: [], resourceLimits: MEMORY })
    const ended = new Promise<never>((_resolve, reject) =>
      worker.on('error', reject).once('exit', () => reject(new Error('the reader ended')))
    )
    running = { worker, ended }
    // It is told to who waits; nobody may be waiting.
    ended.catch(() => {
      if (running?.worker === worker) running = null
    })
    await deadline(Promise.race([once(worker, 'message'), ended]), START_MS, 'the reader did not start')
    return running
  }

  async function readNow (raw: Uint8Array): Promise<Report> {
    try {
      const { worker, ended } = running ?? await open()
      const answer = once(worker, 'message')
      worker.postMessage(raw)
      const [report] = await deadline(Promise.race([answer, ended]), readMs, 'the mail takes too long to read')
      return report as Report
    } catch (error) {
      await end()
      throw error
    }
  }

  async function end (): Promise<void> {
    const thread = running
    running = null
    await thread?.worker.terminate()
  }

  return {
    read (raw) {
      const report = turn.then(() => readNow(raw))
      turn = report.catch(() => {})
      return report
    },
    async stop () {
      await turn
      await end()
    }
  }
}
