import t from 'tap'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import type { AnyFact } from '#streams/catalog.ts'
import { emptyDirectory, evolveDirectory, type Directory } from '#streams/directory.ts'
import { isOperator, isWithin, mayDo } from '#streams/key/decide.ts'
import { SCOPES, type Scope } from '#streams/key/facts.ts'
import { asVisitor, mayOpenDashboard, principalOf } from '#streams/session/decide.ts'
import {
  decideLink,
  decidePasskey,
  decidePasskeyUse,
  decideUserChange,
  decideUserRemoval,
  foldAddress,
  operatorRoleFault,
  PASSKEYS_MAX,
  userGrantFault
} from '#streams/user/decide.ts'
import { scopesOf, USER_ROLES, type UserRole } from '#streams/user/roles.ts'
import { userPrincipal, type UserEntry } from '#streams/user/state.ts'
import { keyEntry, userEntry } from '../support/entries.ts'

const NOW_MS = Date.parse('2026-11-24T10:00:00.000Z')

/** What each role may do in the first account, written out: o = may. */
const POWERS: Record<Scope, string> = {
  //                operator owner developer support viewer
  'emails:send': 'o o o - -',
  'emails:read': 'o o o - -',
  'emails:metadata': 'o o o o -',
  'emails:list': 'o o o o o',
  'templates:read': 'o o o o o',
  'templates:write': 'o o o - -',
  'domains:read': 'o o o o o',
  'domains:write': 'o o o - -',
  'keys:read': 'o o o - -',
  'keys:write': 'o o o - -',
  'webhooks:read': 'o o o o -',
  'webhooks:write': 'o o o - -',
  'suppressions:read': 'o o o o -',
  'suppressions:write': 'o o o - -',
  'erasures:write': 'o o - - -',
  'users:read': 'o o - - -',
  'users:write': 'o o - - -',
  'audit:read': 'o o - - -',
  dashboard: 'o o - - -',
  operator: 'o - - - -',
  full: 'o - - - -'
}

t.test('a role is a set of scopes', async t => {
  const told = SCOPES.map(scope => [
    scope,
    USER_ROLES.map(role => (mayDo({ scopes: [...scopesOf(role, FIRST_ACCOUNT)] }, scope) ? 'o' : '-')).join(' ')
  ])
  t.strictSame(Object.fromEntries(told), POWERS)
})

t.test('the owner of another account holds all of it, and no more', async t => {
  const owner = userPrincipal(userEntry({ account: 'acc_two', role: 'owner' }))
  t.ok(mayDo(owner, 'full'))
  t.notOk(isOperator(owner))
  t.notOk(isOperator(userPrincipal(userEntry({ account: FIRST_ACCOUNT, role: 'owner' }))))
  t.ok(isOperator(userPrincipal(userEntry({ account: FIRST_ACCOUNT, role: 'operator' }))))
})

t.test('every role is within those above it', async t => {
  const powers = USER_ROLES.map(role => userPrincipal(userEntry({ account: FIRST_ACCOUNT, role })))
  for (const [i, one] of powers.entries()) {
    for (const [j, other] of powers.entries()) {
      t.equal(isWithin(other, one), j >= i, `${USER_ROLES[j]} in ${USER_ROLES[i]}`)
    }
  }
})

t.test('a user opens the dashboard with the powers of the role, and no key that a user makes opens more', async t => {
  for (const role of USER_ROLES) {
    const user = userPrincipal(userEntry({ role }))
    t.ok(mayOpenDashboard(user))
    t.equal(asVisitor(user), user)
    const within = SCOPES.filter(scope => isWithin(keyEntry({ scopes: [scope] }), user))
    for (const scope of within) {
      const key = keyEntry({ scopes: [scope] })
      t.ok(!mayOpenDashboard(key) || isWithin(asVisitor(key), user), `${role}: ${scope}`)
    }
  }
  t.notOk(
    mayDo(asVisitor(keyEntry({ scopes: ['dashboard'] })), 'users:read'),
    'nor does the scope dashboard show people'
  )
})

