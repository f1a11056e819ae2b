import type { Attachment } from 'postal-mime'
import t from 'tap'
import { readHead, readMail, subjectOf, UNREADABLE } from '#src/content/read.ts'
import { namedPictures, withPictures } from '#src/servers/dashboard/mail-frame.ts'
import { timeField, timeIn } from '#src/servers/dashboard/times.ts'

t.test('a time that was typed or linked is one that PostgreSQL knows, too', async t => {
  t.equal(timeIn('2026-11-21T12:00'), '2026-11-21T12:00:00.000Z')
  t.equal(timeIn('2026-11-21T12:00:30.25+02:00'), '2026-11-21T10:00:30.250Z')
  for (const early of ['0000-12-31T00:00', '0001-01-01T00:00:00+23:00']) {
    t.equal(timeIn(early), '1970-01-01T00:00:00.000Z')
  }
  t.equal(timeIn('9999-12-31T23:59:59-23:00'), '9999-12-31T23:59:59.999Z')
  for (const none of ['', 'yesterday', '2026-11-21', '2026-02-30T00:00']) t.equal(timeIn(none), null, none)
})

t.test('a field for a time shows what it was given, also when that is none', async t => {
  const shown = (value: string) =>
    /type="([^"]+)".*value="([^"]*)"/s.exec(timeField({ name: 'since', label: 'Since', value }).text)!.slice(1)
  t.strictSame(shown(''), ['datetime-local', ''])
  t.strictSame(shown('2026-11-21T12:00'), ['datetime-local', '2026-11-21T12:00'])
  t.strictSame(shown('2026-11-21T12:00:30+02:00'), ['datetime-local', '2026-11-21T10:00'], 'to the minute')
  t.strictSame(shown('2026-02-30T00:00'), ['text', '2026-02-30T00:00'])
})

t.test('of the pictures that came along only those are read that the HTML names', async t => {
  const read: string[] = []
  const picture = (contentId: string, mimeType = 'image/png') =>
    ({
      contentId,
      mimeType,
      get content () {
        read.push(contentId)
        return new Uint8Array([1, 2, 3]).buffer
      }
    }) as Attachment
  const files = [picture('<dot>'), picture('<other>'), picture('<page>', 'text/html')]
  t.equal(
    withPictures('<img src="cid:dot"><img src=cid:dot><a href="cid:page"><img src="cid:none">', files),
    '<img src="data:image/png;base64,AQID"><img src=data:image/png;base64,AQID><a href="cid:page"><img src="cid:none">'
  )
  t.strictSame(read, ['<dot>'])
  t.strictSame([...namedPictures('<img src="cid:a"> CID:b')], ['a', 'b'])
})

t.test('a mail that cannot be read is told from one without a subject', async t => {
  const wide = Buffer.from(`Subject: Wide\r\n${`X-Long: ${'x'.repeat(900)}\r\n`.repeat(2500)}\r\nHello\r\n`)
  const deep = Buffer.from(
    Array.from(
      { length: 300 },
      (_, i) => `Content-Type: multipart/mixed; boundary=b${i}\r\n${i === 0 ? 'Subject: Deep\r\n' : ''}\r\n--b${i}\r\n`
    ).join('')
  )
  t.equal(await readMail(wide), UNREADABLE)
  t.equal(subjectOf(await readHead(wide)), '(unreadable)')
  t.equal(await readMail(deep), UNREADABLE)
  t.equal(subjectOf(await readHead(deep)), 'Deep')
  t.equal(subjectOf(await readMail(Buffer.from('From: a@example.com\r\n\r\nHello\r\n'))), '')
})
