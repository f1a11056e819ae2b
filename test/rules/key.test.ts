import fc from 'fast-check'
import t from 'tap'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import type { AnyFact } from '#streams/catalog.ts'
import { Refusal, type Fact } from '#streams/define.ts'
import { emptyDirectory, evolveDirectory, type Directory, type KeyEntry } from '#streams/directory.ts'
import { NO_DEFAULTS } from '#streams/email/defaults.ts'
import {
  countFault,
  decideChange,
  domainsFault,
  expiryFault,
  FIXED_KEY,
  foldDomains,
  grantFault,
  isLive,
  isOperator,
  isWithin,
  KEYS_MAX,
  mayDo,
  maySendFrom,
  nameFault,
  NO_POWERS,
  opens,
  operatorFault,
  powersFault,
  previousUntilMs,
  rotationFault,
  scopesFault,
  type Powers
} from '#streams/key/decide.ts'
import { SCOPES, type Scope } from '#streams/key/facts.ts'
import { keyEntry } from '../support/entries.ts'

const NOW_MS = Date.parse('2026-11-21T10:00:00.000Z')
const FULL: Powers = { scopes: ['full'], domains: ['*'], expiresMs: null, test: false }

t.test('a key grants no more than it holds', async t => {
  const table: Array<[string, Partial<Powers>, Partial<Powers>, boolean]> = [
    ['everything from everything', {}, {}, true],
    ['one scope from full', { scopes: ['emails:send'] }, {}, true],
    ['full from one scope', {}, { scopes: ['keys:write'] }, false],
    ['full from all the others together', {}, { scopes: SCOPES.filter(scope => scope !== 'full') }, false],
    ['a part of the scopes, in another order', { scopes: ['keys:write', 'emails:read'] }, {
      scopes: ['emails:read', 'emails:send', 'keys:write']
    }, true],
    ['one scope too many', { scopes: ['emails:read', 'keys:write'] }, { scopes: ['keys:write'] }, false],
    ['read from write', { scopes: ['keys:read'] }, { scopes: ['keys:write'] }, false],
    ['one domain from all', { domains: ['a.example'] }, {}, true],
    ['all domains from one', {}, { domains: ['a.example'] }, false],
    ['a part of the domains', { domains: ['b.example'] }, { domains: ['a.example', 'b.example'] }, true],
    ['another domain', { domains: ['c.example'] }, { domains: ['a.example', 'b.example'] }, false],
    ['a subdomain', { domains: ['b.a.example'] }, { domains: ['a.example'] }, false],
    ['an end from none', { expiresMs: NOW_MS }, {}, true],
    ['no end from an end', {}, { expiresMs: NOW_MS }, false],
    ['the same end', { expiresMs: NOW_MS }, { expiresMs: NOW_MS }, true],
    ['an earlier end', { expiresMs: NOW_MS - 1 }, { expiresMs: NOW_MS }, true],
    ['a later end', { expiresMs: NOW_MS + 1 }, { expiresMs: NOW_MS }, false],
    ['a test key from a live one', { test: true }, {}, true],
    ['a test key from a test key', { test: true }, { test: true }, true],
    ['a live key from a test key', {}, { test: true }, false]
  ]
  for (const [name, wanted, held, expected] of table) {
    t.equal(isWithin({ ...FULL, ...wanted }, { ...FULL, ...held }), expected, name)
  }
})

