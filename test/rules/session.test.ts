import t from 'tap'
import type { AnyFact } from '#streams/catalog.ts'
import { emptyDirectory, evolveDirectory, type KeyEntry } from '#streams/directory.ts'
import { NO_DEFAULTS } from '#streams/email/defaults.ts'
import { mayDo } from '#streams/key/decide.ts'
import { SCOPES, type Scope } from '#streams/key/facts.ts'
import {
  asVisitor,
  endMs,
  isOpen,
  isOver,
  isStale,
  LINK_MS,
  mayOpenDashboard,
  ROTATE_AFTER_MS,
  ROTATION_OVERLAP_MS,
  SESSION_IDLE_MS,
  SESSION_MS
} from '#streams/session/decide.ts'
import type { SessionEntry } from '#streams/session/state.ts'
import { renewTicket } from '#src/actions/session.ts'
import { createVault, sha256Hex } from '#src/base/secret.ts'
import { keyEntry } from '../support/entries.ts'

const NOW_MS = Date.parse('2026-11-21T10:00:00.000Z')
const HOUR_MS = 3_600_000

function session (given: Partial<SessionEntry> = {}): SessionEntry {
  return {
    id: 'ses_one',
    account: 'acc_one',
    principal: 'key_one',
    keyHash: 'a',
    hash: 'now',
    previousHash: null,
    secretMs: NOW_MS,
    untilMs: NOW_MS + SESSION_MS,
    confirmedMs: NOW_MS,
    createdAt: '',
    browser: null,
    ip: null,
    ...given
  }
}

t.test('a secret opens its session until it is idle, over, or its key is', async t => {
  const table: Array<[string, Partial<SessionEntry>, Partial<KeyEntry> | undefined, string, number, boolean]> = [
    ['at once', {}, {}, 'now', NOW_MS, true],
    ['another secret', {}, {}, 'then', NOW_MS, false],
    ['no secret', {}, {}, '', NOW_MS, false],
    ['a moment before it is idle', {}, {}, 'now', NOW_MS + SESSION_IDLE_MS - 1, true],
    ['idle', {}, {}, 'now', NOW_MS + SESSION_IDLE_MS, false],
    ['a moment before its end', { secretMs: NOW_MS + SESSION_MS - HOUR_MS }, {}, 'now', NOW_MS + SESSION_MS - 1, true],
    ['at its end', { secretMs: NOW_MS + SESSION_MS - HOUR_MS }, {}, 'now', NOW_MS + SESSION_MS, false],
    ['the secret before, in the overlap', { previousHash: 'then' }, {}, 'then', NOW_MS + ROTATION_OVERLAP_MS - 1, true],
    ['the secret before, after it', { previousHash: 'then' }, {}, 'then', NOW_MS + ROTATION_OVERLAP_MS, false],
    ['a key that is no more', {}, undefined, 'now', NOW_MS, false],
    ['a key until then', {}, { expiresMs: NOW_MS + 1 }, 'now', NOW_MS, true],
    ['a key that has expired', {}, { expiresMs: NOW_MS }, 'now', NOW_MS, false],
    ['a key that opens the dashboard no more', {}, { scopes: ['emails:read'] }, 'now', NOW_MS, false],
    [
      'while the secret before works',
      {},
      { hash: 'b', previous: { hash: 'a', untilMs: NOW_MS + 1 } },
      'now',
      NOW_MS,
      true
    ],
    ['when that one ends', {}, { hash: 'b', previous: { hash: 'a', untilMs: NOW_MS } }, 'now', NOW_MS, false],
    [
      'opened with the new secret',
      { keyHash: 'b' },
      { hash: 'b', previous: { hash: 'a', untilMs: 0 } },
      'now',
      NOW_MS,
      true
    ],
    [
      'after two rotations, whatever the second leaves',
      {},
      { hash: 'c', previous: { hash: 'b', untilMs: NOW_MS + HOUR_MS } },
      'now',
      NOW_MS,
      false
    ]
  ]
  for (const [name, of, by, hash, atMs, open] of table) {
    t.equal(isOpen(session(of), by === undefined ? undefined : keyEntry(by), hash, atMs), open, name)
  }
})

