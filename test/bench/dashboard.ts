import { createLog } from '#src/base/log.ts'
import { projections } from '#projections/list.ts'
import { connectBus } from '#src/nats/connect.ts'
import { ensureTopology } from '#src/nats/ensure.ts'
import { createCheckpoints } from '#src/workers/projector/commit.ts'
import { createPool } from '#src/postgres/pool.ts'
import { openPage, signIn, type Page } from '../support/browser.ts'
import { crawl } from '../support/crawl.ts'
import { visit } from '../support/dashboard.ts'
import { API_KEY, startTestApp, type TestApp } from '../support/app.ts'
import { until } from '../support/wait.ts'
import type { Bench, BenchContext } from './bench.ts'
import { loadMail } from './rebuild-facts.ts'
import { median, ms, print, rate, ratio } from './report.ts'

const FEW = 100
/** Links that are followed to one route with the same parameters. */
const ALIKE_MAX = 1
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

/** The dashboard's pages: its routes, with the parameters they are linked with. */
const PAGES = [
  '/emails',
  '/emails?as_of',
  '/overview',
  '/overview?period',
  '/emails?tag',
  '/emails?cursor',
  '/webhooks',
  '/templates',
  '/domains',
  '/keys',
  '/suppressions',
  '/operations',
  '/mailbox',
  '/sessions',
  '/operations/projections',
  '/keys/new',
  '/emails/new',
  '/emails/:id',
  '/emails/:id?tab',
  '/emails/:id?as_of',
  '/emails/:id?tab&images',
  '/webhooks/deliveries',
  '/webhooks/new',
  '/templates/new',
  '/keys/:id',
  '/erasures',
  '/suppressions/new',
  '/operations/streams',
  '/operations/dead-letters',
  '/operations/reputation',
  '/operations/accounts',
  '/operations/mail',
  '/erasures/new'
]

/** How long each page of the dashboard takes to show something, and how much it transfers, with very many emails in the
 *  account beside a hundred, in turns. */
export const dashboard: Bench<'dashboard'> = {
  about: 'first paint of each page of the dashboard, with many emails beside a hundred',
  rows: ({ pages }) => ['emails', ...PAGES.slice(0, pages).map(page => `pages.${page}`), 'ratioMax', 'bytesMax'],
  async run (context) {
    const ends: Array<() => unknown> = []
    const scope = { teardown: (end: () => unknown) => void ends.push(end) }
    try {
      const few = await openSide(context, scope, FEW)
      const missing = PAGES.filter(page => !few.urls.has(page))
      if (missing.length > 0) throw new Error(`No link of the dashboard leads to ${missing.join(', ')}`)
      const many = await openSide(context, scope, context.sizes.emails)
      return report(context, await measure(few, many, context.sizes))
    } finally {
      for (const end of ends.reverse()) await end()
    }
  }
}

function report (
  { sizes: { emails, tries }, say }: BenchContext<'dashboard'>,
  measured: Map<string, Measured>
): Record<string, unknown> {
  const all = [...measured.values()]
  const growth = ({ few, many }: Measured): number[] => (few === null ? [] : [many / few])
  const [ratioMax, bytesMax] = [Math.max(...all.flatMap(growth)), Math.max(...all.map(({ bytes }) => bytes))]
  print(say, `The dashboard: first paint of its pages, the median of ${tries}`, [
    ['', `ms, ${rate(FEW)} emails`, `ms, ${rate(emails)} emails`, 'ratio', 'kB, first visit'],
    ...[...measured].map(([name, page]) => [
      name,
      page.few === null ? '' : ms(page.few),
      ms(page.many),
      growth(page).map(ratio).join(''),
      rate(page.bytes / 1000)
    ])
  ])
  say(
    `\n  The slowest page takes ${ratio(ratioMax)} times as long as with ${rate(FEW)}; ` +
      `the biggest transfers ${rate(bytesMax / 1000)} kB.`
  )
  return { emails, pages: Object.fromEntries(measured), ratioMax, bytesMax }
}

/** On servers of its own. */
async function openSide (
  { openServers, say }: BenchContext<'dashboard'>,
  scope: Scope,
  emails: number
): Promise<Side> {
  const { natsUrl, databaseUrl, stop } = await openServers()
  scope.teardown(stop)
  const log = createLog('silent')
  const bus = await connectBus({ url: natsUrl, creds: null, name: 'bench', log })
  scope.teardown(() => bus.close())
  const pool = createPool(databaseUrl, log)
  scope.teardown(() => pool.end())
  await ensureTopology(bus, { retention: DAYS, replicas: 1, log })
  await loadMail(bus, emails)
  say(`  ${rate(emails)} emails are loaded`)
  const app = await startTestApp(scope, { natsUrl, databaseUrl })
  const view = createCheckpoints(bus, pool)
  await until(
    async () =>
      (await Promise.all(
        Object.values(projections).map(projection => view.caughtUp(projection, 1000).catch(() => false))
      )).every(Boolean),
    LONG_MS
  )
  say('  and are in all views')
  return await sideOf(scope, app)
}

async function sideOf (scope: Scope, app: TestApp): Promise<Side> {
  const { pages, shown } = await crawl(await visit(app), undefined, ALIKE_MAX)
  const { page } = await openPage(scope, app.url)
  await signIn(page, API_KEY)
  const urls = new Map<string, string>()
  for (const [name, some] of pages) {
    for (const url of some.filter(url => isShown(url, shown.get(url)!.headers))) {
      // A name that both sides have, whatever the ids are.
      if (url.includes('cursor') && name !== 'GET /emails') continue
      const query = [...new URL(url, app.url).searchParams.keys()].join('&')
      const what = name.slice('GET '.length) + (query === '' ? '' : `?${query}`)
      if (!urls.has(what)) urls.set(what, url)
    }
  }
  return { page, urls }
}

/** A page of its own, neither a download nor a part of another page. */
function isShown (url: string, headers: Headers): boolean {
  const isDownload = headers.get('content-disposition')?.startsWith('attachment') === true
  return !isDownload && !/\/(frame|html|source|files)\b/.test(url)
}

async function measure (
  few: Side,
  many: Side,
  { tries, pages }: BenchContext<'dashboard'>['sizes']
): Promise<Map<string, Measured>> {
  const measured = new Map<string, Measured>()
  // Some pages are there with many emails alone.
  for (const what of [...new Set([...PAGES, ...many.urls.keys()])].slice(0, pages)) {
    const url = many.urls.get(what)!
    const other = few.urls.get(what)
    const times: { few: number[], many: number[] } = { few: [], many: [] }
    for (let i = 0; i < tries; i++) {
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
