import type { EventType } from '../webhook/facts.ts'
import type { Decision, SmtpReply } from './decide.ts'
import type { Engagement } from './engagements.ts'
import type { EmailRequested } from './facts.ts'

/** Why a bounce: `hard` = a server's final no, `soft` = not now, or never within the budget. Source: contract,
 *  "Webhooks". */
export interface BounceDetail {
  type: 'hard' | 'soft'
  class: string
  /** The reply's three digits and RFC 3463 status; null when there was no reply. Of an email that was not tried: those
   *  that another one got. */
  code: number | null
  enhanced_code: string | null
  final: boolean
  next_attempt_at: string | null
  /** Our own words, where no server said any. */
  reason: string | null
}

/** What an event adds to the data that all have. */
export interface EventExtra {
  smtp_response?: string
  bounce?: BounceDetail
  via?: 'relay' | 'mx'
  click?: { url: string }
  complaint?: { type: string }
  /** Opened or clicked by a program, as far as can be told. */
  machine?: boolean
}

export interface EventInput {
  /** The fact's id and time. */
  id: string
  createdAt: string
  type: EventType
  request: EmailRequested['data']
  recipient: { to: string, messageId: string, sequence: number }
  extra: EventExtra
}

/** The webhook event as the bytes that are signed, sent and kept. Source: spec 6.2; the keys after `metadata` are the
 *  contract's. */
export function eventBody ({ id, type, createdAt, request, recipient, extra }: EventInput): string {
  const { smtp_response: smtpResponse, ...rest } = extra
  return JSON.stringify({
    id,
    type,
    created_at: createdAt,
    data: {
      email_id: request.email,
      from: request.from.address,
      to: recipient.to,
      subject: request.subject,
      ...(smtpResponse === undefined ? {} : { smtp_response: smtpResponse }),
      tags: request.tags,
      metadata: request.metadata,
      message_id: recipient.messageId,
      sequence: recipient.sequence,
      template_id: request.template?.id ?? null,
      ...rest,
      ...(request.test ? { test: true } : {})
    }
  })
}

/** The event a decision makes, or null for the facts that are none of the six types. */
export function eventOf (decision: Decision | Engagement): { type: EventType, extra: EventExtra } | null {
  switch (decision.type) {
    case 'email.attempted':
    case 'email.in_doubt':
    case 'email.suppressed':
    case 'email.rescheduled':
    case 'email.canceled':
    case 'email.retry_requested':
      return null
    case 'email.delivered':
      return { type: 'email.delivered', extra: { smtp_response: decision.data.reply.text, via: decision.data.via } }
    case 'email.bounced': {
      const { reply, status, error, class: name, report } = decision.data
      // A relay's time can be over, too: nobody has said no.
      const type = name === 'expired' ? 'soft' : 'hard'
      const why = { type, class: name, final: true, next_attempt_at: null } as const
      return report === null
        ? bounced(reply, why, { status, reason: error })
        : bounced(reply, why, { status, said: error })
    }
    case 'email.deferred': {
      const { reply, error, class: why, nextAttemptAt, untried } = decision.data
      return bounced(reply, { type: 'soft', class: why, final: false, next_attempt_at: nextAttemptAt }, {
        code: untried?.code,
        status: untried?.enhanced,
        reason: error
      })
    }
    case 'email.failed':
      return bounced(null, { type: 'soft', class: decision.data.reason, final: true, next_attempt_at: null }, {
        reason: decision.data.detail
      })
    case 'email.opened':
      return { type: 'email.opened', extra: { machine: decision.data.machine } }
    case 'email.clicked':
      return { type: 'email.clicked', extra: { click: { url: decision.data.url }, machine: decision.data.machine } }
    case 'email.complained':
      return { type: 'email.complained', extra: { complaint: { type: decision.data.feedback } } }
    case 'email.unsubscribed':
      return { type: 'email.unsubscribed', extra: {} }
  }
}

type Why = Pick<BounceDetail, 'type' | 'class' | 'final' | 'next_attempt_at'>
/** Where no server replied to us: `said` = the words of one, as a report has them; `reason` = our own. */
interface Unreplied {
  code?: number | null
  status?: string | null
  said?: string | null
  reason?: string | null
}

function bounced (
  reply: SmtpReply | null,
  why: Why,
  { code = null, status = null, said = null, reason = null }: Unreplied
): { type: EventType, extra: EventExtra } {
  const { type, class: name, final, next_attempt_at: next } = why
  const words = reply?.text ?? said
  const bounce = {
    type,
    class: name,
    code: reply?.code ?? code,
    enhanced_code: reply?.enhanced ?? status,
    final,
    next_attempt_at: next,
    reason: words === null ? reason : null
  }
  return { type: 'email.bounced', extra: { ...(words === null ? {} : { smtp_response: words }), bounce } }
}
