import { deliveries } from '#projections/deliveries/project.ts'
import { listDeliveries, parsePlace, type DeliverySummary } from '#projections/deliveries/queries.ts'
import { html, type Html } from '#src/base/html.ts'
import type { Email } from '#src/client/types.ts'
import { answerFrom } from '#src/postgres/reads.ts'
import { badge, empty, live, pager, table, time } from '../parts.ts'
import type { DashboardRooms } from '../rooms.ts'
import type { Visit } from '../visit.ts'

const ROWS = 50
const NOTHING = html`When something happens to an email, <a href="/dashboard/webhooks">endpoints that subscribe to it</a> are told, and each delivery is listed here.`

/** What endpoints were told of the email. */
export async function webhooksTab (visit: Visit, { reads, desk }: DashboardRooms, { id }: Email): Promise<Html> {
  const cursor = parsePlace(visit.query.get('cursor') ?? '')
  const query = listDeliveries({ account: visit.account.id, filters: { email: id }, limit: ROWS, cursor })
  const { deliveries: rows, nextCursor } = await answerFrom(reads, deliveries, query)
  const urlOf = (webhook: string) => desk.directory.now.webhooks.get(webhook)?.url ?? `${webhook} (deleted)`
  const list = rows.length === 0
    ? empty('No webhook delivery', NOTHING)
    : html`${tableOf(visit, rows, urlOf)}${pager(visit, nextCursor)}`
  return html`<section aria-labelledby="webhooks-title"><h2 id="webhooks-title">Webhook deliveries of its events</h2>
<div ${live(visit, 'deliveries', 'deliveries')}>${list}</div></section>`
}

function tableOf ({ nowMs }: Visit, rows: DeliverySummary[], urlOf: (webhook: string) => string): Html {
  return table('Webhook deliveries, newest first', [
    { name: 'Events', cell: eventsCell },
    { name: 'Endpoint', kind: 'wide', cell: ({ webhook }) => urlOf(webhook) },
    { name: 'State', cell: ({ state, nextAttemptAt: next }) => html`${badge(state)}${next !== null && html` <span class="hint">next attempt ${time(next, nowMs)}</span>`}` },
    { name: 'Answer', cell: ({ last, reason }) => (last === null ? reason?.replaceAll('_', ' ') ?? '–' : last.status ?? last.errorKind?.replaceAll('_', ' ') ?? 'none') },
    { name: 'Attempts', kind: 'num', cell: ({ attempts }) => attempts },
    { name: 'Asked for', cell: ({ requestedAt }) => time(requestedAt, nowMs) }
  ], rows, ({ id }) => id)
}

function eventsCell ({ id, events, batch }: DeliverySummary): Html {
  const types = [...new Set(events.map(({ type }) => type))].join(', ')
  return html`<a href="/dashboard/webhooks/deliveries/${id}">${types}</a>${batch && html` <span class="hint">in a batch of ${events.length}</span>`}`
}
