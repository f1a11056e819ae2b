import type { LiveDirectory } from '#src/actions/directory.ts'
import type { FactCause, FactLog } from '#src/actions/fact-log.ts'
import { judgeWebhook, type AnsweringEndpoint, type WebhookNews } from '#src/actions/webhook.ts'
import type { WebhookEntry } from '#streams/directory.ts'
import { subjects } from '#streams/subjects.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import { Memory } from '#src/base/memory.ts'

export interface EndpointHealthOptions {
  factLog: FactLog
  directory: LiveDirectory
  log: Log
}

/** Since when an endpoint has only failed, as this process saw it, and the last sequence of its facts then. */
interface FailingSince {
  sinceMs: number
  /** Of the latest failure. */
  lastMs: number
  version: number
}

/** One request to an endpoint. */
export interface EndpointResult {
  success: boolean
  /** Of a delivery that has been tried before. */
  isRetry: boolean
}

/** A first failure after so long says nothing yet: its retries may succeed, and there may have been no other event for
 *  days. */
const QUIET_MS = 15 * 60_000
/** Beyond, the oldest is forgotten: that one is recorded as failing a little later. */
const FAILING_MAX = 10_000
const DIRECTORY_MS = 2000

/** Tracks how long endpoints have done nothing but fail, and records it in the log. */
export class EndpointHealth {
  private readonly options: EndpointHealthOptions
  private readonly failing = new Memory<FailingSince>(FAILING_MAX)
  /** One append at a time for each endpoint. */
  private readonly recording = new Map<string, Promise<void>>()

  constructor (options: EndpointHealthOptions) {
    this.options = options
  }

  /** The result of a request to `url`. Returns at once and throws nothing: a delivery does not depend on it. */
  report (webhook: WebhookEntry, url: string, cause: FactCause, { success, isRetry }: EndpointResult): void {
    const { id, failingSince } = webhook
    if (success) this.failing.delete(id)
    const sinceMs = success ? null : this.failed(webhook, isRetry)
    if (this.recording.has(id) || (sinceMs === null && (!success || failingSince === null))) return
    const news = sinceMs === null ? { works: true } as const : { failingSinceMs: sinceMs }
    this.recording.set(id, this.record({ id, url }, cause, news).finally(() => this.recording.delete(id)))
  }

  /** Resolves when no append is under way. */
  async settled (): Promise<void> {
    await Promise.all(this.recording.values())
  }

  /** Unix ms since when it has only failed, or null while that says nothing. A new fact about the endpoint (another
   *  URL, enabled again) restarts the count. Once the log records that it fails, the log also holds since when. */
  private failed ({ id, account }: WebhookEntry, isRetry: boolean): number | null {
    const { directory, factLog } = this.options
    const version = directory.now.versions.get(subjects.webhook(account, id)) ?? 0
    const nowMs = factLog.clock.nowMs()
    const before = this.failing.get(id)
    const known = before?.version === version ? before : null
    const sinceMs = known?.sinceMs ?? nowMs
    this.failing.set(id, { sinceMs, lastMs: nowMs, version })
    return isRetry || (known !== null && nowMs - known.lastMs < QUIET_MS) ? sinceMs : null
  }

  private async record (answered: AnsweringEndpoint, cause: FactCause, news: WebhookNews): Promise<void> {
    const { directory, log } = this.options
    const ids = { webhook: answered.id, account: cause.account }
    try {
      const judged = await judgeWebhook(this.options, cause, answered, news)
      if (judged === null) return
      const { failingSince, disabled } = judged.webhook
      log.warn({ ...ids, failingSince, disabled }, 'webhook endpoint changes state by its responses')
      await directory.reached(judged.seq, DIRECTORY_MS)
    } catch (error) {
      log.warn({ err: asError(error), ...ids }, 'state of a webhook endpoint not recorded; the next response retries')
    }
  }
}
