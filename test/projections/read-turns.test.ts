import t from 'tap'
import { sql } from '#projections/define.ts'
import { createLog } from '#src/base/log.ts'
import { createPool } from '#src/postgres/pool.ts'
import { askInTurn, readTurns } from '#src/postgres/reads.ts'
import { freshDatabase } from '../support/servers.ts'

t.test('an account whose reads take long leaves connections to the others, and its own wait their turn', async t => {
  const databaseUrl = await freshDatabase(t)
  const [pool, operator] = [createPool(databaseUrl, createLog('silent')), createPool(databaseUrl, createLog('silent'))]
  t.teardown(() => Promise.all([pool.end(), operator.end()]))
  const gate = await operator.connect()
  await gate.query('select pg_advisory_lock(1)')
  const slow = { sql: sql`select pg_advisory_xact_lock_shared(1)`, read: () => 'slow' }
  const quick = { sql: sql`select 1`, read: () => 'quick' }

  const reads = { pool, turns: readTurns({ waitMs: 60_000 }) }
  const waiting = Array.from({ length: 30 }, async () => await askInTurn(reads, 'acc_greedy', slow))
  for (let i = 0; i < 20; i++) t.equal(await askInTurn(reads, 'acc_other', quick), 'quick')
  const hasty = { pool, turns: readTurns({ waitMs: 1, maxPerKey: 1 }) }
  const first = askInTurn(hasty, 'acc_greedy', slow)
  await t.rejects(askInTurn(hasty, 'acc_greedy', quick), { code: 'busy' }, 'it does not wait for ever')

  await gate.query('select pg_advisory_unlock(1)')
  gate.release()
  t.strictSame(new Set(await Promise.all([first, ...waiting])), new Set(['slow']), 'all are answered')
})
