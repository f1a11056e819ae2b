import { html, type Html, type Value } from '#src/base/html.ts'
import { Untold } from '../operations.ts'
import { heading } from '../parts.ts'
import { Missing, Unfit, type Answer, type Handler, type Pages } from '../visit.ts'

const TABS: Array<[path: Tab, text: string]> = [
  ['', 'Status'],
  ['/streams', 'Streams'],
  ['/projections', 'Projections'],
  ['/parked', 'Parked facts'],
  ['/reputation', 'Reputation'],
  ['/accounts', 'Accounts'],
  ['/mail', 'Mail received']
]
export type Tab = '' | '/streams' | '/projections' | '/parked' | '/reputation' | '/accounts' | '/mail'

export function tabName (tab: Tab): string {
  return TABS.find(([path]) => path === tab)![1]
}

/** A page of Operations, with the way to the others. */
export function operationsPage (tab: Tab, body: Value): Answer {
  const links = TABS.map(([path, text]) => html`<li><a href="/dashboard/operations${path}"${path === tab && html` aria-current="page"`}>${text}</a></li>`)
  const page = html`${heading('Operations')}<nav aria-label="Operations"><ul class="tabs">${links}</ul></nav>${body}`
  return { title: tab === '' ? 'Operations' : `${tabName(tab)} · Operations`, section: 'operations', page }
}

/** Pages that are there for nobody but the operator: they show, and change, what is everybody's. */
export function operatorsOnly (pages: Pages): Pages {
  const guarded = (handler: Handler): Handler => async visit => {
    if (!visit.isOperator) throw new Missing('There is no such page.')
    try {
      return await handler(visit)
    } catch (error) {
      throw error instanceof Untold ? new Unfit(`${error.message} Try again in a moment.`) : error
    }
  }
  return { get: (path, handler) => pages.get(path, guarded(handler)), post: (path, handler) => pages.post(path, guarded(handler)) }
}

/** What could not be learnt, and why. */
export function troubleBox (troubles: string[]): Html | null {
  const told = [...new Set(troubles)]
  return told.length === 0 ? null : html`<div class="box bad" role="status">${told.map(text => html`<div>${text}</div>`)}</div>`
}

const SIZES = ['B', 'kB', 'MB', 'GB', 'TB']

/** `12 kB`, `3.4 GB`, never on two lines. */
export function sizeText (bytes: number): string {
  const power = Math.min(SIZES.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)))
  const value = bytes / 1000 ** power
  return `${power === 0 || value >= 10 ? Math.round(value) : value.toFixed(1)}\u00a0${SIZES[power]}`
}

const UNITS: Array<[ms: number, name: string]> = [[86_400_000, 'day'], [3_600_000, 'hour'], [60_000, 'minute'], [1000, 'second']]

/** `3 minutes`, rounded down. */
export function spanText (ms: number): string {
  const [size, name] = UNITS.find(([unitMs]) => ms >= unitMs) ?? UNITS.at(-1)!
  return counted(Math.floor(ms / size), name)
}

/** `1 fact`, `3 facts`. */
export function counted (count: number, one: string): string {
  return `${count.toLocaleString('en-GB')} ${one}${count === 1 ? '' : 's'}`
}
