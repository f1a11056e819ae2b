import t from 'tap'
import { NO_DEFAULTS } from '#streams/email/defaults.ts'
import { checkFact, decodeFact, encodeFact } from '#streams/catalog.ts'
import { AccountCreated } from '#streams/account/facts.ts'
import { KeyCreated } from '#streams/key/facts.ts'
import { stamp } from '#src/actions/fact-log.ts'

const cause = { account: 'acc_1', correlation: 'req_1', causation: null }
const fact = stamp(AccountCreated, cause, { account: 'acc_1', name: 'One' }, 1_763_700_000_000)

t.test('a fact carries id, type, time, account, schema version, causation and correlation', async t => {
  t.match(fact, { id: /^ev_/, type: 'account.created', version: 1, time: '2025-11-21T04:40:00.000Z', ...cause })
  t.strictSame(decodeFact(encodeFact(fact)), fact)
})

t.test('a fact that does not fit is refused when appended and when read, without telling its values', async t => {
  const wrong = { ...fact, data: { account: 'acc_1', name: 7 } }
  t.throws(() => encodeFact(wrong as never), {
    message: 'account.created does not fit its schema at /data/name: Expected string'
  })
  t.throws(() => decodeFact(new TextEncoder().encode(JSON.stringify(wrong))), /does not fit/)
  t.throws(() => checkFact({ ...fact, time: '2025-11-21' }), /\/time/)
  t.throws(() => checkFact({ ...fact, version: 2 }), /\/version/)
  t.throws(() => checkFact({ ...fact, type: 'account.renamed' }), /unknown fact type/)
  const secretive = stamp(KeyCreated, cause, {
    key: 'key_1',
    name: 'k',
    hash: 'not-a-hash',
    hint: '',
    test: false,
    scopes: ['full'],
    domains: ['*'],
    expiresAt: null,
    defaults: NO_DEFAULTS
  }, 0)
  t.throws(() => encodeFact(secretive), { message: /^(?!.*not-a-hash).*\/data\/hash/ })
})
