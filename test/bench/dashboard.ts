import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLog } from '#src/base/log.ts'
import { projections } from '#projections/list.ts'
import { startEmbedded } from '#src/embedded/start.ts'
import { connectBus } from '#src/nats/connect.ts'
import { ensureTopology } from '#src/nats/ensure.ts'
import { createView } from '#src/out/projector/view.ts'
import { createPool } from '#src/postgres/pool.ts'
import { openPage, signIn, type Page } from '../support/browser.ts'
import { crawl } from '../support/crawl.ts'
import { visit } from '../support/dashboard.ts'
import { API_KEY, openTestHouse, type TestHouse } from '../support/house.ts'
import { until } from '../support/wait.ts'
import { loadMail } from './rebuild-facts.ts'
import { median, ms, print, rate, ratio } from './report.ts'

const FEW = 100
const MANY = Number(process.env.JETPOST_BENCH_EMAILS ?? 1_000_000)
const TRIES = Number(process.env.JETPOST_BENCH_TRIES ?? 7)
const DAY_MS = 86_400_000
const LONG_MS = 3_600_000
const PAINTED = `new Promise(resolve => new PerformanceObserver(list => {
  const first = list.getEntriesByName('first-contentful-paint')[0]
  if (first !== undefined) resolve(first.startTime)
}).observe({ type: 'paint', buffered: true }))`
const DAYS = { factsMs: 90 * DAY_MS, contentMs: 30 * DAY_MS }

/** Of one page: ms to its first paint by a browser that has its styles and scripts, and what a browser without them transfers. */
interface Measured { paintMs: number, bytes: number }

/** How long each page of the dashboard takes to show something, and how much it transfers, with very many emails in the account beside a hundred. */
export async function benchDashboard (): Promise<Record<string, unknown>> {
  const few = await withEmails(FEW)
  const many = await withEmails(MANY)
  const rows = [...many].map(([name, { paintMs, bytes }]) => {
    const before = few.get(name)
    const growth = before === undefined ? '' : ratio(paintMs / before.paintMs)
    return [name, before === undefined ? '' : ms(before.paintMs), ms(paintMs), growth, rate(bytes / 1000)]
  })
  print(`The dashboard: first paint of its pages, the median of ${TRIES}`, [['', `ms, ${rate(FEW)} emails`, `ms, ${rate(MANY)} emails`, 'ratio', 'kB, first visit'], ...rows])
  const ratios = [...many].flatMap(([name, { paintMs }]) => (few.has(name) ? [paintMs / few.get(name)!.paintMs] : []))
  const bytesMax = Math.max(...[...many.values()].map(({ bytes }) => bytes))
  console.log(`\n  The slowest page takes ${ratio(Math.max(...ratios))} times as long as with ${rate(FEW)}; the biggest transfers ${rate(bytesMax / 1000)} kB.`)
  return { emails: MANY, few: Object.fromEntries(few), many: Object.fromEntries(many), ratioMax: Math.max(...ratios), bytesMax }
}

/** On servers of its own; what was opened is closed again in reverse. */
async function withEmails (emails: number): Promise<Map<string, Measured>> {
  const ends: Array<() => unknown> = []
  const scope = { teardown: (end: () => unknown) => void ends.push(end) }
  const dataDir = mkdtempSync(join(tmpdir(), 'jetpost-bench-'))
  scope.teardown(() => rmSync(dataDir, { recursive: true, force: true }))
  try {
    const log = createLog('silent')
    const servers = await startEmbedded({ dataDir, nats: true, postgres: true, natsBin: null, natsPort: null, postgresPort: null, log, say: () => {} })
    scope.teardown(() => servers.stop())
    const { natsUrl, databaseUrl } = servers as { natsUrl: string, databaseUrl: string }
    const bus = await connectBus({ url: natsUrl, creds: null, name: 'bench', log })
    scope.teardown(() => bus.close())
    const pool = createPool(databaseUrl, log)
    scope.teardown(() => pool.end())
    await ensureTopology(bus, { retention: DAYS, replicas: 1, log })
    await loadMail(bus, emails)
    const house = await openTestHouse(scope, { natsUrl, databaseUrl })
    const view = createView(bus, pool)
    await until(async () => (await Promise.all(Object.values(projections).map(projection => view.caughtUp(projection, 1000).catch(() => false)))).every(Boolean), LONG_MS)
    return await measure(scope, house)
  } finally {
    for (const end of ends.reverse()) await end()
  }
}

async function measure (scope: Parameters<typeof openPage>[0], house: TestHouse): Promise<Map<string, Measured>> {
  const { pages } = await crawl(await visit(house))
  const { page } = await openPage(scope, house.url)
  await signIn(page, API_KEY)
  const measured = new Map<string, Measured>()
  for (const [name, urls] of pages) {
    // A name that both runs have, whatever the ids are.
    for (const url of urls.filter(url => !url.includes('cursor') || name === 'GET /emails').slice(0, 3)) {
      if (await isDownload(page, url)) continue
      const query = [...new URL(url, house.url).searchParams.keys()].join('&')
      const what = name.slice('GET '.length) + (query === '' ? '' : `?${query}`)
      if (!measured.has(what)) measured.set(what, { paintMs: await paintMs(page, url), bytes: await bytesOf(page, url) })
    }
  }
  return measured
}

async function isDownload (page: Page, url: string): Promise<boolean> {
  return await page.goto(url).then(() => false, () => true) || /\/(frame|html|source|files)\b/.test(url)
}

async function paintMs (page: Page, url: string): Promise<number> {
  const times: number[] = []
  for (let i = 0; i < TRIES; i++) {
    await page.goto(url, { waitUntil: 'load' })
    times.push(await page.evaluate<number>(PAINTED))
  }
  return median(times)
}

/** Over the wire, headers and all, with an empty cache. */
async function bytesOf (page: Page, url: string): Promise<number> {
  const line = await page.context().newCDPSession(page)
  await line.send('Network.enable')
  await line.send('Network.clearBrowserCache')
  let bytes = 0
  line.on('Network.loadingFinished', ({ encodedDataLength }) => { bytes += encodedDataLength })
  await page.goto(url, { waitUntil: 'load' })
  await line.detach()
  return bytes
}