t.test('nobody gives more than they hold', async t => {
  const grant = (held: Parameters<typeof userGrantFault>[0], role: UserRole, account = FIRST_ACCOUNT) =>
    userGrantFault(held, [{ account, role }], NOW_MS)?.code ?? null
  const held = (role: UserRole) => userPrincipal(userEntry({ account: FIRST_ACCOUNT, role }))
  t.equal(grant(held('operator'), 'operator'), null)
  t.equal(grant(held('owner'), 'owner'), null)
  t.equal(grant(held('owner'), 'operator'), 'insufficient_permissions')
  t.equal(grant(held('developer'), 'viewer'), 'insufficient_permissions')
  t.equal(
    grant(keyEntry({ account: FIRST_ACCOUNT, scopes: ['users:write', 'emails:read'] }), 'support'),
    'insufficient_permissions'
  )
  t.equal(
    grant(
      keyEntry({ account: FIRST_ACCOUNT, scopes: ['users:write', 'emails:list', 'templates:read', 'domains:read'] }),
      'viewer'
    ),
    null
  )
  t.equal(grant(keyEntry({ test: true }), 'viewer'), 'insufficient_permissions')
  t.equal(grant(keyEntry({ domains: ['example.com'] }), 'viewer'), 'insufficient_permissions')
  t.equal(grant(keyEntry({ expiresMs: NOW_MS }), 'viewer'), 'unauthorized')
  t.equal(grant(undefined, 'viewer'), 'unauthorized')
  t.match(operatorRoleFault('operator', 'acc_two'), { code: 'invalid_role' })
})

t.test('the last operator and the last owner do not give up what nobody else has', async t => {
  const table: Array<[own: UserRole, others: UserRole[], isSelf: boolean, refused: boolean]> = [
    ['owner', [], true, true],
    ['owner', ['developer'], true, true],
    ['owner', ['owner'], true, false],
    ['owner', ['operator'], true, false],
    ['operator', ['owner'], true, true],
    ['operator', ['operator'], true, false],
    ['developer', [], true, false],
    ['owner', [], false, false]
  ]
  for (const [role, others, isSelf, refused] of table) {
    const user = userEntry({ account: FIRST_ACCOUNT, role })
    const context = { isSelf, others: others.map(role => userEntry({ id: 'usr_two', role })) }
    const name = `${role} beside ${others.join() || 'nobody'}${isSelf ? ', by itself' : ''}`
    t.match(
      decideUserRemoval(user, context),
      refused ? { code: 'last_user' } : [{ type: { name: 'user.removed' } }],
      name
    )
    t.match(
      decideUserChange(user, { role: 'viewer' }, context),
      refused ? { code: 'last_user' } : [{ type: { name: 'user.changed' }, data: { role: 'viewer' } }],
      name
    )
  }
  const owner = userEntry({ role: 'owner' })
  t.match(decideUserChange(owner, { name: 'New' }, { isSelf: true, others: [] }), [{
    data: { name: 'New', role: 'owner' }
  }])
  t.strictSame(decideUserChange(owner, {}, { isSelf: true, others: [] }), [])
  t.match(decideUserChange(owner, { role: 'operator' }, { isSelf: false, others: [] }), { code: 'invalid_role' })
})

t.test('the first sign-in links, and from then on the subject counts', async t => {
  const identity = { issuer: 'https://login.example.com', subject: '4711' }
  t.match(decideLink(userEntry(), identity), [{ data: { user: 'usr_one', ...identity } }])
  t.strictSame(decideLink(userEntry({ identity }), identity), [])
  t.match(decideLink(userEntry({ identity }), { ...identity, subject: '4712' }), { code: 'other_identity' })
  t.match(decideLink(userEntry({ identity }), { ...identity, issuer: 'https://other.example.com' }), {
    code: 'other_identity'
  })
})

