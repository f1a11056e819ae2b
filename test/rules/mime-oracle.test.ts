import assert from 'node:assert/strict'
import fc from 'fast-check'
import MailComposer from 'nodemailer/lib/mail-composer/index.js'
import PostalMime, { type Address } from 'postal-mime'
import t from 'tap'
import { composeMessage, type MimeMessage } from '#src/content/mime.ts'
import { readMessage, readWords, type ReadPart } from '../support/mime-reader.ts'

/** Two writers, ours and nodemailer's, and two readers, postal-mime and our strict one: what one writes must be read as
 *  what the other writes. */
const SEED = { seed: 20261121 }
const LANGUAGES = [
  'The quick brown fox',
  'Grüße aus Köln, für Größe',
  'Ça va très bien – où ça ?',
  'Ελληνικά κείμενα',
  'Привет, как дела',
  'مرحبا بالعالم',
  'שלום עולם',
  'สวัสดีชาวโลก',
  'नमस्ते दुनिया',
  '日本語のテキスト、改行',
  '你好，世界',
  '안녕하세요',
  'Tiếng Việt',
  '👋🏽👨‍👩‍👧 😀',
  'e\u0301 a\u0308',
  '𝔘𝔫𝔦𝔠𝔬𝔡𝔢',
  '100% =3D = ?=',
  '"quoted" (comment) <angle>, [x]; a:b @ c\\d',
  '. dot',
  'From here',
  '~!#$%^&*_+{}|`',
  'x'.repeat(120)
]
const anyWords = fc.array(
  fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...LANGUAGES) }, {
    weight: 1,
    arbitrary: fc.string({ unit: 'grapheme', maxLength: 8 })
  }),
  { minLength: 1, maxLength: 5 }
)
  .map(words => words.join(' ').replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]/gu, '').replaceAll(/\s+/g, ' ').trim() || 'x')
/** Names with what means something in an address are another test's: the two differ in what they quote, not in what
 *  they say. */
const anyName = fc.option(anyWords.map(name => name.slice(0, 100).toWellFormed()))
const anyLocal = fc.stringMatching(/^[a-z0-9]{1,12}([.+_-][a-z0-9]{1,8}){0,3}$/)
const anyMailbox = fc.record({
  address: fc.tuple(anyLocal, fc.constantFrom('example.com', 'mail.example.net', 'xn--mnchen-3ya.example')).map(parts =>
    parts.join('@')
  ),
  name: anyName
})
const anyBody = fc.array(
  fc.oneof(
    anyWords,
    fc.constantFrom('', '  indented', 'trailing  ', '\ttab\t', '<p style="color:red">', '..', 'From me')
  ),
  { minLength: 1, maxLength: 12 }
).map(lines => `x${lines.join('\n')}`)
const anyFile = fc.record({
  filename: anyWords.map(name => `${name.replaceAll('/', '').slice(0, 80).toWellFormed()}.pdf`),
  contentType: fc.constantFrom('application/pdf', 'image/png', 'text/csv'),
  contentId: fc.option(fc.constantFrom('logo@example.com', 'a.b-c_d')),
  content: fc.uint8Array({ maxLength: 300 }).map(bytes => Buffer.from(bytes).toString('base64'))
})
const anyMessage: fc.Arbitrary<MimeMessage> = fc.record({
  messageId: fc.constant('<em_1.0@example.com>'),
  date: fc.date({ min: new Date(0), max: new Date('2099-12-31'), noInvalidDate: true }).map(date => date.toISOString()),
  from: anyMailbox,
  recipients: fc.array(
    fc.tuple(anyMailbox, fc.constantFrom('to' as const, 'cc' as const, 'bcc' as const)).map(([mailbox, kind]) => ({
      ...mailbox,
      kind
    })),
    { minLength: 1, maxLength: 5 }
  ),
  replyTo: fc.array(anyMailbox, { maxLength: 2 }),
  subject: anyWords,
  headers: fc.constant<MimeMessage['headers']>([
    { name: 'List-Unsubscribe', value: '<https://t.example/u/abc>, <mailto:u+abc@b.example>' },
    { name: 'List-Unsubscribe-Post', value: 'List-Unsubscribe=One-Click' },
    { name: 'Feedback-ID', value: 'bulk:key_1:acc_1:jetpost' }
  ]),
  html: fc.option(anyBody),
  text: fc.option(anyBody),
  attachments: fc.array(anyFile, { maxLength: 3 })
}).filter(({ html, text }) => html !== null || text !== null)

