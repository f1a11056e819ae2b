import { chromium as driver, type Browser, type BrowserContext, type Page } from 'playwright-core'
import { chromiumPath } from './chromium.ts'
import { groupEnd } from './group-end.ts'
import type { Ending } from './servers.ts'

export type { Page } from 'playwright-core'

let running: Promise<Browser> | null = null

/** One Chromium for the test files of this process. It reaches loopback only. */
async function openBrowser (t: Ending): Promise<Browser> {
  if (running !== null) return await running
  running = launch()
  const browser = await running
  browser.once('disconnected', () => {
    running = null
  })
  groupEnd(t).teardown(() => browser.close())
  return browser
}

async function launch (): Promise<Browser> {
  const executablePath = process.env.JETPOST_TEST_CHROMIUM || await chromiumPath()
  // Under a name that is not localhost a page by plain http is no secure one, as on a machine in somebody's own
  // network.
  const names = '--host-resolver-rules=MAP jetpost.test 127.0.0.1'
  const args = [
    names,
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    '--disable-dev-shm-usage'
  ]
  // Where no locale is set a file whose name is not ASCII is saved as `download`.
  return await driver.launch({
    executablePath,
    args,
    env: { ...process.env, LC_ALL: 'C.UTF-8' },
    headless: true,
    timeout: 60_000
  })
}

export interface Wish {
  /** CSS pixels. */
  width?: number
  height?: number
  dark?: boolean
}

/** A page in a browser of its own, without any cookies, and what it complained of. */
export async function openPage (
  t: Ending,
  url: string,
  { width = 1280, height = 900, dark = false }: Wish = {}
): Promise<{ page: Page, complaints: string[], context: BrowserContext }> {
  const browser = await openBrowser(t)
  const context = await browser.newContext({
    baseURL: url,
    viewport: { width, height },
    colorScheme: dark ? 'dark' : 'light',
    locale: 'en-GB',
    reducedMotion: 'reduce',
    permissions: ['clipboard-read', 'clipboard-write']
  })
  context.setDefaultTimeout(15_000)
  t.teardown(async () => await context.close())
  const page = await context.newPage()
  const complaints: string[] = []
  page.on('pageerror', error => complaints.push(`${page.url()}: ${error.message}`))
  page.on('console', message => {
    if (message.type() === 'error' && /content security policy|Refused to/i.test(message.text())) {
      complaints.push(`${page.url()}: ${message.text()}`)
    }
  })
  return { page, complaints, context }
}

/** Signs in with a key as a person would. */
export async function signIn (page: Page, key: string): Promise<void> {
  await page.goto('/dashboard')
  await page.getByLabel('API key').fill(key)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.waitForURL(/\/dashboard(\/emails)?$/)
}
