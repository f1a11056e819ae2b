import t from 'tap'
import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { ERASED } from '#streams/address.ts'
import { isErased, redact, requestWithout } from '#streams/email/erase.ts'
import { EmailErased, EmailRecorded, type RecipientFact } from '#streams/email/facts.ts'
import { placeOf } from '#streams/place.ts'
import { COUNTED, NOTHING, type Counted, type Counts } from '#projections/counts.ts'
import { stats } from '#projections/stats/project.ts'
import { countsByName, countsByTime, countsOfMonth, type StatsOptions, type Which } from '#projections/stats/queries.ts'
import { stamp } from '#src/actions/fact-log.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'
import {
  asIs,
  ACCOUNT,
  attempted,
  bounced,
  canceled,
  clicked,
  complained,
  deferred,
  delivered,
  failed,
  inDoubt,
  opened,
  requested,
  rescheduled,
  retryRequested,
  suppressed,
  timeAt,
  unsubscribed
} from '../support/facts.ts'
import { LONG } from '../support/long.ts'
import { chanceOf, openChance, type Chance } from '../support/random.ts'
import { apply, cut, freshPool, shuffled } from './view.ts'

const CAUSE = { account: ACCOUNT, correlation: 'test', causation: null }
const hour = (time: string) => `${time.slice(0, 13)}:00:00`

/** What a webhook's bytes say of the request. */
const event = (from: string, tags: string[]) => JSON.stringify({ id: 'ev_1', data: { from, tags, subject: 'Hello' } })

interface Asked {
  email: string
  from?: string
  tags?: string[]
  to?: string[]
  atS?: number
}

function record (
  { email, from = 'news@example.com', tags = [], to = ['ada@example.net'], atS = 0 }: Asked
): EmailRecorded {
  const recipients = to.map(address => ({ address, name: null, kind: 'to' as const }))
  const { content: _content, ...data } =
    requested({ email, from: { address: from, name: null }, recipients, tags }).data
  return stamp(
    EmailRecorded,
    CAUSE,
    { ...data, request: 1, requestedAt: timeAt(atS) },
    Date.parse(timeAt(atS + 5))
  ) as EmailRecorded
}

const at = <F extends AnyFact>(fact: F, seconds: number): F => ({ ...fact, time: timeAt(seconds) })

const inLog = (facts: AnyFact[], fromSeq = 1): Array<Recorded<AnyFact>> =>
  facts.map((fact, i) => ({ fact, seq: fromSeq + i, subject: placeOf(fact).subject }))

/** The fact in whose place others are gone, as an erasure writes it. */
function erased (past: Array<Recorded<AnyFact>>, email: string, n: number): EmailErased {
  const facts = past.map(({ seq, fact }) => ({ seq, storedAt: fact.time, fact: redact(fact as RecipientFact, asIs) }))
  return stamp(
    EmailErased,
    CAUSE,
    { email, n, request: 1, to: ERASED, sequence: 99, erasure: 'era_1', past: facts },
    Date.parse(timeAt(1_000_000))
  ) as EmailErased
}

const TABLES = ['stats_hours', 'stats_destinations', 'stats_recipients']

async function rowsOf (pool: Pool, tables = TABLES): Promise<Record<string, string[]>> {
  const found = await Promise.all(tables.map(async table => {
    const { rows } = await pool.query<{ row: object }>(`select to_jsonb(${table}) as row from ${table}`)
    return [table, rows.map(({ row }) => JSON.stringify(row)).sort()] as const
  }))
  return Object.fromEntries(found)
}

const clear = (pool: Pool) => pool.query(`truncate ${TABLES.join(', ')}`)

/** Rows without what is 0: `account tag hour domain` → counts. */
async function counted (
  pool: Pool,
  table: 'stats_hours' | 'stats_destinations'
): Promise<Record<string, Partial<Counts>>> {
  const { rows } = await pool.query<Record<string, unknown>>(
    `select *, to_char(hour at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS') as at from ${table}`
  )
  return Object.fromEntries(rows.map(row => {
    const key = table === 'stats_hours'
      ? [row.account, row.at, row.domain, row.tag]
      : [row.account, row.at, row.destination]
    return [key.join(' '), Object.fromEntries(COUNTED.filter(name => row[name] !== 0).map(name => [name, row[name]]))]
  }))
}

