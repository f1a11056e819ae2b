import type { PoolClient } from 'pg'
import { listEmails, type EmailFilters } from '#projections/emails/queries.ts'
import type { EmailPage } from '#projections/emails/records.ts'
import { sql, type Query } from '#projections/define.ts'
import type { PageCursor } from '#projections/cursor.ts'
import { createLog } from '#src/base/log.ts'
import { newId } from '#src/base/id.ts'
import { emails } from '#projections/emails/project.ts'
import { createPool, type Pool } from '#src/postgres/pool.ts'
import { ask, transact } from '#src/postgres/query.ts'
import { createIndexes, createTables, liveSet } from '#src/postgres/table-sets.ts'
import { commitAlone } from '#src/workers/projector/commit.ts'
import { createWriter, type StreamItem } from '#src/workers/projector/write.ts'
import type { AnyFact } from '#streams/catalog.ts'
import { ACCOUNT, bounced, complained, deferred, delivered, recorded, requested } from '../support/facts.ts'
import type { Bench, BenchContext } from './bench.ts'
import { ms, print, ratio, rate } from './report.ts'

const LIMIT = 25
/** Emails whose facts are written in one transaction. */
const BATCH = 2000
const LONG_MS = 3_600_000
const START_MS = Date.parse('2026-01-01T00:00:00Z')
const END_MS = Date.parse('2026-11-21T00:00:00Z')
/** So many ids are looked up, one after the other. */
const LOOKUPS = 2000

/** Each filter with a value that many emails have and one that few have. */
const FILTERS: Array<[string, EmailFilters]> = [
  ['none', {}],
  ['status, most', { status: ['delivered'] }],
  ['status, few', { status: ['deferred'] }],
  ['status, several', { status: ['deferred', 'bounced', 'failed'] }],
  ['to, heavy', { to: 'ops@example.net' }],
  ['to, light', { to: 'user777@example.net' }],
  ['from', { from: 'sender3@shop1.example' }],
  ['domain', { domain: 'shop2.example' }],
  ['tag, many', { tag: ['tag1'] }],
  ['tag, few', { tag: ['rare'] }],
  ['metadata, many', { metadata: { plan: 'pro' } }],
  ['metadata, one', { metadata: { order: '4242' } }],
  ['template_id', { template_id: 'tpl_3' }],
  ['event, most', { event: ['delivered'] }],
  ['event, few', { event: ['bounced'] }],
  ['event, rare', { event: ['complained'] }],
  ['created_after', { created_after: '2026-11-01T00:00:00Z' }],
  ['created_before', { created_before: '2026-08-01T00:00:00Z' }],
  ['q, many', { q: 'number' }],
  ['q, one', { q: 'Number 424242 ' }],
  ['q, none', { q: 'no such text' }]
]

/** Page 1 and page 1,000 of a million emails, by each filter, beside a lookup by primary key in the same run. */
export const lists: Bench<'lists'> = {
  about: 'a page of GET /api/emails by each filter, beside a lookup by primary key',
  rows: () => ['emails', 'lookup', ...FILTERS.map(([name]) => `filters.${name}`)],
  async run (context) {
    const servers = await context.openServers({ nats: false })
    const pool = createPool(servers.databaseUrl, createLog('error'))
    try {
      const beginMs = performance.now()
      const ids = await fill(pool, context.sizes.emails)
      context.say(`  the tables are filled in ${ms((performance.now() - beginMs) / 1000)} s`)
      return await measure(context, pool, ids)
    } finally {
      await pool.end()
      await servers.stop()
    }
  }
}

/** Writes a year of mail as a rebuild does, by the projection's own statements, and only then its indexes. Resolves to
 *  some of the emails' ids. */
async function fill (pool: Pool, count: number): Promise<string[]> {
  const set = liveSet(emails)
  const client = await pool.connect()
  const run = async (text: string) => {
    const query = { text, query_timeout: LONG_MS }
    return await client.query(query)
  }
  try {
    await run(`set statement_timeout = ${LONG_MS}; set maintenance_work_mem = '256MB'`)
    await run(`drop schema if exists ${set.schema} cascade`)
    await transact(client, async () => await createTables(client, set))
    const ids = await writeFacts(pool, count)
    await transact(client, async () => await createIndexes({ query: run } as PoolClient, set))
    await run('vacuum analyze')
    return ids
  } finally {
    client.release(true)
  }
}

