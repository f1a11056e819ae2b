import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { headerFault, headerFaults, HEADERS_MAX } from '#streams/email/headers.ts'
import { composeMessage } from '#src/content/mime.ts'
import { LONG } from '../support/long.ts'
import { readMessage, readWords } from '../support/mime-reader.ts'

const SEED = { seed: 20261121 }
const UNSUBSCRIBE = { unsubscribe: true }
const codeOf = (name: string, value = 'x', options = UNSUBSCRIBE) => headerFault({ name, value }, options)?.code ?? null

t.test('what mail people set themselves is let through', async t => {
  const fine: Array<[string, string]> = [
    ['In-Reply-To', '<a@b.example>'],
    ['References', '<a@b.example> <c@d.example>'],
    ['X-Entity-Ref-ID', '42'],
    ['List-Id', 'News <news.example.com>'],
    ['Precedence', 'bulk'],
    ['Auto-Submitted', 'auto-generated'],
    ['Feedback-ID', 'a:b:c:d'],
    ['Importance', 'high'],
    ['Priority', 'urgent'],
    ['X-Priority', '1'],
    ['Organization', 'Grün & Söhne'],
    ['Comments', 'x'],
    ['Keywords', 'a, b'],
    ['Disposition-Notification-To', 'ada@example.com'],
    ["!#$%&'*+.^_`{|}~", 'x']
  ]
  for (const [name, value] of fine) t.equal(codeOf(name, value), null, name)
})

t.test('headers that Jetpost writes, or that change routing or MIME, are refused with the reason', async t => {
  const reserved = [
    'From',
    'Sender',
    'To',
    'Cc',
    'Bcc',
    'Reply-To',
    'Subject',
    'Date',
    'Message-ID',
    'Return-Path',
    'Received',
    'Received-SPF',
    'Delivered-To',
    'Resent-From',
    'Resent-Bcc',
    'DKIM-Signature',
    'ARC-Seal',
    'ARC-Authentication-Results',
    'Authentication-Results',
    'MIME-Version',
    'Content-Type',
    'Content-Transfer-Encoding',
    'Content-ID',
    'Content-Anything',
    'CFBL-Address',
    'CFBL-Feedback-ID',
    'X-SMTPAPI',
    'X-MC-SendAt',
    'X-MSYS-API',
    'X-PM-Message-Stream',
    'X-Mailgun-Recipient-Variables',
    'X-SES-Configuration-Set',
    'X-Mailin-Custom',
    'X-SIB-API',
    'X-MJ-TemplateID',
    'X-Mailjet-Campaign',
    'X-MT-Category',
    'X-SMTP2GO-Tag',
    'X-xsMailingId',
    'X-Postal-Tag',
    'X-MailerSend-Tags',
    'X-ElasticEmail-Settings',
    'Resend-Idempotency-Key',
    'X-Virtual-MTA',
    'X-MS-Exchange-Organization-SCL'
  ]
  for (const name of reserved) {
    for (const spelt of [name, name.toLowerCase(), name.toUpperCase()]) t.equal(codeOf(spelt), 'reserved_header', spelt)
  }
  t.match(headerFault({ name: 'Sender', value: 'x' }, UNSUBSCRIBE)?.message, /^headers\.Sender must not be set: .+\.$/)
  for (const name of ['X-From', 'From-X', 'Contents', 'Sender-ID', 'Archived-At', 'Dates', 'X-Mailer', 'X-MCS']) {
    t.equal(codeOf(name), null, name)
  }
})

t.test("List-Unsubscribe is the sender's where Jetpost writes none", async t => {
  for (const name of ['List-Unsubscribe', 'list-unsubscribe-post']) {
    t.equal(codeOf(name, '<https://example.com/leave>'), 'reserved_header')
    t.equal(codeOf(name, '<https://example.com/leave>', { unsubscribe: false }), null)
  }
  t.equal(codeOf('List-Help', '<https://example.com/help>'), null)
})

