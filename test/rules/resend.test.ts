import fc from 'fast-check'
import t from 'tap'
import { QuotaExceeded } from '#src/actions/quota.ts'
import { resendEventOf } from '#src/actions/resend-event.ts'
import { withoutByteLists } from '#src/servers/api/resend/byte-lists.ts'
import { timeOf, translateEmail } from '#src/servers/api/resend/email.ts'
import { resendErrorOf } from '#src/servers/api/resend/errors.ts'
import {
  accountSuspended,
  bodyTooLarge,
  conflict,
  forbidden,
  internal,
  invalid,
  methodNotAllowed,
  notFound,
  quotaExceeded,
  rateLimited,
  unauthorized,
  unavailable,
  type HttpProblem
} from '#src/servers/api/errors.ts'
import { newId } from '#src/base/id.ts'

const packed = (value: unknown, space?: number) =>
  JSON.parse(withoutByteLists(Buffer.from(JSON.stringify(value, null, space))).toString())

t.test('lists of bytes in attachments are base64 afterwards, of one email and of a batch', async t => {
  const bytes = [0, 7, 42, 255]
  const base64 = Buffer.from(bytes).toString('base64')
  const given = { attachments: [{ content: bytes }, { content: { type: 'Buffer', data: bytes } }, { content: [] }] }
  const wanted = { attachments: [{ content: base64 }, { content: { type: 'Buffer', data: base64 } }, { content: '' }] }
  for (const space of [0, 2]) {
    t.strictSame(packed(given, space), wanted)
    t.strictSame(packed([given, { a: 1 }, given], space), [wanted, { a: 1 }, wanted])
  }
})

t.test('all else stays as it is, byte for byte', async t => {
  const untouched = [
    '{"template":{"variables":{"attachments":[{"content":[1,2]}],"content":[1,2],"data":[3]}}}',
    '{"content":[1,2],"data":[3]}',
    '{"attachments":[{"content":[256]},{"content":[-1]},{"content":[1.5]},{"content":["1"]},{"content":[[1]]}]}',
    '{"attachments":[{"content":"[1,2]","path":"\\"content\\":[1]"},{"sizes":[1,2]}]}',
    '{"attachments":{"content":[1,2]}}',
    '[[{"attachments":[{"content":[1]}]}]]',
    '{"attachments":[{"content":[1,2,]},{"content":[,1]},{"content":[1 2]},{"content":[1,2',
    '{"attachments":[{"content":[0001]}]}',
    '"[1]"',
    ']}]',
    ''
  ]
  for (const text of untouched) t.equal(withoutByteLists(Buffer.from(text)).toString(), text)
})

t.test('three million lists that have no end, or one end for all, are looked at once each', async t => {
  const begun = `{"attachments":[{${'"content":[},'.repeat(3_000_000)}`
  for (const text of [begun, `${begun}]`]) {
    const json = Buffer.from(text)
    t.equal(withoutByteLists(json), json, 'nothing of it changes')
  }
})

t.test('any JSON means the same afterwards, but for the files', async t => {
  fc.assert(fc.property(fc.json(), text => {
    const json = Buffer.from(text)
    t.equal(withoutByteLists(json).toString(), text)
  }))
  fc.assert(fc.property(fc.uint8Array({ maxLength: 300 }), fc.jsonValue(), (bytes, other) => {
    const email = { other, attachments: [{ filename: 'a', content: [...bytes], other }] }
    const content = Buffer.from(bytes).toString('base64')
    // JSON has no -0.
    const wanted = JSON.parse(JSON.stringify({ other, attachments: [{ filename: 'a', content, other }] }))
    t.strictSame(packed(email), wanted)
  }))
})

t.test('times: words, with an offset, without one', async t => {
  const nowMs = Date.UTC(2026, 10, 24, 12)
  const at = (text: string) => timeOf(text, nowMs)
  t.equal(at('in 1 min'), '2026-11-24T12:01:00.000Z')
  t.equal(at('In 90 seconds'), '2026-11-24T12:01:30.000Z')
  t.equal(at('in an hour'), '2026-11-24T13:00:00.000Z')
  t.equal(at('in 2 days'), '2026-11-26T12:00:00.000Z')
  t.equal(at('2026-11-25T08:00:00+01:00'), '2026-11-25T07:00:00.000Z')
  t.equal(at('2026-11-25T08:00:00'), '2026-11-25T08:00:00.000Z')
  t.equal(at('2026-11-25 08:00:00.123456+00'), '2026-11-25T08:00:00.123Z')
  for (const text of ['tomorrow at 3pm', 'in 5 months', '2026-11-31T08:00:00Z', '']) t.equal(at(text), text)
})