t.test("each thing counts in its hour, by the sender's domain, by each tag and by where it went", async t => {
  const pool = await freshPool(t)
  const email = 'em_1'
  await apply(
    pool,
    stats,
    inLog([
      record({ email, tags: ['welcome', 'eu'], to: ['ada@example.net', 'bob@example.org'] }),
      attempted({ email }),
      at(delivered({ email, event: event('news@example.com', ['welcome', 'eu']) }), 4000),
      at(opened({ email, event: event('news@example.com', ['welcome', 'eu']) }), 8000),
      at(opened({ email, first: false, event: event('news@example.com', ['welcome', 'eu']) }), 8001),
      at(bounced({ email, n: 1, to: 'bob@example.org', event: event('news@example.com', ['welcome', 'eu']) }), 4001)
    ])
  )
  const each = (counts: [number, Partial<Counts>][]) =>
    Object.fromEntries(
      counts.flatMap(([s, count]) =>
        ['', 'eu', 'welcome'].map(tag => [`${ACCOUNT} ${hour(timeAt(s))} example.com ${tag}`, count] as const)
      )
    )
  t.strictSame(
    await counted(pool, 'stats_hours'),
    each([[0, { accepted: 2 }], [4000, { delivered: 1, bounced: 1 }], [8000, { opened: 1 }]])
  )
  t.strictSame(await counted(pool, 'stats_destinations'), {
    [`${ACCOUNT} ${hour(timeAt(0))} example.net`]: { accepted: 1 },
    [`${ACCOUNT} ${hour(timeAt(0))} example.org`]: { accepted: 1 },
    [`${ACCOUNT} ${hour(timeAt(4000))} example.net`]: { delivered: 1 },
    [`${ACCOUNT} ${hour(timeAt(4000))} example.org`]: { bounced: 1 },
    [`${ACCOUNT} ${hour(timeAt(8000))} example.net`]: { opened: 1 }
  })
})

t.test('what is counted, and what is not', async t => {
  const pool = await freshPool(t)
  const bytes = event('news@example.com', [])
  const cases: Array<[AnyFact, Partial<Counts>]> = [
    [delivered({ email: 'em_1', event: bytes }), { delivered: 1 }],
    [deferred({ email: 'em_1', event: bytes }), { deferred: 1 }],
    [deferred({ email: 'em_1', first: false, event: bytes }), {}],
    [bounced({ email: 'em_1', event: bytes }), { bounced: 1 }],
    [failed({ email: 'em_1', event: bytes }), { failed: 1 }],
    [suppressed({ email: 'em_1' }), { suppressed: 1 }],
    [canceled({ email: 'em_1' }), { canceled: 1 }],
    [opened({ email: 'em_1', event: bytes }), { opened: 1 }],
    [opened({ email: 'em_1', machine: true, first: false, event: bytes }), {}],
    [clicked({ email: 'em_1', event: bytes }), { clicked: 1 }],
    [clicked({ email: 'em_1', first: false, event: bytes }), {}],
    [complained({ email: 'em_1', event: bytes }), { complained: 1 }],
    [unsubscribed({ email: 'em_1', event: bytes }), { unsubscribed: 1 }],
    [attempted({ email: 'em_1' }), {}],
    [inDoubt({ email: 'em_1' }), {}],
    [rescheduled({ email: 'em_1' }), {}],
    [retryRequested({ email: 'em_1' }), {}]
  ]
  for (const [fact, counts] of cases) {
    await clear(pool)
    await apply(pool, stats, inLog([fact]))
    t.strictSame(
      Object.values(await counted(pool, 'stats_hours')),
      Object.keys(counts).length === 0 ? [] : [counts],
      fact.type
    )
  }
})

