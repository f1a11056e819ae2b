import { setTimeout as wait } from 'node:timers/promises'
import { emails } from '#projections/emails/project.ts'
import { createLog } from '#src/base/log.ts'
import { connectBus } from '#src/nats/connect.ts'
import { ensureTopology } from '#src/nats/ensure.ts'
import { openRebuilder } from '#src/workers/projector/rebuild.ts'
import { verifyProjection } from '#src/workers/projector/verify/projection.ts'
import { createPool, type Pool } from '#src/postgres/pool.ts'
import { liveSet, createIndexes, createTables } from '#src/postgres/table-sets.ts'
import type { Bench, BenchContext, BenchServers, Say } from './bench.ts'
import { startHelper, type Helper } from './child.ts'
import type { Built, RebuildQuestion, Served } from './rebuild-child.ts'
import { ms, print, rate, ratio } from './report.ts'

const DAY_MS = 86_400_000
const LONG_MS = 3_600_000
const DAYS = { factsMs: 90 * DAY_MS, contentMs: 30 * DAY_MS }

/** Seconds for the same rows by COPY, and for the same indexes on them. */
interface Copied {
  rows: number
  copyS: number
  indexS: number
}

type Urls = Pick<BenchServers, 'natsUrl' | 'databaseUrl'>

/** The view `emails` made again from the facts of very many emails, beside COPY of the very rows it is made of; then
 *  both once more while mail comes and lists are read. */
export const rebuild: Bench<'rebuild'> = {
  about: 'facts a second when a projection is rebuilt, beside COPY of its rows',
  rows: () => [
    'emails',
    'facts',
    'alone',
    'copied',
    'toCopy',
    'busy',
    'copiedBusy',
    'toCopyBusy',
    'served.sent',
    'served.worstSendMs',
    'served.reads',
    'served.worstMs',
    'served.failed',
    'served.missing',
    'wrong'
  ],
  async run (context) {
    const { natsUrl, databaseUrl, stop } = await context.openServers()
    const log = createLog('silent')
    const bus = await connectBus({ url: natsUrl, creds: null, name: 'bench', log })
    const pool = createPool(databaseUrl, log)
    try {
      await ensureTopology(bus, { retention: DAYS, replicas: 1, log })
      const found = await measure(context, { natsUrl, databaseUrl }, pool)
      const { tables } = await verifyProjection(emails, {
        bus,
        pool,
        rebuilder: openRebuilder({ bus, pool, log, natsUrl, databaseUrl }),
        nowMs: Date.now,
        signal: new AbortController().signal,
        onProgress: () => {}
      })
      const wrong = tables.reduce((sum, { missing, surplus, different }) => sum + missing + surplus + different, 0)
      context.say(`  Against a view rebuilt once more from the log ${wrong} rows were wrong.`)
      return { ...found, wrong }
    } finally {
      await pool.end()
      await bus.close()
      await stop()
    }
  }
}

async function measure (
  { sizes, say }: BenchContext<'rebuild'>,
  urls: Urls,
  pool: Pool
): Promise<Record<string, unknown>> {
  const { emails: count } = sizes
  const askHelper = async <T>(question: { ask: 'load', emails: number } | { ask: 'build' }) =>
    await asHelper(async helper => await helper.ask<T>({ ...urls, ...question } satisfies RebuildQuestion, LONG_MS))
  const facts = await askHelper<number>({ ask: 'load', emails: count })
  say(`  ${rate(facts)} facts are loaded`)
  const alone = await askHelper<Built>({ ask: 'build' })
  say(`  rebuilt in ${ms(alone.seconds)} s`)
  const copied = await copy(pool)
  say(`  copied in ${ms(copied.copyS + copied.indexS)} s`)
  const whileServing = async <T>(from: number, work: () => Promise<T>) => await beside(urls, sizes, from, work)
  const { done: busy, served } = await whileServing(count, async () => await askHelper<Built>({ ask: 'build' }))
  say(`  rebuilt in ${ms(busy.seconds)} s while mail came`)
  const { done: copiedBusy } = await whileServing(count + served.sent, async () => await copy(pool))
  return report(say, sizes, { facts, alone, copied, busy, copiedBusy, served })
}

async function asHelper<T> (use: (helper: Helper) => Promise<T>): Promise<T> {
  const helper = startHelper('rebuild-child.ts')
  try {
    return await use(helper)
  } finally {
    await helper.stop()
  }
}

