import assert from 'node:assert/strict'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import PostalMime from 'postal-mime'
import type { MessageFile } from '#src/content/file-head.ts'
import { composeMessage, type MimeMessage } from '#src/content/mime.ts'
import { readMessage, readWords, type ReadPart } from '../support/mime-reader.ts'

const BASE: MimeMessage = {
  messageId: '<em_1.0@example.com>',
  date: '2026-11-21T06:20:00.000Z',
  from: { address: 'shop@example.com', name: null },
  recipients: [{ address: 'ada@example.net', name: null, kind: 'to' }],
  replyTo: [],
  subject: 'Hello',
  headers: [],
  html: '<p>Hello</p>',
  text: null,
  attachments: []
}
const FILE: MessageFile = {
  filename: 'a.bin',
  contentType: 'application/octet-stream',
  contentId: null,
  content: Buffer.from('file').toString('base64')
}

const ALPHABETS = [
  'abc XYZ 019',
  'äöüß éè ñ',
  '日本語のテキスト',
  '👋🏽👨‍👩‍👧😀',
  '=?._-"\\,;:<>()@',
  '. ..\n.',
  ' \t',
  'x'.repeat(40),
  '\r\n',
  '\n',
  '--=_'
]
const SEED = { seed: 20261121 }

/** Text of all sorts of characters, and of rows of one sort. */
function anyText (lengthMax: number): fc.Arbitrary<string> {
  const piece = fc.oneof(...ALPHABETS.flatMap(alphabet => [fc.constantFrom(...alphabet), fc.constant(alphabet)]))
  return fc.array(piece, { maxLength: lengthMax }).map(pieces => pieces.join(''))
}

