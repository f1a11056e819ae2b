import { createHmac, createVerify, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { publicKeyOf } from '#src/actions/feedback-source.ts'
import { Memory } from '#src/base/memory.ts'
import { objectOf, textOf } from '#src/feedback/json.ts'

/** Mailgun tries for eight hours; SendGrid for 24. Clocks differ by less than the rest. */
const AGE_MS_MAX = 25 * 3_600_000
const AHEAD_MS_MAX = 300_000
/** Tokens of requests that were taken: of more in 25 hours the oldest are forgotten, and a report told again changes
 *  nothing. */
const TOKENS_MAX = 50_000

/** Why a request is not the provider's, or null. */
export type SignatureFault = 'signature' | 'timestamp' | 'replayed' | null

export function equalTexts (a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)]
  return left.length === right.length && timingSafeEqual(left, right)
}

function isTimely (seconds: string, nowMs: number): boolean {
  const atMs = /^\d{1,12}$/.test(seconds) ? Number(seconds) * 1000 : NaN
  return atMs > nowMs - AGE_MS_MAX && atMs < nowMs + AHEAD_MS_MAX
}

/** Source: Mailgun documentation, "Securing webhooks". */
export class MailgunSignatures {
  private readonly taken = new Memory<true>(TOKENS_MAX)

  fault (body: unknown, key: string, source: string, nowMs: number): SignatureFault {
    const { timestamp, token, signature } = partsOf(body)
    const expected = createHmac('sha256', key).update(timestamp + token).digest('hex')
    if (token === '' || !equalTexts(signature, expected)) return 'signature'
    if (!isTimely(timestamp, nowMs)) return 'timestamp'
    return this.taken.has(`${source} ${token}`) ? 'replayed' : null
  }

  /** Its report is durable: until then the same request may come again. */
  take (body: unknown, source: string): void {
    this.taken.set(`${source} ${partsOf(body).token}`, true)
  }
}

function partsOf (body: unknown): { timestamp: string, token: string, signature: string } {
  const { timestamp, token, signature } = objectOf(objectOf(body)?.['signature']) ?? {}
  const seconds = typeof timestamp === 'number' ? String(timestamp) : textOf(timestamp)
  return { timestamp: seconds, token: textOf(token).slice(0, 100), signature: textOf(signature).toLowerCase() }
}

const SIGNATURE_HEADER = 'x-twilio-email-event-webhook-signature'
const TIMESTAMP_HEADER = 'x-twilio-email-event-webhook-timestamp'

/** Source: Twilio SendGrid documentation, "Event Webhook Security Features". Throws nothing. */
export function sendgridFault (headers: IncomingHttpHeaders, raw: Buffer, key: string, nowMs: number): SignatureFault {
  const [signature, timestamp] = [SIGNATURE_HEADER, TIMESTAMP_HEADER].map(name => textOf(headers[name]))
  const verify = createVerify('sha256').update(timestamp!).update(raw)
  if (!verify.verify(publicKeyOf(key), Buffer.from(signature!, 'base64'))) return 'signature'
  return isTimely(timestamp!, nowMs) ? null : 'timestamp'
}
