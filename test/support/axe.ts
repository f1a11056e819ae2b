import axe from 'axe-core'
import type { Page } from './browser.ts'

/** What axe-core finds wrong with what is shown, by these rules or all, as `rule where: why`. What is in frames is
 *  other people's, and nothing runs in it: axe would never come to an end there. */
export async function flaws (page: Page, rules?: string[]): Promise<string[]> {
  const options = {
    iframes: false,
    resultTypes: ['violations'],
    ...(rules === undefined ? {} : { runOnly: { type: 'rule', values: rules } })
  }
  // By the browser's own line to us: the page's policy would refuse it.
  if (await page.evaluate<boolean>('window.axe === undefined')) await page.evaluate(axe.source)
  return await page.evaluate(`axe.run(document, ${JSON.stringify(options)}).then(({ violations }) =>
    violations.flatMap(({ id, nodes }) =>
      nodes.map(({ target, failureSummary }) => id + ' ' + target.join(' ') + ': ' + failureSummary)))`)
}