const anyLine = (lengthMax: number) => anyText(lengthMax).map(text => text.replaceAll(/[\r\n\t]/g, ' '))
const anyName = anyLine(60).map(name => name.trim() || null)
const anyFile: fc.Arbitrary<MessageFile> = fc.record({
  filename: fc.oneof(
    anyText(40),
    fc.string({ unit: 'binary', minLength: 1, maxLength: 255 }),
    fc.constantFrom('a"b\\c.txt', `${'x'.repeat(200)}.pdf`, 'ü'.repeat(200), "it's 100% (a*b).pdf")
  ),
  contentType: fc.constantFrom(
    'application/pdf',
    'image/png',
    'text/csv; charset=iso-8859-1',
    'text/html',
    'message/rfc822',
    'multipart/mixed; boundary="x"',
    'a/b; c="d; e=\\"f\\""'
  ),
  contentId: fc.option(fc.stringMatching(/^[\w!#$%&'*+/=?^`{|}~.@-]{1,128}$/)),
  content: fc.oneof(
    fc.uint8Array({ maxLength: 400 }),
    fc.integer({ min: 0, max: 65_536 }).map(size => Buffer.alloc(size, 'any bytes\r\n--=_'))
  )
    .map(bytes => Buffer.from(bytes).toString('base64'))
})

const anyMessage: fc.Arbitrary<MimeMessage> = fc.record({
  messageId: fc.stringMatching(/^<em_[0-9a-z]{1,26}\.\d@example\.com>$/),
  date: fc.constant(BASE.date),
  from: fc.record({ address: fc.constant('shop@example.com'), name: anyName }),
  recipients: fc.array(
    fc.record({
      address: fc.constant('r@example.net'),
      name: anyName,
      kind: fc.constantFrom('to' as const, 'cc' as const, 'bcc' as const)
    }),
    { minLength: 1, maxLength: 6 }
  ),
  replyTo: fc.array(fc.record({ address: fc.constant('answers@example.com'), name: anyName }), { maxLength: 3 }),
  subject: anyLine(80),
  headers: fc.array(
    fc.record({ name: fc.stringMatching(/^X-[!-9;-~]{1,74}$/), value: anyLine(60).map(value => value.trim() || 'x') }),
    { maxLength: 5 }
  ),
  html: fc.option(anyText(400)),
  text: fc.option(anyText(400)),
  attachments: fc.array(anyFile, { maxLength: 6 })
})

/** What no transport keeps: the kind of line end, and the last one. */
const lines = (text: string | undefined | null) => (text ?? '').replaceAll(/\r\n|\r/g, '\n').replace(/\n+$/, '')
const squeezed = (text: string | undefined | null) => (text ?? '').replaceAll(/\s+/g, ' ').trim()
/** How a control character in a name, which the API refuses, would come out. */
const harmless = (text: string) => text.replaceAll(/\p{Cc}+/gu, ' ').toWellFormed()

function formFaults (raw: Buffer): string[] {
  const text = raw.toString('latin1')
  const end = text.indexOf('\r\n\r\n')
  const rows = text.split('\r\n')
  return [
    /[^\r]\n|\r[^\n]/.test(text) && 'a bare CR or LF',
    rows.some(row => row.length > 998) && 'a line too long',
    text.slice(0, end).split('\r\n').some(row => row.trim() === '') && 'an empty header line',
    rows.some(row => row.length > 76 && /^(From|To|Cc|Reply-To|Subject| ).*=\?.*\?=/.test(row)) &&
    'a long line with an encoded-word',
    (text.match(/=\?UTF-8\?[BQ]\?[^\s?]*\?=/g) ?? []).some(word => word.length > 75) && 'a long encoded-word',
    /=\?UTF-8\?[BQ]\?\?=/.test(text.slice(0, end)) && 'an empty encoded-word',
    /[^\x20-\x7e\r\n\t]/.test(text) && 'an 8-bit or control character'
  ].filter(fault => fault !== false)
}

function checkForm (t: Test, raw: Buffer): void {
  t.strictSame(formFaults(raw), [])
}

/** `mixed(alternative(plain, html), pdf)`, the types without what is before the slash. */
function shapeOf ({ type, parts }: ReadPart): string {
  const kind = type.split('/')[1]!
  return parts.length === 0 ? kind : `${kind}(${parts.map(shapeOf).join(', ')})`
}

function leaves (part: ReadPart): ReadPart[] {
  return part.parts.length === 0 ? [part] : part.parts.flatMap(leaves)
}

/** The files in the order they stand in: those beside the html, then the others. */
function inOrder ({ html, attachments }: MimeMessage): Array<MessageFile & { inline: boolean }> {
  const all = attachments.map(file => ({
    ...file,
    inline: html !== null && file.contentId !== null && !file.contentType.startsWith('text/')
  }))
  return [...all.filter(file => file.inline), ...all.filter(file => !file.inline)]
}

const carried = (type: string) => /^(message|multipart)\//.test(type) ? 'application/octet-stream' : type.split(';')[0]

t.test('whatever goes in comes out of our strict reader the same, byte for byte', async () => {
  fc.assert(
    fc.property(anyMessage, message => {
      const raw = composeMessage(message)
      assert.deepEqual(formFaults(raw), [])
      const read = readMessage(raw)
      const [bodies, files] = [
        leaves(read).filter(part => part.filename === null),
        leaves(read).filter(part => part.filename !== null)
      ]
      const texts = [message.text ?? (message.html === null ? '' : null), message.html].filter(text => text !== null)
      assert.deepEqual(bodies.map(({ body }) => lines(body.toString())), texts.map(text => lines(text.toWellFormed())))
      assert.deepEqual(
        files.map(file => ({
          filename: file.filename,
          type: file.type,
          contentId: file.contentId,
          inline: file.disposition === 'inline',
          content: file.body.toString('base64')
        })),
        inOrder(message).map(({ filename, contentType, contentId, inline, content }) => ({
          filename: harmless(filename),
          type: carried(contentType),
          contentId,
          inline,
          content
        }))
      )
      assert.deepEqual(
        files.map(({ parameters }) => readWords(parameters.name!)),
        files.map(({ filename }) => filename)
      )
      assert.deepEqual(
        read.headers.filter(({ name }) => name.startsWith('X-')).map(({ name, value }) => ({
          name,
          value: squeezed(readWords(value))
        })),
        message.headers.map(({ name, value }) => ({ name, value: squeezed(readWords(value)) }))
      )
    }),
    { ...SEED, numRuns: 400 }
  )
})

t.test('whatever goes in comes out of postal-mime the same', async () => {
  await fc.assert(
    fc.asyncProperty(anyMessage, async message => {
      const parsed = await PostalMime.parse(composeMessage(message), { attachmentEncoding: 'base64' })
      assert.equal(squeezed(parsed.subject), squeezed(message.subject))
      assert.deepEqual({ address: parsed.from?.address, name: squeezed(parsed.from?.name) }, {
        address: 'shop@example.com',
        name: squeezed(message.from.name)
      })
      assert.deepEqual(
        (parsed.replyTo ?? []).map(({ name }) => squeezed(name)),
        message.replyTo.map(({ name }) => squeezed(name))
      )
      if (message.html !== null) assert.equal(lines(parsed.html), lines(message.html))
      if (message.text !== null && message.text !== '') assert.equal(lines(parsed.text), lines(message.text))
      assert.deepEqual(
        parsed.attachments.map(file => ({
          filename: file.filename ?? '',
          type: file.mimeType,
          contentId: file.contentId ?? null,
          disposition: file.disposition,
          content: file.content
        })),
        inOrder(message).map(({ filename, contentType, contentId, inline, content }) => {
          return {
            filename: harmless(filename),
            type: carried(contentType),
            contentId: contentId === null ? null : `<${contentId}>`,
            disposition: inline ? 'inline' : 'attachment',
            content
          }
        })
      )
    }),
    { ...SEED, numRuns: 300 }
  )
})

const INVITE = { contentType: 'text/calendar; method=REQUEST', content: 'BEGIN:VCALENDAR\r\nSUMMARY:Grüße\r\n' }

t.test('bodies and files stand where mail programs look for them', t => {
  const image = { ...FILE, contentType: 'image/png', contentId: 'logo' }
  const cases: Array<[Partial<MimeMessage>, string]> = [
    [{}, 'html'],
    [{ html: null, text: 'x' }, 'plain'],
    [{ text: 'x' }, 'alternative(plain, html)'],
    [{ alternatives: [INVITE] }, 'alternative(html, calendar)'],
    [
      { text: 'x', alternatives: [INVITE], attachments: [FILE] },
      'mixed(alternative(plain, html, calendar), octet-stream)'
    ],
    [{ attachments: [image] }, 'related(html, png)'],
    [{ text: 'x', attachments: [image, image] }, 'alternative(plain, related(html, png, png))'],
    [{ attachments: [FILE] }, 'mixed(html, octet-stream)'],
    [
      { text: 'x', attachments: [FILE, image, FILE] },
      'mixed(alternative(plain, related(html, png)), octet-stream, octet-stream)'
    ],
    [{ html: null, text: 'x', attachments: [image] }, 'mixed(plain, png)'],
    [{ attachments: [image, { ...image, contentType: 'text/css' }] }, 'mixed(related(html, png), css)'],
    [{ html: null, attachments: [FILE] }, 'mixed(plain, octet-stream)']
  ]
  for (const [fields, shape] of cases) t.equal(shapeOf(readMessage(composeMessage({ ...BASE, ...fields }))), shape)
  t.equal(readMessage(composeMessage({ ...BASE, attachments: [image] })).parameters.type, 'text/html')
  t.end()
})

t.test('a multipart ends where its boundary says, and with no other', t => {
  const trap = '--=_mixed --=_alternative_ =_related'
  const message = {
    ...BASE,
    text: trap,
    html: trap,
    attachments: [FILE, { ...FILE, contentType: 'image/png', contentId: 'x' }]
  }
  const raw = composeMessage(message).toString()
  t.equal(raw, composeMessage(structuredClone(message)).toString(), 'the same input makes the same bytes')
  const boundaries = [...raw.matchAll(/boundary="(.*)"/g)].map(match => match[1]!)
  t.equal(new Set(boundaries).size, 3)
  t.ok(boundaries.every(boundary => boundary.length <= 70))
  for (const boundary of boundaries) t.equal(raw.split(`--${boundary}`).length, 4)
  t.notMatch(composeMessage({ ...message, messageId: '<em_2.0@example.com>' }).toString(), boundaries[0]!)
  t.end()
})

t.test('no value starts a header of its own', async t => {
  const evil = 'x\r\nBcc: victim@example.org\r\n\r\nbody\0'
  const mailbox = { address: 'shop@example.com', name: evil }
  const raw = composeMessage({
    ...BASE,
    subject: evil,
    from: mailbox,
    replyTo: [mailbox],
    recipients: [{ ...mailbox, kind: 'to' }],
    headers: [{ name: 'X-Evil', value: evil }],
    attachments: [{ filename: evil, contentType: `image/png; x=${evil}`, contentId: evil, content: '' }]
  })
  const { headers } = await PostalMime.parse(raw)
  t.same(headers.map(({ key }) => key), [
    'from',
    'to',
    'reply-to',
    'subject',
    'date',
    'message-id',
    'mime-version',
    'x-evil',
    'content-type'
  ])
  t.notMatch(raw.toString(), /^Bcc/m)
})

t.test('bcc stands nowhere', async t => {
  const bcc = { address: 'hidden@example.net', name: null, kind: 'bcc' as const }
  t.notMatch(composeMessage({ ...BASE, recipients: [...BASE.recipients, bcc] }).toString(), 'hidden')
  t.match(composeMessage({ ...BASE, recipients: [bcc] }).toString(), /^To: undisclosed-recipients:;\r$/m)
})

t.test('an address beyond ASCII stands raw, and only then has the message 8-bit bytes', async t => {
  const raw = composeMessage({
    ...BASE,
    utf8: true,
    recipients: [{ address: 'jörg@xn--mnchen-3ya.example', name: 'Jörg', kind: 'to' }]
  })
  t.match(raw.toString(), '<jörg@xn--mnchen-3ya.example>')
  t.notMatch(raw.toString().replaceAll('jörg@', ''), /\P{ASCII}/u)
})

t.test('without UTF-8 an address beyond ASCII is shown as an empty group, and other recipients are served', async t => {
  const other = (local: string) => ({ address: `${local}@xn--mnchen-3ya.example`, name: 'Jörg', kind: 'to' as const })
  const raw = composeMessage({
    ...BASE,
    recipients: [other('jörg'), ...BASE.recipients, other('ü'.repeat(32)), other('ä')]
  })
  checkForm(t, raw)
  const { to } = await PostalMime.parse(raw)
  const group = (local: string) => ({ name: `${local}@xn--mnchen-3ya.example`, group: [] })
  t.match(to, [group('jörg'), { address: 'ada@example.net' }, group('ü'.repeat(32)), group('ä')])
  t.equal(to?.length, 4)
})

t.test('answers go where they can be sent to', async t => {
  const replyTo = [{ address: 'jörg@example.com', name: null }, { address: 'help@example.com', name: 'Help' }]
  const answerTo = async (fields: Partial<MimeMessage>) =>
    (await PostalMime.parse(composeMessage({ ...BASE, ...fields }))).replyTo?.map(({ address }) => address)
  t.strictSame(await answerTo({ replyTo, utf8: true }), ['jörg@example.com', 'help@example.com'])
  t.strictSame(await answerTo({ replyTo }), ['help@example.com'])
  t.strictSame(await answerTo({ replyTo: replyTo.slice(0, 1) }), undefined)
})

t.test("a sender's own headers come after ours, in order and as they are, folded at spaces alone", t => {
  const url = `<https://example.com/${'u'.repeat(200)}>`
  const references = Array.from({ length: 10 }, (_, i) => `<message-number-${i}@example.com>`).join(' ')
  const headers = [
    { name: 'List-Unsubscribe', value: `${url}, <mailto:leave@example.com>` },
    { name: 'References', value: references },
    { name: 'X-Coded', value: '=?UTF-8?Q?gr=C3=BCn?=' },
    { name: 'X-Spaces', value: `wide${' '.repeat(100)}apart` },
    { name: `X-${'n'.repeat(74)}`, value: '👋🏽 grün' },
    { name: 'x-spaces', value: 'grün und blau' }
  ]
  const raw = composeMessage({ ...BASE, headers })
  checkForm(t, raw)
  const read = readMessage(raw).headers
  t.strictSame(read.map(({ name }) => name), [
    'From',
    'To',
    'Subject',
    'Date',
    'Message-ID',
    'MIME-Version',
    ...headers.map(({ name }) => name),
    'Content-Type',
    'Content-Transfer-Encoding'
  ])
  t.strictSame(read.slice(6, 10), headers.slice(0, 4))
  t.strictSame(read.slice(10, 12).map(({ value }) => readWords(value)), ['👋🏽 grün', 'grün und blau'])
  t.end()
})

t.test('a filename reads the same in old mail programs and new ones', t => {
  const headOf = (filename: string) =>
    /Content-Type: application[^]*?\r\n\r\n/.exec(
      composeMessage({ ...BASE, attachments: [{ ...FILE, filename }] }).toString()
    )![0]
  const long = `${'long '.repeat(40)}.pdf`
  t.match(headOf(long), `filename="${long}"`)
  t.match(headOf('a "b".txt'), 'filename="a \\"b\\".txt"')
  t.match(headOf('Grüße.txt'), "filename*=UTF-8''Gr%C3%BC%C3%9Fe.txt")
  t.match(headOf('Grüße.txt'), 'name="=?UTF-8?B?R3LDvMOfZS50eHQ=?="')
  t.match(headOf('=?UTF-8?Q?x?='), "filename*=UTF-8''%3D%3FUTF-8%3FQ%3Fx%3F%3D")
  t.match(headOf('ü'.repeat(20)), 'filename*1*=')
  t.end()
})

t.test('dates are RFC 5322', async t => {
  t.match(composeMessage(BASE).toString(), /^Date: Sat, 21 Nov 2026 06:20:00 \+0000\r$/m)
})
