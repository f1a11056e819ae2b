import { getDelivery, type DeliveryAttempt, type DeliveryRecord } from '#projections/deliveries/queries.ts'
import { deliveries } from '#projections/deliveries/project.ts'
import type { Member } from '#streams/delivery/facts.ts'
import type { WebhookEntry } from '#streams/directory.ts'
import { readBody } from '#src/actions/delivery-body.ts'
import { findDelivery } from '#src/actions/delivery-view.ts'
import { replayDelivery } from '#src/actions/replay.ts'
import { html, type Html } from '#src/base/html.ts'
import { answerFrom } from '#src/postgres/reads.ts'
import { download } from '../download.ts'
import {
  actionButton,
  badge,
  codeBlock,
  copyable,
  exact,
  detailList,
  heading,
  live,
  number,
  table,
  time
} from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { resultOrThrow, PageNotFound, type Pages, type Visit } from '../visit.ts'
import {
  adviceFor,
  deliveryBadge,
  eventsText,
  idIn,
  isFine,
  nextAttempt,
  replayedBadge,
  responseText
} from './webhook-format.ts'

/** Characters; a longer payload is only a download. */
const SHOWN_MAX = 64 * 1024

/** `/webhooks/deliveries/:id`: one delivery, with its requests and responses. */
export function deliveryPages (pages: Pages, context: DashboardContext): void {
  pages.get('/webhooks/deliveries/:id', 'webhooks:read', async visit => {
    const delivery = await recordOf(visit, context)
    const title = eventsText(delivery)
    const body = await bodyOf(visit, context)
    return {
      title,
      section: 'webhooks',
      page: html`<div ${live(visit, 'deliveries', 'delivery')}>${statusOf(visit, context, delivery)}</div>${
        payload(visit, body)
      }`
    }
  })

  pages.get('/webhooks/deliveries/:id/body', 'webhooks:read', async visit => {
    await recordOf(visit, context)
    const body = await bodyOf(visit, context)
    if (body === null) throw new PageNotFound('The payload has expired.')
    return download('application/json', `${visit.params.id!}.json`, body)
  })

  pages.post('/webhooks/deliveries/:id/replay', 'webhooks:write', async visit => {
    const { id } = await recordOf(visit, context)
    const { webhook } = resultOrThrow(
      await replayDelivery(context.services, visit.asker, id, findDelivery(context.reads.pool))
    )
    const paused = context.services.directory.now.webhooks.get(webhook)?.paused === true
    return {
      to: `/dashboard/webhooks/deliveries/${id}`,
      notice: paused
        ? 'Replay requested. It is sent once the endpoint is resumed.'
        : 'Replay requested. It has the same id and the same payload.'
    }
  })
}

async function recordOf (visit: Visit, { reads }: DashboardContext): Promise<DeliveryRecord> {
  const found = await answerFrom(
    reads,
    visit.account.id,
    deliveries,
    getDelivery({ account: visit.account.id, id: idOf(visit) })
  )
  if (found === null) throw new PageNotFound(NONE)
  return found
}

const NONE = 'This delivery does not exist in this account. Deliveries are kept for 30 days.'

function idOf ({ params }: Visit): string {
  const id = idIn('whd', params.id!)
  if (id === null) throw new PageNotFound(NONE)
  return id
}

/** The payload as it is sent; null = it has expired. */
async function bodyOf (visit: Visit, { services, reads }: DashboardContext): Promise<string | null> {
  const seq = await findDelivery(reads.pool)(visit.account.id, idOf(visit))
  return seq === null ? null : await readBody(services.factLog.bus, seq)
}

function statusOf (visit: Visit, { services }: DashboardContext, delivery: DeliveryRecord): Html {
  const { nowMs } = visit
  const known = services.directory.now.webhooks.get(delivery.webhook)
  const webhook = known?.account === visit.account.id ? known : null
  const { requested_at: requested, first_attempt_at: first, next_attempt_at: next, ended_at: ended, last } = delivery
  const advice = delivery.state === 'delivered' || last === null ? null : adviceFor(last)
  const above =
    html`<a href="/dashboard/webhooks">Webhooks</a> / <a href="/dashboard/webhooks/deliveries">Deliveries</a>`
  return html`${heading(eventsText(delivery), replayButton(visit, delivery, webhook), above)}
${advice !== null && html`<p class="box warn"><strong>${responseText(last!)}.</strong> ${advice}</p>`}
<section class="card"><h2 class="unseen">Details</h2>${
    detailList([
      [
        'Status',
        html`${deliveryBadge(delivery, webhook, nowMs)}${replayedBadge(delivery)}${
          delivery.test && html` ${badge('test')}`
        }`
      ],
      [
        'Endpoint',
        webhook === null
          ? html`<code>${delivery.webhook}</code>, deleted`
          : html`<a href="/dashboard/webhooks/${webhook.id}">${webhook.url}</a>`
      ],
      ['Delivery', copyable(delivery.id, 'Copy the id of the delivery')],
      ...(delivery.events.length === 1 ? eventDetails(delivery, delivery.events[0]!) : []),
      ['Created', time(requested, nowMs)],
      first === null ? null : ['First attempt', time(first, nowMs)],
      ['Attempts', attemptsText(delivery)],
      next === null ? null : ['Next attempt', nextAttempt(next, nowMs)],
      ended === null ? null : ['Ended', time(ended, nowMs)],
      delivery.replay === null ? null : ['Replay', html`<code>${delivery.replay}</code>`]
    ])
  }</section>
${delivery.events.length > 1 && batchEvents(delivery)}
${requests(delivery, nowMs)}`
}

