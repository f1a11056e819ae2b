import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, verify, type KeyObject } from 'node:crypto'
import t from 'tap'
import { firstKeys } from '#streams/domain/keys.ts'
import type { DomainEntry } from '#streams/directory.ts'
import { NO_DEFAULTS } from '#streams/email/defaults.ts'
import { newDkimKeys } from '#src/actions/domain.ts'
import { openDkimSigners } from '#src/actions/composer.ts'
import { createVault, type Vault } from '#src/base/secret.ts'
import { relaxedBody, relaxedField, signatureOf, signMessage, type DkimSigner } from '#src/content/dkim.ts'

const body = (text: string) => relaxedBody(Buffer.from(text, 'latin1')).toString('latin1')

t.test('a header is made canonical as in RFC 6376 3.4.5', async t => {
  t.equal(relaxedField('A: X'), 'a:X')
  t.equal(relaxedField('B : Y\t\r\n\tZ  '), 'b:Y Z')
  t.equal(relaxedField('SUBJect: '), 'subject:')
  t.equal(relaxedField('Subject:\r\n a:  b\r\n \r\n\tc '), 'subject:a: b c', 'only the first colon parts them')
  t.equal(relaxedField('To: \xa0\x85 x \xa0'), 'to:\xa0\x85 x \xa0', 'bytes of UTF-8 are no white space')
})

t.test('a body is made canonical as in RFC 6376 3.4.5', async t => {
  t.equal(body(' C \r\nD \t E\r\n\r\n\r\n'), ' C\r\nD E\r\n')
  for (const nothing of ['', '\r\n', '\r\n\r\n', ' ', '\t \r\n \r\n']) {
    t.equal(body(nothing), '', JSON.stringify(nothing))
  }
  for (
    const [from, to] of [
      ['a', 'a\r\n'],
      ['a\tb', 'a b\r\n'],
      ['\r\na\r\n', '\r\na\r\n'],
      ['a\r\n\r\n b', 'a\r\n\r\n b\r\n'],
      ['a  \r\n.\r\n', 'a\r\n.\r\n'],
      ['a \r', 'a \r\r\n'],
      ['\t\ta  ', ' a\r\n']
    ]
  ) {
    t.equal(body(from!), to)
  }
  t.equal(
    createHash('sha256').update(relaxedBody(Buffer.alloc(0))).digest('base64'),
    '47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=',
    'of nothing'
  )
})

/** RFC 8463 A.2 and A.3. */
const ED25519_PRIVATE = 'nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A='
const ED25519_PUBLIC = '11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo='
const RSA_PUBLIC =
  'MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDkHlOQoBTzWRiGs5V6NpP3idY6Wk08a5qhdR6wy5bdOKb2jLQiY/J16JYi0Q' +
  'vx/byYzCNb3W91y3FutAC' +
  'DfzwQ/BC/e/8uBsCR+yz1Lxj+PL6lHvqMKrM3rG4hstT5QjvHO9PzoxZyVYLzBfO2EeC3Ip3G+2kryOTIKT+l/K4w3QIDAQAB'
const SAMPLE_FIELDS = [
  'From: Joe SixPack <joe@football.example.com>',
  'To: Suzie Q <suzie@shopping.example.net>',
  'Subject: Is dinner ready?',
  'Date: Fri, 11 Jul 2003 21:00:37 -0700 (PDT)',
  'Message-ID: <20030712040037.46341.5F8J@football.example.com>'
]
const SAMPLE_BODY = 'Hi.\r\n\r\nWe lost the game.  Are you hungry yet?\r\n\r\nJoe.\r\n'
const ED25519_FIELD =
  'DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed/relaxed;\r\n d=football.example.com; i=@football.example.com;\r\n' +
  ' q=dns/txt; s=brisbane; t=1528637909; h=from : to :\r\n subject : date : message-id : from : subject : date;\r\n' +
  ' bh=2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=;\r\n b='
