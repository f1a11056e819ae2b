import { createHmac, hkdfSync } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { createTokens, type Pointer, type TokenUse } from '#src/content/token.ts'
import { newId } from '#src/base/id.ts'

const SECRET = 'a-secret-for-tests-with-at-least-32-characters'
const tokens = createTokens(SECRET)
const USES: TokenUse[] = ['return', 'unsubscribe', 'open']

const pointers = fc.record({
  email: fc.integer({ min: 0, max: 2 ** 48 - 1 }).map(ms => newId('em', ms)),
  n: fc.integer({ min: 0, max: 49 }),
  request: fc.integer({ min: 1, max: 2 ** 48 - 1 })
})

t.test('a token tells its recipient, in any case of letters, and fits a local part', async t => {
  fc.assert(fc.property(pointers, fc.constantFrom(...USES), (pointer: Pointer, use) => {
    const token = tokens.mint(use, pointer)
    t.match(token, /^[0-9a-z]{54}$/)
    t.ok(Buffer.byteLength(`b+${token}`) <= 64)
    t.same(tokens.read(use, token), pointer)
    t.same(tokens.read(use, token.toUpperCase()), pointer)
  }))
})

t.test('what is forged, cut, changed or made for something else is none', async t => {
  const pointer = { email: newId('em', Date.now()), n: 3, request: 77 }
  for (const use of USES) {
    const token = tokens.mint(use, pointer)
    for (const other of USES.filter(one => one !== use)) t.equal(tokens.read(other, token), null, `${use} for ${other}`)
    t.equal(createTokens(`${SECRET}!`).read(use, token), null)
    for (let i = 0; i < token.length; i++) {
      const changed = token.slice(0, i) + (token[i] === '7' ? '8' : '7') + token.slice(i + 1)
      t.equal(tokens.read(use, changed), null, `changed at ${i}`)
    }
    for (
      const text of [
        '',
        token.slice(1),
        `${token}0`,
        token.replace(/./, 'ü'),
        token.replace(/.$/, 'u'),
        token.replace(/.$/, '\n'),
        'x'.repeat(10_000)
      ]
    ) t.equal(tokens.read(use, text), null)
  }
})

t.test('a ring mints with its first secret and reads what any of them has minted', async t => {
  const pointer = { email: 'em_01m7ysevjmwmdcr41jq5rymhkp', n: 3, request: 77 }
  const [a, b] = ['a', 'b'].map(letter => letter.repeat(32)) as [string, string]
  const [old, ring] = [createTokens(a), createTokens(b, a)]
  for (const use of USES) {
    t.same(ring.read(use, old.mint(use, pointer)), pointer)
    t.equal(ring.mint(use, pointer), createTokens(b).mint(use, pointer))
    t.equal(old.read(use, ring.mint(use, pointer)), null)
    for (const other of USES.filter(one => one !== use)) t.equal(ring.read(other, old.mint(use, pointer)), null)
  }
  const url = 'https://a.example/'
  t.same(ring.readClick(old.clicks(pointer)(url)), { pointer, url })
  t.equal(ring.clicks(pointer)(url), createTokens(b).clicks(pointer)(url))
  t.equal(old.readClick(ring.clicks(pointer)(url)), null)
  t.strictSame(ring.keysFor('x'), [...createTokens(b).keysFor('x'), ...old.keysFor('x')])
  t.strictSame([old.mint('return', pointer), old.clicks(pointer)(url)], [
    '01m7ysevjmwmdcr41jq5rymhkp0c000000016gwy42k0bykqhr0wsf',
    '01m7ysevjmwmdcr41jq5rymhkp0c000000016gcauV5I0a9yep-SFtaHR0cHM6Ly9hLmV4YW1wbGUv'
  ], 'as before there were rings: mail that went out has these')
})

t.test('a click leads to its own target only', async t => {
  fc.assert(fc.property(pointers, fc.webUrl({ withQueryParameters: true, withFragments: true }), (pointer, url) => {
    const token = tokens.clicks(pointer)(url)
    t.match(token, /^[\w-]+$/)
    t.same(tokens.readClick(token), { pointer, url })
    t.equal(tokens.readClick(`${token.slice(0, 54)}${token[54] === 'a' ? 'b' : 'a'}${token.slice(55)}`), null)
    t.equal(tokens.readClick(token.slice(0, 54) + Buffer.from('https://evil.example/').toString('base64url')), null)
    t.equal(tokens.readClick(tokens.mint('open', pointer)), null)
  }))
})

t.test('its MAC is HMAC-SHA256, as node computes it', async t => {
  const key = Buffer.from(hkdfSync('sha256', SECRET, 'jetpost', 'token', 32))
  const pointer = { email: 'em_01m7ysevjmwmdcr41jq5rymhkp', n: 2, request: 5 }
  const token = tokens.clicks(pointer)('https://shop.example/ü')
  t.equal(
    token.slice(38, 54),
    createHmac('sha256', key).update(`click ${token.slice(0, 38)} https://shop.example/ü`).digest('base64url').slice(
      0,
      16
    )
  )
})
