import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { listEmails, type EmailFilters } from '#projections/emails/queries.ts'
import type { EmailPage } from '#projections/emails/records.ts'
import { sql, type Query } from '#projections/define.ts'
import type { PageCursor } from '#projections/cursor.ts'
import { createLog } from '#src/base/log.ts'
import { newId } from '#src/base/id.ts'
import { startEmbedded } from '#src/embedded/start.ts'
import { emails } from '#projections/emails/project.ts'
import { createPool, type Pool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'
import { makeEmpty } from '../support/empty-projection.ts'
import { ms, print, ratio, rate } from './report.ts'

const EMAILS = Number(process.env.JETPOST_BENCH_EMAILS ?? 1_000_000)
const ACCOUNT = 'acc_bench'
const LIMIT = 25
const DEEP_PAGE = 1000
const ROUNDS = 200

/** Each filter with a value that many emails have and one that few have. */
const FILTERS: Array<[string, EmailFilters]> = [
  ['none', {}],
  ['status, most', { status: 'delivered' }],
  ['status, few', { status: 'deferred' }],
  ['to, heavy', { to: 'ops@example.net' }],
  ['to, light', { to: 'user777@example.net' }],
  ['from', { from: 'sender3@shop1.example' }],
  ['domain', { domain: 'shop2.example' }],
  ['tag, many', { tag: 'tag1' }],
  ['tag, few', { tag: 'rare' }],
  ['metadata, many', { metadata: { plan: 'pro' } }],
  ['metadata, one', { metadata: { order: '4242' } }],
  ['template_id', { template_id: 'tpl_3' }],
  ['event, most', { event: 'delivered' }],
  ['event, few', { event: 'bounced' }],
  ['event, rare', { event: 'complained' }],
  ['created_after', { created_after: '2026-11-01T00:00:00Z' }],
  ['created_before', { created_before: '2026-08-01T00:00:00Z' }],
  ['q, many', { q: 'number' }],
  ['q, one', { q: 'Number 424242 ' }],
  ['q, none', { q: 'no such text' }]
]

/** Page 1 and page 1,000 of a million emails, by each filter, beside a lookup by primary key in the same run. */
export async function benchLists (): Promise<Record<string, unknown>> {
  const dataDir = mkdtempSync(join(tmpdir(), 'jetpost-bench-'))
  const options = {
    dataDir,
    nats: false,
    postgres: true,
    natsBin: null,
    natsPort: null,
    postgresPort: null,
    log: createLog('error'),
    say: () => {}
  }
  const servers = await startEmbedded(options)
  const pool = createPool(servers.databaseUrl!, createLog('error'))
  try {
    await makeEmpty(pool, emails)
    await fill(pool)
    return await measure(pool)
  } finally {
    await pool.end()
    await servers.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
}

/** A year of mail, the newest last: most of it delivered, one recipient in twenty an address that everything is copied
 *  to. */
async function fill (pool: Pool): Promise<void> {
  const startMs = Date.parse('2026-01-01T00:00:00Z')
  const stepMs = Math.floor((Date.parse('2026-11-21T00:00:00Z') - startMs) / EMAILS)
  for (let from = 0; from < EMAILS; from += 10_000) {
    const rows = Array.from(
      { length: Math.min(10_000, EMAILS - from) },
      (_, k) => rowOf(from + k, startMs + (from + k) * stepMs)
    )
    const text = JSON.stringify(rows)
    await pool.query({
      text: `insert into emails select * from json_populate_recordset(null::emails, $1)`,
      values: [text],
      ...SLOW
    })
    await pool.query({
      text:
        `insert into recipients (email, n, account, address, kind, request_seq, status, status_seq, attempts, reply_seq)
        select id, 0, account, address, 'to', 1, status, 1, 1, 0 from json_to_recordset($1) as rows (id text, account text, address text, status text)`,
      values: [text],
      ...SLOW
    })
    await pool.query({
      text: `insert into email_states select id, account, created_at, status, events
        from json_to_recordset($1) as rows (id text, account text, created_at timestamptz, status text, event text), lateral (select array[event]) as listed (events)`,
      values: [text],
      ...SLOW
    })
  }
  await pool.query({ text: 'vacuum analyze', ...SLOW })
}

const SLOW = { query_timeout: 600_000 }

function rowOf (i: number, createdMs: number): object {
  const [status, event] = i % 100 === 7
    ? ['bounced', 'email.bounced']
    : i % 1000 === 9
    ? ['deferred', 'email.bounced']
    : ['delivered', i % 50_000 === 1 ? 'email.complained' : 'email.delivered']
  const address = i % 20 === 0 ? 'ops@example.net' : `user${(i * 7919) % 100_000}@example.net`
  const from = `sender${i % 5}@shop${i % 4}.example`
  return {
    id: newId('em', createdMs),
    account: ACCOUNT,
    key: 'key_1',
    test: false,
    from_address: from,
    from_domain: `shop${i % 4}.example`,
    to_list: [address],
    cc_list: [],
    bcc_list: [],
    reply_to_list: [],
    subject: `Number ${i} of your orders`,
    headers: [],
    attachments: [],
    template: `tpl_${i % 10}`,
    template_version: 1,
    track_opens: true,
    track_clicks: true,
    unsubscribe: true,
    tags: i % 10_000 === 3 ? ['rare'] : [`tag${i % 5}`],
    metadata: { order: i, plan: i % 3 === 0 ? 'pro' : 'free' },
    created_at: new Date(createdMs).toISOString(),
    request_seq: i + 1,
    search: `Number ${i} of your orders\n${from}\n${address}`,
    address,
    status,
    event
  }
}

async function measure (pool: Pool): Promise<Record<string, unknown>> {
  const { rows } = await pool.query<{ id: string }>('select id from emails tablesample system (1) limit 2000')
  const lookup = (round: number): Query<unknown> => ({
    sql: sql`select * from emails where id = ${rows[(round * 31) % rows.length]!.id}`,
    read: found => found
  })
  const base = await timed(pool, lookup)
  const table: string[][] = [[
    'filter',
    'page 1 p50',
    'p99',
    '× lookup p99',
    `page ${rate(DEEP_PAGE)} p50`,
    'p99',
    '× lookup p99'
  ]]
  const result: Record<string, unknown> = { emails: EMAILS, lookup: base }
  for (const [name, filters] of FILTERS) {
    const first = await timed(pool, () => listEmails({ account: ACCOUNT, filters, limit: LIMIT, cursor: null }))
    const cursor = await deepCursor(pool, filters)
    const deep = cursor === null
      ? null
      : await timed(pool, () => listEmails({ account: ACCOUNT, filters, limit: LIMIT, cursor }))
    table.push([
      name,
      ms(first.p50),
      ms(first.p99),
      ratio(first.p99 / base.p99),
      ...(deep === null ? ['–', '–', '–'] : [ms(deep.p50), ms(deep.p99), ratio(deep.p99 / base.p99)])
    ])
    result[name] = { first, deep }
  }
  print(
    `Lists of ${rate(EMAILS)} emails, ${LIMIT} a page, in ms; a lookup by primary key: p50 ${ms(base.p50)}, p99 ${
      ms(base.p99)
    }`,
    table
  )
  return result
}

async function timed (pool: Pool, query: (round: number) => Query<unknown>): Promise<{ p50: number, p99: number }> {
  const times: number[] = []
  for (let round = -20; round < ROUNDS; round++) {
    const beginMs = performance.now()
    await ask(pool, query(round + 20))
    if (round >= 0) times.push(performance.now() - beginMs)
  }
  times.sort((a, b) => a - b)
  return { p50: times[Math.floor(ROUNDS / 2)]!, p99: times[Math.floor(ROUNDS * 0.99)]! }
}

/** Where page 1,000 begins, by walking 100 at a time; null when there are not so many. */
async function deepCursor (pool: Pool, filters: EmailFilters): Promise<PageCursor | null> {
  let cursor: PageCursor | null = null
  for (let walked = 0; walked < (DEEP_PAGE - 1) * LIMIT; walked += 100) {
    const page: EmailPage = await ask(pool, listEmails({ account: ACCOUNT, filters, limit: 100, cursor }))
    if (!page.has_more) return null
    const { created_at: at, id } = page.data.at(-1)!
    cursor = { at, id }
  }
  return cursor
}
