import {
  listDeliveries,
  type DeliveryFilters,
  type DeliveryPage,
  type DeliverySummary
} from '#projections/deliveries/queries.ts'
import { html, type Html } from '#src/base/html.ts'
import { badge, empty, faultBox, heading, live, pager, table, time } from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import type { Pages, Visit } from '../visit.ts'
import { filterForm, isFiltered, readFilters, withoutFilters } from './webhook-filters.ts'
import { readDeliveries, UNAVAILABLE } from './webhook-queries.ts'
import { responseText, deliveryBadge, eventsText, nextAttempt } from './webhook-format.ts'

const PAGE = 25

/** `/webhooks/deliveries`: the deliveries of all endpoints. */
export function deliveriesPages (pages: Pages, context: DashboardContext): void {
  pages.get('/webhooks/deliveries', async visit => {
    const { form, rows, status } = await deliveryList(visit, context, {})
    const page = html`${heading('Deliveries', null, html`<a href="/dashboard/webhooks">Webhooks</a>`)}${form}<div ${
      live(visit, 'deliveries', 'deliveries')
    }>${rows}</div>`
    return { title: 'Deliveries', section: 'webhooks', page, status }
  })
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
    listDeliveries({ account: visit.account.id, filters: { ...filters, ...of }, limit: PAGE, cursor })
  )
  const list = found === null
    ? UNAVAILABLE
    : deliveryTable(visit, context, found, { several: of.webhook === undefined, none })
  return { form, rows: html`${list}${pager(visit, found?.nextCursor ?? null)}`, status: 200 }
}

const NONE_YET = empty(
  'No deliveries yet',
  'Events sent to endpoints appear here for 30 days, with every request and response. Send a test event to see one.'
)

/** `several` = of more than one endpoint: each row names its own. */
function deliveryTable (
  visit: Visit,
  { services }: DashboardContext,
  { deliveries }: DeliveryPage,
  { several, none }: { several: boolean, none: Html }
): Html {
  const { nowMs } = visit
  if (deliveries.length === 0) return isFiltered(visit) || visit.query.has('cursor') ? noneOf(visit) : none
  return table<DeliverySummary>(
    'Deliveries',
    [
      {
        name: 'Event',
        kind: 'wide',
        cell: one =>
          html`${linkTo(one)}${several && html`<br><span class="hint">${endpointOf(visit, services, one)}</span>`}`
      },
      { name: 'Status', cell: deliveryBadge },
      {
        name: 'Last response',
        cell: (
          { last }
        ) => (last === null ? html`<span class="none">No response yet</span>` : responseText(last).slice(0, 120))
      },
      { name: 'Attempts', kind: 'num', cell: ({ attempts }) => attempts },
      { name: 'Created', cell: ({ requestedAt }) => time(requestedAt, nowMs) },
      { name: 'Next attempt', cell: ({ nextAttemptAt }) => nextAttempt(nextAttemptAt, nowMs) }
    ],
    deliveries,
    ({ id }) => id
  )
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
    ? html`<a href="/dashboard/webhooks/${id}">${webhook.url}</a>`
    : html`deleted endpoint`
}
