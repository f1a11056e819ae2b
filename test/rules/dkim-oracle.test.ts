import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import fc from 'fast-check'
import { dkimVerify } from 'mailauth/lib/dkim/verify.js'
import t from 'tap'
import { signMessage, type DkimSigner } from '#src/content/dkim.ts'
import { composeMessage, type MimeMessage } from '#src/content/mime.ts'
import { LONG } from '../support/long.ts'

const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
const ed25519 = generateKeyPairSync('ed25519')
const spki = (pair: typeof rsa) => pair.publicKey.export({ type: 'spki', format: 'der' })
const ZONE: Record<string, string> = {
  'r1._domainkey.example.com': `v=DKIM1; k=rsa; p=${spki(rsa).toString('base64')}`,
  'e1._domainkey.example.com': `v=DKIM1; k=ed25519; p=${spki(ed25519).subarray(-32).toString('base64')}`
}
const signers: DkimSigner[] = [
  { domain: 'example.com', selector: 'r1', algorithm: 'rsa-sha256', key: rsa.privateKey },
  { domain: 'example.com', selector: 'e1', algorithm: 'ed25519-sha256', key: ed25519.privateKey }
]

/** What mailauth makes of the signatures, in their order: `pass`, or another word. */
async function verdicts (message: Buffer): Promise<string[]> {
  const resolver = async (name: string) => [[ZONE[name]!]]
  const { results } = await dkimVerify(message, { resolver } as Parameters<typeof dkimVerify>[1])
  return results.map(({ status }) => status.result)
}

const sign = (message: Buffer) => signMessage(message, signers, 1_763_700_000)
const PASS = ['pass', 'pass']

/** Text of characters that a signer may stumble over. */
const anyText = (lengthMax: number) =>
  fc.array(
    fc.constantFrom(
      ...'abcXYZ019',
      ' ',
      '  ',
      '\t',
      ' \t ',
      'ä',
      '日本',
      '👋🏽',
      '.',
      '..',
      '=',
      ':',
      ';',
      'x'.repeat(60)
    ),
    { maxLength: lengthMax }
  ).map(parts => parts.join(''))
const anyLines = fc.array(fc.tuple(anyText(12), fc.constantFrom('', '', ' ', '\t', ' \t')), { maxLength: 12 }).map(
  lines => lines.map(parts => parts.join('')).join('\r\n')
)
const anyName = anyText(20).map(name => name.trim() || null)

const anyComposed = fc.record<MimeMessage>({
  messageId: fc.constant('<em_1.0@example.com>'),
  date: fc.constant('2026-11-21T06:20:00.000Z'),
  from: fc.record({ address: fc.constantFrom('shop@example.com', 'bücher@example.com'), name: anyName }),
  recipients: fc.array(
    fc.record({
      address: fc.constantFrom('ada@example.net', 'ünal@example.net'),
      name: anyName,
      kind: fc.constantFrom('to' as const, 'cc' as const, 'bcc' as const)
    }),
    { minLength: 1, maxLength: 20 }
  ),
  replyTo: fc.array(fc.record({ address: fc.constant('answers@example.com'), name: anyName }), { maxLength: 2 }),
  subject: anyText(60).map(text => text.replaceAll('\t', ' ')),
  headers: fc.array(
    fc.record({
      name: fc.constantFrom(
        'X-Own',
        'List-Id',
        'List-Unsubscribe',
        'List-Unsubscribe-Post',
        'Feedback-ID',
        'References',
        'Sender'
      ),
      value: anyText(80).map(text => `x${text}`)
    }),
    { maxLength: 8 }
  ),
  html: fc.option(anyLines),
  text: fc.option(anyLines),
  attachments: fc.constant([]),
  utf8: fc.boolean()
}).map(composeMessage)

/** White space anywhere a relay might have put it, names in any case, fields of one name more than once, and any end.
 */
const anyField = fc.record({
  name: fc.constantFrom(
    'From',
    'TO',
    'Cc',
    'subject',
    'Received',
    'References',
    'LIST-ID',
    'X-Own',
    'Message-ID',
    'Content-Type'
  ),
  colon: fc.constantFrom(':', ' :', ': ', '\t: '),
  value: fc.array(fc.constantFrom('a', 'b c', '  ', '\t', '\r\n ', '\r\n\t', 'é', ' \r\n  x', 'x'.repeat(90)), {
    maxLength: 12
  }).map(parts => `x${parts.join('')}x`)
}).map(({ name, colon, value }) => `${name}${colon}${value}`)
const anyRaw: fc.Arbitrary<Buffer> = fc.tuple(
  fc.array(anyField, { maxLength: 12 }),
  anyLines,
  fc.constantFrom('', '\r\n', '\r\n\r\n\r\n', ' \r\n\t\r\n')
)
  .map(([fields, lines, end]) => Buffer.from(['From: shop@example.com', ...fields, '', lines].join('\r\n') + end))

