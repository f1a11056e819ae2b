import { DELIVERY_STATES } from '#projections/deliveries/project.ts'
import { listDeliveries, parsePlace, type DeliveryFilters, type DeliveryPlace, type DeliverySummary } from '#projections/deliveries/queries.ts'
import { ERROR_KINDS } from '#streams/delivery/facts.ts'
import { timestamp } from '#src/base/clock.ts'
import { html, type Html } from '#src/base/html.ts'
import { badge, empty, field, heading, live, pager, select, table, time, withQuery } from '../parts.ts'
import type { DashboardRooms } from '../rooms.ts'
import { momentIn, momentText } from '../times.ts'
import { Unfit, type Pages, type Visit } from '../visit.ts'
import { fromView, UNREADABLE } from './webhook-reads.ts'
import { answerText, deliveryBadge, ERROR_WORDS, eventsText, idIn, nextTry } from './webhook-words.ts'

const PAGE = 25
const FILTERS = ['state', 'error', 'event', 'email', 'since', 'until']

/** `/webhooks/deliveries`: those of all endpoints. */
export function deliveriesPages (pages: Pages, rooms: DashboardRooms): void {
  pages.get('/webhooks/deliveries', async visit => ({
    title: 'Deliveries',
    section: 'webhooks',
    page: html`${heading('Deliveries', null, html`<a href="/dashboard/webhooks">Webhooks</a>`)}${await deliveryList(visit, rooms, null)}`
  }))
}

/** Filters and the deliveries they find, the newest first: of one endpoint or of all. */
export async function deliveryList (visit: Visit, rooms: DashboardRooms, webhook: string | null): Promise<Html> {
  const filters = filtersIn(visit)
  const wanted = { account: visit.account.id, filters: { ...filters, ...(webhook === null ? {} : { webhook }) }, limit: PAGE, cursor: placeIn(visit) }
  const found = await fromView(rooms, listDeliveries(wanted))
  const rows = found === null ? UNREADABLE : found.deliveries.length === 0 ? noneOf(visit) : rowsOf(visit, rooms, found.deliveries, webhook === null)
  return html`${filterForm(visit, filters)}<div ${live(visit, 'deliveries', 'deliveries')}>${rows}${pager(visit, found?.nextCursor ?? null)}</div>`
}

function filtersIn ({ query }: Visit): DeliveryFilters {
  const text = (name: string) => query.get(name)?.trim() || undefined
  const moment = (name: string) => {
    const ms = momentIn(name, text(name) ?? null)
    return ms === null ? undefined : timestamp(ms)
  }
  const id = (kind: 'ev' | 'em', name: string) => {
    const given = text(name)
    const known = given === undefined ? undefined : idIn(kind, given)
    if (known === null) throw new Unfit(`${name} is an id that begins with ${kind}_.`)
    return known
  }
  return {
    state: oneOf(DELIVERY_STATES, 'state', text('state')),
    errorKind: oneOf(ERROR_KINDS, 'error', text('error')),
    event: id('ev', 'event'),
    email: id('em', 'email'),
    since: moment('since'),
    until: moment('until')
  }
}

function oneOf<T extends string> (names: readonly T[], what: string, text: string | undefined): T | undefined {
  const known = names.find(name => name === text)
  if (text !== undefined && known === undefined) throw new Unfit(`${what} is one of ${names.join(', ')}.`)
  return known
}

function placeIn ({ query }: Visit): DeliveryPlace | null {
  const cursor = query.get('cursor')
  const place = cursor === null ? null : parsePlace(cursor)
  if (cursor !== null && place === null) throw new Unfit('This link to a page of the list is damaged.')
  return place
}

function filterForm (visit: Visit, { state, errorKind, event, email, since, until }: DeliveryFilters): Html {
  const states: Array<[string, string]> = [['', 'All states'], ...DELIVERY_STATES.map((name): [string, string] => [name, name])]
  const errors: Array<[string, string]> = [['', 'Any answer'], ...ERROR_KINDS.map((name): [string, string] => [name, ERROR_WORDS[name]])]
  const more = [event, email, since, until].some(value => value !== undefined)
  const ms = (text: string | undefined) => (text === undefined ? null : Date.parse(text))
  return html`<form method="get" action="${visit.url.split('?')[0]!}" class="filters" role="search" aria-label="Deliveries">
${select('state', 'State', states, state ?? '', html`data-submit`)}
${select('error', 'No answer, because', errors, errorKind ?? '', html`data-submit`)}
<details class="more"${more && html` open`}><summary>More filters</summary><div class="columns">
${field({ name: 'event', label: 'Event', value: event ?? '', placeholder: 'ev_…', code: true })}
${field({ name: 'email', label: 'Email', value: email ?? '', placeholder: 'em_…', code: true })}
${field({ name: 'since', label: 'Asked for since (UTC)', type: 'datetime-local', value: momentText(ms(since)) })}
${field({ name: 'until', label: 'and before (UTC)', type: 'datetime-local', value: momentText(ms(until)) })}
</div></details>
<div class="actions"><button>Filter</button>${isFiltered(visit) && html` <a class="button" href="${withoutFilters(visit)}">Show all</a>`}</div></form>`
}

function isFiltered ({ query }: Visit): boolean {
  return FILTERS.some(name => (query.get(name) ?? '') !== '')
}

function withoutFilters (visit: Visit): string {
  return withQuery(visit, Object.fromEntries([...FILTERS, 'cursor'].map(name => [name, null])))
}

function noneOf (visit: Visit): Html {
  const all = html`<p><a href="${withoutFilters(visit)}">Show all</a></p>`
  if (isFiltered(visit) || visit.query.has('cursor')) return empty('Nothing found', 'No delivery of the last 30 days is like this.', all)
  return empty('No delivery yet', `Each event that is sent to an endpoint will be here for 30 days, with every request, its answer, and a button that sends it again.
    A test event is the quickest way to see one.`)
}

/** `several`: each says whose it is. */
function rowsOf (visit: Visit, rooms: DashboardRooms, deliveries: DeliverySummary[], several: boolean): Html {
  const { nowMs } = visit
  return table<DeliverySummary>('Deliveries', [
    { name: 'Event', kind: 'wide', cell: one => html`${linkTo(one)}${several && html`<br><span class="hint">${endpointOf(visit, rooms, one)}</span>`}` },
    { name: 'State', cell: deliveryBadge },
    { name: 'Last answer', cell: ({ last }) => (last === null ? html`<span class="none">None yet</span>` : answerText(last).slice(0, 120)) },
    { name: 'Attempts', kind: 'num', cell: ({ attempts }) => attempts },
    { name: 'Asked for', cell: ({ requestedAt }) => time(requestedAt, nowMs) },
    { name: 'Next try', cell: ({ nextAttemptAt }) => nextTry(nextAttemptAt, nowMs) }
  ], deliveries, ({ id }) => id)
}

function linkTo (delivery: DeliverySummary): Html {
  return html`<a href="/dashboard/webhooks/deliveries/${delivery.id}">${eventsText(delivery)}</a>${delivery.test && html` ${badge('test')}`}`
}

function endpointOf ({ account }: Visit, { desk }: DashboardRooms, { webhook: id }: DeliverySummary): Html {
  const webhook = desk.directory.now.webhooks.get(id)
  return webhook?.account === account.id ? html`<a href="/dashboard/webhooks/${id}">${webhook.url}</a>` : html`of a deleted endpoint`
}