t.test('an email of a client of Resend, field by field', async t => {
  const translated = (given: unknown) => translateEmail(given, 0)
  t.strictSame(translated(7), { request: 7, remote: [], here: [], faults: [] })
  t.strictSame(
    translated({
      to: ['a@b.example'],
      headers: { 'X-Count': 7, 'X-None': null, 'List-Unsubscribe': '<https://a.example>' },
      tags: [{ name: 'a', value: 1 }, { name: 'a', value: 'b' }],
      template: { id: 'tpl_1', variables: { name: 'Ada' } },
      attachments: [{ path: 'https://a.example/x/report%201.pdf?y' }, {
        filename: 'b',
        content: 'YQ==',
        contentId: 'b'
      }]
    }),
    {
      request: {
        to: ['a@b.example'],
        headers: { 'X-Count': '7', 'List-Unsubscribe': '<https://a.example>' },
        unsubscribe: false,
        metadata: { a: 'b' },
        template_id: 'tpl_1',
        variables: { name: 'Ada' },
        attachments: [{ filename: 'b', content_id: 'b', content: 'YQ==' }]
      },
      remote: [{
        at: 0,
        url: 'https://a.example/x/report%201.pdf?y',
        filename: 'report 1.pdf',
        contentType: undefined,
        contentId: undefined
      }],
      here: [1],
      faults: []
    }
  )
  const codes = (given: unknown) => translated(given).faults.map(({ field, code }) => `${field} ${code}`)
  t.strictSame(codes({ tags: [{ name: 'a' }] }), ['tags[0] invalid_value'])
  t.strictSame(codes({ template: {} }), ['template.id required'])
  t.strictSame(codes({ template: 'tpl_1' }), ['template invalid_value'])
  t.strictSame(codes({ attachments: [{}, { content: 'YQ==' }] }), ['attachments[0].content required'])
})

t.test('errors under the names of Resend', async t => {
  const told = (problem: HttpProblem, withKey?: boolean) => {
    const { statusCode, name } = resendErrorOf(problem, withKey)
    return `${statusCode} ${name}`
  }
  const fault = (field: string, code = 'invalid_value') => invalid([{ field, code, message: 'it must be right.' }])
  t.strictSame(
    [
      told(unauthorized(), false),
      told(unauthorized()),
      told(forbidden('The key must have the scope domains:read.', 'domains:read')),
      told(forbidden('from must be on a domain that is linked to the key.')),
      told(accountSuspended('abuse')),
      told(notFound()),
      told(methodNotAllowed(['GET'])),
      told(conflict('idempotency_mismatch', 'It is another body.')),
      told(unavailable('idempotency_busy', 'Another request is being accepted.')),
      told(conflict('already_sent', 'It has gone.')),
      told(conflict('conflict', 'Another request changed it.')),
      told(bodyTooLarge(1024)),
      told(fault('Idempotency-Key')),
      told(fault('to', 'required')),
      told(fault('from', 'invalid_address')),
      told(fault('attachments[0].content')),
      told(fault('limit')),
      told(fault('subject')),
      told(rateLimited(7)),
      told(quotaExceeded(new QuotaExceeded(100, 7))),
      told(internal('req_1')),
      told(unavailable('log_unavailable', 'The log is unavailable: try again.'))
    ],
    [
      '401 missing_api_key',
      '403 invalid_api_key',
      '401 restricted_api_key',
      '403 validation_error',
      '403 validation_error',
      '404 not_found',
      '405 method_not_allowed',
      '409 invalid_idempotent_request',
      '409 concurrent_idempotent_requests',
      '422 validation_error',
      '409 validation_error',
      '413 validation_error',
      '400 invalid_idempotency_key',
      '422 missing_required_field',
      '422 invalid_from_address',
      '422 invalid_attachment',
      '422 invalid_parameter',
      '422 validation_error',
      '429 rate_limit_exceeded',
      '429 daily_quota_exceeded',
      '500 internal_server_error',
      '503 application_error'
    ]
  )
  const many = Array.from({ length: 12 }, (_, i) => ({ field: `emails[${i}].to`, code: 'x', message: 'to must be y.' }))
  t.match(
    resendErrorOf(invalid(many)).message,
    /^emails\[0\]\.to must be y\. .*emails\[9\]\.to must be y\. And 2 more\.$/
  )
})

t.test('an event in the words of Resend', async t => {
  const createdAt = '2026-11-24T12:00:00.000Z'
  const data = {
    email_id: newId('em', Date.UTC(2026, 10, 24, 11)),
    from: 'a@example.com',
    to: 'b@example.com',
    subject: 'Hello',
    tags: ['welcome'],
    metadata: { order: 7, none: null },
    message_id: '<x@example.com>',
    sequence: 2,
    template_id: 'tpl_1'
  }
  const worded = (type: string, more: object = {}) =>
    JSON.parse(resendEventOf(JSON.stringify({ id: 'ev_1', type, created_at: createdAt, data: { ...data, ...more } })))
  t.strictSame(worded('email.delivered', { smtp_response: '250 OK', via: 'mx' }), {
    type: 'email.delivered',
    created_at: createdAt,
    data: {
      email_id: data.email_id,
      created_at: '2026-11-24T11:00:00.000Z',
      from: 'a@example.com',
      to: ['b@example.com'],
      subject: 'Hello',
      message_id: '<x@example.com>',
      template_id: 'tpl_1',
      tags: { welcome: 'true', order: '7', none: 'null' }
    }
  })
  const bounce = { type: 'soft', class: 'mailboxfull', final: true, reason: 'too long', code: null }
  t.match(worded('email.bounced', { bounce: { ...bounce, final: false } }), { type: 'email.delivery_delayed' })
  t.match(worded('email.bounced', { bounce }), {
    type: 'email.bounced',
    data: { bounce: { type: 'Transient', subType: 'MailboxFull', message: 'too long' } }
  })
  const hard = { smtp_response: '550 no', bounce: { ...bounce, type: 'hard', class: 'blocked', reason: null } }
  t.match(worded('email.bounced', hard), {
    data: {
      bounce: {
        type: 'Permanent',
        subType: 'General',
        message: "The recipient's server sent a hard bounce message: 550 no"
      }
    }
  })
  t.match(worded('email.clicked', { click: { url: 'https://a.example/' } }), {
    data: { click: { link: 'https://a.example/', timestamp: createdAt, ipAddress: '', userAgent: '' } }
  })
})