const OPTIONS = { seed: 20261121, numRuns: LONG ? 4000 : 200 }

t.test('whatever is composed and signed, another verifier passes both signatures', { timeout: 600_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(anyComposed, async message => assert.deepEqual(await verdicts(await sign(message)), PASS)),
    OPTIONS
  )
})

t.test('so it does whatever white space there is', { timeout: 600_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(anyRaw, async message => assert.deepEqual(await verdicts(await sign(message)), PASS)),
    OPTIONS
  )
})

t.test('what relays do to white space on the way breaks nothing', { timeout: 600_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(anyComposed, async message => {
      const text = (await sign(message)).toString('latin1')
      const end = text.indexOf('\r\n\r\n')
      const head = text.slice(0, end).replaceAll('\r\n ', '\r\n\t  ').replaceAll(/^(\w[\w-]*):/gm, '$1 : ')
      const body = text.slice(end).replaceAll(/(?<!\r\n)\r\n/g, ' \t\r\n').replaceAll(/(?<=\S) (?=\S)/g, ' \t ')
      assert.deepEqual(await verdicts(Buffer.from(`${head}${body}\r\n\r\n`, 'latin1')), PASS)
    }),
    { ...OPTIONS, numRuns: LONG ? 1000 : 50 }
  )
})

const PLAIN = Buffer.from([
  'From: shop@example.com',
  'To: ada@example.net',
  'Reply-To: a@example.com',
  'Subject: Hello',
  'Date: Sat, 21 Nov 2026 06:20:00 +0000',
  'Message-ID: <em_1.0@example.com>',
  'MIME-Version: 1.0',
  'List-Id: <news.example.com>',
  'List-Unsubscribe: <https://example.com/u/1>',
  'List-Unsubscribe-Post: List-Unsubscribe=One-Click',
  'Feedback-ID: a:b:c:jetpost',
  'X-Own: 1',
  'Content-Type: text/plain; charset=utf-8',
  'Content-Transfer-Encoding: quoted-printable',
  '',
  'Hello\r\n.\r\nAda\r\n'
].join('\r\n'))

t.test('any change to a signed field, its loss, or a second one breaks both', async t => {
  const signed = (await sign(PLAIN)).toString()
  t.same(await verdicts(Buffer.from(signed)), PASS)
  const broken = async (text: string, what: string) =>
    t.notOk((await verdicts(Buffer.from(text))).includes('pass'), what)
  const fields = PLAIN.toString().split('\r\n\r\n')[0]!.split('\r\n').filter(field => !field.startsWith('X-Own'))
  for (const field of fields) {
    const name = field.slice(0, field.indexOf(':'))
    await broken(signed.replace(`\r\n${field}\r\n`, `\r\n${field}x\r\n`), `${name} changed`)
    await broken(signed.replace(`\r\n${field}\r\n`, '\r\n'), `${name} gone`)
  }
  for (
    const name of [
      'From',
      'To',
      'Cc',
      'Subject',
      'Date',
      'Reply-To',
      'Sender',
      'Content-Type',
      'List-Unsubscribe',
      'List-Unsubscribe-Post'
    ]
  ) {
    const second = `${name}: List-Unsubscribe=One-Click`
    await broken(`${second}\r\n${signed}`, `another ${name} on top`)
    await broken(signed.replace('\r\nX-Own', `\r\n${second}\r\nX-Own`), `another ${name} below`)
  }
  t.same(await verdicts(Buffer.from(signed.replace('X-Own: 1', 'X-Own: 2'))), PASS, 'what is not signed may change')
  t.same(await verdicts(Buffer.from(`Received: from a by b\r\n${signed}`)), PASS, 'a trace on top does no harm')
})

t.test('any change to the body breaks both', async t => {
  const signed = await sign(PLAIN)
  const text = signed.toString()
  const changes: Array<[from: string, to: string]> = [
    ['\r\nAda', '\r\nEve'],
    ['Hello\r\n.', 'Hello\r\n..'],
    ['Hello\r\n.', 'Hello\r\n\r\n.'],
    ['\r\nAda\r\n', '\r\n'],
    ['\r\nAda\r\n', '\r\nAda\r\nmore\r\n'],
    ['\r\n\r\nHello', '\r\n\r\n Hello']
  ]
  for (const changed of changes.map(([from, to]) => text.replace(from, to))) {
    t.not(changed, text)
    t.notOk((await verdicts(Buffer.from(changed))).includes('pass'))
  }
  for (let i = text.indexOf('\r\n\r\n') + 4; i < signed.length - 2; i++) {
    const flipped = Buffer.from(signed)
    flipped[i]! ^= 0x40
    t.notOk((await verdicts(flipped)).includes('pass'), `byte ${i}`)
  }
})
