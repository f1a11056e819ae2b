import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { InboundReported } from '#streams/inbound/facts.ts'
import { deadline } from '#src/base/errors.ts'
import { EXEC_ARGV } from '#src/base/exec-argv.ts'
import type { BounceReport } from '#src/feedback/report.ts'

export interface ReaderOptions {
  /** For one mail. An ordinary one takes a few milliseconds. */
  readMs?: number
  /** The module that posts 'ready' and then a report for each mail. */
  thread?: URL
}

const READ_MS = 5000
/** Modules are loaded on a machine that may have just started. */
const START_MS = 30_000
/** What grows step by step ends the thread here. A single huge allocation would end the process: how much memory a
 *  reader takes for a mail of 512 kB is bounded by its own code, how long it takes by this one. */
const MEMORY = { maxOldGenerationSizeMb: 192, maxYoungGenerationSizeMb: 32, stackSizeMb: 4 }

/** `ended` rejects when it is over. */
interface Thread {
  worker: Worker
  ended: Promise<never>
}

/** Reads mail that anybody may have written, on a thread of its own: however long one takes, the rest of the process
 *  goes on. The thread starts with the first mail, and again with the next one after it has ended. */
export class ReportReader {
  private readonly readMs: number
  private readonly module: URL
  private thread: Thread | null = null
  private queue: Promise<unknown> = Promise.resolve()

  constructor ({ readMs = READ_MS, thread = new URL('./reader-thread.ts', import.meta.url) }: ReaderOptions = {}) {
    this.readMs = readMs
    this.module = thread
  }

  /** A mail, or what a relay says. One at a time, in turn. Throws when the mail takes too long or ends the thread;
   * the next is read all the same. */
  read (said: Uint8Array | InboundReported['data']): Promise<BounceReport> {
    const report = this.queue.then(() => this.readNow(said))
    this.queue = report.catch(() => {})
    return report
  }

  async stop (): Promise<void> {
    await this.queue
    await this.end()
  }

  private async readNow (said: Uint8Array | InboundReported['data']): Promise<BounceReport> {
    try {
      const { worker, ended } = this.thread ?? await this.start()
      const message = once(worker, 'message')
      worker.postMessage(said)
      const [report] = await deadline(Promise.race([message, ended]), this.readMs, 'the mail takes too long to read')
      return report as BounceReport
    } catch (error) {
      await this.end()
      throw error
    }
  }

  private async start (): Promise<Thread> {
    const worker = new Worker(this.module, { execArgv: EXEC_ARGV, resourceLimits: MEMORY })
    const ended = new Promise<never>((_resolve, reject) =>
      worker.on('error', reject).once('exit', () => reject(new Error('the reader ended')))
    )
    const thread = { worker, ended }
    this.thread = thread
    // It may end while nobody waits for a report.
    ended.catch(() => {
      if (this.thread === thread) this.thread = null
    })
    await deadline(Promise.race([once(worker, 'message'), ended]), START_MS, 'the reader did not start')
    return thread
  }

  private async end (): Promise<void> {
    const { thread } = this
    this.thread = null
    await thread?.worker.terminate()
  }
}