t.test('the operator is who has full or operator with a live key of the first account on all domains', async t => {
  const table: Array<[name: string, given: Partial<KeyEntry>, fine: boolean]> = [
    ['as it must be', {}, true],
    ['another account', { account: 'acc_other' }, false],
    ['a test key', { test: true }, false],
    ['one domain', { domains: ['a.example'] }, false]
  ]
  for (const [name, given, fine] of table) {
    const key = keyEntry({ account: FIRST_ACCOUNT, ...given })
    const asked = keyEntry({ ...key, scopes: ['dashboard', 'operator'] })
    t.equal(isOperator(key), fine, `full: ${name}`)
    t.equal(isOperator(asked), fine, `operator: ${name}`)
    t.equal(isOperator({ ...key, scopes: ['dashboard', 'keys:write'] }), false, `without the scope: ${name}`)
    t.equal(operatorFault(key), null, `full may be had: ${name}`)
    for (const refused of [operatorFault(asked), decideChange(key, { scopes: ['operator'] })]) {
      t.equal(refused instanceof Refusal, !fine, name)
      if (!fine) t.match(refused, { code: 'invalid_scope', message: /^operator must only be given to a live key of/ })
    }
  }
  const operators = keyEntry({ account: FIRST_ACCOUNT, scopes: ['operator'] })
  t.match(decideChange(operators, { domains: ['a.example'] }), { code: 'invalid_scope' }, 'nor is it bound later')
  t.equal(isWithin({ ...FULL, scopes: ['operator'] }, { ...FULL, scopes: ['dashboard', 'keys:write'] }), false)
})

const powers: fc.Arbitrary<Powers> = fc.record({
  scopes: fc.uniqueArray(fc.constantFrom<Scope>('full', 'emails:send', 'emails:read', 'keys:write'), { minLength: 1 }),
  domains: fc.uniqueArray(fc.constantFrom('*', 'a.example', 'b.example', 'c.example'), { minLength: 1 }),
  expiresMs: fc.option(fc.integer({ min: NOW_MS - 2, max: NOW_MS + 2 })),
  test: fc.boolean()
})
/** Powers drawn at random are rarely within others: every second one is cut down to what `held` has. */
const wishOf = (held: Powers): fc.Arbitrary<Powers> =>
  fc.tuple(powers, fc.boolean()).map(([wish, modest]) => (!modest ? wish : {
    scopes: wish.scopes.filter(scope => mayDo(held, scope)),
    domains: held.domains.includes('*') ? wish.domains : wish.domains.filter(name => held.domains.includes(name)),
    expiresMs: wish.expiresMs === null || held.expiresMs === null
      ? held.expiresMs
      : Math.min(wish.expiresMs, held.expiresMs),
    test: wish.test || held.test
  }))
const chain = (length: number): fc.Arbitrary<Powers[]> =>
  length === 1
    ? powers.map(first => [first])
    : chain(length - 1).chain(before => wishOf(before.at(-1)!).map(wish => [...before, wish]))

t.test('to be within is a partial order: of itself, handed on, and both ways only between equals', async t => {
  fc.assert(fc.property(powers, one => isWithin(one, one) && isWithin(one, FULL) && isWithin(NO_POWERS, one)))
  let handedOn = 0
  fc.assert(
    fc.property(chain(3), ([a, b, c]) => {
      if (!isWithin(b!, a!) || !isWithin(c!, b!)) return true
      handedOn++
      return isWithin(c!, a!)
    }),
    { numRuns: 1000 }
  )
  t.ok(handedOn > 100, `${handedOn} of them were handed on twice`)
  const canonical = ({ scopes, domains, expiresMs, test }: Powers) =>
    [
      scopes.includes('full') ? 'full' : [...scopes].sort().join(),
      domains.includes('*') ? '*' : [...domains].sort().join(),
      expiresMs,
      test
    ].join(' ')
  fc.assert(fc.property(powers, powers, (a, b) => !isWithin(a, b) || !isWithin(b, a) || canonical(a) === canonical(b)))
})

/** Whether a key with these powers could do something that the other cannot, by the very rules that guard sending,
 *  scopes and ends. */
