import axe, { type Result } from 'axe-core'
import type { Page } from './browser.ts'

/** What axe finds wrong with a page, as `rule: where`; the pages of frames are not looked into. */
export async function flaws (page: Page): Promise<string[]> {
  await page.evaluate(axe.source)
  const found = await page.evaluate<Result[]>('axe.run({ iframes: false }).then(({ violations }) => violations)')
  return found.map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => String(target)).join(', ')}`)
}
