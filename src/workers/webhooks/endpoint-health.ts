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
  version: number
}

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
  report (webhook: WebhookEntry, url: string, cause: FactCause, success: boolean): void {
    const { id, failingSince } = webhook
    if (success) this.failing.delete(id)
    const news = success ? { works: true } as const : { failingSinceMs: this.sinceMs(webhook) }
    if (this.recording.has(id) || (success && failingSince === null)) return
    this.recording.set(id, this.record({ id, url }, cause, news).finally(() => this.recording.delete(id)))
  }

  /** Resolves when no append is under way. */
  async settled (): Promise<void> {
    await Promise.all(this.recording.values())
  }

  /** A new fact about the endpoint (another URL, enabled again) restarts the count. Once the log records that it fails,
   *  the log also holds since when. */
  private sinceMs ({ id, account }: WebhookEntry): number {
    const { directory, factLog } = this.options
    const version = directory.now.versions.get(subjects.webhook(account, id)) ?? 0
    const known = this.failing.get(id)
    if (known?.version === version) return known.sinceMs
    const nowMs = factLog.clock.nowMs()
    this.failing.set(id, { sinceMs: nowMs, version })
    return nowMs
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
