import t from 'tap'
import { parseAddress, parseDomain, parseMailbox } from '#streams/address.ts'

t.test('an address is normalised: domain in lower-case A-labels, local part as given', async t => {
  t.equal(parseAddress('Ada@EXAMPLE.com'), 'Ada@example.com')
  t.equal(parseAddress('ada+tag@bücher.example'), 'ada+tag@xn--bcher-kva.example')
  t.equal(parseAddress('用户@例え.jp'), '用户@xn--r8jz45g.jp')
})

t.test('what is no address is refused', async t => {
  for (const text of [
    '', '@', 'a', 'a@', '@b.c', 'a@b', 'a b@c.de', 'a@b c.de', 'a..b@c.de', '.a@c.de', 'a.@c.de', 'a@-b.de', 'a@b-.de', 'a@b..de', 'a@[127.0.0.1]', 'a@127.0.0.1',
    '"a b"@c.de', 'a@b.de\r\nBcc: x@y.z', 'a@b.de\0', 'a,b@c.de', 'a@b@c.de', `${'a'.repeat(65)}@b.de`, `a@${'b'.repeat(64)}.de`, `a@${'b.'.repeat(127)}de`, 'a@b.123', 'a@b%2ede.com', '\ud800@b.de'
  ]) t.equal(parseAddress(text), null, JSON.stringify(text))
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
  t.strictSame(parseMailbox('"Lovelace, \\"Ada\\"" <ada@example.com>'), { address: 'ada@example.com', name: 'Lovelace, "Ada"' })
  t.strictSame(parseMailbox('<ada@example.com>'), { address: 'ada@example.com', name: null })
  for (const text of ['Ada', 'Ada <ada@example.com', 'A <a@b.de> B', 'a@b.de, c@d.de', 'A\n <a@b.de>', 'A <<a@b.de>>']) t.equal(parseMailbox(text), null, text)
})

t.test('a domain has two labels or more and no tricks', async t => {
  t.equal(parseDomain('Example.COM'), 'example.com')
  for (const text of ['localhost', 'a_b.de', 'a.b.', '1.2.3.4', '0x7f.1', 'ex ample.com', 'example.com:80', 'a@b.de', 'example.com/x']) t.equal(parseDomain(text), null, text)
})
