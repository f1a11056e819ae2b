import type { DeliveryAttempt, DeliverySummary, LastAttempt } from '#projections/deliveries/queries.ts'
import { html, type Html } from '#src/base/html.ts'
import type { Webhook } from '#src/client/client.ts'
import { DELIVERY_WAIT_WORDS, waitOf } from '#src/operations/delivery-wait.ts'
import type { ErrorKind } from '#streams/delivery/facts.ts'
import type { WebhookEntry } from '#streams/directory.ts'
import { codeBlock, copyable, heading, badge, time } from '../parts.ts'

/** Verifies a request by the header of spec 6.3; runs in Node as it is. */
const VERIFIER = `import { createHmac, timingSafeEqual } from 'node:crypto'

// body: the raw bytes of the request, before any parsing. secret: all of whsec_…
export function isFromJetpost (body, headers, secret) {
  const expected = Buffer.from('sha256=' + createHmac('sha256', secret).update(body).digest('hex'))
  const given = Buffer.from(headers['x-service-signature'] ?? '')
  return given.length === expected.length && timingSafeEqual(given, expected)
}
`

/** The only page that shows a signing secret. */
export function secretPage (
  { id, title, secret, note }: { id: string, title: string, secret: string, note: string }
): Html {
  return html`${heading(title, null, html`<a href="/dashboard/webhooks">Webhooks</a>`)}
<div class="box secret"><h2>Signing secret</h2><p>${copyable(secret, 'Copy the secret')}</p>
<p><strong>Copy the secret now. It is not shown again.</strong> ${note}</p></div>
<section class="card"><h2>Verify requests</h2>
${codeBlock(VERIFIER, 'How to verify a signature')}
<p class="hint">Requests also have the headers <code>webhook-id</code>, <code>webhook-timestamp</code> and
<code>webhook-signature</code>: any Standard Webhooks library verifies them with the same secret, and checks the age of
the request. Answer with a 2xx status within 15 seconds. The same event can arrive twice, always with the same
<code>id</code>.</p></section>
<p><a class="button primary" href="/dashboard/webhooks/${id}">Go to the endpoint</a></p>`
}

/** The state of an endpoint in one word: disabled comes before paused. */
function stateOf ({ status, paused, failing_since: failing }: Webhook): 'disabled' | 'paused' | 'failing' | 'enabled' {
  if (status === 'disabled') return 'disabled'
  if (paused) return 'paused'
  return failing === null ? 'enabled' : 'failing'
}

/** The state with its time or reason. */
export function stateBadge (webhook: Webhook, nowMs: number): Html {
  const { failing_since: failing, disabled_reason: reason } = webhook
  switch (stateOf(webhook)) {
    case 'disabled':
      return html`${badge('disabled')} <span class="hint">${
        reason === 'gone' ? 'answered 410' : 'failed for five days'
      }</span>`
    case 'paused':
      return badge('paused', 'warn')
    case 'failing':
      return html`${badge('failing')} <span class="hint">since ${time(failing, nowMs)}</span>`
    case 'enabled':
      return badge('enabled')
  }
}

/** Why a request got no response. */
export const ERROR_TEXTS: Record<ErrorKind, string> = {
  timeout: 'Timeout',
  dns: 'DNS error',
  connect: 'Connection failed',
  tls: 'TLS error',
  reset: 'Connection closed',
  protocol: 'Not HTTP',
  refused: 'Address not allowed',
  unsigned: 'Not signed',
  other: 'Other'
}

