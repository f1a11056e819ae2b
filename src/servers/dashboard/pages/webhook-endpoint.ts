import { EVENT_TYPES } from '#streams/webhook/facts.ts'
import type { DeliveryCounts } from '#projections/deliveries/health.ts'
import type { DeliveryStateName } from '#projections/deliveries/project.ts'
import { replaysOf } from '#src/actions/replay.ts'
import type { UpdateWebhookRequest, Webhook } from '#src/client/client.ts'
import { html, type Html } from '#src/base/html.ts'
import {
  buttonTo,
  actionButton,
  copyable,
  detailList,
  form,
  heading,
  live,
  NO_FAULTS,
  select,
  time,
  postFaultsIn,
  type Faults
} from '../parts.ts'
import { confirmed } from '../confirm.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { FormRefused, type PageResult, type Pages, type Visit } from '../visit.ts'
import { deliveryList } from './webhook-deliveries.ts'
import { formIn, settingsIn, webhookForm, type WebhookForm } from './webhook-form.ts'
import { countsOf, countText, dayAgo } from './webhook-queries.ts'
import { replaysCard } from './webhook-replays.ts'
import { secretPage, stateBadge } from './webhook-format.ts'

const COUNT_MAX = 1000
/** While a replay runs. */
const REFRESH_S = 3

/** `/webhooks/:id`: one endpoint with its state, deliveries and actions. */
export function endpointPages (pages: Pages, context: DashboardContext): void {
  pages.get('/webhooks/:id', 'webhooks:read', async visit => {
    const webhook = await endpointOf(visit)
    const { id } = webhook
    const [counts, replays, list] = await Promise.all([
      countsOf(context, visit, [id], COUNT_MAX),
      replaysOf(context.services, id),
      deliveryList(visit, context, { webhook: id })
    ])
    // No fact reports what a replay waits for.
    const seconds = replays.some(({ state }) => state === 'running') ? REFRESH_S : null
    const { form, rows, status } = list
    const page = html`<div ${live(visit, 'deliveries', 'endpoint', seconds)}>${statusOf(visit, webhook)}${
      tiles(visit, webhook, counts?.get(id))
    }${settings(visit, webhook)}
${replaysCard(visit, id, replays)}<section id="deliveries"><h2>Deliveries</h2>${form}${rows}</section></div>${
      actions(visit, webhook)
    }`
    return { title: webhook.url, section: 'webhooks', page, status }
  })
  changingPages(pages, context)
  secretPages(pages, context)

  pages.post('/webhooks/:id/test', 'webhooks:write', async visit => {
    const type = EVENT_TYPES.find(name => name === visit.form.get('type'))
    if (type === undefined) throw new FormRefused('Choose a type of event.')
    const { delivery_id: delivery } = await visit.api.webhooks.test(visit.params.id!, { type })
    return { to: `/dashboard/webhooks/deliveries/${delivery}`, notice: 'Test event sent.' }
  })
}

function changingPages (pages: Pages, context: DashboardContext): void {
  pages.get('/webhooks/:id/edit', 'webhooks:write', async visit => {
    const webhook = await endpointOf(visit)
    return editPage(visit, webhook, formOf(webhook), NO_FAULTS)
  })

  // Who gets the events reads along for as long as the endpoint stands.
  confirmed(pages, context).post('/webhooks/:id', 'webhooks:write', async visit => {
    const given = formIn(visit)
    try {
      await visit.api.webhooks.update(visit.params.id!, settingsIn(given))
    } catch (error) {
      return editPage(visit, await endpointOf(visit), given, postFaultsIn(error))
    }
    return { to: pathOf(visit), notice: 'Endpoint updated.' }
  })

  const changes: Array<[verb: string, change: UpdateWebhookRequest, notice: string]> = [
    ['pause', { paused: true }, 'Endpoint paused. Its deliveries wait.'],
    ['resume', { paused: false }, 'Endpoint resumed. Waiting deliveries are sent now.'],
    ['enable', { status: 'enabled' }, 'Endpoint enabled. It gets new events from now on.']
  ]
  for (const [verb, change, notice] of changes) {
    pages.post(`/webhooks/:id/${verb}`, 'webhooks:write', async visit => {
      await visit.api.webhooks.update(visit.params.id!, change)
      return { to: pathOf(visit), notice }
    })
  }

  pages.post('/webhooks/:id/delete', 'webhooks:write', async visit => {
    await visit.api.webhooks.delete(visit.params.id!)
    return { to: '/dashboard/webhooks', notice: 'Endpoint deleted.' }
  })
}

