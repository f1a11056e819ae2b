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
import { act, badge, codeBlock, copyable, exact, facts, heading, live, number, table, time } from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { granted, Missing, type Pages, type Visit } from '../visit.ts'
import { adviceFor, answerText, deliveryBadge, eventsText, idIn, isFine, nextTry } from './webhook-words.ts'

/** What is longer is not shown but saved. */
const SHOWN_MAX = 64 * 1024

/** `/webhooks/deliveries/:id`: one of them, with all that was asked and answered. */
export function deliveryPages (pages: Pages, context: DashboardContext): void {
  pages.get('/webhooks/deliveries/:id', async visit => {
    const delivery = await recordOf(visit, context)
    const title = eventsText(delivery)
    const body = await bodyOf(visit, context)
    return {
      title,
      section: 'webhooks',
      page: html`<div ${live(visit, 'deliveries', 'delivery')}>${standing(visit, context, delivery)}</div>${
        payload(visit, body)
      }`
    }
  })

  pages.get('/webhooks/deliveries/:id/body', async visit => {
    await recordOf(visit, context)
    const body = await bodyOf(visit, context)
    if (body === null) throw new Missing('The log no longer holds what was sent.')
    return download('application/json', `${visit.params.id!}.json`, body)
  })

  pages.post('/webhooks/deliveries/:id/replay', async visit => {
    const { id } = await recordOf(visit, context)
    const { webhook } = granted(
      await replayDelivery(context.services, visit.asker, id, findDelivery(context.reads.pool))
    )
    const paused = context.services.directory.now.webhooks.get(webhook)?.paused === true
    return {
      to: `/dashboard/webhooks/deliveries/${id}`,
      notice: paused
        ? 'It goes out again once its endpoint is resumed.'
        : 'It goes out again: the same id, the same bytes.'
    }
  })
}

async function recordOf (visit: Visit, { reads }: DashboardContext): Promise<DeliveryRecord> {
  const found = await answerFrom(reads, deliveries, getDelivery({ account: visit.account.id, id: idOf(visit) }))
  if (found === null) throw new Missing(NONE)
  return found
}

const NONE = 'There is no such delivery in this account. They are kept for 30 days.'

function idOf ({ params }: Visit): string {
  const id = idIn('whd', params.id!)
  if (id === null) throw new Missing(NONE)
  return id
}

/** The bytes as they go out, as text; null when the log no longer holds them. */
async function bodyOf (visit: Visit, { services, reads }: DashboardContext): Promise<string | null> {
  const seq = await findDelivery(reads.pool)(visit.account.id, idOf(visit))
  return seq === null ? null : await readBody(services.appenders.bus, seq)
}

function standing (visit: Visit, { services }: DashboardContext, delivery: DeliveryRecord): Html {
  const { nowMs } = visit
  const known = services.directory.now.webhooks.get(delivery.webhook)
  const webhook = known?.account === visit.account.id ? known : null
  const { requestedAt, firstAttemptAt, nextAttemptAt, endedAt, last } = delivery
  const advice = delivery.state === 'delivered' || last === null ? null : adviceFor(last)
  const above =
    html`<a href="/dashboard/webhooks">Webhooks</a> / <a href="/dashboard/webhooks/deliveries">Deliveries</a>`
  return html`${heading(eventsText(delivery), again(visit, delivery, webhook), above)}
${advice !== null && html`<p class="box warn"><strong>${answerText(last!)}.</strong> ${advice}</p>`}
<section class="card"><h2 class="unseen">What it is</h2>${
    facts([
      ['State', html`${deliveryBadge(delivery)}${delivery.test && html` ${badge('test')}`}`],
      [
        'Endpoint',
        webhook === null
          ? html`<code>${delivery.webhook}</code>, deleted`
          : html`<a href="/dashboard/webhooks/${webhook.id}">${webhook.url}</a>`
      ],
      ['Delivery', copyable(delivery.id, 'Copy the id of the delivery')],
      ...(delivery.events.length === 1 ? eventFacts(delivery, delivery.events[0]!) : []),
      ['Asked for', time(requestedAt, nowMs)],
      firstAttemptAt === null ? null : ['First attempt', time(firstAttemptAt, nowMs)],
      ['Attempts', delivery.attempts],
      nextAttemptAt === null ? null : ['Next try', nextTry(nextAttemptAt, nowMs)],
      endedAt === null ? null : ['Ended', time(endedAt, nowMs)],
      delivery.replay === null ? null : ['Sent again by', html`<code>${delivery.replay}</code>`]
    ])
  }</section>
${delivery.events.length > 1 && members(delivery)}
${requests(delivery, nowMs)}`
}