const ERROR_ADVICE: Partial<Record<ErrorKind, string>> = {
  timeout: 'The receiver must respond within 15 seconds. Let it respond first and do its work afterwards.',
  dns: 'The host name has no address. Check the URL and the DNS of its domain.',
  connect: 'The receiver does not accept connections. Check that it runs, its port, and firewalls.',
  tls: 'The certificate has expired, is for another name, or is not trusted. Renew it.',
  reset: 'The receiver or its proxy closed the connection before it responded. Check its log.',
  protocol: 'The receiver does not speak HTTP. Check the port, and http or https in the URL.',
  refused: 'Jetpost does not send to this address. An endpoint must be on the public internet and use https.',
  unsigned: 'JETPOST_SECRET has changed, so Jetpost cannot read the signing secret. ' +
    'Restore JETPOST_SECRET, or rotate the secret of this endpoint.'
}

/** What may help; null = unknown. */
export function adviceFor ({ status, error_kind: kind }: LastAttempt): string | null {
  if (kind !== null) return ERROR_ADVICE[kind] ?? null
  if (status === null || (status >= 200 && status < 300)) return null
  if (status < 400) return 'Jetpost does not follow redirects. Use the URL that they lead to.'
  if (status === 401 || status === 403) {
    return 'The receiver refused the request. Check that it verifies the raw body with the secret of this endpoint.'
  }
  if (status === 404 || status === 405) return 'The receiver has no POST route for this path. Check the URL.'
  if (status === 410) return 'The receiver said that this URL is gone for good, so Jetpost disabled the endpoint.'
  if (status === 429) return 'The receiver gets too many requests. Lower the concurrency, or use batches.'
  return status < 500
    ? 'The receiver refused the request. Its response and its log may say why.'
    : 'The receiver failed. Check its log at the time of the request.'
}

const REASONS: Record<NonNullable<DeliverySummary['reason']>, string> = {
  endpoint_deleted: 'the endpoint was deleted',
  endpoint_disabled: 'the endpoint was disabled',
  expired: 'the time for retries is over',
  event_gone: 'the event has expired'
}

/** What a delivery without an attempt waits for, or why it failed without another. `webhook` null = it is deleted. */
export function deliveryBadge (
  delivery: Pick<DeliverySummary, 'state' | 'reason' | 'requested_at'>,
  webhook: Pick<WebhookEntry, 'paused' | 'failingSince'> | null,
  nowMs: number
): Html {
  const { state, reason } = delivery
  const wait = waitOf(delivery, webhook, nowMs)
  const hint = wait !== null ? `waiting: ${DELIVERY_WAIT_WORDS[wait]}` : reason === null ? null : REASONS[reason]
  return html`${badge(state)}${hint !== null && html` <span class="hint">${hint}</span>`}`
}

/** A delivery that was sent again. */
export function replayedBadge ({ replay }: Pick<DeliverySummary, 'replay'>): Html | null {
  return replay === null ? null : html` ${badge('replayed')}`
}

/** The result of a request: its status, or why there is none. */
export function responseText ({ status, error, error_kind: kind }: LastAttempt): string {
  if (status !== null) return `HTTP ${status}`
  const text = error ?? ERROR_TEXTS[kind ?? 'other']
  return text.slice(0, 1).toUpperCase() + text.slice(1)
}

/** The time of the next attempt; null = none, or unknown. */
export function nextAttempt (at: Date | string | null, nowMs: number): Html {
  return at !== null && new Date(at).getTime() <= nowMs ? html`due` : time(at, nowMs)
}

export function isFine ({ status }: Pick<DeliveryAttempt, 'status'>): boolean {
  return status !== null && status >= 200 && status < 300
}

/** `email.delivered`, or how many. */
export function eventsText ({ events }: Pick<DeliverySummary, 'events'>): string {
  return events.length === 1 ? events[0]!.type : `Batch of ${events.length} events`
}

/** The text if it is an id of that kind. */
export function idIn (kind: 'ev' | 'em' | 'whd', text: string): string | null {
  return new RegExp(`^${kind}_[0-9a-z]{1,64}$`).test(text) ? text : null
}

/** A period, to the minute. */
export function periodText (from: string, to: string): string {
  const minute = (iso: string) => iso.slice(0, 16).replace('T', ' ')
  return `${minute(from)} – ${minute(to)} UTC`
}
