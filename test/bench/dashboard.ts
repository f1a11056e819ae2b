import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLog } from '#src/base/log.ts'
import { projections } from '#projections/list.ts'
import { startEmbedded } from '#src/embedded/start.ts'
import { connectBus } from '#src/nats/connect.ts'
import { ensureTopology } from '#src/nats/ensure.ts'
import { createCheckpoints } from '#src/workers/projector/checkpoints.ts'
import { createPool } from '#src/postgres/pool.ts'
import { openPage, signIn, type Page } from '../support/browser.ts'
import { crawl } from '../support/crawl.ts'
import { visit } from '../support/dashboard.ts'
import { API_KEY, startTestApp, type TestApp } from '../support/app.ts'
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
type Scope = Parameters<typeof openPage>[0]
const DAYS = { factsMs: 90 * DAY_MS, contentMs: 30 * DAY_MS }

/** Of one page: ms to its first paint by a browser that has its styles and scripts, with few and with many emails
 *  (`few` null = there is no such page then), and what a browser without them transfers. */
interface Measured {
  few: number | null
  many: number
  bytes: number
}

/** An app with so many emails, and its pages: what they are, and the URL of one. */
interface Side {
  page: Page
  urls: Map<string, string>
}

/** How long each page of the dashboard takes to show something, and how much it transfers, with very many emails in the
 *  account beside a hundred, in turns. */
export async function benchDashboard (): Promise<Record<string, unknown>> {
  const ends: Array<() => unknown> = []
  const scope = { teardown: (end: () => unknown) => void ends.push(end) }
  try {
    const few = await openSide(scope, FEW)
    const many = await openSide(scope, MANY)
    return report(await measure(few, many))
  } finally {
    for (const end of ends.reverse()) await end()
  }
}

function report (measured: Map<string, Measured>): Record<string, unknown> {
  const all = [...measured.values()]
  const growth = ({ few, many }: Measured): number[] => (few === null ? [] : [many / few])
  const [ratioMax, bytesMax] = [Math.max(...all.flatMap(growth)), Math.max(...all.map(({ bytes }) => bytes))]
  print(`The dashboard: first paint of its pages, the median of ${TRIES}`, [
    ['', `ms, ${rate(FEW)} emails`, `ms, ${rate(MANY)} emails`, 'ratio', 'kB, first visit'],
    ...[...measured].map((
      [name, page]
    ) => [
      name,
      page.few === null ? '' : ms(page.few),
      ms(page.many),
      growth(page).map(ratio).join(''),
      rate(page.bytes / 1000)
    ])
  ])
  console.log(
    `\n  The slowest page takes ${ratio(ratioMax)} times as long as with ${rate(FEW)}; the biggest transfers ${
      rate(bytesMax / 1000)
    } kB.`
  )
  return { emails: MANY, pages: Object.fromEntries(measured), ratioMax, bytesMax }
}

/** On servers of its own. */
async function openSide (scope: Scope, emails: number): Promise<Side> {
  const dataDir = mkdtempSync(join(tmpdir(), 'jetpost-bench-'))
  scope.teardown(async () => rmSync(dataDir, { recursive: true, force: true }))
  const log = createLog('silent')
  const servers = await startEmbedded({
    dataDir,
    nats: true,
    postgres: true,
    natsBin: null,
    natsPort: null,
    postgresPort: null,
    log,
    say: () => {}
  })
  scope.teardown(() => servers.stop())
  const { natsUrl, databaseUrl } = servers as { natsUrl: string, databaseUrl: string }
  const bus = await connectBus({ url: natsUrl, creds: null, name: 'bench', log })
  scope.teardown(() => bus.close())
  const pool = createPool(databaseUrl, log)
  scope.teardown(() => pool.end())
  await ensureTopology(bus, { retention: DAYS, replicas: 1, log })
  await loadMail(bus, emails)
  console.log(`  ${rate(emails)} emails are loaded`)
  const app = await startTestApp(scope, { natsUrl, databaseUrl })
  const view = createCheckpoints(bus, pool)
  await until(
    async () =>
      (await Promise.all(
        Object.values(projections).map(projection => view.caughtUp(projection, 1000).catch(() => false))
      )).every(Boolean),
    LONG_MS
  )
  console.log('  and are in all views')
  return await sideOf(scope, app)
}

async function sideOf (scope: Scope, app: TestApp): Promise<Side> {
  const { pages } = await crawl(await visit(app))
  const { page } = await openPage(scope, app.url)
  await signIn(page, API_KEY)
  const urls = new Map<string, string>()
  for (const [name, some] of pages) {
    // A name that both sides have, whatever the ids are.
    for (const url of some.filter(url => !url.includes('cursor') || name === 'GET /emails').slice(0, 3)) {
      const query = [...new URL(url, app.url).searchParams.keys()].join('&')
      const what = name.slice('GET '.length) + (query === '' ? '' : `?${query}`)
      if (!urls.has(what) && !await isDownload(page, url)) urls.set(what, url)
    }
  }
  return { page, urls }
}

async function measure (few: Side, many: Side): Promise<Map<string, Measured>> {
  const measured = new Map<string, Measured>()
  for (const [what, url] of many.urls) {
    const other = few.urls.get(what)
    const times: { few: number[], many: number[] } = { few: [], many: [] }
    for (let i = 0; i < TRIES; i++) {
      times.many.push(await paintMs(many.page, url))
      if (other !== undefined) times.few.push(await paintMs(few.page, other))
    }
    measured.set(what, {
      few: other === undefined ? null : median(times.few),
      many: median(times.many),
      bytes: await bytesOf(many.page, url)
    })
  }
  return measured
}

async function isDownload (page: Page, url: string): Promise<boolean> {
  return await page.goto(url).then(() => false, () => true) || /\/(frame|html|source|files)\b/.test(url)
}

async function paintMs (page: Page, url: string): Promise<number> {
  await page.goto(url, { waitUntil: 'load' })
  return await page.evaluate<number>(PAINTED)
}

/** Over the wire, headers and all, with an empty cache. */
async function bytesOf (page: Page, url: string): Promise<number> {
  const line = await page.context().newCDPSession(page)
  await line.send('Network.enable')
  await line.send('Network.clearBrowserCache')
  let bytes = 0
  line.on('Network.loadingFinished', ({ encodedDataLength }) => {
    bytes += encodedDataLength
  })
  await page.goto(url, { waitUntil: 'load' })
  await line.detach()
  return bytes
}
