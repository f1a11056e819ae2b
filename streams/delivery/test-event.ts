import type { EventType } from '../webhook/facts.ts'

/** The data of each type beside the data that all have. */
const EXTRAS: Record<EventType, Record<string, unknown>> = {
  'email.delivered': { via: 'mx' },
  'email.bounced': {
    bounce: {
      type: 'hard',
      class: 'userunknown',
      code: 550,
      enhanced_code: '5.1.1',
      final: true,
      next_attempt_at: null,
      reason: null
    }
  },
  'email.opened': { machine: false },
  'email.clicked': { click: { url: 'https://example.com/' }, machine: false },
  'email.complained': { complaint: { type: 'abuse' } },
  'email.unsubscribed': {}
}

const REPLIES: Partial<Record<EventType, string>> = {
  'email.delivered': '250 2.0.0 OK',
  'email.bounced': '550 5.1.1 No such user'
}

/** A made-up event as the bytes that are signed and sent: like a real one, with `data.test`. Source: spec 6.2. */
export function testEventBody (
  { id, type, createdAt, email }: { id: string, type: EventType, createdAt: string, email: string }
): string {
  const reply = REPLIES[type]
  return JSON.stringify({
    id,
    type,
    created_at: createdAt,
    data: {
      email_id: email,
      from: 'sender@example.com',
      to: 'recipient@example.com',
      subject: 'A test event',
      ...(reply === undefined ? {} : { smtp_response: reply }),
      tags: [],
      metadata: {},
      message_id: `<${email}@example.com>`,
      sequence: 1,
      template_id: null,
      ...EXTRAS[type],
      test: true
    }
  })
}
