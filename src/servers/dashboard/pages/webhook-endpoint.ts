import { EVENT_TYPES } from '#streams/webhook/facts.ts'
import type { DeliveryCounts } from '#projections/deliveries/health.ts'
import type { DeliveryStateName } from '#projections/deliveries/project.ts'
import { replaysOf } from '#src/actions/replay.ts'
import type { UpdateWebhookRequest, Webhook } from '#src/client/client.ts'
import { html, type Html } from '#src/base/html.ts'
import {
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
import type { DashboardContext } from '../dashboard-context.ts'
import { FormRefused, type PageResult, type Pages, type Visit } from '../visit.ts'
import { deliveryList } from './webhook-deliveries.ts'
import { formIn, settingsIn, webhookForm, type WebhookForm } from './webhook-form.ts'
import { countsOf, countText, dayAgo } from './webhook-queries.ts'
import { replaysCard } from './webhook-replays.ts'
import { secretPage } from './webhook-secret.ts'
import { stateBadge } from './webhook-format.ts'

const COUNT_MAX = 1000
/** How often it looks at a replay that is under way. */
const REFRESH_S = 3

/** `/webhooks/:id`: one endpoint, how it does, and what can be done with it. */
export function endpointPages (pages: Pages, context: DashboardContext): void {
  pages.get('/webhooks/:id', async visit => {
    const webhook = await endpointOf(visit)
    const { id } = webhook
    const [counts, replays, list] = await Promise.all([
      countsOf(context, visit, [id], COUNT_MAX),
      replaysOf(context.services, id),
      deliveryList(visit, context, { webhook: id })
    ])
    // What a replay waits for is in no log.
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
  changingPages(pages)
  secretPages(pages)

  pages.post('/webhooks/:id/test', async visit => {
    const type = EVENT_TYPES.find(name => name === visit.form.get('type'))
    if (type === undefined) throw new FormRefused('There is no such type of event.')
    const { delivery_id: delivery } = await visit.api.webhooks.test(visit.params.id!, { type })
    return { to: `/dashboard/webhooks/deliveries/${delivery}`, notice: 'The test event is on its way.' }
  })
}

function changingPages (pages: Pages): void {
  pages.get('/webhooks/:id/edit', async visit => {
    const webhook = await endpointOf(visit)
    return editPage(visit, webhook, formOf(webhook), NO_FAULTS)
  })

  pages.post('/webhooks/:id', async visit => {
    const given = formIn(visit)
    try {
      await visit.api.webhooks.update(visit.params.id!, settingsIn(given))
    } catch (error) {
      return editPage(visit, await endpointOf(visit), given, postFaultsIn(error))
    }
    return { to: pathOf(visit), notice: 'Changed.' }
  })

  const changes: Array<[verb: string, change: UpdateWebhookRequest, notice: string]> = [
    ['pause', { paused: true }, 'Paused: what is owed waits.'],
    ['resume', { paused: false }, 'Resumed: what has waited goes out.'],
    ['enable', { status: 'enabled' }, 'Enabled: it gets events again, from now on.']
  ]
  for (const [verb, change, notice] of changes) {
    pages.post(`/webhooks/:id/${verb}`, async visit => {
      await visit.api.webhooks.update(visit.params.id!, change)
      return { to: pathOf(visit), notice }
    })
  }

  pages.post('/webhooks/:id/delete', async visit => {
    await visit.api.webhooks.delete(visit.params.id!)
    return { to: '/dashboard/webhooks', notice: 'The endpoint is deleted.' }
  })
}

function secretPages (pages: Pages): void {
  pages.post('/webhooks/:id/rotate', async visit => {
    const { id, secret } = await visit.api.webhooks.rotateSecret(visit.params.id!)
    const title = 'The endpoint has a new secret'
    return { title, section: 'webhooks', page: secretPage({ id, title, secret: secret!, about: OVERLAP }) }
  })

  pages.post('/webhooks/:id/finish', async visit => {
    await visit.api.webhooks.rotateSecret(visit.params.id!, { finish: true })
    return { to: pathOf(visit), notice: 'Only the new secret signs from now on.' }
  })
}

const OVERLAP =
  'For 24 hours, or until you end that on the page of the endpoint, the one before signs too: webhook-signature carries both, X-Service-Signature the old one.'

async function endpointOf ({ api, params }: Visit): Promise<Webhook> {
  return await api.webhooks.get(params.id!)
}

function pathOf ({ params }: Visit): string {
  return `/dashboard/webhooks/${params.id!}`
}

function statusOf (visit: Visit, webhook: Webhook): Html {
  const { url, status, paused } = webhook
  const path = pathOf(visit)
  const buttons = html`${
    status === 'enabled' && html`<a class="button" href="${path}/replay">Replay…</a>`
  } <a class="button" href="${path}/edit">Edit</a>
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
  const why = reason === 'gone' ? 'its receiver answered 410, Gone.' : 'it did nothing but fail for five days.'
  return html`<div class="box bad"><p><strong>Disabled:</strong> ${why} What was owed to it has failed, and what happens now is not sent to it. Mend the receiver and enable the
endpoint; a replay of all events then brings what it has missed.</p>${
    actionButton(visit, 'Enable', { action: `${pathOf(visit)}/enable` })
  }</div>`
}

function enabledBoxes ({ nowMs }: Visit, { paused, failing_since: failing }: Webhook): Html {
  return html`${
    paused &&
    html`<p class="box warn"><strong>Paused:</strong> what is owed to it waits and goes out once it is resumed. The time in which a delivery is tried stands
still for up to 24 hours.</p>`
  }
${
    failing !== null &&
    html`<p class="box warn"><strong>Failing</strong> since ${
      time(failing, nowMs)
    }, without a success. After five days of that it is disabled.</p>`
  }`
}

function rotationBox (visit: Visit, { secret_rotation: rotation }: Webhook): Html | null {
  if (rotation === null) return null
  const confirm =
    'From now on only the new secret signs. A receiver that still checks by the old one will turn events away.'
  const end = actionButton(visit, 'End that now', {
    action: `${pathOf(visit)}/finish`,
    confirm,
    confirmLabel: 'End it now'
  })
  return html`<div class="box calm"><p>The secret before the last rotation signs, too; that ends ${
    time(rotation.previous_expires_at, visit.nowMs)
  }.</p>${end}</div>`
}

function tiles (visit: Visit, { id }: Webhook, counts: DeliveryCounts | undefined): Html | null {
  if (counts === undefined) return null
  const all: Array<[label: string, state: DeliveryStateName]> = [['Delivered', 'delivered'], ['Failed', 'failed'], [
    'To be tried again',
    'retrying'
  ], ['Not tried yet', 'pending']]
  const items = all.map(([label, state]) => {
    const link = html`<a class="value" href="/dashboard/webhooks/${id}?state=${state}&amp;since=${dayAgo(visit)}">${
      countText(counts[state], COUNT_MAX)
    }</a>`
    return html`<li class="tile">${link}<span class="label">${label}</span></li>`
  })
  return html`<h2 class="of-tiles">Deliveries of the last 24 hours</h2><ul class="tiles">${items}</ul>`
}

function settings ({ nowMs }: Visit, webhook: Webhook): Html {
  const { id, events, batch, concurrency, every_deferral: every, start_at: start, created_at: created } = webhook
  return html`<section class="card"><h2 class="unseen">Settings</h2>${
    detailList([
      ['State', stateBadge(webhook, nowMs)],
      ['Events', events.join(', ')],
      [
        'Batches',
        batch === null
          ? 'One event a request'
          : `Up to ${batch.max_events} events, or what came within ${batch.max_wait_ms} ms`
      ],
      ['Requests at once', concurrency ?? '8, unless told'],
      ['Deferrals', every ? 'Every one is an event' : 'The first one is an event, and how it ends'],
      ['Id', copyable(id, 'Copy the id of the endpoint')],
      ['Made', time(created, nowMs)],
      start === created ? null : ['Gets events since', time(start, nowMs)]
    ])
  }</section>`
}

function actions (visit: Visit, webhook: Webhook): Html {
  const confirm =
    'The endpoint ends at once: what is still owed to it fails and cannot be replayed. This cannot be undone; a pause can.'
  const end = actionButton(visit, 'Delete the endpoint', {
    action: `${pathOf(visit)}/delete`,
    confirm,
    confirmLabel: 'Delete it',
    danger: true
  })
  return html`<div class="grid after">
<section class="card"><h2>Test</h2><p class="hint">A made-up event with <code>data.test</code>, signed, sent and tried again like any other, whatever the endpoint listens to.</p>
${test(visit, webhook)}</section>
<section class="card"><h2>Signing secret</h2><p class="hint">Shown only when it was made. If it is lost, or others may know it, make a new one.</p>
${rotate(visit, webhook)}</section>
<section class="card"><h2>Delete</h2><p class="hint">It gets nothing more, and what is still owed to it fails. What was sent stays in the log for 30 days.</p>
${end}</section></div>`
}

function test (visit: Visit, { events, status, paused }: Webhook): Html {
  if (status === 'disabled' || paused) {
    return html`<p class="hint">Nothing is sent while the endpoint is ${
      status === 'disabled' ? 'disabled' : 'paused'
    }.</p>`
  }
  const types = select('type', 'Type', EVENT_TYPES.map(type => [type, type]), events[0] ?? '')
  return form(
    visit,
    { action: `${pathOf(visit)}/test`, class: 'fields' },
    html`${types}<div class="actions"><button>Send a test event</button></div>`
  )
}

function rotate (visit: Visit, { secret_rotation: rotation }: Webhook): Html {
  if (rotation !== null) return html`<p class="hint">A rotation is under way: end it before the next one.</p>`
  const confirm = 'A new secret is made and shown once. For 24 hours the present one signs, too.'
  return actionButton(visit, 'Rotate the secret', {
    action: `${pathOf(visit)}/rotate`,
    confirm,
    confirmLabel: 'Rotate it'
  })
}

function formOf ({ url, events, every_deferral: everyDeferral, batch, concurrency }: Webhook): WebhookForm {
  const text = (value: number | null | undefined) => String(value ?? '')
  return {
    url,
    events,
    everyDeferral,
    batchEvents: text(batch?.max_events),
    batchWait: text(batch?.max_wait_ms),
    concurrency: text(concurrency),
    startAt: ''
  }
}

function editPage (visit: Visit, { id, url }: Webhook, given: WebhookForm, faults: Faults): PageResult {
  const path = `/dashboard/webhooks/${id}`
  const page = html`${
    heading('Edit the endpoint', null, html`<a href="/dashboard/webhooks">Webhooks</a> / <a href="${path}">${url}</a>`)
  }
<section class="card">${webhookForm(visit, { action: path, label: 'Save' }, given, faults)}</section>`
  return { title: 'Edit the endpoint', section: 'webhooks', page, status: faults.summary === null ? 200 : 422 }
}
