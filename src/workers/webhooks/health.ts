import type { LiveDirectory } from '#src/actions/directory.ts'
import type { FactCause, Appenders } from '#src/actions/appenders.ts'
import { judgeWebhook, type AnsweringEndpoint, type WebhookNews } from '#src/actions/webhook.ts'
import type { WebhookEntry } from '#streams/directory.ts'
import { subjects } from '#streams/subjects.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import { Memory } from '#src/base/memory.ts'

/** Notices how long endpoints have done nothing but fail, and has the log say so. */
export interface Health {
  /** What a request to `url` told. Returns at once, throws nothing: a delivery does not depend on it. */
  heard(webhook: WebhookEntry, url: string, cause: FactCause, fine: boolean): void
  /** Resolves when nothing is on its way to the log. */
  settled(): Promise<void>
}

export interface HealthOptions {
  appenders: Appenders
  directory: LiveDirectory
  log: Log
}

/** Since when an endpoint has only failed, as this process saw it, and the last sequence of its facts then. */
interface Failing {
  sinceMs: number
  version: number
}

/** Beyond, the oldest is forgotten: it is said a little later that it fails. */
const FAILING_MAX = 10_000
const HEARD_MS = 2000

export function createHealth ({ appenders, directory, log }: HealthOptions): Health {
  const failing = new Memory<Failing>(FAILING_MAX)
  /** One append at a time for each endpoint. */
  const telling = new Map<string, Promise<void>>()

  function heard (webhook: WebhookEntry, url: string, cause: FactCause, fine: boolean): void {
    if (fine) failing.delete(webhook.id)
    const news = fine ? { works: true } as const : { failingSinceMs: sinceMs(webhook) }
    if (telling.has(webhook.id) || (fine && webhook.failingSince === null)) return
    telling.set(webhook.id, tell({ id: webhook.id, url }, cause, news).finally(() => telling.delete(webhook.id)))
  }

  /** Whatever the log has said about the endpoint since (another URL, enabled again) begins a new count: once it is
   *  said to be failing, the log itself tells since when. */
  function sinceMs ({ id, account }: WebhookEntry): number {
    const version = directory.now.versions.get(subjects.webhook(account, id)) ?? 0
    const known = failing.get(id)
    if (known?.version === version) return known.sinceMs
    const nowMs = appenders.clock.nowMs()
    failing.set(id, { sinceMs: nowMs, version })
    return nowMs
  }

  async function tell (answered: AnsweringEndpoint, cause: FactCause, news: WebhookNews): Promise<void> {
    const { id } = answered
    try {
      const judged = await judgeWebhook({ appenders, directory }, cause, answered, news)
      if (judged === null) return
      const { failingSince, disabled } = judged.webhook
      log.warn(
        { webhook: id, account: cause.account, failingSince, disabled },
        'webhook endpoint judged by its answers'
      )
      await directory.reached(judged.seq, HEARD_MS)
    } catch (error) {
      log.warn(
        { err: asError(error), webhook: id, account: cause.account },
        'what is known about a webhook endpoint could not be recorded'
      )
    }
  }

  return { heard, settled: async () => void await Promise.all(telling.values()) }
}
