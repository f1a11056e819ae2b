import type { Log } from '#src/base/log.ts'
import { repeat } from '#src/base/repeat.ts'
import type { Role } from '#src/base/role.ts'
import { api } from '#src/nats/api.ts'
import type { Bus } from '#src/nats/connect.ts'

export interface StreamUsageOptions {
  bus: Bus
  bytesMax: number
  /** Between two queries to the server. */
  pollMs: number
  log: Log
}

/** What INBOUND may hold, in base64: who writes there sees to it. */
export const INBOUND_STORED_BYTES_MAX = 2e9
/** The part of the account's storage that INBOUND may use: the rest is for mail that goes out. */
const ACCOUNT_SHARE = 1 / 4
const TIMEOUT_MS = 2000
const POLL_MS_MAX = 10_000

/** How full INBOUND is, queried now and then. While NATS does not answer the last figures hold: nothing is stored then
 *  anyway. */
export class StreamUsage {
  private readonly options: StreamUsageOptions
  private readonly polls: Role
  private bytes = 0
  private bytesMax: number
  private isFull = false

  private constructor (options: StreamUsageOptions) {
    this.options = options
    this.bytesMax = options.bytesMax
    const { pollMs } = options
    this.polls = repeat({
      name: 'the size of INBOUND',
      round: () => this.query(),
      firstInMs: pollMs,
      againMs: pollMs,
      roundMsMax: POLL_MS_MAX,
      onError: error => this.onError(error)
    })
  }

  static async open (options: StreamUsageOptions): Promise<StreamUsage> {
    const usage = new StreamUsage(options)
    await usage.query().catch(error => usage.onError(error))
    return usage
  }

  /** 1 = full. */
  share (): number {
    return this.bytes / this.bytesMax
  }

  /** Counts what was stored since the last query. */
  add (bytes: number): void {
    this.bytes += bytes
  }

  async stop (): Promise<void> {
    await this.polls.stop()
  }

  private onError (error: Error): void {
    this.options.log.debug({ err: error }, 'the size of INBOUND cannot be read; retrying')
  }

  /** Resolves to the ms until the next query. */
  private async query (): Promise<number> {
    const { bus, bytesMax, pollMs, log } = this.options
    const [stream, account] = await Promise.all([
      api<{ state: { bytes: number } }>(bus, 'STREAM.INFO.INBOUND', undefined, TIMEOUT_MS),
      api<{ limits: { max_storage: number } }>(bus, 'INFO', undefined, TIMEOUT_MS)
    ])
    this.bytes = stream.state.bytes
    // Zero and less mean no limit.
    const { max_storage: storageMax } = account.limits
    this.bytesMax = storageMax > 0 ? Math.min(bytesMax, storageMax * ACCOUNT_SHARE) : bytesMax
    const wasFull = this.isFull
    this.isFull = this.bytes >= this.bytesMax
    if (this.isFull && !wasFull) {
      const text = 'INBOUND is full; incoming mail is refused until old mail expires'
      log.warn({ bytes: this.bytes, bytesMax: this.bytesMax }, text)
    }
    return pollMs
  }
}
