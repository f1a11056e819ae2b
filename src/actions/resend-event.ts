import type { BounceDetail } from '#streams/email/event.ts'
import { timestamp } from '#src/base/clock.ts'
import { idTimeMs } from '#src/base/id.ts'

/** An event as its bytes have it, also one of an older Jetpost. Source: spec 6.2. */
interface StoredEvent {
  type: string
  created_at: string
  data: {
    email_id: string
    from: string
    to: string
    subject: string
    tags?: string[]
    metadata?: Record<string, unknown>
    message_id?: string
    template_id?: string | null
    smtp_response?: string
    bounce?: BounceDetail
    click?: { url: string }
    test?: boolean
  }
}

/** The same event as Resend words it, and nothing but it decides how: the bytes are the same each time. Source:
 *  resend.com/docs, "Event types". */
export function resendEventOf (body: string): string {
  const { type, created_at: createdAt, data } = JSON.parse(body) as StoredEvent
  const { email_id: email, from, to, subject, message_id: messageId, template_id: template, bounce, click } = data
  const askedMs = idTimeMs(email)
  const isDelayed = bounce !== undefined && bounce.type === 'soft' && !bounce.final
  return JSON.stringify({
    type: isDelayed ? 'email.delivery_delayed' : type,
    created_at: createdAt,
    data: {
      email_id: email,
      created_at: askedMs === null ? createdAt : timestamp(askedMs),
      from,
      to: [to],
      subject,
      ...(messageId === undefined ? {} : { message_id: messageId }),
      ...(template == null ? {} : { template_id: template }),
      tags: resendTagsOf(data),
      ...(bounce === undefined || isDelayed ? {} : { bounce: bounceOf(bounce, data.smtp_response) }),
      ...(click === undefined ? {} : { click: clickOf(click.url, createdAt) }),
      ...(data.test === true ? { test: true } : {})
    }
  })
}

/** An email's metadata and tags as Resend's tags, by name. A tag of ours has no value: "true" stands for it. */
export function resendTagsOf (
  { tags = [], metadata = {} }: { tags?: readonly string[], metadata?: Record<string, unknown> }
): Record<string, string> {
  return Object.fromEntries([
    ...tags.map(tag => [tag, 'true']),
    ...Object.entries(metadata).map(([name, value]) => [name, String(value)])
  ]) as Record<string, string>
}

/** Resend's words for why, by ours; the rest is `General`. */
const SUBTYPES: Record<string, string> = {
  userunknown: 'NoEmail',
  mailboxfull: 'MailboxFull',
  exceedlimit: 'MessageTooLarge',
  mesgtoobig: 'MessageTooLarge',
  contenterror: 'ContentRejected',
  spamdetected: 'ContentRejected',
  virusdetected: 'AttachmentRejected'
}

/** Receivers look for "bounce message" in it, to know that a server said no. */
function bounceOf ({ type, class: why, reason }: BounceDetail, reply: string | undefined) {
  return {
    type: type === 'hard' ? 'Permanent' : 'Transient',
    subType: SUBTYPES[why] ?? 'General',
    message: reply === undefined ? reason ?? why : `The recipient's server sent a ${type} bounce message: ${reply}`
  }
}

/** Who clicked is not kept: no address, no browser. */
function clickOf (link: string, timestamp: string) {
  return { ipAddress: '', link, timestamp, userAgent: '' }
}
