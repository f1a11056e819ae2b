import type { EventType } from '../webhook/facts.ts'
import type { Decision, SmtpReply } from './decide.ts'
import type { EmailRequested } from './facts.ts'

/** Why a bounce: `hard` = a server's final no, `soft` = not now, or never within the budget. Source: contract, "Webhooks". */
export interface BounceDetail {
  type: 'hard' | 'soft'
  class: string
  /** The reply's three digits and RFC 3463 status; null when there was no reply. */
  code: number | null
  enhanced_code: string | null
  final: boolean
  next_attempt_at: string | null
}

/** What an event adds to the data that all have. */
export interface EventExtra {
  smtp_response?: string
  bounce?: BounceDetail
  via?: 'relay' | 'mx'
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

/** The webhook event as the bytes that are signed, sent and kept. Source: spec 6.2; the keys after `metadata` are the contract's. */
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
      ...rest
    }
  })
}

/** The event a decision makes, or null for the facts that are none of the six types. */
export function eventOf (decision: Decision): { type: EventType, extra: EventExtra } | null {
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
      const { reply } = decision.data
      return bounced(reply, { type: 'hard', class: decision.data.class, final: true, next_attempt_at: null })
    }
    case 'email.deferred': {
      const { reply, class: why, nextAttemptAt } = decision.data
      return bounced(reply, { type: 'soft', class: why, final: false, next_attempt_at: nextAttemptAt })
    }
    case 'email.failed':
      return bounced(null, { type: 'soft', class: decision.data.reason, final: true, next_attempt_at: null })
  }
}

function bounced (reply: SmtpReply | null, why: Pick<BounceDetail, 'type' | 'class' | 'final' | 'next_attempt_at'>): { type: EventType, extra: EventExtra } {
  const { type, class: name, final, next_attempt_at: next } = why
  const bounce = { type, class: name, code: reply?.code ?? null, enhanced_code: reply?.enhanced ?? null, final, next_attempt_at: next }
  return { type: 'email.bounced', extra: { ...(reply === null ? {} : { smtp_response: reply.text }), bounce } }
}
