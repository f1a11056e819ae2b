import fc from 'fast-check'
import t from 'tap'
import { isNameUnquoted, parseAddress, parseDomain, parseMailbox } from '#streams/address.ts'

t.test('an address is normalised: domain in lower-case A-labels, local part as given', async t => {
  t.equal(parseAddress('Ada@EXAMPLE.com'), 'Ada@example.com')
  t.equal(parseAddress('ada+tag@bücher.example'), 'ada+tag@xn--bcher-kva.example')
  t.equal(parseAddress('用户@例え.jp'), '用户@xn--r8jz45g.jp')
})

t.test('what is no address is refused', async t => {
  for (
    const text of [
      '',
      '@',
      'a',
      'erased@erased.invalid',
      'Erased@erased.invalid',
      'a@',
      '@b.c',
      'a@b',
      'a b@c.de',
      'a@b c.de',
      'a..b@c.de',
      '.a@c.de',
      'a.@c.de',
      'a@-b.de',
      'a@b-.de',
      'a@b..de',
      'a@[127.0.0.1]',
      'a@127.0.0.1',
      '"a b"@c.de',
      'a@b.de\r\nBcc: x@y.z',
      'a@b.de\0',
      'a,b@c.de',
      'a@b@c.de',
      `${'a'.repeat(65)}@b.de`,
      `a@${'b'.repeat(64)}.de`,
      `a@${'b.'.repeat(127)}de`,
      'a@b.123',
      'a@b%2ede.com',
      '\ud800@b.de'
    ]
  ) t.equal(parseAddress(text), null, JSON.stringify(text))
})

t.test('a local part of 64 octets is the longest', async t => {
  t.ok(parseAddress(`${'a'.repeat(64)}@b.de`))
  t.equal(parseAddress(`${'é'.repeat(33)}@b.de`), null)
})

t.test('a mailbox may have a name', async t => {
  t.equal(parseMailbox(`a${' '.repeat(900)}a`), null)
  t.equal(parseMailbox('<<a@example.com>'), null)
  t.equal(parseMailbox('"a" b <a@example.com>'), null)
  t.strictSame(parseMailbox('ada@example.com'), { address: 'ada@example.com', name: null })
  t.strictSame(parseMailbox('Ada Lovelace <ada@example.com>'), { address: 'ada@example.com', name: 'Ada Lovelace' })
  t.strictSame(parseMailbox('"Lovelace, \\"Ada\\"" <ada@example.com>'), {
    address: 'ada@example.com',
    name: 'Lovelace, "Ada"'
  })
  t.strictSame(parseMailbox('<ada@example.com>'), { address: 'ada@example.com', name: null })
  for (
    const text of ['Ada', 'Ada <ada@example.com', 'A <a@b.de> B', 'a@b.de, c@d.de', 'A\n <a@b.de>', 'A <<a@b.de>>']
  ) t.equal(parseMailbox(text), null, text)
})

t.test('a name that must be quoted and is not is told from what is no address', async t => {
  const wrong = [
    'Jürgen "J" <j@example.com>',
    'Ada "A" Byron <ada@example.com>',
    'A <B> <a@b.de>',
    '"A <a@b.de>',
    'A> <a@b.de>'
  ]
  for (const text of wrong) t.ok(isNameUnquoted(text), text)
  const right = ['"Jürgen \\"J\\"" <j@example.com>', 'Ada <ada@example.com>', '<a@b.de>', 'a@b.de']
  for (const text of right) t.notOk(isNameUnquoted(text), text)
  for (const text of ['', '<', 'Ada', '"A" B <ada>', 'A "B" <a@b.de', 'A "B"\n <a@b.de>']) {
    t.notOk(isNameUnquoted(text), text)
  }
})

t.test('a domain has two labels or more and no tricks', async t => {
  t.equal(parseDomain('Example.COM'), 'example.com')
  for (
    const text of [
      'localhost',
      'a_b.de',
      'a.b.',
      '1.2.3.4',
      '0x7f.1',
      'ex ample.com',
      'example.com:80',
      'a@b.de',
      'example.com/x'
    ]
  ) t.equal(parseDomain(text), null, text)
})

