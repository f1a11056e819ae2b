import { sendAlertMail } from '#src/actions/alert.ts'
import type { Services } from '#src/actions/services.ts'
import { backoffMs } from '#src/base/backoff.ts'
import type { Config } from '#src/base/config.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import { createResolver } from '#src/dns/guard.ts'
import { createPoster, type Poster } from '#src/workers/webhooks/post.ts'
import { signatureHeaders, signingKeys, type SigningKeys } from '#src/workers/webhooks/attempt.ts'
import type { AlertState, AlertChannel } from '#streams/alert/facts.ts'
import { Refusal } from '#streams/define.ts'

/** What people are told: the same words, and the same bytes, however often. */

/** Subject and text of the mail. */
export function mailOf (state: AlertState, publicUrl: string): { subject: string, text: string } {
  const { what, why, path, raisedAt, endedAt } = state
  const [subject, when] = endedAt === null
    ? [`[Jetpost] ${what}`, `Since ${raisedAt}.`]
    : [`[Jetpost] Over: ${what}`, `It is over. It began ${raisedAt} and ended ${endedAt}.`]
  return { subject, text: [`${what}.`, why, when, `${publicUrl}${path}`].filter(line => line !== '').join('\n\n') }
}

/** The body of the POST. */
export function bodyOf (state: AlertState, publicUrl: string): Buffer {
  const { alert, kind, about, what, why, path, raisedAt, endedAt, notice } = state
  return Buffer.from(JSON.stringify({
    id: notice,
    type: endedAt === null ? 'alert.raised' : 'alert.ended',
    created_at: endedAt ?? raisedAt,
    data: {
      alert_id: alert,
      kind,
      about,
      what,
      why,
      url: `${publicUrl}${path}`,
      raised_at: raisedAt,
      ended_at: endedAt
    }
  }))
}

export type NoticeResult = 'told' | 'failed' | 'given_up'

/** The ways to an operator. */
export interface Teller {
  /** Those that are configured. */
  channels: AlertChannel[]
  /** Not while a channel that has failed is left alone. */
  isReady(channel: AlertChannel): boolean
  /** Gives a notice, in 15 s at most; of two mails of one notice the second is none. Throws nothing. */
  tell(channel: AlertChannel, state: AlertState): Promise<NoticeResult>
  /** Ends a request that is under way, and all to come. */
  cut(): void
  close(): Promise<void>
}

export interface TellerOptions {
  services: Services
  config: Pick<
    Config,
    'alertTo' | 'alertFrom' | 'alertUrl' | 'alertSecret' | 'publicUrl' | 'webhookAllowPrivate' | 'dns'
  >
  log: Log
}

const POST_MS = 15_000
/** Between two tries of a channel that fails. */
const AGAIN_MS_FIRST = 15_000
const AGAIN_MS_MAX = 900_000

export function createTeller ({ services, config, log }: TellerOptions): Teller {
  const mail = config.alertTo.length === 0 || config.alertFrom === null
    ? null
    : createMailer(services, { from: config.alertFrom, to: config.alertTo, publicUrl: config.publicUrl })
  const poster = createPoster({
    allowPrivate: config.webhookAllowPrivate,
    timeoutMs: POST_MS,
    resolve: createResolver(config.dns)
  })
  const hook = config.alertUrl === null || config.alertSecret === null ? null : createHook(poster, {
    url: new URL(config.alertUrl),
    keys: signingKeys(config.alertSecret),
    publicUrl: config.publicUrl,
    nowMs: () => services.factLog.clock.nowMs()
  })
  const tries = { mail: new PausingGiver(mail), webhook: new PausingGiver(hook) }
  return {
    channels: [...(mail === null ? [] : ['mail' as const]), ...(hook === null ? [] : ['webhook' as const])],
    isReady: channel => tries[channel].isReady(),
    async tell (channel, state) {
      const fault = await tries[channel].give(state)
      if (fault !== null) {
        log.warn({ channel, alert: state.alert, reason: fault }, 'an alert could not be told; retrying')
      }
      return fault === null ? 'told' : 'failed'
    },
    cut: () => poster.cut(),
    close: () => poster.close()
  }
}

/** Gives one notice; why it could not, or null. */
type Giver = (state: AlertState) => Promise<string | null>

/** A channel that fails is left alone for a while, longer each time. */
class PausingGiver {
  private readonly giver: Giver | null
  private failures = 0
  private nextMs = 0

  constructor (giver: Giver | null) {
    this.giver = giver
  }

  isReady (): boolean {
    return this.giver !== null && performance.now() >= this.nextMs
  }

  async give (state: AlertState): Promise<string | null> {
    const fault = await this.giver!(state).catch(error => asError(error).message)
    this.failures = fault === null ? 0 : this.failures + 1
    this.nextMs = fault === null ? 0 : performance.now() + backoffMs(this.failures, AGAIN_MS_FIRST, AGAIN_MS_MAX)
    return fault
  }
}

function createMailer (services: Services, options: { from: string, to: string[], publicUrl: string }): Giver {
  const { from, to, publicUrl } = options
  return async state => {
    const refusal = await sendAlertMail(services, { from, to, notice: state.notice, ...mailOf(state, publicUrl) })
    return refusal instanceof Refusal ? refusal.message : null
  }
}

interface HookOptions {
  url: URL
  keys: SigningKeys
  publicUrl: string
  nowMs(): number
}

/** Signed and posted as an event is to an endpoint. No fault shows the URL: it may be as good as a password. */
function createHook (poster: Poster, { url, keys, publicUrl, nowMs }: HookOptions): Giver {
  return async state => {
    const body = bodyOf(state, publicUrl)
    const headers = {
      'Content-Type': 'application/json',
      'User-Agent': 'Jetpost',
      ...signatureHeaders({ keys, previous: null, id: state.notice, timestampS: Math.floor(nowMs() / 1000), body })
    }
    const { status, error } = await poster.post(url, headers, body)
    if (status !== null && status >= 200 && status < 300) return null
    return status === null ? error : `the URL of JETPOST_ALERT_URL answers ${status}`
  }
}
