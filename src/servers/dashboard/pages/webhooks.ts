import type { Webhook } from '#src/client/client.ts'
import type { DeliveryCounts } from '#projections/deliveries/health.ts'
import { html, type Html } from '#src/base/html.ts'
import { curlFor } from '../curl.ts'
import { confirmed } from '../confirm.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import {
  buttonTo,
  codeBlock,
  cursorOf,
  empty,
  heading,
  live,
  NO_FAULTS,
  pager,
  table,
  postFaultsIn,
  type Faults
} from '../parts.ts'
import { createSubmitOnce, type SubmitOnce } from '../submit-once.ts'
import type { PageResult, Pages, Visit } from '../visit.ts'
import { deliveriesPages } from './webhook-deliveries.ts'
import { deliveryPages } from './webhook-delivery.ts'
import { endpointPages } from './webhook-endpoint.ts'
import { formIn, NEW_FORM, onceIn, settingsIn, webhookForm, type WebhookForm } from './webhook-form.ts'
import { countsLine, countsOf } from './webhook-queries.ts'
import { replayPages } from './webhook-replay.ts'
import { secretPage, stateBadge } from './webhook-format.ts'

/** Deliveries of each endpoint in the list. */
const COUNT_MAX = 100

/** Webhooks: endpoints, deliveries and replays. */
export function webhooksPages (pages: Pages, context: DashboardContext): void {
  const once = createSubmitOnce()
  pages.get('/webhooks', 'webhooks:read', async visit => {
    const { data, next_cursor: next } = await visit.api.webhooks.page(cursorOf(visit))
    if (data.length === 0 && !visit.query.has('cursor')) {
      return { title: 'Webhooks', section: 'webhooks', page: html`${headOf(visit)}${none(visit, context.publicUrl)}` }
    }
    const counts = await countsOf(context, visit, data.map(({ id }) => id), COUNT_MAX)
    const list = html`<div ${live(visit, 'deliveries', 'endpoints')}>${listOf(visit, data, counts)}${
      pager(visit, next)
    }</div>`
    return { title: 'Webhooks', section: 'webhooks', page: html`${headOf(visit)}${list}` }
  })

  pages.get('/webhooks/new', 'webhooks:write', async visit => newPage(visit, once, NEW_FORM, NO_FAULTS))

  confirmed(pages, context).post('/webhooks', 'webhooks:write', async visit => {
    const given = formIn(visit)
    const wanted = { ...settingsIn(given), ...onceIn(given) }
    try {
      const { id, url, secret } = await once.run(visit, async () => await visit.api.webhooks.create(wanted))
      const title = 'Endpoint created'
      const page = secretPage({ id, title, secret, note: `It signs the requests to ${url}.` })
      return { title, section: 'webhooks', page }
    } catch (error) {
      return newPage(visit, once, given, postFaultsIn(error))
    }
  })

  deliveriesPages(pages, context)
  deliveryPages(pages, context)
  endpointPages(pages, context)
  replayPages(pages, context)
}

function headOf (visit: Visit): Html {
  return heading(
    'Webhooks',
    html`${buttonTo(visit, '/dashboard/webhooks/deliveries', 'All deliveries')}
${buttonTo(visit, '/dashboard/webhooks/new', 'New endpoint', { primary: true })}`
  )
}

function listOf ({ nowMs }: Visit, webhooks: Webhook[], counts: Map<string, DeliveryCounts> | null): Html {
  return table<Webhook>('Endpoints', [
    { name: 'Endpoint', kind: 'wide', cell: ({ id, url }) => html`<a href="/dashboard/webhooks/${id}">${url}</a>` },
    { name: 'Status', cell: webhook => stateBadge(webhook, nowMs) },
    { name: 'Events', cell: ({ events }) => events.map(type => type.replace('email.', '')).join(', ') },
    { name: 'Last 24 hours', cell: ({ id }) => countsLine(counts?.get(id), COUNT_MAX) }
  ], webhooks)
}

function none (visit: Visit, publicUrl: string): Html {
  const curl = curlFor(publicUrl, '/api/webhooks', {
    url: 'https://example.com/webhooks/jetpost',
    events: ['email.delivered', 'email.bounced']
  })
  const text = 'Jetpost sends signed requests to an endpoint, a URL of yours, when emails are delivered, bounce, are ' +
    'opened or clicked. It retries failed requests for 24 hours. Requests and responses appear here.'
  return empty(
    'No endpoints yet',
    text,
    html`<p>${buttonTo(visit, '/dashboard/webhooks/new', 'Create an endpoint', { primary: true })}</p>
${codeBlock(curl, 'Create an endpoint with the API')}`
  )
}

function newPage (visit: Visit, once: SubmitOnce, given: WebhookForm, faults: Faults): PageResult {
  const page = html`${heading('New endpoint', null, html`<a href="/dashboard/webhooks">Webhooks</a>`)}
<section class="card">${
    webhookForm(visit, { action: '/dashboard/webhooks', label: 'Create endpoint', once }, given, faults)
  }</section>`
  return { title: 'New endpoint', section: 'webhooks', page, status: faults.summary === null ? 200 : 422 }
}