t.test('a day without use never ends a session, however its secret had aged', async t => {
  for (const ageMs of [0, ROTATE_AFTER_MS - 1]) {
    t.notOk(isOver(session(), keyEntry(), NOW_MS + ageMs + 24 * HOUR_MS), `last used at ${ageMs} ms`)
  }
  t.ok(isOver(session(), keyEntry(), NOW_MS + 36 * HOUR_MS))
})

t.test('it is said to end with the secret of its key, when that is sooner', async t => {
  const rotated = (untilMs: number) => keyEntry({ hash: 'b', previous: { hash: 'a', untilMs } })
  t.equal(endMs(session(), keyEntry()), NOW_MS + SESSION_MS)
  t.equal(endMs(session(), rotated(NOW_MS + HOUR_MS)), NOW_MS + HOUR_MS)
  t.equal(endMs(session(), rotated(NOW_MS + 2 * SESSION_MS)), NOW_MS + SESSION_MS)
})

t.test('a secret is replaced from its twelfth hour on, and the one before at once', async t => {
  t.notOk(isStale(session(), 'now', NOW_MS + ROTATE_AFTER_MS - 1))
  t.ok(isStale(session(), 'now', NOW_MS + ROTATE_AFTER_MS))
  t.ok(isStale(session({ previousHash: 'then' }), 'then', NOW_MS))
})

t.test('full and dashboard open the dashboard, no other scope does', async t => {
  t.strictSame(SCOPES.filter(scope => mayOpenDashboard(keyEntry({ scopes: [scope] }))).toSorted(), [
    'dashboard',
    'full'
  ])
  t.notOk(
    mayOpenDashboard(keyEntry({ scopes: SCOPES.filter(scope => scope !== 'full' && scope !== 'dashboard') })),
    'nor all the others together'
  )
})

t.test('the scope dashboard is all but keys, people and the audit log, within the bounds of the key', async t => {
  const own = keyEntry({ scopes: ['dashboard'], domains: ['a.example'], expiresMs: NOW_MS, test: true })
  const visitor = asVisitor(own)
  const may = (scope: Scope) => mayDo(visitor, scope)
  t.strictSame(SCOPES.filter(scope => !may(scope)).toSorted(), [
    'audit:read',
    'full',
    'keys:read',
    'keys:write',
    'operator',
    'users:read',
    'users:write'
  ])
  t.strictSame({ ...visitor, scopes: own.scopes }, own, 'domains, end and kind stay as they are')
  t.strictSame(own.scopes, ['dashboard'], 'and the key is not changed')
})

t.test('what a key may do with keys it may in the dashboard, and full is full', async t => {
  t.ok(mayDo(asVisitor(keyEntry({ scopes: ['dashboard', 'keys:read'] })), 'keys:read'))
  t.notOk(mayDo(asVisitor(keyEntry({ scopes: ['dashboard', 'keys:read'] })), 'keys:write'))
  t.strictSame(asVisitor(keyEntry()).scopes, ['full'])
})

t.test('links are folded: made, used by the session they open, forgotten a day after they are over', async t => {
  const directory = emptyDirectory()
  const tell = (atMs: number, type: string, data: object) => {
    const time = new Date(atMs).toISOString()
    const envelope = { id: 'ev_1', version: 1, account: 'acc_one', causation: null, correlation: 'test' }
    evolveDirectory(directory, { fact: { ...envelope, type, time, data } as AnyFact, seq: 1, subject: 'x' })
  }
  const made = (session: string, atMs: number) =>
    tell(atMs, 'session.link_made', {
      session,
      key: 'key_one',
      hash: 'a'.repeat(64),
      until: new Date(atMs + LINK_MS).toISOString()
    })
  made('ses_a', NOW_MS)
  made('ses_b', NOW_MS)
  const link = { account: 'acc_one', key: 'key_one', hash: 'a'.repeat(64), untilMs: NOW_MS + LINK_MS, isUsed: false }
  t.strictSame(directory.links.get('ses_a'), { ...link, session: 'ses_a' })
  tell(NOW_MS + 1, 'session.opened', {
    session: 'ses_a',
    principal: 'key_one',
    hash: 'b'.repeat(64),
    until: new Date(NOW_MS + HOUR_MS).toISOString()
  })
  tell(NOW_MS + 2, 'session.ended', { session: 'ses_a' })
  t.strictSame([...directory.links.values()].map(({ session, isUsed }) => [session, isUsed]), [
    ['ses_a', true],
    ['ses_b', false]
  ])
  made('ses_c', NOW_MS + LINK_MS + 24 * HOUR_MS)
  t.strictSame([...directory.links.keys()], ['ses_c'])
})