function eventFacts ({ test }: DeliveryRecord, { id, email }: Member): Array<[string, Html]> {
  return [
    [
      'Event',
      html`${
        copyable(id, 'Copy the id of the event')
      }<br><a href="/dashboard/webhooks/deliveries?event=${id}">All its deliveries</a>`
    ],
    ['Email', test ? html`<span class="none">Made up</span>` : emailLink(email)]
  ]
}

function emailLink (id: string): Html {
  return html`<a href="/dashboard/emails/${id}"><code>${id}</code></a>`
}

function members ({ events, test }: DeliveryRecord): Html {
  return html`<section class="card"><h2>Events of the batch</h2>${
    table<Member>('Events of the batch', [
      { name: 'Type', cell: ({ type }) => type },
      { name: 'Event', kind: 'wide', cell: ({ id }) => html`<code>${id}</code>` },
      { name: 'Email', cell: ({ email }) => (test ? 'Made up' : emailLink(email)) }
    ], events)
  }</section>`
}

function again (visit: Visit, { id, state }: DeliveryRecord, webhook: WebhookEntry | null): Html {
  if (webhook === null) return html`<span class="hint">Its endpoint is deleted: it cannot be sent again.</span>`
  if (webhook.disabled !== null) {
    return html`<span class="hint">Its endpoint is disabled: enable it to send this again.</span>`
  }
  return act(visit, 'Replay this one', {
    action: `/dashboard/webhooks/deliveries/${id}/replay`,
    ...(state === 'delivered' ? ARRIVED : {})
  })
}

const ARRIVED = {
  confirm: 'It has arrived already. The receiver gets it once more, with the same id and the same bytes.',
  confirmLabel: 'Replay it'
}

function requests ({ tries }: DeliveryRecord, nowMs: number): Html {
  if (tries.length === 0) {
    return html`<section class="card"><h2>Requests</h2><p class="hint">None was made yet.</p></section>`
  }
  const newestFirst = tries.map((one, i) => ({ one, n: i + 1 })).reverse()
  return html`<section class="card"><h2>Requests</h2><ol class="timeline" reversed>${
    newestFirst.map(({ one, n }) => requestOf(one, n, n === tries.length, nowMs))
  }</ol></section>`
}

function requestOf (one: DeliveryAttempt, n: number, isOpen: boolean, nowMs: number): Html {
  const { seq, attempt, replay, at, durationMs, status, url, headers, response } = one
  const sent = [`POST ${url}`, ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`)].join('\n')
  return html`<li class="${isFine(one) ? 'good' : 'bad'}"><details id="request-${seq}"${isOpen && html` open`}>
<summary><strong>${answerText(one)}</strong> <span class="hint">attempt ${attempt}${
    replay !== null && ' of a replay'
  } · ${number(durationMs)} ms · ${time(at, nowMs)} ·
${exact(at.toISOString())}</span></summary>
<h3>Asked</h3>${codeBlock(sent, `Request ${n}: what was asked`)}
<h3>Answered</h3>${
    response === ''
      ? html`<p class="hint">${status === null ? 'Nothing.' : 'Without a body.'}</p>`
      : codeBlock(response, `Request ${n}: what was answered`)
  }
</details></li>`
}

function payload (visit: Visit, body: string | null): Html {
  return html`<section class="card"><h2>Payload</h2>${
    body === null ? GONE : body.length > SHOWN_MAX ? saved(visit, body) : shown(visit, body)
  }</section>`
}

const GONE = html`<p class="hint">The log no longer holds what was sent.</p>`

function saved ({ params }: Visit, body: string): Html {
  return html`<p>${
    number(Buffer.byteLength(body))
  } bytes, the same on every try. <a href="/dashboard/webhooks/deliveries/${params.id!}/body">Save them</a></p>`
}

function shown (visit: Visit, body: string): Html {
  return html`${codeBlock(JSON.stringify(JSON.parse(body), null, 2), 'Payload')}
<details id="bytes"><summary>The exact bytes that are signed and sent</summary>${codeBlock(body, 'The exact bytes')}${
    saved(visit, body)
  }</details>`
}
