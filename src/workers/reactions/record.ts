import type { Recorded } from '#streams/define.ts'
import type { EmailRequested } from '#streams/email/facts.ts'
import type { FactLog } from '#src/actions/fact-log.ts'
import { recordCursors, recordRequests } from '#src/actions/record.ts'
import { sleep } from '#src/base/backoff.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import type { Role } from '#src/base/role.ts'
import { follow } from '#src/nats/follow.ts'
import { tryDecode, type DecodedMessage } from '#src/nats/message.ts'

export interface RequestRecorderOptions {
  factLog: FactLog
  log: Log
}

const BATCH_MAX = 250
/** No client waits for a record: many share a commit. */
const GATHER_MS = 250
/** The process that wrote the last record had recorded all that came before its batch: so many messages back, a claim
 *  beside each request, nothing is missing. */
const LOOK_BACK = 4 * BATCH_MAX
const RETRY_MS = 1000
/** Following recovers by itself and repeats a failure within this time: after it, silence means that it works. */
const ERROR_MS = 10_000

/** Records what is requested without its content, so that it is known for as long as the facts about it. Any number of
 *  processes may: each request is recorded once. */
export function startRecorder (options: RequestRecorderOptions): Role {
  return new Recorder(options)
}

class Recorder implements Role {
  readonly name = 'records'
  private readonly options: RequestRecorderOptions
  private readonly stopping = new AbortController()
  private readonly running: Promise<void>
  private error: string | null = null
  private followError = { text: '', atMs: -Infinity }

  constructor (options: RequestRecorderOptions) {
    this.options = options
    this.running = this.run()
  }

  unhealthyReason (): string | null {
    const { text, atMs } = this.followError
    return this.error ?? (Date.now() - atMs < ERROR_MS ? text : null)
  }

  async stop (): Promise<void> {
    this.stopping.abort()
    await this.running
  }

  private async run (): Promise<void> {
    const { signal } = this.stopping
    while (!signal.aborted) {
      try {
        await this.followRequests()
      } catch (error) {
        if (signal.aborted) return
        this.error = `requests wait to be recorded: ${asError(error).message}`
        this.options.log.warn({ reason: this.error }, 'recording of requests interrupted; retrying')
        await sleep(RETRY_MS, signal)
      }
    }
  }

  private async followRequests (): Promise<void> {
    const { factLog } = this.options
    const cursors = await recordCursors(factLog.bus)
    const options = {
      stream: 'REQUESTS',
      filter: 'request.>',
      afterSeq: Math.max(0, Math.max(...cursors.map(({ request }) => request)) - LOOK_BACK),
      batchMax: BATCH_MAX,
      gather: () => sleep(GATHER_MS),
      shared: true,
      signal: this.stopping.signal,
      onError: (error: Error) => {
        this.followError = { text: `NATS does not deliver requests: ${error.message}`, atMs: Date.now() }
      },
      onFollowing: () => {
        this.error = null
      }
    }
    for await (const found of follow(factLog.bus, options, tryDecode)) {
      await recordRequests(factLog, found.filter(entry => this.isRequest(entry)), cursors)
      this.error = null
    }
  }

  /** A request that cannot be read has no record: the projections dead-letter it. One that a newer Jetpost can read is
   *  left to that one. */
  private isRequest (found: DecodedMessage): found is DecodedMessage & Recorded<EmailRequested> {
    const { fact, newer, seq, subject, reason } = found
    if (newer) throw new Error(reason)
    if (fact === null) this.options.log.error({ seq, subject, reason }, 'request cannot be read; it is not recorded')
    return fact !== null
  }
}