function secretPages (pages: Pages, context: DashboardContext): void {
  confirmed(pages, context).post('/webhooks/:id/rotate', 'webhooks:write', async visit => {
    const { id, secret } = await visit.api.webhooks.rotateSecret(visit.params.id!)
    const title = 'Secret rotated'
    return { title, section: 'webhooks', page: secretPage({ id, title, secret: secret!, note: OVERLAP }) }
  })

  pages.post('/webhooks/:id/finish', 'webhooks:write', async visit => {
    await visit.api.webhooks.rotateSecret(visit.params.id!, { finish: true })
    return { to: pathOf(visit), notice: 'Rotation finished. Only the new secret signs from now on.' }
  })
}

const OVERLAP = 'For 24 hours, or until you finish the rotation, the previous secret signs as well: ' +
  'webhook-signature has both signatures, X-Service-Signature has the previous one.'

async function endpointOf ({ api, params }: Visit): Promise<Webhook> {
  return await api.webhooks.get(params.id!)
}

function pathOf ({ params }: Visit): string {
  return `/dashboard/webhooks/${params.id!}`
}

function statusOf (visit: Visit, webhook: Webhook): Html {
  const { url, status, paused } = webhook
  const path = pathOf(visit)
  const buttons = html`${status === 'enabled' && buttonTo(visit, `${path}/replay`, 'Replay…')} ${
    buttonTo(visit, `${path}/edit`, 'Edit')
  }
${
    paused
      ? actionButton(visit, 'Resume', { action: `${path}/resume` })
      : actionButton(visit, 'Pause', { action: `${path}/pause` })
  }`
  return html`${heading(url, buttons, html`<a href="/dashboard/webhooks">Webhooks</a>`)}${
    status === 'disabled' ? disabledBox(visit, webhook) : enabledBoxes(visit, webhook)
  }
${rotationBox(visit, webhook)}`
}

function disabledBox (visit: Visit, { disabled_reason: reason }: Webhook): Html {
  const why = reason === 'gone' ? 'its receiver answered 410 Gone.' : 'all its deliveries failed for five days.'
  return html`<div class="box bad"><p><strong>Disabled:</strong> ${why} Waiting deliveries have failed, and new events
are not sent. Fix the receiver and enable the endpoint; then replay all events to send what it missed.</p>
${actionButton(visit, 'Enable', { action: `${pathOf(visit)}/enable` })}</div>`
}

function enabledBoxes ({ nowMs }: Visit, { paused, failing_since: failing }: Webhook): Html {
  const pausedBox =
    html`<p class="box warn"><strong>Paused:</strong> deliveries wait until you resume the endpoint. For up
to 24 hours, the pause does not count towards the time for retries.</p>`
  const failingBox = html`<p class="box warn"><strong>Failing</strong> since ${time(failing, nowMs)}: no delivery has
succeeded. After five days, Jetpost disables the endpoint.</p>`
  return html`${paused && pausedBox}
${failing !== null && failingBox}`
}

function rotationBox (visit: Visit, { secret_rotation: rotation }: Webhook): Html | null {
  if (rotation === null) return null
  const confirm = 'Only the new secret will sign. Receivers that still verify with the previous secret refuse events.'
  const finish = actionButton(visit, 'Finish rotation', {
    action: `${pathOf(visit)}/finish`,
    confirm,
    confirmLabel: 'Finish rotation'
  })
  const end = time(rotation.previous_expires_at, visit.nowMs)
  return html`<div class="box calm"><p>The previous secret signs as well. The rotation ends ${end}.</p>${finish}</div>`
}

function tiles (visit: Visit, { id }: Webhook, counts: DeliveryCounts | undefined): Html | null {
  if (counts === undefined) return null
  const all: Array<[label: string, state: DeliveryStateName]> = [
    ['Delivered', 'delivered'],
    ['Failed', 'failed'],
    ['Retrying', 'retrying'],
    ['Pending', 'pending']
  ]
  const items = all.map(([label, state]) => {
    const href = html`/dashboard/webhooks/${id}?state=${state}&amp;since=${dayAgo(visit)}`
    return html`<li class="tile"><a class="value" href="${href}">${countText(counts[state], COUNT_MAX)}</a>
<span class="label">${label}</span></li>`
  })
  return html`<h2 class="of-tiles">Deliveries of the last 24 hours</h2><ul class="tiles">${items}</ul>`
}

