import { html, type Html, type Value } from '#src/base/html.ts'
import { OperationsUnavailable } from '#src/operations/report.ts'
import { heading, tabs } from '../parts.ts'
import { FormRefused, type PageResult, type Handler, type Pages } from '../visit.ts'

const TABS: Array<[path: OperationsTab, text: string]> = [
  ['', 'Status'],
  ['/streams', 'Streams'],
  ['/projections', 'Projections'],
  ['/dead-letters', 'Dead-lettered facts'],
  ['/reputation', 'Reputation'],
  ['/accounts', 'Accounts'],
  ['/mail', 'Inbound mail']
]
export type OperationsTab = '' | '/streams' | '/projections' | '/dead-letters' | '/reputation' | '/accounts' | '/mail'

export function tabName (tab: OperationsTab): string {
  return TABS.find(([path]) => path === tab)![1]
}

/** A page of Operations, with tabs to the others. */
export function operationsPage (tab: OperationsTab, body: Value): PageResult {
  const items = TABS.map(([path, text]) => ({ href: `/dashboard/operations${path}`, text, isCurrent: path === tab }))
  const page = html`${heading('Operations')}${tabs('Operations', items)}${body}`
  return { title: tab === '' ? 'Operations' : `${tabName(tab)} · Operations`, section: 'operations', page }
}

/** Pages of what all accounts share; what does not answer is told in a sentence. */
export function operatorsPages (pages: Pages): Pages {
  const guarded = (handler: Handler): Handler => async visit => {
    try {
      return await handler(visit)
    } catch (error) {
      throw error instanceof OperationsUnavailable ? new FormRefused(`${error.message} Try again in a moment.`) : error
    }
  }
  return {
    get: (path, scope, handler) => pages.get(path, scope, guarded(handler)),
    post: (path, scope, handler) => pages.post(path, scope, guarded(handler))
  }
}

/** What is unknown now, and why. */
export function problemBox (problems: string[]): Html | null {
  const texts = [...new Set(problems)]
  return texts.length === 0
    ? null
    : html`<div class="box bad" role="status">${texts.map(text => html`<div>${text}</div>`)}</div>`
}