function byNodemailer (message: MimeMessage): Promise<Buffer> {
  const mailboxes = (list: MimeMessage['replyTo']) => list.map(({ address, name }) => ({ address, name: name ?? '' }))
  const sorted = (kind: string) => mailboxes(message.recipients.filter(recipient => recipient.kind === kind))
  const composer = new MailComposer({
    messageId: message.messageId,
    date: new Date(message.date),
    from: mailboxes([message.from])[0]!,
    to: sorted('to'),
    cc: sorted('cc'),
    replyTo: mailboxes(message.replyTo),
    subject: message.subject,
    headers: message.headers.map(({ name, value }) => ({ key: name, value })),
    ...(message.html === null ? {} : { html: message.html }),
    ...(message.text === null ? {} : { text: message.text }),
    attachments: message.attachments.map(({ filename, contentType, contentId, content }) => ({
      filename,
      contentType,
      content,
      encoding: 'base64',
      ...(contentId === null ? {} : { cid: contentId })
    }))
  })
  return composer.compile().build()
}

const flat = (list: Address[] | undefined) =>
  (list ?? []).map(({ name, address }) => ({ name: squeezed(name ?? ''), address }))
const squeezed = (text: string) => text.replaceAll(/\s+/g, ' ').trim()
const lines = (text: string | undefined) => (text ?? '').replaceAll('\r\n', '\n').replace(/\n+$/, '')

/** What a reader gets to see. */
async function seen (raw: Buffer): Promise<Record<string, unknown>> {
  const mail = await PostalMime.parse(raw, { attachmentEncoding: 'base64' })
  const header = (name: string) => mail.headers.find(({ key }) => key === name)?.value
  return {
    from: flat(mail.from === undefined ? [] : [mail.from]),
    to: flat(mail.to).filter(({ name }) => name !== 'undisclosed-recipients'),
    cc: flat(mail.cc),
    replyTo: flat(mail.replyTo),
    subject: squeezed(mail.subject ?? ''),
    date: mail.date,
    messageId: mail.messageId,
    own: ['list-unsubscribe', 'list-unsubscribe-post', 'feedback-id'].map(header),
    html: lines(mail.html),
    text: lines(mail.text),
    files: mail.attachments.map(({ filename, mimeType, contentId, content }) => ({
      filename: squeezed(filename ?? ''),
      mimeType,
      contentId,
      content
    })).sort((a, b) => JSON.stringify(a) < JSON.stringify(b) ? -1 : 1)
  }
}

t.test('a reader sees the same in our message as in one by nodemailer', async () => {
  await fc.assert(
    fc.asyncProperty(anyMessage, async message => {
      const [ours, theirs] = await Promise.all([seen(composeMessage(message)), byNodemailer(message).then(seen)])
      assert.deepEqual(ours, theirs)
    }),
    { ...SEED, numRuns: 400 }
  )
})

t.test('our strict reader agrees, and finds nothing out of order', async () => {
  fc.assert(
    fc.property(anyMessage, message => {
      const raw = composeMessage(message)
      const read = readMessage(raw)
      const header = (name: string) => read.headers.filter(header => header.name === name).map(({ value }) => value)
      assert.deepEqual(header('Subject').map(readWords).map(squeezed), [squeezed(message.subject)])
      assert.deepEqual(header('Date').map(Date.parse), [Math.floor(Date.parse(message.date) / 1000) * 1000])
      for (const { name, value } of message.headers) assert.deepEqual(header(name), [value])
      assert.deepEqual(
        bodies(read).map(({ body }) => lines(body.toString())),
        [message.text, message.html].filter(body => body !== null).map(lines)
      )
      assert.ok(raw.toString('latin1').split('\r\n').every(line => line.length <= 998 && !/[^\x20-\x7e\t]/.test(line)))
    }),
    { ...SEED, numRuns: 400 }
  )
})

function bodies (part: ReadPart): ReadPart[] {
  if (part.parts.length > 0) return part.parts.flatMap(bodies)
  return part.filename === null ? [part] : []
}

t.test('a text survives its encoding whatever stands where a line breaks', t => {
  const [plain, wide] = ['x', 'ü']
  for (let length = 60; length <= 90; length++) {
    for (const tail of [' ', '\t', '  ', ' \n', '\t\r\n', ' \r', '=', 'ü', '👋🏽', '. ', '=20', ' x', '']) {
      for (
        const text of [
          plain.repeat(length) + tail,
          `${plain.repeat(length)}${tail}\n${tail}${plain}`,
          `${plain}${wide.repeat(length / 3)}${tail}`,
          `${tail}${plain.repeat(length)}`
        ]
      ) {
        const raw = composeMessage({
          messageId: '<1@example.com>',
          date: '2026-11-21T06:20:00.000Z',
          from: { address: 'a@example.com', name: null },
          recipients: [],
          replyTo: [],
          subject: 's',
          headers: [],
          html: null,
          text,
          attachments: []
        })
        const isRead = readMessage(raw).body.toString() === text.replaceAll(/\r\n|\r|\n/g, '\r\n')
        if (!isRead || raw.toString().split('\r\n').some(line => line.length > 76)) t.fail(JSON.stringify(text))
      }
    }
  }
  t.pass()
  t.end()
})
