import t from 'tap'
import { flaws } from '../support/axe.ts'
import { openPage, signIn, type Page } from '../support/browser.ts'
import { crawl } from '../support/crawl.ts'
import { visit, type Shown } from '../support/dashboard.ts'
import { openWorld } from '../support/dashboard-world.ts'
import { API_KEY, type TestApp } from '../support/app.ts'
import { LONG } from '../support/long.ts'

t.setTimeout(LONG ? 1_800_000 : 300_000)
const PHONE = { width: 390, height: 844 }
const DESKTOP = { width: 1280, height: 900 }
/** Of each kind of page, so many: a list's rows are alike. */
const ALIKE_MAX = LONG ? 30 : 1
/** What a narrow page can have that a wide one has not. */
const NARROW = LONG
  ? undefined
  : [
    'color-contrast',
    'scrollable-region-focusable',
    'target-size',
    'aria-hidden-focus',
    'page-has-heading-one',
    'button-name',
    'link-name',
    'label'
  ]

const { app, seeds } = await openWorld(t)
const { pages: found, shown } = await crawl(await visit(app), seeds)
/** The last ones of each kind: what has been through most. */
const urls = [...found.values()].flatMap(some => some.filter(url => isPage(shown.get(url)!)).slice(-ALIKE_MAX))

/** What is shown in a frame is other people's, and nothing runs in it: axe would never come to an end there. A file is
 *  only downloaded. */
function isPage ({ headers, html }: Shown): boolean {
  return headers.get('content-type')!.startsWith('text/html') && html.startsWith('<!doctype html>') &&
    !headers.get('content-security-policy')!.includes('sandbox')
}

async function enter (t: Parameters<typeof openPage>[0], at: TestApp, key: string) {
  const { page, complaints } = await openPage(t, at.url, DESKTOP)
  await signIn(page, key)
  return { page, complaints }
}

type Asserts = { strictSame(found: unknown, wanted: unknown, message: string): void }

async function lookAtAll (t: Asserts, page: Page, all: string[]): Promise<void> {
  for (const url of all) await look(t, page, url)
}

/** Light, dark, and on a phone, without loading it again. */
async function look (t: Asserts, page: Page, url: string): Promise<void> {
  await page.goto(url, { waitUntil: 'load' })
  t.strictSame(await flaws(page), [], `${url}, light`)
  await page.emulateMedia({ colorScheme: 'dark' })
  t.strictSame(await flaws(page, ['color-contrast']), [], `${url}, dark`)
  await page.setViewportSize(PHONE)
  t.strictSame(await flaws(page, NARROW), [], `${url}, on a phone`)
  t.strictSame(
    await page.evaluate('Math.max(0, document.documentElement.scrollWidth - innerWidth)'),
    0,
    `${url} is no wider than the phone`
  )
  await page.emulateMedia({ colorScheme: 'light' })
  await page.setViewportSize(DESKTOP)
}

t.test('axe-core finds nothing on any page of an app that has lived', async t => {
  t.ok(urls.length > 30, `${urls.length} pages`)
  const { page, complaints } = await enter(t, app, API_KEY)
  await lookAtAll(t, page, urls)
  t.strictSame(complaints, [])
})

t.test('nor on empty pages, the sign-in page and error pages', async t => {
  const key = await app.newAccountKey()
  const { page, complaints } = await enter(t, app, key)
  const empty = await crawl(await visit(app, key))
  const lists = [...empty.pages].filter(([name]) => !name.includes(':')).map(([, [url]]) => url!)
    .filter(url => isPage(empty.shown.get(url)!))
  await lookAtAll(t, page, [
    ...lists,
    '/dashboard/nowhere',
    '/dashboard/emails/em_none',
    '/dashboard/emails?cursor=none',
    '/dashboard/sign-in',
    '/dashboard/link?token=x'
  ])
  t.strictSame(complaints, [])
})