function exceeds (powers: Powers, other: Powers): boolean {
  const one = keyEntry(powers)
  const first = keyEntry(other)
  return SCOPES.some(scope => mayDo(one, scope) && !mayDo(first, scope)) ||
    ['a.example', 'b.example', 'c.example', 'd.example'].some(name =>
      maySendFrom(one, name, 'acc_one') && !maySendFrom(first, name, 'acc_one')
    ) ||
    [-3, -2, -1, 0, 1, 2, 3].some(ms => isLive(one, NOW_MS + ms) && !isLive(first, NOW_MS + ms)) ||
    (!one.test && first.test)
}

t.test('whatever a chain of grants yields does nothing that the first key cannot', async t => {
  let grants = 0
  fc.assert(
    fc.property(chain(8), ([first, ...wishes]) => {
      let asker = first!
      for (const wish of wishes) {
        if (!isWithin(wish, asker)) continue
        grants++
        asker = wish
      }
      return !exceeds(asker, first!)
    }),
    { numRuns: 1000 }
  )
  t.ok(grants > 500, `${grants} grants were made`)
})

t.test('who asks must still be there, live and allowed to write keys', async t => {
  t.equal(grantFault(keyEntry({}), [FULL], NOW_MS), null)
  t.equal(grantFault(undefined, [], NOW_MS)?.code, 'unauthorized')
  t.equal(grantFault(keyEntry({ expiresMs: NOW_MS }), [], NOW_MS)?.code, 'unauthorized')
  t.equal(grantFault(keyEntry({ scopes: ['keys:read'] }), [NO_POWERS], NOW_MS)?.code, 'insufficient_permissions')
  t.equal(grantFault(keyEntry({ scopes: ['keys:write'] }), [NO_POWERS], NOW_MS), null)
  t.equal(
    grantFault(keyEntry({ scopes: ['keys:write'] }), [NO_POWERS, FULL], NOW_MS)?.code,
    'insufficient_permissions',
    'all of them must be within'
  )
})

t.test('a key opens to its secret, and to the one before until the overlap ends', async t => {
  const rotated = keyEntry({ hash: 'new', previous: { hash: 'old', untilMs: NOW_MS } })
  t.ok(opens(rotated, 'new', NOW_MS))
  t.ok(opens(rotated, 'old', NOW_MS - 1))
  t.notOk(opens(rotated, 'old', NOW_MS))
  t.notOk(opens(rotated, 'other', NOW_MS - 1))
  t.notOk(opens({ ...rotated, expiresMs: NOW_MS - 1 }, 'new', NOW_MS - 1), 'no secret opens a key past its end')
  t.notOk(opens({ ...rotated, expiresMs: NOW_MS - 1 }, 'old', NOW_MS - 1))
  t.equal(previousUntilMs(rotated, NOW_MS - 1), NOW_MS)
  t.equal(previousUntilMs(rotated, NOW_MS), null)
  t.equal(previousUntilMs(keyEntry({}), NOW_MS), null)
})

t.test('what is fixed or over is not rotated', async t => {
  t.equal(rotationFault(keyEntry({}), NOW_MS), null)
  t.equal(rotationFault(keyEntry({ expiresMs: NOW_MS }), NOW_MS)?.code, 'key_expired')
  t.equal(rotationFault(keyEntry({ id: `${FIXED_KEY}00` }), NOW_MS)?.code, 'key_fixed')
})

t.test('of what is fixed the powers stay', async t => {
  const fixed = keyEntry({ id: `${FIXED_KEY}00` })
  for (const change of [{ scopes: ['full' as const] }, { domains: ['*'] }, { expiresMs: null }]) {
    t.equal(powersFault(fixed, change)?.code, 'key_fixed')
    t.equal(powersFault(keyEntry({}), change), null)
  }
  t.equal(powersFault(fixed, {}), null)
})

