import { ERROR_KINDS } from '#streams/delivery/facts.ts'
import type { PageCursor } from '#projections/cursor.ts'
import { DELIVERY_STATES } from '#projections/deliveries/project.ts'
import {
  listDeliveries,
  parsePlace,
  type DeliveryFilters,
  type DeliveryPage,
  type DeliverySummary
} from '#projections/deliveries/queries.ts'
import { html, type Html } from '#src/base/html.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { pageById } from '../find-by-id.ts'
import { createFieldReader, fieldText, readDeliveries, UNAVAILABLE } from './webhook-queries.ts'
import {
  badge,
  empty,
  faultBox,
  field,
  heading,
  live,
  pager,
  select,
  table,
  time,
  withQuery,
  type Faults
} from '../parts.ts'
import { NOT_A_TIME, timeField, timeIn } from '../times.ts'
import type { Pages, Visit } from '../visit.ts'
import {
  deliveryBadge,
  ERROR_TEXTS,
  eventsText,
  idIn,
  nextAttempt,
  replayedBadge,
  responseText
} from './webhook-format.ts'

const FOLDED = ['event', 'email', 'since', 'until']
const FILTERS = ['state', 'error', ...FOLDED]

/** The filters of a list of deliveries, and what is wrong with them. */
interface DeliveryListFilters {
  filters: DeliveryFilters
  cursor: PageCursor | null
  faults: Faults
}

function readFilters ({ query }: Visit): DeliveryListFilters {
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
function filterForm (visit: Visit, faults: Faults): Html {
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

function isFiltered ({ query }: Visit): boolean {
  return FILTERS.some(name => fieldText(query, name) !== '')
}

function withoutFilters (visit: Visit): string {
  return withQuery(visit, Object.fromEntries([...FILTERS, 'cursor'].map(name => [name, null])))
}

const PAGE = 25

/** `/webhooks/deliveries`: the deliveries of all endpoints. */
export function deliveriesPages (pages: Pages, context: DashboardContext): void {
  pages.get('/webhooks/deliveries', 'webhooks:read', async visit => {
    const sought = fieldText(visit.query, 'q')
    const to = sought === '' ? null : await pageOfDelivery(visit, context, sought)
    if (to !== null) return { to }
    const { form, rows, status } = await deliveryList(visit, context, {})
    const page = html`${
      heading('Deliveries', findDelivery(sought), html`<a href="/dashboard/webhooks">Webhooks</a>`)
    }${form}<div ${live(visit, 'deliveries', 'deliveries')}>${rows}</div>`
    return { title: 'Deliveries', section: 'webhooks', page, status }
  })
}

/** A delivery by its id; the deliveries of an event or an email by theirs. null = it is the id of none. */
async function pageOfDelivery (visit: Visit, context: DashboardContext, text: string): Promise<string | null> {
  const [email, event] = [idIn('em', text), idIn('ev', text)]
  if (email !== null || event !== null) return `${DELIVERIES}?${email === null ? 'event' : 'email'}=${text}`
  return idIn('whd', text) === null ? null : await pageById(visit, context, text)
}

const DELIVERIES = '/dashboard/webhooks/deliveries'

/** A search by id for the heads of pages; `sought` = what was not found. */
export function findDelivery (sought = ''): Html {
  const fault = sought !== '' && html`<span class="fault" role="alert">No delivery has this id.</span>`
  return html`<form method="get" action="${DELIVERIES}" class="find-one" role="search" aria-label="One delivery">
${fault}<input name="q" value="${sought}" aria-label="Find a delivery" placeholder="whd_…, ev_… or em_…"
 autocomplete="off" spellcheck="false"><button>Find</button></form>`
}

/** A form of filters, and the deliveries it finds, newest first, or its faults. */
export interface DeliveryList {
  form: Html
  rows: Html
  status: number
}

/** `of` = their endpoint or email; `none` = shown where there are no deliveries at all. */
export async function deliveryList (
  visit: Visit,
  context: DashboardContext,
  of: Pick<DeliveryFilters, 'webhook' | 'email'>,
  none = NONE_YET
): Promise<DeliveryList> {
  const { filters, cursor, faults } = readFilters(visit)
  const form = filterForm(visit, faults)
  if (faults.summary !== null) return { form, rows: html`${faultBox(faults)}${pager(visit, null)}`, status: 422 }
  const found = await readDeliveries(
    context,
    visit.account.id,
    listDeliveries({ account: visit.account.id, filters: { ...filters, ...of }, limit: PAGE, cursor })
  )
  const list = found === null
    ? UNAVAILABLE
    : deliveryTable(visit, context, found, { several: of.webhook === undefined, none })
  return { form, rows: html`${list}${pager(visit, found?.next_cursor ?? null)}`, status: 200 }
}

const NONE_YET = empty(
  'No deliveries yet',
  'Events sent to endpoints appear here for 30 days, with every request and response. Send a test event to see one.'
)

/** `several` = of more than one endpoint: each row names its own. */
function deliveryTable (
  visit: Visit,
  { services }: DashboardContext,
  { data }: DeliveryPage,
  { several, none }: { several: boolean, none: Html }
): Html {
  const { nowMs } = visit
  if (data.length === 0) return isFiltered(visit) || visit.query.has('cursor') ? noneOf(visit) : none
  return table<DeliverySummary>(
    'Deliveries',
    [
      {
        name: 'Event',
        kind: 'wide',
        cell: one =>
          html`${linkTo(one)}${several && html`<br><span class="hint">${endpointOf(visit, services, one)}</span>`}`
      },
      {
        name: 'Status',
        cell: one => {
          const webhook = services.directory.now.webhooks.get(one.webhook) ?? null
          return html`${deliveryBadge(one, webhook, nowMs)}${replayedBadge(one)}`
        }
      },
      {
        name: 'Last response',
        cell: (
          { last }
        ) => (last === null ? html`<span class="none">No response yet</span>` : responseText(last).slice(0, 120))
      },
      { name: 'Attempts', kind: 'num', cell: attemptsCell },
      { name: 'Created', cell: ({ requested_at: at }) => time(at, nowMs) },
      { name: 'Next attempt', cell: ({ next_attempt_at: at }) => nextAttempt(at, nowMs) }
    ],
    data,
    ({ id }) => id
  )
}

/** A replay counts from one again. */
function attemptsCell ({ attempts, replay }: DeliverySummary): Html {
  return html`${attempts}${replay !== null && html`<br><span class="hint">of the replay</span>`}`
}

function noneOf (visit: Visit): Html {
  return empty(
    'No results',
    'No delivery of the last 30 days matches these filters.',
    html`<p><a href="${withoutFilters(visit)}">Show all</a></p>`
  )
}

function linkTo (delivery: DeliverySummary): Html {
  return html`<a href="/dashboard/webhooks/deliveries/${delivery.id}">${eventsText(delivery)}</a>${
    delivery.test && html` ${badge('test')}`
  }`
}

function endpointOf (
  { account }: Visit,
  { directory }: DashboardContext['services'],
  { webhook: id }: DeliverySummary
): Html {
  const webhook = directory.now.webhooks.get(id)
  return webhook?.account === account.id
    ? html`<a href="/dashboard/webhooks/${id}">${webhook.url}</a>${
      webhook.failingSince !== null && html` ${badge('failing')}`
    }`
    : html`deleted endpoint`
}