/** By way of the server's own files: nothing but COPY. */
async function copy (pool: Pool): Promise<Copied> {
  const raw = { projection: emails, schema: 'bench_copy' }
  const client = await pool.connect()
  const run = async (text: string) => {
    const query = { text, query_timeout: LONG_MS }
    return await client.query(query)
  }
  try {
    await run(`set statement_timeout = ${LONG_MS}; set synchronous_commit = off; set maintenance_work_mem = '256MB'`)
    const { rows: [{ data_directory: folder }] } = await run('show data_directory')
    await run('begin')
    await createTables(client, raw)
    await run('commit')
    const tables = ['emails', 'email_states', 'recipients', 'timeline']
    let rows = 0
    for (const table of tables) {
      rows += (await run(`copy ${liveSet(emails).schema}.${table} to '${folder}/bench_${table}'`)).rowCount!
    }
    await run('checkpoint')
    const beginMs = performance.now()
    for (const table of tables) await run(`copy bench_copy.${table} from '${folder}/bench_${table}'`)
    const copyS = (performance.now() - beginMs) / 1000
    await run('begin')
    await createIndexes({ query: run } as typeof client, raw)
    await run('commit')
    const indexS = (performance.now() - beginMs) / 1000 - copyS
    await run('drop schema bench_copy cascade')
    return { rows, copyS, indexS }
  } finally {
    client.release(true)
  }
}

/** What `work` gives, done while mail comes, whose emails are counted on from `from`, and lists are read. */
async function beside<T> (
  urls: Urls,
  { perS, aroundMs }: BenchContext<'rebuild'>['sizes'],
  from: number,
  work: () => Promise<T>
): Promise<{ done: T, served: Served }> {
  return await asHelper(async service => {
    await service.ask({ ...urls, ask: 'serve', perS, from } satisfies RebuildQuestion, LONG_MS)
    await wait(aroundMs)
    const done = await work()
    await wait(aroundMs)
    return { done, served: await service.ask<Served>({ ...urls, ask: 'stop' } satisfies RebuildQuestion, LONG_MS) }
  })
}

interface Found {
  facts: number
  alone: Built
  copied: Copied
  busy: Built
  copiedBusy: Copied
  served: Served
}

function report (
  say: Say,
  { emails: count, perS: mailPerS }: BenchContext<'rebuild'>['sizes'],
  { facts, alone, copied, busy, copiedBusy, served }: Found
): Record<string, unknown> {
  const factsPerRow = facts / copied.rows
  const rawRate = ({ rows, copyS, indexS }: Copied): number => rows * factsPerRow / (copyS + indexS)
  const [perS, rawPerS, busyPerS, rawBusyPerS] = [
    facts / alone.seconds,
    rawRate(copied),
    busy.facts / busy.seconds,
    rawRate(copiedBusy)
  ]
  const rowOf = (
    name: string,
    built: Built,
    perS: number,
    rawPerS: number
  ): string[] => [
    name,
    rate(perS),
    ratio(perS / rawPerS),
    ms(built.readS),
    ms(built.seconds - built.readS),
    `${built.rssMb[Math.floor(built.rssMb.length / 4)] ?? '-'}`,
    `${Math.max(...built.rssMb)}`
  ]
  print(say, `The view emails rebuilt: ${rate(count)} emails, ${rate(facts)} facts, ${rate(copied.rows)} rows`, [
    ['', 'facts a second', '÷ COPY beside it', 's for rows', 's for indexes', 'MB at a quarter', 'MB at most'],
    rowOf('jetpost rebuild', alone, perS, rawPerS),
    ['COPY of the same rows, and the same indexes', rate(rawPerS), '1.00', ms(copied.copyS), ms(copied.indexS), '', ''],
    rowOf(`jetpost rebuild, with ${mailPerS} emails/s coming and lists being read`, busy, busyPerS, rawBusyPerS),
    [
      'COPY, with the same coming and being read',
      rate(rawBusyPerS),
      '1.00',
      ms(copiedBusy.copyS),
      ms(copiedBusy.indexS),
      '',
      ''
    ]
  ])
  const { sent, worstSendMs, reads, worstMs, failed, missing } = served
  say(
    `\n  Meanwhile ${rate(sent)} emails were sent, the slowest through all its appends in ${worstSendMs} ms,` +
      ` and ${rate(reads)} reads made, the slowest in ${worstMs} ms; ${failed} failed, ${missing} rows were missing.`
  )
  return {
    emails: count,
    facts,
    alone,
    copied,
    toCopy: perS / rawPerS,
    busy,
    copiedBusy,
    toCopyBusy: busyPerS / rawBusyPerS,
    served
  }
}