t.test('sessions are folded: opened, given a new secret, ended; ended ones leave when another comes', async t => {
  const directory = emptyDirectory()
  const hash = (letter: string) => letter.repeat(64)
  const tell = (atMs: number, type: string, data: object) => {
    const fact = {
      id: 'ev_1',
      type,
      version: 1,
      time: new Date(atMs).toISOString(),
      account: 'acc_one',
      causation: null,
      correlation: 'test',
      data
    } as AnyFact
    evolveDirectory(directory, { fact, seq: 1, subject: 'control.acc_one.session.x' })
  }
  tell(NOW_MS, 'key.created', {
    key: 'key_one',
    name: 'One',
    hash: hash('k'),
    hint: '',
    test: false,
    scopes: ['full'],
    domains: ['*'],
    expiresAt: null,
    defaults: NO_DEFAULTS
  })
  tell(NOW_MS, 'session.opened', {
    session: 'ses_a',
    principal: 'key_one',
    hash: hash('a'),
    until: new Date(NOW_MS + HOUR_MS).toISOString()
  })
  tell(NOW_MS + 1, 'session.rotated', { session: 'ses_a', hash: hash('b') })
  t.match(directory.sessions.get('ses_a'), {
    hash: hash('b'),
    previousHash: hash('a'),
    secretMs: NOW_MS + 1,
    untilMs: NOW_MS + HOUR_MS,
    principal: 'key_one',
    keyHash: hash('k'),
    account: 'acc_one'
  })
  tell(NOW_MS + HOUR_MS, 'session.opened', {
    session: 'ses_b',
    principal: 'key_one',
    hash: hash('c'),
    secret: hash('j'),
    until: new Date(NOW_MS + 2 * HOUR_MS).toISOString()
  })
  t.strictSame([...directory.sessions.keys()], ['ses_b'])
  t.equal(
    directory.sessions.get('ses_b')!.keyHash,
    hash('j'),
    'the secret that was shown, though the key may have another by now'
  )
  tell(NOW_MS + HOUR_MS, 'session.ended', { session: 'ses_b' })
  tell(NOW_MS + HOUR_MS, 'session.rotated', { session: 'ses_b', hash: hash('d') })
  tell(NOW_MS + HOUR_MS, 'session.ended', { session: 'ses_b' })
  t.equal(directory.sessions.size, 0, 'said of one that is no more, it is nothing')
})

t.test('who asks again for the ticket that an older secret of the ring has made is told the same', async t => {
  const [a, b] = ['a', 'b'].map(letter => createVault(letter.repeat(32)))
  const [stale] = b!.derive('x', 'stale')
  const [told] = a!.derive(`ses_one ${stale}`, 'session')
  const entry = session({ hash: sha256Hex(told), previousHash: sha256Hex(stale) })
  const ask = async (...ring: [string, ...string[]]) => {
    // Nothing is left to append.
    const services = { vault: createVault(...ring) } as Parameters<typeof renewTicket>[0]
    return await renewTicket(services, 'x', entry, stale)
  }
  t.equal(await ask('a'.repeat(32)), `ses_one.${told}`)
  t.equal(await ask('b'.repeat(32), 'a'.repeat(32)), `ses_one.${told}`)
  t.equal(await ask('b'.repeat(32)), null)
})
