import t from 'tap'
import { all, json, sql } from '#projections/define.ts'

t.test('values are bound, and never become text', async t => {
  const name = "'; drop table emails; --"
  const statement = sql`select ${1} from emails where name = ${name}`
  t.equal(statement.text, 'select $1 from emails where name = $2')
  t.strictSame(statement.values, [1, name])
  t.equal(sql`select 1`.text, 'select 1')
})

t.test('fragments keep their values in order', async t => {
  const inner = sql`b = ${2} or c = ${3}`
  const statement = sql`a = ${1} and (${inner}) and d = ${4}`
  t.equal(statement.text, 'a = $1 and (b = $2 or c = $3) and d = $4')
  t.strictSame(statement.values, [1, 2, 3, 4])
  t.equal(all([sql`a = ${1}`, sql`b`]).text, 'true and a = $1 and b')
  t.equal(all([]).text, 'true')
})

t.test('an object that looks like a fragment is a value', async t => {
  const forged = { pieces: ['1 or true', ''], values: [7] }
  t.strictSame(sql`a = ${forged}`.text, 'a = $1')
})

t.test('what Postgres cannot store is replaced, and nothing else', async t => {
  t.strictSame(sql`${'a\0b'} ${['c\ud800']} ${null} ${true}`.values, ['a\uFFFDb', ['c\uFFFD'], null, true])
  t.equal(
    json({ 'k\0': ['v\udc00', { deep: '\0' }], n: 1, z: null }),
    JSON.stringify({ 'k\uFFFD': ['v\uFFFD', { deep: '\uFFFD' }], n: 1, z: null })
  )
  t.equal(json({ back: '\\u0000', pair: '😀' }), JSON.stringify({ back: '\\u0000', pair: '😀' }))
})
