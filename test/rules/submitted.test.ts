import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { ERASED } from '#streams/address.ts'
import { requestWithout } from '#streams/email/erase.ts'
import type { EmailRequested } from '#streams/email/facts.ts'
import { composeFor } from '#src/content/compose.ts'
import { attachmentsOf, splitMessage, viewOf } from '#src/content/submitted.ts'
import { createTokens } from '#src/content/token.ts'
import { SECRET } from '../support/secret.ts'

const stored = JSON.parse(
  readFileSync(join(import.meta.dirname, '..', 'fixtures', 'facts', 'email.requested.v3.json'), 'utf8')
) as EmailRequested

const lines = (...all: string[]) => `${all.join('\r\n')}\r\n`

type Options = Partial<Pick<EmailRequested['data'], 'track' | 'unsubscribe'>>

/** The message that a recipient gets of this one. */
async function composed (raw: string | Buffer, options: Options = {}): Promise<string> {
  const { head, body } = splitMessage(Buffer.from(raw))!
  const request = { ...stored.data, track: { opens: true, clicks: true }, unsubscribe: false, ...options, head }
  const { message } = await composeFor(
    request,
    { email: request.email, n: 0, request: 1 },
    { html: null, text: null, files: [], mime: body.toString('base64') },
    { messageId: '<ours@example.com>', date: '2026-11-21T12:00:00.000Z' },
    {
      tokens: createTokens(SECRET),
      trackingUrl: 'https://links.example.com',
      returnPathHost: 'bounces.example.com',
      signers: []
    }
  )
  return message.toString('latin1')
}

const HEAD = ['From: hello@example.com', 'To: ada@example.net', 'Subject: Hi', 'Date: Sat, 21 Nov 2026 12:00:00 +0000']
const LINK = '<a href="https://shop.example/">Shop</a>'
const TRACKED = /<a href(=3D)?="?https:\/\/links\.example\.com\/c\//

