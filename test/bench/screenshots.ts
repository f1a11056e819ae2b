import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { openPage, signIn, type Wish } from '../support/browser.ts'
import { crawl } from '../support/crawl.ts'
import { visit } from '../support/dashboard.ts'
import { startDemoApp } from './demo-app.ts'

const LOOKS: Record<string, Wish> = {
  light: { width: 1280, height: 800 },
  dark: { width: 1280, height: 800, dark: true },
  phone: { width: 390, height: 844 }
}
/** A page is as long as what it tells: of the longest the beginning is enough. */
const HEIGHT_MAX = 2400

/** Pictures of every page of the dashboard, light, dark and on a phone, from a shop that has sent mail for some days.
 */
export async function takeScreenshots (folder: string): Promise<void> {
  const ends: Array<() => unknown> = []
  const scope = { teardown: (end: () => unknown) => void ends.push(end) }
  mkdirSync(folder, { recursive: true })
  try {
    const { app, seeds, key } = await startDemoApp(scope)
    const { pages, shown } = await crawl(await visit(app, key), seeds)
    const urls = new Map<string, string>([['sign-in', '/dashboard/sign-in']])
    for (const [name, some] of pages) {
      for (const url of some.filter(url => shown.get(url)!.html.startsWith('<!doctype html>\n<html lang="en">'))) {
        const { searchParams } = new URL(url, app.url)
        const view = searchParams.get('tab') ?? searchParams.get('view') ?? ''
        const file = [name.slice('GET /'.length).replaceAll(/[/:]+/g, '-') || 'home', view].filter(part => part !== '')
          .join('-')
        // The page that has most to tell of its kind.
        const before = urls.get(file)
        if (before === undefined || shown.get(before)!.html.length < shown.get(url)!.html.length) urls.set(file, url)
      }
    }
    for (const [look, wish] of Object.entries(LOOKS)) {
      const { page } = await openPage(scope, app.url, wish)
      await page.goto('/dashboard/sign-in')
      await page.screenshot({ path: join(folder, `sign-in-${look}.png`) })
      await signIn(page, key)
      for (const [file, url] of urls) {
        if (file === 'sign-in') continue
        await page.goto(url, { waitUntil: 'load' })
        const height = Math.min(
          HEIGHT_MAX,
          Math.max(wish.height!, await page.evaluate<number>('document.documentElement.scrollHeight'))
        )
        await page.screenshot({
          path: join(folder, `${file}-${look}.png`),
          clip: { x: 0, y: 0, width: wish.width!, height },
          fullPage: true
        })
      }
    }
    console.log(`${urls.size} pages, ${Object.keys(LOOKS).join(', ')}: ${folder}`)
  } finally {
    for (const end of ends.reverse()) await end()
  }
}