const ED25519_SIGNATURE = '/gCrinpcQOoIfuHNQIbq4pgh9kyIK3AQUdt9OdqQehSwhEIug4D11BusFa3bT3FY5OsU7ZbnKELq+eXdp1Q1Dw=='
const RSA_FIELD =
  'DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed;\r\n d=football.example.com; i=@football.example.com;\r\n' +
  ' q=dns/txt; s=test; t=1528637909; h=from : to : subject :\r\n date : message-id : from : subject : date;\r\n' +
  ' bh=2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=;\r\n b='
const RSA_SIGNATURE =
  'F45dVWDfMbQDGHJFlXUNB2HKfbCeLRyhDXgFpEL8GwpsRe0IeIixNTe3DhCVlUrSjV4BwcVcOF6+FF3Zo9Rpo1tFOeS9mPYQTnGdaSGsgeefOsk2Jz' +
  'dA+L10TeYt9BgDfQNZtKdN1WO//KgIqXP7OdEFE4LjFYNcUxZQ4FADY+8='

const ed25519Key = createPrivateKey({
  key: Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), Buffer.from(ED25519_PRIVATE, 'base64')]),
  format: 'der',
  type: 'pkcs8'
})

t.test('the sample of RFC 8463 A.3: body hash, same Ed25519 signature, RSA signature verified', async t => {
  const signedText = (field: string) => [...SAMPLE_FIELDS.map(relaxedField), relaxedField(field)].join('\r\n')
  t.equal(
    createHash('sha256').update(relaxedBody(Buffer.from(SAMPLE_BODY))).digest('base64'),
    '2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8='
  )
  t.equal(
    createPublicKey(ed25519Key).export({ format: 'der', type: 'spki' }).subarray(-32).toString('base64'),
    ED25519_PUBLIC
  )
  t.equal(
    await signatureOf({ algorithm: 'ed25519-sha256', key: ed25519Key }, signedText(ED25519_FIELD)),
    ED25519_SIGNATURE
  )
  const rsa = createPublicKey({ key: Buffer.from(RSA_PUBLIC, 'base64'), format: 'der', type: 'spki' })
  t.ok(verify('sha256', Buffer.from(signedText(RSA_FIELD)), rsa, Buffer.from(RSA_SIGNATURE, 'base64')))
})

const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
const signerOf = (algorithm: DkimSigner['algorithm'], key: KeyObject, selector: string): DkimSigner => ({
  domain: 'example.com',
  selector,
  algorithm,
  key
})
const both = [signerOf('rsa-sha256', rsa.privateKey, 'r1'), signerOf('ed25519-sha256', ed25519Key, 'e1')]
const MESSAGE = Buffer.from(
  [...SAMPLE_FIELDS, 'Cc: a@example.net', 'X-Own: 1', 'MIME-Version: 1.0', 'Content-Type: text/plain', '', SAMPLE_BODY]
    .join('\r\n')
)
const tagOf = (text: string, name: string) =>
  new RegExp(`[ ;]${name}=([^;]*)`).exec(text.replaceAll(/\r\n[ \t]/g, ' '))![1]!.replaceAll(' ', '')

t.test('signatures stand on top, one a signer, in their order, and the message below is untouched', async t => {
  const signed = await signMessage(MESSAGE, both, 1_763_700_000)
  t.ok(signed.subarray(-MESSAGE.length).equals(MESSAGE))
  const fields = signed.subarray(0, -MESSAGE.length).toString().trimEnd().split(/\r\n(?![ \t])/)
  t.equal(fields.length, 2)
  t.match(fields[0], /^DKIM-Signature: v=1; a=rsa-sha256; c=relaxed\/relaxed; d=example\.com; s=r1;/)
  t.match(
    fields[1],
    /^DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed\/relaxed; d=example\.com;\r\n s=e1; t=1763700000;/
  )
  for (const field of fields) {
    t.notMatch(field, /\b[lxiz]=/, 'the whole body, and for good')
    t.equal(tagOf(field, 'bh'), '2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=')
    t.equal(
      tagOf(field, 'h'),
      'From:From:To:To:Cc:Cc:Subject:Subject:Date:Date:Reply-To:Sender:Content-Type:Content-Type:List' +
        '-Unsubscribe:List-Unsubscribe-Post:Message-ID:MIME-Version'
    )
  }
  t.equal(await signMessage(MESSAGE, [], 0), MESSAGE, 'without signers it is the very message')
  t.ok((await signMessage(MESSAGE, both, 1_763_700_000)).equals(signed), 'the same again')
  t.notOk((await signMessage(MESSAGE, both, 1_763_700_001)).equals(signed))
})