const MODE_TEXTS = { live: 'Sent with live keys', test: 'Sent with test keys', both: 'All' }

function settings ({ nowMs }: Visit, webhook: Webhook): Html {
  const { id, events, batch, concurrency, every_deferral: every, bounces, mode, format } = webhook
  const { start_at: start, created_at: created } = webhook
  return html`<section class="card"><h2 class="unseen">Settings</h2>${
    detailList([
      ['Status', stateBadge(webhook, nowMs)],
      ['Events', events.join(', ')],
      [
        'Batches',
        batch === null
          ? 'One event per request'
          : `Up to ${batch.max_events} events, sent after ${batch.max_wait_ms} ms at most`
      ],
      ['Concurrent requests', concurrency ?? '8 (default)'],
      ['Emails', MODE_TEXTS[mode]],
      ['Format', format === 'resend' ? 'Resend' : 'Jetpost'],
      bounces === 'all' ? null : ['Bounces', bounces === 'final' ? 'Without deferrals' : 'Deferrals alone'],
      ['Deferrals', every ? 'An event for each' : 'An event for the first'],
      ['Id', copyable(id, 'Copy the id of the endpoint')],
      ['Created', time(created, nowMs)],
      start === created ? null : ['Events since', time(start, nowMs)]
    ])
  }</section>`
}

function actions (visit: Visit, webhook: Webhook): Html {
  const confirm =
    'Waiting deliveries fail and cannot be replayed. This cannot be undone; to stop for a while, pause it.'
  const remove = actionButton(visit, 'Delete endpoint', {
    action: `${pathOf(visit)}/delete`,
    confirm,
    confirmLabel: 'Delete endpoint',
    danger: true
  })
  return html`<div class="grid after">
<section class="card"><h2>Test</h2>
<p class="hint">Sends a sample event with <code>data.test</code>, signed and retried like any other.</p>
${test(visit, webhook)}</section>
<section class="card"><h2>Signing secret</h2>
<p class="hint">Shown once. If it is lost or leaked, rotate it.</p>
${rotate(visit, webhook)}</section>
<section class="card"><h2>Delete</h2>
<p class="hint">Waiting deliveries fail. Sent ones stay in the log for 30 days.</p>
${remove}</section></div>`
}

function test (visit: Visit, { events, status, paused }: Webhook): Html {
  if (status === 'disabled' || paused) {
    const state = status === 'disabled' ? 'disabled' : 'paused'
    return html`<p class="hint">Jetpost sends nothing while the endpoint is ${state}.</p>`
  }
  const types = select('type', 'Type', EVENT_TYPES.map(type => [type, type]), events[0] ?? '')
  return form(
    visit,
    { action: `${pathOf(visit)}/test`, class: 'fields' },
    html`${types}<div class="actions"><button>Send test event</button></div>`
  )
}

function rotate (visit: Visit, { secret_rotation: rotation }: Webhook): Html {
  if (rotation !== null) return html`<p class="hint">Finish the present rotation before the next one.</p>`
  const confirm = 'The new secret is shown once. For 24 hours the present one signs as well.'
  const action = `${pathOf(visit)}/rotate`
  return actionButton(visit, 'Rotate secret', { action, confirm, confirmLabel: 'Rotate secret' })
}

function formOf (
  { url, events, every_deferral: everyDeferral, mode, format, batch, concurrency }: Webhook
): WebhookForm {
  const text = (value: number | null | undefined) => String(value ?? '')
  return {
    url,
    events,
    everyDeferral,
    mode,
    format,
    batchEvents: text(batch?.max_events),
    batchWait: text(batch?.max_wait_ms),
    concurrency: text(concurrency),
    startAt: ''
  }
}

function editPage (visit: Visit, { id, url }: Webhook, given: WebhookForm, faults: Faults): PageResult {
  const path = `/dashboard/webhooks/${id}`
  const page = html`${
    heading('Edit endpoint', null, html`<a href="/dashboard/webhooks">Webhooks</a> / <a href="${path}">${url}</a>`)
  }
<section class="card">${webhookForm(visit, { action: path, label: 'Save' }, given, faults)}</section>`
  return { title: 'Edit endpoint', section: 'webhooks', page, status: faults.summary === null ? 200 : 422 }
}
