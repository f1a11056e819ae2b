import { DELIVERY_STATES } from '#projections/deliveries/project.ts'
import { parsePlace, type DeliveryFilters } from '#projections/deliveries/queries.ts'
import type { PageCursor } from '#projections/cursor.ts'
import { ERROR_KINDS } from '#streams/delivery/facts.ts'
import { html, type Html } from '#src/base/html.ts'
import { field, select, withQuery, type Faults } from '../parts.ts'
import { NOT_A_TIME, timeField, timeIn } from '../times.ts'
import { createFieldReader, fieldText } from '../field-reader.ts'
import type { Visit } from '../visit.ts'
import { ERROR_TEXTS, idIn } from './webhook-format.ts'

const FOLDED = ['event', 'email', 'since', 'until']
const FILTERS = ['state', 'error', ...FOLDED]

/** The filters of a list of deliveries, and what is wrong with them. */
export interface DeliveryListFilters {
  filters: DeliveryFilters
  cursor: PageCursor | null
  faults: Faults
}

export function readFilters ({ query }: Visit): DeliveryListFilters {
  const { read, faults } = createFieldReader(query)
  const filters = {
    state: read('state', oneOf(DELIVERY_STATES), `The status must be one of ${DELIVERY_STATES.join(', ')}.`),
    errorKind: read('error', oneOf(ERROR_KINDS), `The error must be one of ${ERROR_KINDS.join(', ')}.`),
    event: read('event', text => idIn('ev', text), 'Event must be an id, ev_….'),
    email: read('email', text => idIn('em', text), 'Email must be an id, em_…, not an address.'),
    since: read('since', timeIn, NOT_A_TIME),
    until: read('until', timeIn, NOT_A_TIME)
  }
  const cursor = read('cursor', parsePlace, 'This link to a page of the list is not valid.') ?? null
  return { filters, cursor, faults: faults() }
}

function oneOf<T extends string> (names: readonly T[]): (text: string) => T | null {
  return text => names.find(name => name === text) ?? null
}

/** Does not refresh with the list around it: the visitor may be typing. */
export function filterForm (visit: Visit, faults: Faults): Html {
  const { query, url } = visit
  const valueOf = (name: string) => fieldText(query, name)
  const states: Array<[string, string]> = [
    ['', 'All'],
    ...DELIVERY_STATES.map((name): [string, string] => [name, name])
  ]
  const errors: Array<[string, string]> = [
    ['', 'Any'],
    ...ERROR_KINDS.map((name): [string, string] => [name, ERROR_TEXTS[name]])
  ]
  const isUsed = FOLDED.some(name => valueOf(name) !== '')
  return html`<form method="get" action="${url.split(
    '?'
  )[0]!}" class="filters" role="search" aria-label="Deliveries" data-own>
${select('state', 'Status', states, valueOf('state'), html`data-submit`)}
${select('error', 'Error', errors, valueOf('error'), html`data-submit`)}
<details class="more"${isUsed && html` open`}><summary>More filters</summary><div class="columns">
${field({ name: 'event', label: 'Event', value: valueOf('event'), placeholder: 'ev_…', code: true }, faults)}
${field({ name: 'email', label: 'Email', value: valueOf('email'), placeholder: 'em_…', code: true }, faults)}
${timeField({ name: 'since', label: 'Created after (UTC)', value: valueOf('since') }, faults)}
${timeField({ name: 'until', label: 'Created before (UTC)', value: valueOf('until') }, faults)}
</div></details>
<div class="actions"><button>Filter</button>${
    isFiltered(visit) && html` <a class="button" href="${withoutFilters(visit)}">Show all</a>`
  }</div></form>`
}

export function isFiltered ({ query }: Visit): boolean {
  return FILTERS.some(name => fieldText(query, name) !== '')
}

export function withoutFilters (visit: Visit): string {
  return withQuery(visit, Object.fromEntries([...FILTERS, 'cursor'].map(name => [name, null])))
}