t.test('no line is over 76 characters, however many fields there are', async t => {
  for (let count = 0; count < 40; count++) {
    const fields = Array.from(
      { length: count },
      (_, i) => `${['References', 'List-Id', 'Feedback-ID', 'List-Unsubscribe-Post'][i % 4]}: ${i}\r\n`
    )
    const signers = both.map(signer => ({
      ...signer,
      domain: `${'d'.repeat(count)}.example`,
      selector: `s${'x'.repeat(count)}`
    }))
    const message = Buffer.concat([Buffer.from(fields.join('')), MESSAGE])
    const signed = (await signMessage(message, signers, 1_763_700_000)).subarray(0, -MESSAGE.length).toString()
    t.ok(signed.split('\r\n').every(line => line.length <= 76 && !/^\s+$/.test(line)), `${count}`)
  }
})

const SECRET = 'a-secret-for-tests-with-at-least-32-characters'
const domainOf = async (vault: Vault, name: string): Promise<DomainEntry> => ({
  id: `dom_${name}`,
  account: 'acc_1',
  name,
  dkim: firstKeys(await newDkimKeys(vault, `dom_${name}`, 0)),
  defaults: NO_DEFAULTS,
  status: 'pending',
  records: [],
  spf: null,
  failingSince: null,
  checkedAt: null,
  createdAt: '2026-11-21T00:00:00.000Z'
})

t.test('new keys are a pair whose private halves are sealed and fit the public ones', async t => {
  const vault = createVault(SECRET)
  const domain = await domainOf(vault, 'a.example')
  const signers = openDkimSigners(vault)(domain)
  t.match(signers, [
    { domain: 'a.example', selector: /^jp19700101[0-9a-f]{6}-rsa$/, algorithm: 'rsa-sha256' },
    { domain: 'a.example', selector: /^jp19700101[0-9a-f]{6}-ed25519$/, algorithm: 'ed25519-sha256' }
  ])
  const [first, second] = signers.map(({ key }) =>
    createPublicKey(key as unknown as string).export({ type: 'spki', format: 'der' })
  )
  t.equal(first!.toString('base64'), domain.dkim.active[0]!.publicKey)
  t.equal(second!.subarray(-32).toString('base64'), domain.dkim.active[1]!.publicKey)
  t.equal(signers[0]!.key.asymmetricKeyDetails?.modulusLength, 2048)
  t.notMatch(JSON.stringify(domain), 'PRIVATE')
})

t.test('keys are opened once, those used last are kept, and only with the secret that sealed them', async t => {
  const vault = createVault(SECRET)
  let opened = 0
  const counting: Vault = {
    ...vault,
    open: (sealed, context) => {
      opened++
      return vault.open(sealed, context)
    }
  }
  const signersOf = openDkimSigners(counting, 4)
  const [a, b, c] = await Promise.all(['a.example', 'b.example', 'c.example'].map(name => domainOf(vault, name)))
  const opens = (domain: DomainEntry) => {
    const before = opened
    signersOf(domain)
    return opened - before
  }
  t.same([a!, b!, a!, b!].map(opens), [2, 2, 0, 0])
  t.same([a!, c!, a!, b!].map(opens), [0, 2, 0, 2], 'b was used longest ago')
  t.equal(signersOf(a!)[0]!.key, signersOf(a!)[0]!.key)
  t.throws(() => openDkimSigners(createVault(`${SECRET}!`))(a!))
})