t.test('test addresses count for their destination, and for no sender, also when they are told again', async t => {
  const pool = await freshPool(t)
  const bytes = event('news@example.com', ['eu'])
  const [email, test] = ['em_1', 'bounced@sandbox.jetpost.test']
  const told = [
    record({ email, tags: ['eu'], to: [test, 'ada@example.net'] }),
    bounced({ email, n: 0, to: test, event: bytes }),
    delivered({ email, n: 1, to: 'ada@example.net', event: bytes }),
    complained({ email, n: 0, to: test, event: bytes })
  ].map(fact => at(fact, 0))
  const when = hour(timeAt(0))
  const senders = Object.fromEntries(
    ['', 'eu'].map(tag => [`${ACCOUNT} ${when} example.com ${tag}`, { accepted: 1, delivered: 1 }])
  )
  const destinations = {
    [`${ACCOUNT} ${when} sandbox.jetpost.test`]: { accepted: 1, bounced: 1, complained: 1 },
    [`${ACCOUNT} ${when} example.net`]: { accepted: 1, delivered: 1 }
  }
  await apply(pool, stats, inLog(told))
  t.strictSame(await counted(pool, 'stats_hours'), senders)
  t.strictSame(await counted(pool, 'stats_destinations'), destinations)
  const again = at(record({ email, tags: ['eu'], to: [test, 'ada@example.net'] }), 0)
  await apply(pool, stats, inLog([again], 20))
  t.strictSame(await counted(pool, 'stats_hours'), senders, 'a record that comes again')
  const other = at(record({ email: 'em_2', to: [test, ERASED] }), 0)
  await apply(pool, stats, inLog([other], 30))
  const both = (await counted(pool, 'stats_hours'))[`${ACCOUNT} ${when} example.com `]
  t.match(both, { accepted: 2 }, 'beside somebody erased')
  t.match((await counted(pool, 'stats_destinations'))[`${ACCOUNT} ${when} sandbox.jetpost.test`], { accepted: 2 })
})

t.test('what version 1 did not say counts for no domain', async t => {
  const pool = await freshPool(t)
  await apply(pool, stats, inLog([suppressed({ email: 'em_1', from: '', tags: [] })]))
  t.strictSame(Object.keys(await counted(pool, 'stats_hours')).map(key => key.split(' ').slice(2)), [['', '']])
})

t.test('a tag counts once a mail, whatever letters it has; one without any would pass for all mail', async t => {
  const pool = await freshPool(t)
  await apply(
    pool,
    stats,
    inLog([
      record({ email: 'em_1', tags: ['a', 'a', '', 'x\0', 'x\uFFFD', 'y\uD800'] }),
      record({ email: 'em_2', tags: ['y\uDBFF'] })
    ])
  )
  const tags = Object.entries(await counted(pool, 'stats_hours')).map((
    [key, { accepted }]
  ) => [key.split(' ').at(-1), accepted])
  t.strictSame(tags.sort(), [['', 2], ['a', 1], ['x\uFFFD', 1], ['y\uFFFD', 2]])
})

const PEOPLE = ['ada@example.net', 'bob@example.org', 'cyd@ada-smith.name', 'dan@example.net']
const SENDERS = ['news@example.com', 'bills@shop.example']
const TAGS = ['welcome', 'eu', 'weekly']

/** A log of some emails, in the order of a stream: what was asked may be told after what came of it. */
function chanceLog (chance: Chance): Array<Recorded<AnyFact>> {
  const facts: AnyFact[] = []
  for (let i = 0; i < 12; i++) {
    const email = `em_${i}`
    const [from, tags] = [chance.of(SENDERS), TAGS.filter(() => chance.next() < 0.4)]
    const to = PEOPLE.filter(() => chance.next() < 0.5)
    const atS = chance.int(0, 3) * 3600
    const told: AnyFact[] = [record({ email, from, tags, to: to.length === 0 ? [PEOPLE[0]!] : to, atS })]
    for (const [n, address] of to.entries()) {
      const given = { email, n, to: address, event: event(from, tags) }
      const makers = [delivered, deferred, bounced, failed, complained, unsubscribed]
      for (let k = chance.int(0, 4); k > 0; k--) {
        const which = chance.int(0, 8)
        const fact: AnyFact = which < 6
          ? makers[which]!(given)
          : which === 6
          ? opened({ ...given, first: chance.next() < 0.5 })
          : which === 7
          ? clicked({ ...given, first: chance.next() < 0.5 })
          : canceled({ email, n, to: address, from, tags })
        told.push(at(fact, atS + chance.int(0, 5) * 1800))
      }
    }
    if (chance.next() < 0.3) told.push(told.shift()!)
    facts.push(...told)
  }
  return inLog(facts)
}

