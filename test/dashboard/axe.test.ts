import { createRequire } from 'node:module'
import { readFileSync } from 'node:fs'
import t from 'tap'
import { openPage, signIn, type Page } from '../support/browser.ts'
import { crawl } from '../support/crawl.ts'
import { visit } from '../support/dashboard.ts'
import { openWorld } from '../support/dashboard-world.ts'
import { API_KEY, type TestHouse } from '../support/house.ts'
import { LONG, LONG_ONLY } from '../support/long.ts'

t.setTimeout(LONG ? 1_800_000 : 580_000)
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const PHONE = { width: 390, height: 844 }
const DESK = { width: 1280, height: 900 }
/** Of each kind of page, so many: a list's rows are alike. */
const ALIKE_MAX = LONG ? 30 : 1
/** Of every so many pages all three looks; the others light and wide. */
const WHOLE_EVERY = LONG ? 1 : 8
/** What a narrow page can have that a wide one has not. */
const NARROW = LONG ? undefined : ['color-contrast', 'scrollable-region-focusable', 'target-size', 'aria-hidden-focus', 'page-has-heading-one', 'button-name', 'link-name', 'label']

const { house, seeds } = await openWorld(t)
const { pages: found, shown } = await crawl(await visit(house), seeds)
/** In a frame's document, which is other people's, axe waits for ever: nothing runs there. */
const isPage = (url: string) => {
  const { headers, html } = shown.get(url)!
  return headers.get('content-type')!.startsWith('text/html') && html.startsWith('<!doctype html>') && !headers.get('content-security-policy')!.startsWith('sandbox')
}
/** In CI every third kind of page: axe takes seconds for each, and each room's own tests look at theirs. */
const EVERY = LONG ? 1 : 3
const kinds = [...found.values()].flatMap(some => spread(some.filter(isPage)))
const urls = kinds.filter((_url, i) => i % EVERY === 0)

/** The last ones: what has been through most. */
function spread (some: string[]): string[] {
  return some.slice(-ALIKE_MAX)
}

/** What axe-core finds wrong with what is shown; mail in frames is other people's. */
async function faultsOf (page: Page, rules?: string[]): Promise<string[]> {
  const options = { iframes: false, resultTypes: ['violations'], ...(rules === undefined ? {} : { runOnly: { type: 'rule', values: rules } }) }
  return await page.evaluate(`axe.run(document, ${JSON.stringify(options)}).then(({ violations }) =>
    violations.flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary }) => id + ' ' + target.join(' ') + ': ' + failureSummary)))`)
}

async function enter (t: Parameters<typeof openPage>[0], at: TestHouse, key: string) {
  const { page, complaints, context } = await openPage(t, at.url, DESK)
  // By the browser's own line to us: the page's policy would refuse it.
  await context.addInitScript({ content: AXE })
  await signIn(page, key)
  return { page, complaints }
}

type Asserts = { strictSame (found: unknown, wanted: unknown, message: string): void }

async function lookAtAll (t: Asserts, page: Page, all: string[]): Promise<void> {
  for (const [i, url] of all.entries()) await look(t, page, url, i % WHOLE_EVERY === 0)
}

/** Light; where it is `whole` dark and on a phone, too, without loading it anew. */
async function look (t: Asserts, page: Page, url: string, whole: boolean): Promise<void> {
  await page.goto(url, { waitUntil: 'load' })
  t.strictSame(await faultsOf(page), [], `${url}, light`)
  if (!whole) return
  await page.emulateMedia({ colorScheme: 'dark' })
  t.strictSame(await faultsOf(page, ['color-contrast']), [], `${url}, dark`)
  await page.setViewportSize(PHONE)
  t.strictSame(await faultsOf(page, NARROW), [], `${url}, on a phone`)
  t.strictSame(await page.evaluate('Math.max(0, document.documentElement.scrollWidth - innerWidth)'), 0, `${url} is no wider than the phone`)
  await page.emulateMedia({ colorScheme: 'light' })
  await page.setViewportSize(DESK)
}

t.test('axe-core finds nothing on any page of a house that has lived', async t => {
  t.ok(kinds.length > 30, `${kinds.length} pages`)
  const { page, complaints } = await enter(t, house, API_KEY)
  await lookAtAll(t, page, urls)
  t.strictSame(complaints, [])
})

t.test('nor where there is nothing yet, at the door, and where something is wrong', LONG_ONLY, async t => {
  const key = await house.newAccountKey()
  const { page, complaints } = await enter(t, house, key)
  const empty = await crawl(await visit(house, key))
  const lists = [...empty.pages].filter(([name]) => !name.includes(':')).map(([, [url]]) => url!)
  await lookAtAll(t, page, [...lists, '/dashboard/nowhere', '/dashboard/emails/em_none', '/dashboard/emails?cursor=none', '/dashboard/sign-in', '/dashboard/link?token=x'])
  t.strictSame(complaints, [])
})