t.test('names, scopes, domains, ends and the number of keys', async t => {
  for (const name of ['x', 'Größe 😀', 'x'.repeat(200)]) t.equal(nameFault(name), null, name)
  for (const name of ['', '  ', 'x'.repeat(201), 'a\nb', 'a\x1b[2J', 'a\0', '\ud800']) {
    t.equal(nameFault(name)?.code, 'invalid_name', JSON.stringify(name))
  }
  for (const scopes of [['full'], ['full', 'full'], ['emails:send'], SCOPES.filter(scope => scope !== 'full')]) {
    t.equal(scopesFault(scopes), null, scopes.join())
  }
  for (const scopes of [[], ['all'], ['full', 'emails:send'], ['Emails:send']]) {
    t.equal(scopesFault(scopes)?.code, 'invalid_scope', scopes.join())
  }
  for (const domains of [['*'], ['a.example', 'Bücher.example']]) t.equal(domainsFault(domains), null, domains.join())
  for (
    const domains of [[], ['*', 'a.example'], ['*.example.com'], ['localhost'], ['a@b.example'], ['1.2.3.4'], ['']]
  ) t.equal(domainsFault(domains)?.code, 'invalid_domain', domains.join())
  t.strictSame(foldDomains(['Bücher.example', 'xn--bcher-kva.example', 'A.example', '*', '*']), [
    'xn--bcher-kva.example',
    'a.example',
    '*'
  ])
  t.equal(expiryFault(NOW_MS + 1, NOW_MS), null)
  t.equal(expiryFault(NOW_MS, NOW_MS)?.code, 'in_the_past')
  t.equal(expiryFault(Date.parse('9999-12-31T23:59:59Z'), NOW_MS), null)
  t.equal(
    expiryFault(Date.parse('9999-12-31T23:59:59-01:00'), NOW_MS)?.code,
    'invalid_value',
    'no time of a fact has five digits'
  )
  t.equal(countFault(KEYS_MAX - 1), null)
  t.equal(countFault(KEYS_MAX)?.code, 'too_many_keys')
})

/** A directory after these facts of one key. */
function after (...facts: Array<[type: string, data: object]>): Directory {
  const directory = emptyDirectory()
  const whose = {
    version: 1,
    time: '2026-11-21T10:00:00.000Z',
    account: 'acc_one',
    causation: null,
    correlation: 'test'
  }
  for (const [i, [type, data]] of facts.entries()) {
    const fact: Fact = { id: `ev_${i}`, type, ...whose, data: { key: 'key_one', ...data } }
    evolveDirectory(directory, { fact: fact as AnyFact, seq: i + 1, subject: 'control.acc_one.key.key_one' })
  }
  return directory
}

const created: [string, object] = ['key.created', {
  name: 'One',
  hash: 'a',
  hint: '',
  test: false,
  scopes: ['full'],
  domains: ['*'],
  expiresAt: null,
  defaults: NO_DEFAULTS
}]
const rotated = (
  hash: string
): [string, object] => ['key.rotated', { hash, hint: '', previousUntil: '2026-11-22T10:00:00.000Z' }]

t.test('a key in rotation stands under two hashes, never under three', async t => {
  t.strictSame([...after(created, rotated('b')).keysByHash.keys()], ['a', 'b'])
  const twice = after(created, rotated('b'), rotated('c'))
  t.strictSame([...twice.keysByHash.keys()], ['b', 'c'])
  t.match(twice.keys.get('key_one'), { hash: 'c', previous: { hash: 'b', untilMs: NOW_MS + 86_400_000 } })
})

t.test('nothing brings a revoked key back', async t => {
  const changed: [string, object] = ['key.changed', {
    name: 'Two',
    scopes: ['full'],
    domains: ['*'],
    expiresAt: null,
    defaults: NO_DEFAULTS
  }]
  const { keys, keysByHash, versions } = after(created, rotated('b'), ['key.revoked', {}], changed, rotated('c'), [
    'key.limits_changed',
    { limits: { other: 1 } }
  ], ['key.revoked', {}])
  t.equal(keys.size, 0)
  t.equal(keysByHash.size, 0)
  t.equal(
    versions.get('control.acc_one.key.key_one'),
    7,
    'and its version goes on, so that no other begins where it was'
  )
})