/** The same, written the simple way: rows by key, one look at each fact. */
function naive (
  log: Array<Recorded<AnyFact>>
): { hours: Record<string, Partial<Counts>>, destinations: Record<string, Partial<Counts>> } {
  const hours: Record<string, Partial<Counts>> = {}
  const destinations: Record<string, Partial<Counts>> = {}
  const add = (rows: Record<string, Partial<Counts>>, key: string, name: Counted) => {
    ;(rows[key] ??= {})[name] = (rows[key]![name] ?? 0) + 1
  }
  const count = (name: Counted, time: string, from: string, tags: string[], to: string) => {
    for (const tag of ['', ...tags]) add(hours, `${ACCOUNT} ${hour(time)} ${from.split('@')[1]} ${tag}`, name)
    add(destinations, `${ACCOUNT} ${hour(time)} ${isErased(to) ? '' : to.split('@')[1]}`, name)
  }
  for (const { fact } of log) {
    if (fact.type === 'email.recorded') {
      for (const { address } of fact.data.recipients) {
        count('accepted', fact.data.requestedAt, fact.data.from.address, fact.data.tags, address)
      }
    } else {
      const data = fact.data as RecipientFact['data'] & {
        event?: string
        first?: boolean
        from?: string
        tags?: string[]
      }
      const { from, tags } = data.event === undefined
        ? { from: data.from!, tags: data.tags! }
        : JSON.parse(data.event).data
      if (data.first !== false) count(fact.type.split('.')[1] as Counted, fact.time, from, tags, data.to)
    }
  }
  return { hours, destinations }
}

t.test('facts in any order and in any batches count what a simple count gives', async t => {
  const pool = await freshPool(t)
  const seeds = openChance(t)
  for (let turn = 0; turn < (LONG ? 8 : 3); turn++) {
    const chance = chanceOf(seeds.int(1, 1e9))
    const log = chanceLog(chance)
    const expected = naive(log)
    await clear(pool)
    for (const one of log) await apply(pool, stats, [one])
    const rows = await rowsOf(pool)
    t.strictSame(await counted(pool, 'stats_hours'), expected.hours, `turn ${turn}: one at a time`)
    t.strictSame(await counted(pool, 'stats_destinations'), expected.destinations)
    await clear(pool)
    for (const batch of cut(shuffled(log, chance.next), 20, chance.next)) await apply(pool, stats, batch)
    t.strictSame(await rowsOf(pool), rows, `turn ${turn}: mixed`)
  }
})

/** A log in which an address has been forgotten: what tells it again, and where what has gone lay. */
function forget (
  log: Array<Recorded<AnyFact>>,
  address: string
): { told: Array<Recorded<AnyFact>>, gone: Set<number> } {
  const facts: AnyFact[] = []
  const gone = new Set<number>()
  for (const { fact, seq } of log) {
    if (fact.type !== 'email.recorded' || !fact.data.recipients.some(recipient => recipient.address === address)) {
      continue
    }
    const ns = fact.data.recipients.flatMap((recipient, n) => (recipient.address === address ? [n] : []))
    gone.add(seq)
    facts.push({ ...fact, data: requestWithout(fact.data, ns, asIs) })
    for (const n of ns) {
      const past = log.filter(({ fact: { type, data } }) =>
        type !== 'email.recorded' && (data as RecipientFact['data']).email === fact.data.email &&
        (data as RecipientFact['data']).n === n
      )
      for (const { seq } of past) gone.add(seq)
      facts.push(erased(past, fact.data.email, n))
    }
  }
  return { told: inLog(facts, log.length + 1), gone }
}