t.test('a passkey counts up, or not at all', async t => {
  const passkey = (counter: number) => ({ id: 'AQID', name: 'Laptop', publicKey: 'AQ', counter, createdAt: '' })
  t.strictSame(decidePasskeyUse(userEntry(), passkey(0), 0), [])
  t.match(decidePasskeyUse(userEntry(), passkey(0), 1), [{ data: { user: 'usr_one', passkey: 'AQID', counter: 1 } }])
  t.match(decidePasskeyUse(userEntry(), passkey(7), 8), [{ data: { counter: 8 } }])
  for (const counter of [7, 6, 0]) {
    t.match(decidePasskeyUse(userEntry(), passkey(7), counter), { code: 'copied_passkey' })
  }
  const added = { passkey: 'AQID', name: 'Laptop', publicKey: 'AQ', counter: 0 }
  t.match(decidePasskey(userEntry(), added, false), [{ type: { name: 'user.passkey_added' } }])
  t.match(decidePasskey(userEntry(), added, true), { code: 'known_passkey' })
  t.match(decidePasskey(userEntry(), { ...added, name: ' ' }, false), { code: 'invalid_name' })
  const many = Array.from({ length: PASSKEYS_MAX }, () => passkey(0))
  t.match(decidePasskey(userEntry({ passkeys: many }), added, false), { code: 'too_many_passkeys' })
})

t.test('an address is one user however it is spelt', async t => {
  t.equal(foldAddress(' Ada@EXAMPLE.com '), 'ada@example.com')
  t.equal(foldAddress('Ada <ada@example.com>'), null)
  t.equal(foldAddress('ada'), null)
})

t.test('who is removed leaves nothing open, also for who is invited again', async t => {
  const directory = emptyDirectory()
  const tell = telling(directory)
  const hash = 'a'.repeat(64)
  const created = { user: 'usr_one', address: 'ada@example.com', name: 'Ada', role: 'owner' as const }
  tell('user.created', created)
  tell('user.passkey_added', { user: 'usr_one', passkey: 'AQID', name: 'Laptop', publicKey: 'AQ', counter: 0 })
  tell('user.linked', { user: 'usr_one', issuer: 'https://login.example.com', subject: '4711' })
  tell('session.opened', { session: 'ses_1', principal: 'usr_one', hash, until: '2026-12-06T10:00:00.000Z' })
  tell('session.link_made', { session: 'ses_2', principal: 'usr_one', hash, until: '2026-12-06T10:00:00.000Z' })
  t.match(principalOf(directory, 'usr_one'), { id: 'usr_one', name: 'Ada' })
  tell('user.changed', { user: 'usr_one', name: 'Ada', role: 'viewer' })
  t.strictSame(principalOf(directory, 'usr_one')!.scopes, scopesOf('viewer', 'acc_one'))
  tell('user.removed', { user: 'usr_one' })
  t.equal(principalOf(directory, 'usr_one'), undefined)
  t.strictSame([directory.sessions.size, directory.links.size], [0, 0])
  tell('key.created', { ...keyData('key_late'), hash }, 'usr_one')
  t.equal(directory.keys.size, 0, 'a key that a removed user was making never works')
  tell('user.created', created)
  t.match(directory.users.get('usr_one'), { role: 'owner', identity: null, passkeys: [] } satisfies Partial<UserEntry>)
  tell('key.created', { ...keyData('key_one'), hash }, 'usr_one')
  t.match(directory.keys.get('key_one'), { madeBy: 'usr_one' })
})

function keyData (key: string) {
  const defaults = { opens: null, clicks: null, unsubscribe: null }
  return { key, name: 'Key', hint: '', test: false, scopes: ['emails:send'], domains: ['*'], expiresAt: null, defaults }
}

function telling (directory: Directory) {
  let seq = 0
  return (type: AnyFact['type'], data: object, by?: string) => {
    const actor = by === undefined ? {} : { actor: { kind: 'user', id: by, ip: null } }
    const fact = {
      id: `ev_${++seq}`,
      type,
      version: 1,
      time: '2026-11-24T10:00:00.000Z',
      account: 'acc_one',
      data,
      ...actor
    }
    evolveDirectory(directory, { fact: fact as unknown as AnyFact, seq, subject: `control.${seq}` })
  }
}
