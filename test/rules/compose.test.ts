import t from 'tap'
import { composeFor, type Outfit } from '#src/content/compose.ts'
import { createTokens } from '#src/content/token.ts'
import { newId } from '#src/base/id.ts'
import { PLAIN } from '../support/facts.ts'
import { readMessage } from '../support/mime-reader.ts'

const tokens = createTokens('a-secret-for-tests-with-at-least-32-characters')
const OUTFIT: Outfit = {
  tokens,
  trackingUrl: 'https://t.example',
  returnPathHost: 'jp-bounces.example.com',
  signers: []
}
const COPY = { messageId: '<1@example.com>', date: '2026-11-21T10:00:00.000Z' }
const EMAIL = newId('em', Date.parse(COPY.date))
const POINTER = { email: EMAIL, n: 0, request: 9 }
const HTML = '<html><body><p>Hi <a href="https://shop.example/?a=1&amp;b=2">shop</a> <a ' +
  'href="%unsubscribe_url%">bye</a></p></body></html>'

const REQUEST = {
  ...PLAIN,
  email: EMAIL,
  key: 'key_1',
  test: false,
  from: { address: 'news@example.com', name: null },
  recipients: [{ address: 'ada@example.net', name: null, kind: 'to' as const }, {
    address: 'bob@example.net',
    name: null,
    kind: 'to' as const
  }],
  subject: 'Hello',
  headers: [] as Array<{ name: string, value: string }>,
  content: null,
  tags: [],
  metadata: {},
  expiresAt: COPY.date,
  onDoubt: 'retry' as const
}

async function read (
  request: Partial<typeof REQUEST> = {},
  content: { html?: string | null, text?: string | null } = {},
  outfit: Partial<Outfit> = {},
  n = 0
) {
  const composed = await composeFor(
    { ...REQUEST, ...request },
    { ...POINTER, n },
    { html: HTML, text: null, files: [], ...content },
    COPY,
    { ...OUTFIT, ...outfit }
  )
  const message = readMessage(composed.message)
  const part = (type: string) => [message, ...message.parts].find(part => part.type === type)?.body.toString() ?? null
  const header = (name: string) => message.headers.find(header => header.name === name)?.value ?? null
  return { ...composed, message, html: part('text/html'), text: part('text/plain'), header }
}

t.test('without an address that readers reach there is no link: neither tracking nor a page, mail alone', async t => {
  const { html, header } = await read({ track: { opens: true, clicks: true } }, {}, { trackingUrl: null })
  t.match(html, '<a href="https://shop.example/?a=1&amp;b=2">shop</a>')
  t.notMatch(html, /null|%unsubscribe_url%|<img/)
  t.match(header('List-Unsubscribe'), /^<mailto:u\+\w+@jp-bounces\.example\.com\?subject=unsubscribe>$/)
  t.equal(header('List-Unsubscribe-Post'), null)
  t.equal((await read({}, {}, { trackingUrl: null, returnPathHost: null })).header('List-Unsubscribe'), null)
})

t.test('every way back names the recipient, and nobody else could have made it', async t => {
  const { from, header, html } = await read()
  t.same(tokens.read('return', /^b\+(\w+)@jp-bounces\.example\.com$/.exec(from)![1]!), POINTER)
  const [, page, mail] =
    /^<https:\/\/t\.example\/u\/(\w+)>, <mailto:u\+(\w+)@jp-bounces\.example\.com\?subject=unsubscribe>$/.exec(
      header('List-Unsubscribe')!
    )!
  t.same(tokens.read('unsubscribe', page!), POINTER)
  t.equal(mail, page)
  t.equal(header('List-Unsubscribe-Post'), 'List-Unsubscribe=One-Click')
  t.equal(header('CFBL-Address'), 'fbl@jp-bounces.example.com; report=arf')
  t.same(tokens.read('return', header('CFBL-Feedback-ID')!), POINTER)
  t.equal(header('Feedback-ID'), 'key_1:jetpost')
  t.same(tokens.read('open', /src="https:\/\/t\.example\/o\/(\w+)\.gif"/.exec(html!)![1]!), POINTER)
  t.same(tokens.readClick(/href="https:\/\/t\.example\/c\/([\w-]+)"/.exec(html!)![1]!), {
    pointer: POINTER,
    url: 'https://shop.example/?a=1&b=2'
  })
  t.match(html, `<a href="https://t.example/u/${page}">bye</a>`, 'the page of our own is not tracked')
  t.not((await read({}, {}, {}, 1)).from, from)
})

t.test('without a return path host bounces go to the sender, and nothing names a host there is not', async t => {
  const { from, header } = await read({}, {}, { returnPathHost: null })
  t.equal(from, 'news@example.com')
  t.match(header('List-Unsubscribe'), /^<https:\/\/t\.example\/u\/\w+>$/)
  t.equal(header('CFBL-Address'), null)
})

t.test('an address beyond ASCII in the envelope or in From asks for SMTPUTF8, another recipient does not', async t => {
  const from = { address: 'jürgen@example.com', name: null }
  t.equal((await read({ from })).utf8, true, 'the return path is another address, and From has it still')
  const recipients = [REQUEST.recipients[0]!, { ...REQUEST.recipients[1]!, address: 'bøb@example.net' }]
  const both = await Promise.all([0, 1].map(async n => await read({ recipients }, {}, {}, n)))
  t.strictSame(both.map(({ utf8 }) => utf8), [false, true])
})

t.test('what the sender turned off stays out', async t => {
  const plain = await read({ track: { opens: false, clicks: false }, unsubscribe: false })
  t.equal(plain.html, HTML.replace('%unsubscribe_url%', ''), 'not a byte changed')
  t.equal(plain.header('List-Unsubscribe'), null)
  t.equal(plain.header('List-Unsubscribe-Post'), null)
  t.match((await read({ track: { opens: false, clicks: true } })).html, /\/c\//)
  t.notMatch((await read({ track: { opens: false, clicks: true } })).html, /\/o\//)
  t.notMatch((await read({ track: { opens: true, clicks: false } })).html, /\/c\//)
  const own = await read({
    unsubscribe: false,
    headers: [{ name: 'List-Unsubscribe', value: '<https://own.example/>' }, { name: 'Feedback-ID', value: 'a:b' }]
  })
  t.equal(own.header('List-Unsubscribe'), '<https://own.example/>')
  t.equal(own.message.headers.filter(({ name }) => name === 'Feedback-ID').length, 1)
})

t.test('html without a text gets one, made from what the sender wrote', async t => {
  const { text, message } = await read()
  t.equal(message.type, 'multipart/alternative')
  t.match(text, 'https://shop.example/?a=1&b=2')
  t.notMatch(text, 't.example/c/')
  t.equal((await read({}, { text: 'My own %unsubscribe_url%' })).text!.startsWith('My own https://t.example/u/'), true)
  t.equal((await read({}, { html: '<img src="x">' })).message.type, 'text/html', 'there is nothing to say in it')
  t.equal((await read({}, { html: null, text: 'Hi' })).message.type, 'text/plain')
})

t.test('the same input makes the same bytes', async t => {
  t.same((await read()).message, (await read()).message)
})
