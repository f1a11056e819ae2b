import t from 'tap'
import { eventBody, eventOf } from '#streams/email/event.ts'
import type { EmailRequested } from '#streams/email/facts.ts'
import { EVENT_TYPES } from '#streams/webhook/facts.ts'
import { PLAIN } from '../support/facts.ts'

const REQUEST: EmailRequested['data'] = {
  email: 'em_1',
  key: 'key_1',
  test: false,
  from: { address: 'shop@example.com', name: 'Shop' },
  recipients: [{ address: 'ada@example.net', name: 'Ada', kind: 'to' }],
  subject: 'Zoë',
  ...PLAIN,
  content: { html: 'secret', text: null, files: [] },
  tags: [],
  metadata: {},
  expiresAt: '2026-11-24T10:00:00.000Z',
  onDoubt: 'retry'
}
const TRANSACTION = { attempt: 1, host: 'mx', tls: null, via: 'relay' as const, ms: 1 }

function bodyOf (event: ReturnType<typeof eventOf>, request = REQUEST): Record<string, any> {
  const recipient = { to: 'ada@example.net', messageId: '<em_1.0@example.com>', sequence: 2 }
  return JSON.parse(eventBody({ id: 'ev_1', createdAt: '2026-11-21T10:00:00.000Z', ...event!, request, recipient }))
}

t.test('spec 6.2: a delivered event', async t => {
  const reply = { code: 250, enhanced: '2.0.0', text: '250 2.0.0 ok' }
  t.strictSame(bodyOf(eventOf({ type: 'email.delivered', data: { ...TRANSACTION, reply } })), {
    id: 'ev_1',
    type: 'email.delivered',
    created_at: '2026-11-21T10:00:00.000Z',
    data: {
      email_id: 'em_1',
      from: 'shop@example.com',
      to: 'ada@example.net',
      subject: 'Zoë',
      smtp_response: '250 2.0.0 ok',
      tags: [],
      metadata: {},
      message_id: '<em_1.0@example.com>',
      sequence: 2,
      template_id: null,
      via: 'relay'
    }
  })
})

t.test('a final no is hard, a deferral soft, the end of the budget soft and final', async t => {
  const reply = { code: 550, enhanced: null, text: '550 no' }
  t.match(
    bodyOf(
      eventOf({
        type: 'email.bounced',
        data: { ...TRANSACTION, stage: 'rcpt', reply, status: null, error: null, class: 'undefined', report: null }
      })
    ),
    {
      type: 'email.bounced',
      data: {
        smtp_response: '550 no',
        bounce: { type: 'hard', class: 'undefined', code: 550, enhanced_code: null, final: true, next_attempt_at: null }
      }
    }
  )
  const deferred = {
    ...TRANSACTION,
    stage: 'connect',
    reply: null,
    error: 'refused',
    class: 'networkerror',
    nextAttemptAt: '2026-11-21T10:05:00.000Z',
    first: true
  } as const
  const soft = bodyOf(eventOf({ type: 'email.deferred', data: deferred }))
  t.match(soft, {
    type: 'email.bounced',
    data: {
      bounce: {
        type: 'soft',
        class: 'networkerror',
        code: null,
        final: false,
        next_attempt_at: '2026-11-21T10:05:00.000Z'
      }
    }
  })
  t.notOk('smtp_response' in soft.data, 'nobody replied')
  t.equal(soft.data.bounce.reason, 'refused', 'in our own words')
  const untried = { code: 421, enhanced: '4.3.2' }
  const unasked = bodyOf(eventOf({ type: 'email.deferred', data: { ...deferred, untried } }))
  t.match(unasked.data.bounce, { code: 421, enhanced_code: '4.3.2', reason: 'refused' })
  t.notOk('smtp_response' in unasked.data, 'nobody replied to this mail')
  const nowhere = {
    ...TRANSACTION,
    stage: 'connect',
    reply: null,
    status: '5.1.10',
    error: 'it has a null MX',
    class: 'hostunknown',
    report: null
  } as const
  const gone = bodyOf(eventOf({ type: 'email.bounced', data: nowhere }))
  t.match(gone, { data: { bounce: { type: 'hard', enhanced_code: '5.1.10', reason: 'it has a null MX' } } })
  t.notOk('smtp_response' in gone.data)
  t.match(bodyOf(eventOf({ type: 'email.failed', data: { attempt: 3, reason: 'expired', detail: null } })), {
    type: 'email.bounced',
    data: { bounce: { type: 'soft', class: 'expired', final: true, next_attempt_at: null } }
  })
})

t.test('what a report says are the words of a server; that a relay has tried for too long is soft', async t => {
  const reported = {
    ...TRANSACTION,
    stage: 'data',
    reply: null,
    status: '4.4.7',
    error: 'connect to mx: timed out',
    class: 'expired',
    report: 'in_1'
  } as const
  t.match(bodyOf(eventOf({ type: 'email.bounced', data: reported })), {
    data: {
      smtp_response: 'connect to mx: timed out',
      bounce: { type: 'soft', class: 'expired', enhanced_code: '4.4.7', final: true, reason: null }
    }
  })
})

t.test('of mail sent with a test key every type of event is marked', async t => {
  for (const type of EVENT_TYPES) {
    const [live, test] = [false, true].map(test => bodyOf({ type, extra: {} }, { ...REQUEST, test }))
    t.equal('test' in live!.data, false, type)
    t.strictSame(test!.data, { ...live!.data, test: true }, type)
  }
})

t.test('claims and doubts are no events', async t => {
  t.equal(
    eventOf({ type: 'email.in_doubt', data: { attempt: 1, cause: 'line', held: true, nextAttemptAt: null } }),
    null
  )
})