/** All of them, and how many are of the last replay. */
function attemptsText ({ attempts, replay, tries }: DeliveryRecord): string | number {
  return replay === null ? attempts : `${number(tries.length)}, ${number(attempts)} of them in the last replay`
}

function eventDetails ({ test }: DeliveryRecord, { id, email }: Member): Array<[string, Html]> {
  return [
    [
      'Event',
      html`${copyable(id, 'Copy the id of the event')}<br>
<a href="/dashboard/webhooks/deliveries?event=${id}">All deliveries of this event</a>`
    ],
    ['Email', test ? html`<span class="none">none (test event)</span>` : emailLink(email)]
  ]
}

function emailLink (id: string): Html {
  return html`<a href="/dashboard/emails/${id}"><code>${id}</code></a>`
}

function batchEvents ({ events, test }: DeliveryRecord): Html {
  return html`<section class="card"><h2>Events of the batch</h2>${
    table<Member>('Events of the batch', [
      { name: 'Type', cell: ({ type }) => type },
      { name: 'Event', kind: 'wide', cell: ({ id }) => html`<code>${id}</code>` },
      { name: 'Email', cell: ({ email }) => (test ? 'none (test event)' : emailLink(email)) }
    ], events)
  }</section>`
}

function replayButton (visit: Visit, { id, state }: DeliveryRecord, webhook: WebhookEntry | null): Html {
  if (webhook === null) return html`<span class="hint">The endpoint was deleted, so this cannot be replayed.</span>`
  if (webhook.disabled !== null) {
    return html`<span class="hint">The endpoint is disabled. Enable it to replay this delivery.</span>`
  }
  return actionButton(visit, 'Replay', {
    action: `/dashboard/webhooks/deliveries/${id}/replay`,
    ...(state === 'delivered' ? DELIVERED_ALREADY : {})
  })
}

const DELIVERED_ALREADY = {
  confirm: 'This delivery has already arrived. The receiver gets it again, with the same id and the same payload.',
  confirmLabel: 'Replay'
}

function requests ({ tries }: DeliveryRecord, nowMs: number): Html {
  if (tries.length === 0) {
    return html`<section class="card"><h2>Requests</h2><p class="hint">No request yet.</p></section>`
  }
  const newestFirst = tries.map((one, i) => ({ one, n: i + 1 })).reverse()
  return html`<section class="card"><h2>Requests</h2><ol class="timeline" reversed>${
    newestFirst.map(({ one, n }) => requestOf(one, n, n === tries.length, nowMs))
  }</ol></section>`
}

function requestOf (one: DeliveryAttempt, n: number, isOpen: boolean, nowMs: number): Html {
  const { seq, attempt, replay, at, duration_ms: durationMs, status, url, headers, response } = one
  const sent = [`POST ${url}`, ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`)].join('\n')
  return html`<li class="${isFine(one) ? 'good' : 'bad'}"><details id="request-${seq}"${isOpen && html` open`}>
<summary><strong>${responseText(one)}</strong> <span class="hint">attempt ${attempt}${
    replay !== null && ' of a replay'
  } · ${number(durationMs)} ms · ${time(at, nowMs)} ·
${exact(at.toISOString())}</span></summary>
<h3>Request</h3>${codeBlock(sent, `Request ${n}`)}
<h3>Response</h3>${
    response === ''
      ? html`<p class="hint">${status === null ? 'No response.' : 'Empty body.'}</p>`
      : codeBlock(response, `Response to request ${n}`)
  }
</details></li>`
}

function payload (visit: Visit, body: string | null): Html {
  return html`<section class="card"><h2>Payload</h2>${
    body === null ? EXPIRED : body.length > SHOWN_MAX ? downloadLink(visit, body) : payloadView(visit, body)
  }</section>`
}

const EXPIRED = html`<p class="hint">The payload has expired.</p>`

function downloadLink ({ params }: Visit, body: string): Html {
  return html`<p>${number(Buffer.byteLength(body))} bytes, the same in every attempt.
<a href="/dashboard/webhooks/deliveries/${params.id!}/body">Download</a></p>`
}

function payloadView (visit: Visit, body: string): Html {
  return html`${codeBlock(JSON.stringify(JSON.parse(body), null, 2), 'Payload')}
<details id="bytes"><summary>Raw bytes, as signed and sent</summary>${codeBlock(body, 'Raw bytes')}
${downloadLink(visit, body)}</details>`
}