t.test('a name is printable ASCII without a colon', async t => {
  for (const name of ['', ' ', 'X A', 'X:', 'X-Ä', 'X\t', 'X\r\nBcc', 'X\0', 'X\x7f', '﻿X', 'x'.repeat(77)]) {
    t.equal(codeOf(name), 'invalid_name', JSON.stringify(name))
  }
  t.equal(codeOf('x'.repeat(76)), null)
})

t.test('a value is one line of whole characters that fits a line', async t => {
  for (
    const value of ['a\r\nBcc: x@example.org', 'a\nb', 'a\rb', 'a\0', 'a\tb', 'a\x1b', 'a\x7f', 'a\x85', 'half \ud83d']
  ) t.equal(codeOf('X-A', value), 'invalid_characters', JSON.stringify(value))
  for (const value of ['', '   ', '\u00a0']) t.equal(codeOf('X-A', value), 'too_short')
  t.equal(codeOf('X-A', 'x'.repeat(993)), null)
  t.equal(codeOf('X-A', 'x'.repeat(994)), 'too_long')
  t.equal(codeOf('X-A', 'ü'.repeat(496)), null)
  t.equal(codeOf('X-A', 'ü'.repeat(497)), 'too_long', 'octets, not characters')
})

t.test('ids, addresses and keywords are ASCII: they could only be encoded to what nobody reads', async t => {
  for (const name of ['In-Reply-To', 'References', 'List-Id', 'List-Archive', 'Feedback-ID', 'Precedence']) {
    t.equal(codeOf(name, '<grün@example.com>'), 'invalid_characters', name)
  }
})

t.test('all faults are named, at their place; nothing that RFC 5322 wants once is there twice', async t => {
  const headers = ['Bcc', 'X-A', 'References', 'x-a', 'references', 'X B', 'Comments', 'Comments'].map(name => ({
    name,
    value: 'x'
  }))
  t.strictSame(headerFaults(headers, UNSUBSCRIBE).map(({ at, fault }) => [at, fault.code]), [[0, 'reserved_header'], [
    4,
    'not_unique'
  ], [5, 'invalid_name']])
  const many = Array.from({ length: HEADERS_MAX + 1 }, (_, i) => ({ name: `X-${i}`, value: 'x' }))
  t.strictSame(headerFaults(many, UNSUBSCRIBE).map(({ at, fault }) => [at, fault.code]), [[null, 'too_many']])
  t.strictSame(headerFaults(many.slice(1), UNSUBSCRIBE), [])
})

t.test('whatever the rule lets through arrives as one header, and as it was', async t => {
  let passed = 0
  const name = fc.oneof(
    fc.string({ unit: 'binary-ascii', maxLength: 80 }),
    fc.stringMatching(/^X-[!-9;-~]{1,74}$/),
    fc.constantFrom('Bcc', 'References', 'List-Help', 'To\r\nBcc', 'Comments')
  )
  const value = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 200 }),
    fc.string({ maxLength: 900 }),
    fc.constantFrom('x\r\nBcc: y@example.org', 'a  b', 'x'.repeat(900), '=?', 'ü '.repeat(300))
  )
  fc.assert(
    fc.property(name, value, (name, value) => {
      if (headerFault({ name, value }, UNSUBSCRIBE) !== null) return
      passed++
      const raw = composeMessage({
        messageId: '<em_1.0@example.com>',
        date: '2026-11-21T06:20:00.000Z',
        from: { address: 'a@example.com', name: null },
        recipients: [],
        replyTo: [],
        subject: 'x',
        headers: [{ name, value }],
        html: null,
        text: 'x',
        attachments: []
      })
      assert.ok(raw.toString('latin1').split('\r\n').every(line => line.length <= 998))
      const { headers } = readMessage(raw)
      assert.equal(headers.length, 9)
      assert.equal(headers[6]!.name, name)
      assert.equal(readWords(headers[6]!.value), readWords(value.trim()))
    }),
    { ...SEED, numRuns: LONG ? 3000 : 1000 }
  )
  t.ok(passed > 300, `${passed} of 3000 passed the rule`)
})