/** RFC 5322 3.2.3, and all beyond ASCII that is neither space nor control (RFC 6531 3.3). */
const ATEXT = [..."abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-/=?^_`{|}~"]
const atom = fc.string({ unit: fc.constantFrom(...ATEXT, 'é', 'ß', 'я', '用', '🎉'), minLength: 1, maxLength: 12 })
const dotAtom = fc.array(atom, { minLength: 1, maxLength: 4 }).map(atoms => atoms.join('.')).filter(text =>
  Buffer.byteLength(text) <= 64
)
const label = fc.stringMatching(/^[a-z]([a-z0-9-]{0,10}[a-z0-9])?$/).filter(text => text.slice(2, 4) !== '--')
const domain = fc.array(label, { minLength: 2, maxLength: 5 }).map(labels => labels.join('.'))

t.test('RFC 5322 3.2.3, 6531 3.3: every dot-atom at every host name is an address, and stays as it is', async t => {
  for (const char of ATEXT) t.equal(parseAddress(`${char}@example.com`), `${char}@example.com`)
  fc.assert(
    fc.property(dotAtom, domain, (local, host) => t.equal(parseAddress(`${local}@${host}`), `${local}@${host}`)),
    { numRuns: 300 }
  )
})

t.test('RFC 5321 4.1.2: no other character anywhere, and no dot without an atom on both sides', async t => {
  const others = [
    ...Array.from({ length: 128 }, (_, code) => String.fromCharCode(code)).filter(char =>
      !ATEXT.includes(char) && char !== '.' && char !== '@'
    ),
    '\u0085',
    '\u00a0',
    '\u200b',
    '\u2028',
    '\u3000',
    '\ufeff',
    '\ud800',
    '\ue000'
  ]
  const taken = others.flatMap(
    char => [
      `${char}a@example.com`,
      `a${char}b@example.com`,
      `a${char}@example.com`,
      `a@ex${char}ample.com`,
      `a@example.com${char}`
    ]
  )
    .filter(text => parseAddress(text) !== null)
  t.strictSame(taken, [])
  fc.assert(
    fc.property(dotAtom, domain, (local, host) => {
      const texts = [
        `.${local}@${host}`,
        `${local}.@${host}`,
        `${local}..a@${host}`,
        `${local}@.${host}`,
        `${local}@${host}.`,
        `${local}@${host.replace('.', '..')}`,
        `${local}${host}`
      ]
      t.strictSame(texts.filter(text => parseAddress(text) !== null), [])
    }),
    { numRuns: 50 }
  )
})

t.test('RFC 5321 4.5.3.1: 64 octets, 254 octets; RFC 1035 2.3.4: labels of 63', async t => {
  const host = (octets: number) =>
    `${Array.from({ length: 4 }, () => 'd'.repeat(60)).join('.')}.`.slice(0, octets - 3) + '.de'
  t.ok(parseAddress(`a@${'b'.repeat(63)}.de`))
  t.equal(parseAddress(`a@${'b'.repeat(64)}.de`), null)
  for (const [local, octets, ok] of [[64, 189, true], [64, 190, false], [1, 240, true], [65, 20, false]] as const) {
    t.equal(parseAddress(`${'a'.repeat(local)}@${host(octets)}`) !== null, ok, `${local} and ${octets}`)
  }
  t.equal(parseAddress(`a@${'ü'.repeat(60)}.de`), null, 'its A-label is too long')
})

t.test('RFC 5890: a domain in U-labels is the same as in A-labels; what is no label at all is refused', async t => {
  t.equal(parseAddress('a@BÜCHER.example'), parseAddress('a@xn--bcher-kva.example'))
  t.equal(parseAddress('a@bu\u0308cher.example'), 'a@xn--bcher-kva.example')
  for (
    const text of [
      'a@xn--a-ecp.ru\u0000',
      'a@xn--\u00fc.de',
      'a@ex_ample.com',
      'a@ex\u3002ample\u3002com',
      'a@example.c0m.1',
      'a@１２７.０.０.１',
      'a@[IPv6:::1]',
      '"quoted"@example.com',
      'a(comment)@example.com'
    ]
  ) {
    t.equal(parseAddress(text), null, text)
  }
})