async function writeFacts (pool: Pool, count: number): Promise<string[]> {
  const writer = createWriter({
    commit: commitAlone(pool),
    set: liveSet(emails),
    copies: true,
    move: async () => true,
    onDeadLetter: (_item, reason) => {
      throw new Error(reason)
    }
  })
  const stepMs = Math.floor((END_MS - START_MS) / count)
  const ids: string[] = []
  const positions = { REQUESTS: 0, EMAILS: 0 }
  for (let from = 0; from < count; from += BATCH) {
    const mails = Array.from(
      { length: Math.min(BATCH, count - from) },
      (_, k) => mailOf(from + k, START_MS + (from + k) * stepMs)
    )
    ids.push(...mails.filter((_, k) => (from + k) % Math.ceil(count / LOOKUPS) === 0).map(({ id }) => id))
    await writer.write([
      ...itemsOf('REQUESTS', mails.map(({ request }) => request), positions.REQUESTS + 1),
      ...itemsOf('EMAILS', mails.flatMap(({ outcomes }) => outcomes), positions.EMAILS + 1)
    ], positions)
  }
  return ids
}

function itemsOf (stream: string, facts: AnyFact[], fromSeq: number): StreamItem[] {
  return recorded(facts, fromSeq).map(one => ({ ...one, stream, reason: '' }))
}

/** Email number `i`, asked for at `atMs`: most are delivered, one recipient in twenty is an address that everything is
 *  copied to. */
function mailOf (i: number, atMs: number): { id: string, request: AnyFact, outcomes: AnyFact[] } {
  const id = newId('em', atMs)
  const time = new Date(atMs).toISOString()
  const to = i % 20 === 0 ? 'ops@example.net' : `user${(i * 7919) % 100_000}@example.net`
  const told = { email: id, request: i + 1, to }
  const request = requested({
    email: id,
    from: { address: `sender${i % 5}@shop${i % 4}.example`, name: null },
    recipients: [{ address: to, name: null, kind: 'to' }],
    subject: `Number ${i} of your orders`,
    template: { id: `tpl_${i % 10}`, version: 1 },
    tags: i % 10_000 === 3 ? ['rare'] : [`tag${i % 5}`],
    metadata: { order: i, plan: i % 3 === 0 ? 'pro' : 'free' }
  })
  const end = i % 100 === 7 ? bounced(told) : i % 1000 === 9 ? deferred(told) : delivered(told)
  const marks = i % 50_000 === 1 ? [complained({ ...told, sequence: 2 })] : []
  return { id, request: { ...request, time }, outcomes: [end, ...marks].map(fact => ({ ...fact, time })) }
}

async function measure (
  { sizes, say }: BenchContext<'lists'>,
  pool: Pool,
  ids: string[]
): Promise<Record<string, unknown>> {
  const { emails: count, deepPage } = sizes
  const lookup = (round: number): Query<unknown> => ({
    sql: sql`select * from emails where id = ${ids[(round * 31) % ids.length]!}`,
    read: found => found
  })
  const base = await timed(pool, sizes, lookup)
  const header = ['page 1 p50', 'p99', '× lookup p99', `page ${rate(deepPage)} p50`, 'p99', '× lookup p99']
  const table: string[][] = [['filter', ...header]]
  const found: Record<string, { first: Times, deep: Times | null }> = {}
  for (const [name, filters] of FILTERS) {
    const page = (cursor: PageCursor | null) => listEmails({ account: ACCOUNT, filters, limit: LIMIT, cursor })
    const first = await timed(pool, sizes, () => page(null))
    const cursor = await deepCursor(pool, filters, deepPage)
    const deep = cursor === null ? null : await timed(pool, sizes, () => page(cursor))
    const cells = (times: Times | null) =>
      times === null ? ['–', '–', '–'] : [ms(times.p50), ms(times.p99), ratio(times.p99 / base.p99)]
    table.push([name, ...cells(first), ...cells(deep)])
    found[name] = { first, deep }
  }
  const lookupText = `p50 ${ms(base.p50)}, p99 ${ms(base.p99)}`
  print(say, `Lists of ${rate(count)} emails, ${LIMIT} a page, in ms; a lookup by primary key: ${lookupText}`, table)
  return { emails: count, lookup: base, filters: found }
}

interface Times {
  p50: number
  p99: number
}

async function timed (
  pool: Pool,
  { rounds, warm }: BenchContext<'lists'>['sizes'],
  query: (round: number) => Query<unknown>
): Promise<Times> {
  const times: number[] = []
  for (let round = 0; round < warm + rounds; round++) {
    const beginMs = performance.now()
    await ask(pool, query(round))
    if (round >= warm) times.push(performance.now() - beginMs)
  }
  times.sort((a, b) => a - b)
  return { p50: times[Math.floor(rounds / 2)]!, p99: times[Math.floor(rounds * 0.99)]! }
}

/** Where a page far down begins, by walking 100 at a time; null when there are not so many. */
async function deepCursor (pool: Pool, filters: EmailFilters, deepPage: number): Promise<PageCursor | null> {
  let cursor: PageCursor | null = null
  for (let walked = 0; walked < (deepPage - 1) * LIMIT; walked += 100) {
    const page: EmailPage = await ask(pool, listEmails({ account: ACCOUNT, filters, limit: 100, cursor }))
    if (!page.has_more) return null
    const { created_at: at, id } = page.data.at(-1)!
    cursor = { at, id }
  }
  return cursor
}
