import t from 'tap'
import type { AnyFact } from '#streams/catalog.ts'
import { AccountCreated } from '#streams/account/facts.ts'
import type { Actor, Recorded } from '#streams/define.ts'
import { ErasureAdvanced, ErasureCompleted, ErasureRequested } from '#streams/erasure/facts.ts'
import { NOTHING_ERASED } from '#streams/erasure/state.ts'
import { KeyCreated, KeyRevoked } from '#streams/key/facts.ts'
import { OperationRequested } from '#streams/operation/facts.ts'
import { placeOf } from '#streams/place.ts'
import { SuppressionAdded, SuppressionRemoved } from '#streams/suppression/facts.ts'
import { NO_DEFAULTS } from '#streams/email/defaults.ts'
import { audit } from '#projections/audit/project.ts'
import { listAudit } from '#projections/audit/queries.ts'
import { stamp } from '#src/actions/fact-log.ts'
import { suppressionHash } from '#src/actions/suppression-store.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'
import { ACCOUNT, timeAt } from '../support/facts.ts'
import { allRows, apply, clear, cut, freshPool, randomOf, shuffled } from './view.ts'

const ADA = 'Ada@erase-me.example'
const KEY: Actor = { kind: 'key', id: 'key_one', ip: '203.0.113.7' }
const SESSION: Actor = { kind: 'session', id: 'ses_one', key: 'key_one', ip: '203.0.113.8' }

const cause = (actor?: Actor) => ({
  account: ACCOUNT,
  correlation: 'test',
  causation: null,
  ...(actor === undefined ? {} : { actor })
})
const at = (seconds: number) => Date.parse(timeAt(seconds))
const standing = [{ reason: 'manual' as const, email: null, since: timeAt(3) }]
const added = (address: string | null, seconds: number, actor?: Actor) =>
  stamp(
    SuppressionAdded,
    cause(actor),
    { hash: suppressionHash(ADA), address, reason: 'manual', standing },
    at(seconds)
  )
const removed = (address: string | null, seconds: number, actor?: Actor) =>
  stamp(SuppressionRemoved, cause(actor), { hash: suppressionHash(ADA), address }, at(seconds))
const erasure = { erasure: 'era_one', hash: 'f'.repeat(64) }
const advanced = (seqs: number[], seconds: number) =>
  stamp(ErasureAdvanced, cause(SESSION), {
    ...erasure,
    requestedAt: timeAt(6),
    counts: NOTHING_ERASED,
    deletes: [{ stream: 'CONTROL', seqs }]
  }, at(seconds))
const key = { scopes: ['full' as const], domains: ['*'], expiresAt: null, defaults: NO_DEFAULTS, hash: 'a'.repeat(64) }

/** In the order of CONTROL, from 1 on. */
const LOG: AnyFact[] = [
  stamp(AccountCreated, cause(), { account: ACCOUNT, name: 'One' }, at(0)),
  stamp(KeyCreated, cause(), { key: 'key_one', name: 'Shop', ...key, hint: 'jp_live_a', test: false }, at(1)),
  added(ADA, 3, KEY),
  removed(ADA, 4, SESSION),
  stamp(OperationRequested, cause(SESSION), { operation: 'rebuild.requested', subject: 'emails' }, at(5)),
  stamp(ErasureRequested, cause(SESSION), { ...erasure, address: 'sealed' }, at(6)),
  removed(null, 4, SESSION),
  advanced([3, 4], 8),
  advanced([6], 9),
  stamp(ErasureCompleted, cause(SESSION), { ...erasure, requestedAt: timeAt(6), counts: NOTHING_ERASED }, at(10)),
  stamp(KeyRevoked, cause(KEY), { key: 'key_one' }, at(11)),
  // What follows from mail is nobody's command.
  added('bounced@example.com', 12)
]
const recorded = (facts: AnyFact[]): Array<Recorded<AnyFact>> =>
  facts.map((fact, i) => ({ fact, seq: i + 1, subject: placeOf(fact).subject }))
/** What is left of the log once the erasure is done. */
const left = recorded(LOG).filter(({ seq }) => ![3, 4, 6].includes(seq))

const list = (pool: Pool, account = ACCOUNT) =>
  ask(pool, listAudit({ account, actor: null, action: null, fromMs: null, toMs: null, limit: 25, cursor: null }))

t.test('commands are told in words, and an erased address is in none of them', async t => {
  const pool = await freshPool(t)
  await apply(pool, audit, recorded(LOG.slice(0, 5)))
  t.match((await list(pool)).data.map(({ summary }) => summary), [
    'Started a rebuild of the projection emails.',
    `Removed the suppression of the address ${ADA}.`,
    `Suppressed the address ${ADA} (reason: manual).`,
    'Created the key Shop (scopes: full; domains: *; expires: never).',
    'Created the account One.'
  ])
  t.strictSame((await list(pool)).data.map(({ actor }) => actor?.name ?? null), ['Shop', 'Shop', 'Shop', null, null])
  await apply(pool, audit, recorded(LOG).slice(5))
  const { data } = await list(pool)
  t.match(data.map(({ action, summary, actor }) => [action, summary, actor?.id]), [
    ['key.revoked', 'Revoked the key Shop.', 'key_one'],
    ['erasure.requested', 'Requested the erasure era_one.', 'ses_one'],
    ['rebuild.requested', String, 'ses_one'],
    ['suppression.removed', 'Removed the suppression of the address (erased).', 'ses_one'],
    ['key.created', String, undefined],
    ['account.created', String, undefined]
  ])
  const rows = JSON.stringify((await pool.query('select * from audit')).rows)
  t.notMatch(rows, 'erase-me')
  t.notMatch(rows, suppressionHash(ADA))
  t.strictSame((await list(pool, 'acc_other')).data, [])
})

t.test('facts in any order, in any batches, all twice, or read again once some are erased: the same rows', async t => {
  const pool = await freshPool(t)
  const facts = recorded(LOG)
  for (const one of facts) await apply(pool, audit, [one])
  const expected = await allRows(pool, 'audit')
  await apply(pool, audit, facts)
  t.strictSame(await allRows(pool, 'audit'), expected, 'once more, in one batch')
  for (const log of [left, [...facts, ...facts]]) {
    for (let seed = 1; seed <= 8; seed++) {
      const random = randomOf(seed)
      await clear(pool, 'audit')
      for (const batch of cut(shuffled(log, random), 5, random)) await apply(pool, audit, batch)
      t.strictSame(await allRows(pool, 'audit'), expected, `seed ${seed}`)
    }
  }
})