t.test('an erasure changes destinations alone, and a rebuild counts the same, whatever is already deleted', async t => {
  const pool = await freshPool(t)
  const seeds = openChance(t)
  for (let turn = 0; turn < (LONG ? 6 : 3); turn++) {
    const chance = chanceOf(seeds.int(1, 1e9))
    const log = chanceLog(chance)
    const { told, gone } = forget(log, 'cyd@ada-smith.name')
    const expected = naive(log)
    await clear(pool)
    for (const batch of cut([...log, ...told], 15, chance.next)) await apply(pool, stats, batch)
    const live = await rowsOf(pool)
    t.strictSame(await counted(pool, 'stats_hours'), expected.hours, `turn ${turn}: live`)
    t.notMatch(JSON.stringify(live), /ada-smith|cyd/, 'no word of the person is left')
    const places = await counted(pool, 'stats_destinations')
    const total = (rows: Record<string, Partial<Counts>>) =>
      COUNTED.map(name => Object.values(rows).reduce((sum, row) => sum + (row[name] ?? 0), 0))
    t.strictSame(total(places), total(expected.destinations), 'as many went somewhere')
    for (const share of [1, 0.5, 0]) {
      await clear(pool)
      const left = log.filter(({ seq }) => !gone.has(seq) || chance.next() >= share)
      for (const batch of cut([...left, ...told], 15, chance.next)) await apply(pool, stats, batch)
      t.strictSame(await rowsOf(pool), live, `turn ${turn}: ${share * 100} % deleted`)
    }
  }
})

t.test('a second erasure of the same recipient, and one that was told twice, change nothing', async t => {
  const pool = await freshPool(t)
  const log = inLog([
    record({ email: 'em_1', tags: ['a'] }),
    delivered({ email: 'em_1', event: event('news@example.com', ['a']) })
  ])
  const { told } = forget(log, 'ada@example.net')
  await apply(pool, stats, [...log, ...told])
  const once = await rowsOf(pool)
  const again = told.map((one, i) => ({ ...one, seq: 100 + i }))
  await apply(pool, stats, again)
  t.strictSame(await rowsOf(pool), once)
  const late = inLog([at(opened({ email: 'em_1', event: event('news@example.com', ['a']) }), 1)], 200)
  await apply(pool, stats, late)
  await apply(pool, stats, inLog([erased([...log.slice(1), ...late], 'em_1', 0)], 300))
  t.notMatch(
    JSON.stringify(await rowsOf(pool)),
    /example\.net/,
    'what came too late for the first is forgotten by the second'
  )
})

t.test('a record that comes after the one that an erasure made of it counts nobody again', async t => {
  const pool = await freshPool(t)
  const asked = record({ email: 'em_1', tags: ['a', 'b'], to: ['cyd@ada-smith.name', 'bob@example.org'] })
  const made = { ...asked, data: requestWithout(asked.data, [0], asIs) }
  await apply(pool, stats, inLog([made]))
  const expected = await rowsOf(pool)
  t.strictSame(Object.values(await counted(pool, 'stats_hours')), [{ accepted: 2 }, { accepted: 2 }, { accepted: 2 }])
  await apply(pool, stats, inLog([asked], 2))
  t.strictSame(await counted(pool, 'stats_hours'), naive(inLog([made])).hours)
  await apply(pool, stats, inLog([made], 3))
  t.strictSame(await rowsOf(pool), expected, 'and once it is erased as well, nothing of it is left')
})

const EVERYTHING: Which = { account: ACCOUNT, domain: null, tag: null, destination: null }
const DAY = Date.parse('2026-11-21T00:00:00Z')
const spanOf = (which: Partial<Which> = {}, fromMs = DAY, toMs = DAY + 2 * 86_400_000): StatsOptions => ({
  which: { ...EVERYTHING, ...which },
  fromMs,
  toMs,
  except: []
})

