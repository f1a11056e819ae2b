import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { attachmentFaults, FILES_BYTES_MAX, FILES_MAX, readAttachment } from '#src/content/attachments.ts'

const FILE = { filename: 'a.txt', content: 'aGVsbG8=' }
const faultsOf = (...list: unknown[]) => attachmentFaults(list).map(({ field, code }) => `${field} ${code}`)

t.test('a file as most senders give it', async t => {
  t.strictSame(faultsOf(FILE), [])
  t.strictSame(readAttachment(FILE), {
    filename: 'a.txt',
    contentType: 'text/plain',
    contentId: null,
    content: 'aGVsbG8=',
    sizeBytes: 5
  })
})

t.test('content is base64, with line breaks or none; its size is known without decoding', async () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 2000 }), fc.constantFrom('', '\n', '\r\n'), (bytes, end) => {
      const base64 = Buffer.from(bytes).toString('base64')
      const content = base64.replaceAll(/.{76}/g, `$&${end}`) + end
      assert.deepEqual(attachmentFaults([{ ...FILE, content }]), [])
      assert.deepEqual(readAttachment({ ...FILE, content }), {
        ...readAttachment(FILE),
        content: base64,
        sizeBytes: bytes.length
      })
    }),
    { seed: 20261121 }
  )
})

t.test('content that is not the one way to write its bytes is refused: it may have been cut off', async t => {
  const wrong = [
    'aGVsbG8',
    'aGVsbG8==',
    'aGVsbG9=',
    'aGVs bG8=',
    '-_-_',
    'data:text/plain;base64,aGVsbG8=',
    'aGVs=bG8',
    '====',
    '=',
    'A===',
    'QR==',
    'ü===',
    'a\rbc',
    'a\tbc',
    '﻿aGVs',
    'aGVs\0\0\0\0'
  ]
  for (const content of wrong) {
    t.strictSame(faultsOf({ ...FILE, content }), ['[0].content invalid_base64'], JSON.stringify(content))
  }
  fc.assert(
    fc.property(fc.oneof(fc.base64String(), fc.string({ unit: fc.constantFrom(...'AQgwI048Zz+/=-_ \n') })), content => {
      const bare = content.replaceAll(/\r?\n/g, '')
      assert.equal(
        attachmentFaults([{ ...FILE, content }]).length === 0,
        Buffer.from(bare, 'base64').toString('base64') === bare
      )
    }),
    { seed: 20261121, numRuns: 2000 }
  )
})

t.test('a filename is a name and no path', async t => {
  for (const filename of ['', ' ', '.', '..', '../x', 'a/b', 'C:\\x', 'a\r\nb', 'a\0', 'a\x85', 'half \ud83d']) {
    t.strictSame(faultsOf({ ...FILE, filename }), ['[0].filename invalid_name'], JSON.stringify(filename))
  }
  t.strictSame(faultsOf({ ...FILE, filename: 'x'.repeat(256) }), ['[0].filename too_long'])
  for (
    const filename of [
      'x'.repeat(255),
      '...',
      '.htaccess',
      'Rechnung Nr. 7 (Entwurf).pdf',
      '請求書.pdf',
      '👩‍👩‍👧.png',
      "a\"b;c='d'.txt",
      'a:b.txt'
    ]
  ) t.strictSame(faultsOf({ ...FILE, filename }), [], filename)
})

t.test('a content type is a type, a subtype and parameters; what it does not say is told by the extension', async t => {
  const given = (type: string) =>
    attachmentFaults([{ ...FILE, content_type: type }])[0]?.code ??
      readAttachment({ ...FILE, content_type: type }).contentType
  t.equal(given('Application/PDF'), 'application/pdf')
  t.equal(given('text/csv;charset=UTF-8 ; header=present'), 'text/csv; charset=UTF-8; header=present')
  t.equal(
    given('a/b; x="; name=\\"z\\""; NAME="a.txt"; name*=UTF-8\'\'b'),
    'a/b; x="; name=\\"z\\""',
    'the name is the filename'
  )
  const wrong = [
    '',
    'png',
    'image/',
    '/png',
    'a/b/c',
    'image/png;',
    'image/png; x',
    'a/b; x=',
    'a/b; x="',
    'a/b; x="é"',
    'a b/c',
    'a/b\r\nX: y',
    'a/b; x="\n"',
    `a/${'b'.repeat(199)}`
  ]
  for (const type of wrong) t.equal(given(type), 'invalid_value', JSON.stringify(type))
  const byName = (filename: string) => readAttachment({ ...FILE, filename }).contentType
  t.strictSame(
    ['a.PDF', 'a.tar.gz', 'logo.svg', 'a', 'pdf', '.pdf', 'a.constructor', 'a.unknown', 'a.pdf '].map(byName),
    [
      'application/pdf',
      'application/gzip',
      'image/svg+xml',
      'application/octet-stream',
      'application/octet-stream',
      'application/pdf',
      'application/octet-stream',
      'application/octet-stream',
      'application/octet-stream'
    ]
  )
})

t.test('a content id can stand between < and >, and only once', async t => {
  for (const id of ['', '<logo>', 'a b', 'a\r\nb', 'a"b', 'ü', 'x'.repeat(129)]) {
    t.strictSame(faultsOf({ ...FILE, content_id: id }), ['[0].content_id invalid_value'], JSON.stringify(id))
  }
  for (const id of ['logo', 'logo@example.com', 'image_1-2.png', 'x'.repeat(128)]) {
    t.strictSame(faultsOf({ ...FILE, content_id: id }), [], id)
  }
  t.strictSame(faultsOf({ ...FILE, content_id: 'a' }, { ...FILE, content_id: 'b' }, { ...FILE, content_id: 'a' }), [
    '[2].content_id not_unique'
  ])
})

t.test('20 files and 10 MB are the limit', async t => {
  t.strictSame(faultsOf(...Array.from({ length: FILES_MAX }, () => FILE)), [])
  t.strictSame(faultsOf(...Array.from({ length: FILES_MAX + 1 }, () => ({ ...FILE, filename: '' }))), [' too_many'])
  const half = { ...FILE, content: Buffer.alloc(FILES_BYTES_MAX / 2).toString('base64') }
  t.strictSame(faultsOf(half, half), [])
  t.strictSame(faultsOf(half, half, { ...FILE, content: 'AA==' }), [' too_long'])
})

t.test('all faults are named at once, and what the schema refuses is passed over', async t => {
  t.strictSame(
    faultsOf(
      { filename: '/', content: '!', content_type: 'x', content_id: '<>' },
      FILE,
      { filename: 1, content: null, content_type: [], content_id: {} },
      null,
      7,
      'x',
      []
    ),
    [
      '[0].filename invalid_name',
      '[0].content invalid_base64',
      '[0].content_type invalid_value',
      '[0].content_id invalid_value'
    ]
  )
})