t.test('links are followed in html alone, and every byte around it stays', async t => {
  const before = ['--b', 'Content-Type: text/plain', '', `See ${LINK}`, '--b']
  const after = ['--b', 'Content-Type: text/html; name=page.html', 'Content-Disposition: attachment', '', LINK, '--b--']
  const message = await composed(
    lines(
      ...HEAD,
      'Content-Type: multipart/mixed; boundary=b',
      '',
      ...before,
      'Content-Type: text/html',
      '',
      LINK,
      ...after
    )
  )
  const [, body = ''] = message.split(/\r\n\r\n(.*)/s)
  t.ok(body.startsWith(lines(...before)), 'the text')
  t.ok(body.endsWith(lines(...after)), 'and the file')
  const html = body.slice(lines(...before).length, -lines(...after).length)
  const unquoted = html.replaceAll('=\r\n', '').replaceAll('=3D', '=')
  t.match(unquoted, /^Content-Type: text\/html\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n/)
  t.match(unquoted, TRACKED)
  t.match(unquoted, /links\.example\.com\/o\//, 'and a pixel')
})

t.test('a message that is html alone', async t => {
  const type = 'Content-Type: text/html; charset=utf-8'
  const body = Buffer.from(`<p>Grüße ${LINK}</p>\r\n`).toString('base64')
  const message = await composed(lines(...HEAD, type, 'Content-Transfer-Encoding: base64', '', body))
  t.equal(message.match(/content-transfer-encoding/gi)?.length, 1)
  const view = viewOf(splitMessage(Buffer.from(message, 'latin1'))!)
  t.match(view.html!, TRACKED)
  t.match(view.html!, /^<p>Grüße /)
})

t.test('each charset keeps its bytes; those unlike ASCII, and what is signed, keep all of them', async t => {
  const latin = await composed(
    Buffer.from(
      lines(...HEAD, 'Content-Type: text/html; charset=iso-8859-1', '', `<p>Gr\xfc\xdfe ${LINK}</p>`),
      'latin1'
    )
  )
  t.match(viewOf(splitMessage(Buffer.from(latin, 'latin1'))!).html!, /^<p>Grüße <a href="https:\/\/links\./)
  for (const charset of ['utf-16', 'iso-2022-jp', 'utf-7', 'made-up']) {
    const raw = lines(...HEAD, `Content-Type: text/html; charset=${charset}`, '', LINK)
    t.ok((await composed(raw)).endsWith(`\r\n\r\n${LINK}\r\n`), charset)
  }
  const wrong = Buffer.from(lines(...HEAD, 'Content-Type: text/html; charset=utf-8', '', `\xff ${LINK}`), 'latin1')
  t.ok((await composed(wrong)).endsWith(`\xff ${LINK}\r\n`), 'what is not what it says')
  for (const kind of ['signed', 'encrypted']) {
    const part = ['--b', 'Content-Type: text/html', '', LINK, '--b--']
    const raw = lines(...HEAD, `Content-Type: multipart/${kind}; boundary=b`, '', ...part)
    t.ok((await composed(raw)).endsWith(lines(...part)), kind)
  }
})

t.test('a way to unsubscribe where it is asked for, and the sender has none', async t => {
  const raw = (...more: string[]) => lines(...HEAD, ...more, 'Content-Type: text/plain', '', 'Leave: %unsubscribe_url%')
  const ours = await composed(raw(), { unsubscribe: true, track: { opens: false, clicks: false } })
  t.match(ours, /\r\nList-Unsubscribe: <https:\/\/links\.example\.com\/u\//)
  t.match(ours, /\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n/)
  t.match(ours, /Leave: https:\/\/links\.example\.com\/u\//)
  const own = await composed(raw('List-Unsubscribe: <mailto:leave@example.com>'), { unsubscribe: true })
  t.equal(own.match(/^list-unsubscribe/gim)?.length, 1, 'half of ours beside it would be none')
  t.match(own, 'List-Unsubscribe: <mailto:leave@example.com>')
  const off = await composed(raw(), { track: { opens: false, clicks: false } })
  t.notMatch(off, /list-unsubscribe/i)
  t.match(off, 'Leave: %unsubscribe_url%', 'nothing of it is touched')
})

t.test('who is erased stands in no header any more', async t => {
  const head = [
    'From: Shop <hello@example.com>',
    'To: "Lovelace, Ada" <ada@example.net>,\r\n Bob <bob@example.org>',
    'Cc: ada@example.net',
    'Reply-To: ada@example.net',
    'Subject: To ada@example.net'
  ]
  const clean = (text: string) => text.replaceAll('ada@example.net', ERASED)
  const left = requestWithout({ ...stored.data, head: lines(...head) }, [0], clean)
  t.equal(
    left.head,
    lines('From: Shop <hello@example.com>', 'To: Bob <bob@example.org>', `Subject: To ${ERASED}`)
  )
  t.equal(
    requestWithout({ ...stored.data, head: lines('To: ada@example.net') }, [0], clean).head,
    lines('To: undisclosed-recipients:;')
  )
  const nobody = requestWithout({ ...stored.data, head: lines(...head) }, [0, 1], clean)
  t.match(nobody, { head: '', content: null, attachments: [] })
})

t.test('what a part says of itself can be listed, whatever it says', async t => {
  const head = ['Content-Type: image/p\0ng; x="\x01"', "Content-Disposition: attachment; filename*=utf-8''a%00b%0D%0Ac"]
  const raw = Buffer.from(
    lines(
      ...HEAD,
      'Content-Type: multipart/mixed; boundary=b',
      '',
      '--b',
      ...head,
      'Content-ID: <a\0b>',
      '',
      'x',
      '--b--'
    ),
    'latin1'
  )
  const [file] = await attachmentsOf(splitMessage(raw)!)
  t.strictSame(Object.values(file!).filter(value => /\p{Cc}/u.test(String(value))), [])
  t.match(file, { filename: /^a.*b.*c$/, sizeBytes: 1 })
})

t.test('what is made to be too much work is read as far as the bound goes', async t => {
  const nested = Array.from(
    { length: 200 },
    (_, i) => [`--b${i}`, `Content-Type: multipart/mixed; boundary=b${i + 1}`, '']
  )
  const deep = splitMessage(
    Buffer.from(lines(...HEAD, 'Content-Type: multipart/mixed; boundary=b0', '', ...nested.flat(), 'end'))
  )!
  t.same(viewOf(deep), { html: null, text: null, alternatives: [] })
  const parts = Array.from({ length: 5000 }, () => ['--b', 'Content-Disposition: attachment; filename=a', '', 'x'])
    .flat()
  const wide = splitMessage(Buffer.from(lines(...HEAD, 'Content-Type: multipart/mixed; boundary=b', '', ...parts)))!
  t.equal((await attachmentsOf(wide)).length, 100)
  const long = ['--b', `Content-Type: text/html; x=${'a'.repeat(20_000)}`, '', LINK, '--b--']
  const unread = lines(...HEAD, 'Content-Type: multipart/mixed; boundary=b', '', ...long)
  t.ok((await composed(unread)).endsWith(lines(...long)), 'the header of a part, too')
  const lookalikes = splitMessage(
    Buffer.from(lines(...HEAD, 'Content-Type: multipart/mixed; boundary=b', '', '--bb'.repeat(500_000)))
  )!
  t.same(viewOf(lookalikes), { html: null, text: null, alternatives: [] })
})

t.test('the parts of a part are looked for in that part, not in all that comes after it', async t => {
  const empty = Array.from({ length: 400 }, (_, i) => ['--b', `Content-Type: multipart/mixed; boundary=c${i}`, '', 'x'])
  const body = [...empty.flat(), '--b', '', 'x'.repeat(1_000_000), '--b--']
  const message = splitMessage(
    Buffer.from(lines(...HEAD, 'Content-Type: multipart/mixed; boundary=b', '', ...body))
  )!
  const { indexOf } = Buffer.prototype
  t.teardown(() => void Object.assign(Buffer.prototype, { indexOf }))
  let searched = 0
  Object.assign(Buffer.prototype, {
    indexOf (this: Buffer, value: Buffer, from = 0) {
      const found = indexOf.call(this, value, from)
      searched += (found === -1 ? this.length : found) - from
      return found
    }
  })
  const { text } = viewOf(message)
  t.equal(text, 'x'.repeat(1_000_000))
  t.ok(searched > 1_000_000 && searched < 3_000_000, `${searched} bytes were looked at`)
})
