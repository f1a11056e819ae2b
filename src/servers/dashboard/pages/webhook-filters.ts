import { DELIVERY_STATES } from '#projections/deliveries/project.ts'
import { parsePlace, type DeliveryFilters } from '#projections/deliveries/queries.ts'
import type { PageCursor } from '#projections/cursor.ts'
import { ERROR_KINDS } from '#streams/delivery/facts.ts'
import { html, type Html } from '#src/base/html.ts'
import { field, select, withQuery, type Faults } from '../parts.ts'
import { NO_TIME, timeField, timeIn } from '../times.ts'
import { openTyped, typedIn } from '../typed.ts'
import type { Visit } from '../visit.ts'
import { ERROR_WORDS, idIn } from './webhook-words.ts'

const FOLDED = ['event', 'email', 'since', 'until']
const FILTERS = ['state', 'error', ...FOLDED]

/** What a list of deliveries is asked by, and what of it is none. */
export interface Filters {
  asked: DeliveryFilters
  cursor: PageCursor | null
  faults: Faults
}

export function readFilters ({ query }: Visit): Filters {
  const { take, faults } = openTyped(query)
  const asked = {
    state: take('state', oneOf(DELIVERY_STATES), `The state is one of ${DELIVERY_STATES.join(', ')}.`),
    errorKind: take('error', oneOf(ERROR_KINDS), `What kept an answer away is one of ${ERROR_KINDS.join(', ')}.`),
    event: take('event', text => idIn('ev', text), 'An event is found by its id, ev_….'),
    email: take('email', text => idIn('em', text), 'An email is found by its id, em_…, and not by an address.'),
    since: take('since', timeIn, NO_TIME),
    until: take('until', timeIn, NO_TIME)
  }
  const cursor = take('cursor', parsePlace, 'This link to a page of the list is damaged.') ?? null
  return { asked, cursor, faults: faults() }
}

function oneOf<T extends string> (names: readonly T[]): (text: string) => T | null {
  return text => names.find(name => name === text) ?? null
}

/** Not drawn anew with what is around it: somebody may be typing. */
export function filterForm (visit: Visit, faults: Faults): Html {
  const { query, url } = visit
  const typed = (name: string) => typedIn(query, name)
  const states: Array<[string, string]> = [
    ['', 'All states'],
    ...DELIVERY_STATES.map((name): [string, string] => [name, name])
  ]
  const errors: Array<[string, string]> = [
    ['', 'Any answer'],
    ...ERROR_KINDS.map((name): [string, string] => [name, ERROR_WORDS[name]])
  ]
  const isUsed = FOLDED.some(name => typed(name) !== '')
  return html`<form method="get" action="${url.split(
    '?'
  )[0]!}" class="filters" role="search" aria-label="Deliveries" data-own>
${select('state', 'State', states, typed('state'), html`data-submit`)}
${select('error', 'No answer, because', errors, typed('error'), html`data-submit`)}
<details class="more"${isUsed && html` open`}><summary>More filters</summary><div class="columns">
${field({ name: 'event', label: 'Event', value: typed('event'), placeholder: 'ev_…', code: true }, faults)}
${field({ name: 'email', label: 'Email', value: typed('email'), placeholder: 'em_…', code: true }, faults)}
${timeField({ name: 'since', label: 'Asked for since (UTC)', value: typed('since') }, faults)}
${timeField({ name: 'until', label: 'and before (UTC)', value: typed('until') }, faults)}
</div></details>
<div class="actions"><button>Filter</button>${
    isFiltered(visit) && html` <a class="button" href="${withoutFilters(visit)}">Show all</a>`
  }</div></form>`
}

export function isFiltered ({ query }: Visit): boolean {
  return FILTERS.some(name => typedIn(query, name) !== '')
}

export function withoutFilters (visit: Visit): string {
  return withQuery(visit, Object.fromEntries([...FILTERS, 'cursor'].map(name => [name, null])))
}
