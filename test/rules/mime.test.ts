import t, { type Test } from 'tap'
import PostalMime from 'postal-mime'
import { composeMessage, type Message } from '#src/content/mime.ts'

const BASE: Message = {
  messageId: '<em_1.0@example.com>',
  date: '2026-11-21T06:20:00.000Z',
  from: { address: 'shop@example.com', name: null },
  recipients: [{ address: 'ada@example.net', name: null, kind: 'to' }],
  subject: 'Hello',
  html: '<p>Hello</p>',
  text: null
}

/** A small generator of numbers in [0, 1) that gives the same row for the same seed (mulberry32). */
function seeded (seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0
    let value = Math.imul(seed ^ (seed >>> 15), 1 | seed)
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value
    return ((value ^ (value >>> 14)) >>> 0) / 4294967296
  }
}

const ALPHABETS = ['abc XYZ 019', 'äöüß éè ñ', '日本語のテキスト', '👋🏽👨‍👩‍👧😀', '=?._-"\\,;:<>()@', '. ..\n.', ' \t', 'x'.repeat(40), '\r\n', '\n']

function randomText (random: () => number, lengthMax: number, single: boolean): string {
  let text = ''
  for (const length = random() * lengthMax; text.length < length;) {
    const chars = [...ALPHABETS[Math.floor(random() * ALPHABETS.length)]!]
    text += random() < 0.3 ? chars.join('') : chars[Math.floor(random() * chars.length)]!
  }
  return single ? text.replaceAll(/[\r\n\t]/g, ' ') : text
}

/** What no transport keeps: the kind of line end, and the last one. */
const lines = (text: string | undefined) => (text ?? '').replaceAll('\r\n', '\n').replace(/\n+$/, '')
const squeezed = (text: string | undefined) => (text ?? '').replaceAll(/\s+/g, ' ').trim()

function checkForm (t: Test, raw: Buffer): void {
  const text = raw.toString('latin1')
  const end = text.indexOf('\r\n\r\n')
  const faults = [
    /[^\r]\n|\r[^\n]/.test(text) && 'a bare CR or LF',
    text.slice(0, end).split('\r\n').some(line => line.length > 78) && 'a long header line',
    text.slice(0, end).split('\r\n').some(line => line.trim() === '') && 'an empty header line',
    (text.slice(0, end).match(/=\?[^\s]*\?=/g) ?? []).some(word => word.length > 75) && 'a long encoded-word',
    text.slice(end).split('\r\n').some(line => line.length > 76) && 'a long body line',
    /[^\x20-\x7e\r\n\t]/.test(text) && 'an 8-bit or control character',
    / \r\n/.test(text.slice(end)) && 'white space at the end of a line'
  ].filter(fault => fault !== false)
  t.same(faults, [])
}

t.test('whatever goes in comes out of another parser the same', async t => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = seeded(seed)
    const subject = randomText(random, 200, true)
    const name = randomText(random, 120, true).trim()
    const html = random() < 0.8 ? randomText(random, 3000, false) : null
    const text = html === null || random() < 0.6 ? randomText(random, 2000, false) : null
    const raw = composeMessage({
      ...BASE, subject, html, text,
      from: { address: 'shop@example.com', name: name === '' ? null : name },
      recipients: Array.from({ length: Math.ceil(random() * 6) }, (_, i) => {
        return { address: `r${i}@example.net`, name: random() < 0.5 ? null : name || null, kind: i < 3 ? 'to' : 'cc' }
      })
    })
    const parsed = await PostalMime.parse(raw)
    checkForm(t, raw)
    t.equal(squeezed(parsed.subject), squeezed(subject), `subject, seed ${seed}`)
    t.equal(squeezed(parsed.from?.name), squeezed(name), `from, seed ${seed}`)
    t.equal(parsed.from?.address, 'shop@example.com')
    if (html !== null && html !== '') t.equal(lines(parsed.html), lines(html.replaceAll(/\r\n|\r/g, '\n')), `html, seed ${seed}`)
    if (text !== null && text !== '') t.equal(lines(parsed.text), lines(text.replaceAll(/\r\n|\r/g, '\n')), `text, seed ${seed}`)
  }
})

t.test('the same input makes the same bytes, and the boundary is in no body', async t => {
  const message = { ...BASE, text: '--=_ =_ trap', html: '<p>--=_</p>' }
  t.same(composeMessage(message), composeMessage(message))
  const boundary = /boundary="(.*)"/.exec(composeMessage(message).toString())![1]!
  t.equal(composeMessage(message).toString().split(`--${boundary}`).length, 4)
  t.ok(boundary.length <= 70)
})

t.test('text comes before html', async t => {
  const raw = composeMessage({ ...BASE, text: 'first' }).toString()
  t.ok(raw.indexOf('text/plain') < raw.indexOf('text/html'))
})

t.test('no value starts a header of its own', async t => {
  const evil = 'x\r\nBcc: victim@example.org\r\n\r\nbody\0'
  const raw = composeMessage({
    ...BASE, subject: evil, from: { address: 'shop@example.com', name: evil }, recipients: [{ address: 'ada@example.net', name: evil, kind: 'to' }]
  })
  const { headers } = await PostalMime.parse(raw)
  t.same(headers.map(({ key }) => key), ['from', 'to', 'subject', 'date', 'message-id', 'mime-version', 'content-type', 'content-transfer-encoding'])
})

t.test('bcc stands nowhere', async t => {
  const bcc = { address: 'hidden@example.net', name: null, kind: 'bcc' as const }
  t.notMatch(composeMessage({ ...BASE, recipients: [...BASE.recipients, bcc] }).toString(), 'hidden')
  t.match(composeMessage({ ...BASE, recipients: [bcc] }).toString(), /^To: undisclosed-recipients:;\r$/m)
})

t.test('an address beyond ASCII stands raw, and only then has the message 8-bit bytes', async t => {
  const raw = composeMessage({ ...BASE, utf8: true, recipients: [{ address: 'jörg@xn--mnchen-3ya.example', name: 'Jörg', kind: 'to' }] })
  t.match(raw.toString(), '<jörg@xn--mnchen-3ya.example>')
  t.notMatch(raw.toString().replaceAll('jörg@', ''), /\P{ASCII}/u)
})

t.test('without leave for UTF-8 an address beyond ASCII is shown as an empty group, and stands in no one\'s way', async t => {
  const other = (local: string) => ({ address: `${local}@xn--mnchen-3ya.example`, name: 'Jörg', kind: 'to' as const })
  const raw = composeMessage({ ...BASE, recipients: [other('jörg'), ...BASE.recipients, other('ü'.repeat(32)), other('ä')] })
  checkForm(t, raw)
  const { to } = await PostalMime.parse(raw)
  const group = (local: string) => ({ name: `${local}@xn--mnchen-3ya.example`, group: [] })
  t.match(to, [group('jörg'), { address: 'ada@example.net' }, group('ü'.repeat(32)), group('ä')])
  t.equal(to?.length, 4)
})

t.test('dates are RFC 5322', async t => {
  t.match(composeMessage(BASE).toString(), /^Date: Sat, 21 Nov 2026 06:20:00 \+0000\r$/m)
})