t.test('questions: by time, by name, with filters', async t => {
  const pool = await freshPool(t)
  await apply(
    pool,
    stats,
    inLog([
      record({ email: 'em_1', tags: ['a'], to: ['x@one.example', 'y@two.example'], atS: 0 }),
      record({ email: 'em_2', tags: ['b'], from: 'me@shop.example', to: ['x@one.example'], atS: 3600 }),
      record({ email: 'em_3', tags: ['a', 'b'], to: ['x@one.example'], atS: 86_400 }),
      { ...record({ email: 'em_4', atS: 0 }), account: 'acc_other' }
    ])
  )
  const byTime = async (interval: 'hour' | 'day' | 'month', options: StatsOptions) =>
    (await ask(pool, countsByTime({ ...options, interval }))).map((
      { startMs, counts }
    ) => [new Date(startMs).toISOString().slice(0, 13), counts.accepted])
  t.strictSame(await byTime('hour', spanOf()), [['2026-11-21T10', 2], ['2026-11-21T11', 1], ['2026-11-22T10', 1]])
  t.strictSame(await byTime('day', spanOf()), [['2026-11-21T00', 3], ['2026-11-22T00', 1]])
  t.strictSame(await byTime('month', spanOf()), [['2026-11-01T00', 4]])
  t.strictSame(await byTime('month', { ...spanOf(), except: ['2026-11'] }), [])
  t.strictSame(await byTime('day', spanOf({ domain: 'shop.example' })), [['2026-11-21T00', 1]])
  t.strictSame(await byTime('day', spanOf({ tag: 'a' })), [['2026-11-21T00', 2], ['2026-11-22T00', 1]])
  t.strictSame(await byTime('day', spanOf({ tag: 'b', domain: 'example.com' })), [['2026-11-22T00', 1]])
  t.strictSame(await byTime('day', spanOf({ destination: 'two.example' })), [['2026-11-21T00', 1]])
  t.strictSame(
    await byTime('day', spanOf({}, DAY + 11 * 3_600_000, DAY + 34 * 3_600_000)),
    [['2026-11-21T00', 1]],
    'from is included, to is not'
  )
  const byName = async (by: 'domain' | 'tag' | 'destination', which: Partial<Which> = {}, limit = 10) =>
    (await ask(pool, countsByName({ ...spanOf(which), by, limit }))).map(({ name, counts }) => [name, counts.accepted])
  t.strictSame(await byName('domain'), [['example.com', 3], ['shop.example', 1]])
  t.strictSame(await byName('domain', { tag: 'b' }), [['example.com', 1], ['shop.example', 1]])
  t.strictSame(await byName('tag'), [['a', 3], ['b', 2]])
  t.strictSame(await byName('tag', { domain: 'shop.example' }), [['b', 1]])
  t.strictSame(await byName('destination'), [['one.example', 3], ['two.example', 1]])
  t.strictSame(await byName('destination', {}, 1), [['one.example', 3]])
  t.strictSame(await ask(pool, countsOfMonth({ account: ACCOUNT, month: '2026-11', limit: 10 })), [
    { domain: 'example.com', counts: { ...NOTHING, accepted: 3 } },
    { domain: 'shop.example', counts: { ...NOTHING, accepted: 1 } }
  ])
  t.strictSame(await ask(pool, countsOfMonth({ account: ACCOUNT, month: '2026-12', limit: 10 })), [])
})

t.test('hours leave as a whole, with what is remembered of them', async t => {
  const pool = await freshPool(t)
  const log = inLog([
    record({ email: 'em_1' }),
    at(delivered({ email: 'em_1', event: event('news@example.com', []) }), 3600)
  ])
  await apply(pool, stats, log)
  for (const [table, old] of Object.entries(stats.aging!.rows(DAY + 10.5 * 3_600_000))) {
    await pool.query({ text: `delete from ${table} where ${old.text}`, values: [...old.values] })
  }
  t.strictSame(Object.values(await counted(pool, 'stats_hours')), [{ delivered: 1 }])
  const before = await rowsOf(pool)
  t.strictSame(Object.values(before).map(rows => rows.length), [1, 1, 1])
  await clear(pool)
  await apply(pool, stats, log.slice(1))
  t.strictSame(await rowsOf(pool), before, 'as if made of what is left in the log')
})
