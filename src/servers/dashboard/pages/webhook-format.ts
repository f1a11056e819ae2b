import type { DeliveryAttempt, DeliverySummary, LastAttempt } from '#projections/deliveries/queries.ts'
import type { ErrorKind } from '#streams/delivery/facts.ts'
import type { Webhook } from '#src/client/client.ts'
import { html, type Html } from '#src/base/html.ts'
import { badge, time } from '../parts.ts'

/** The one word an endpoint's state comes to: what is disabled is not paused as well. */
function stateOf ({ status, paused, failing_since: failing }: Webhook): 'disabled' | 'paused' | 'failing' | 'enabled' {
  if (status === 'disabled') return 'disabled'
  if (paused) return 'paused'
  return failing === null ? 'enabled' : 'failing'
}

/** With since when, or why. */
export function stateBadge (webhook: Webhook, nowMs: number): Html {
  const { failing_since: failing, disabled_reason: reason } = webhook
  switch (stateOf(webhook)) {
    case 'disabled':
      return html`${badge('disabled')} <span class="hint">${
        reason === 'gone' ? 'it answered 410' : 'it failed for five days'
      }</span>`
    case 'paused':
      return badge('paused', 'warn')
    case 'failing':
      return html`${badge('failing')} <span class="hint">since ${time(failing, nowMs)}</span>`
    case 'enabled':
      return badge('enabled')
  }
}

/** Why a request had no answer, in the words of whoever looks for one. */
export const ERROR_TEXTS: Record<ErrorKind, string> = {
  timeout: 'Timeout',
  dns: 'Name not resolved',
  connect: 'No connection',
  tls: 'TLS',
  reset: 'Connection cut',
  protocol: 'No HTTP',
  refused: 'Address refused',
  unsigned: 'Could not be signed',
  other: 'Other'
}

const ERROR_ADVICE: Partial<Record<ErrorKind, string>> = {
  timeout: 'An answer has to come within 15 seconds: let the receiver answer first and work afterwards.',
  dns: 'The name of the host has no address: look at the URL, and at the DNS of its domain.',
  connect: 'Nothing listens there, or a firewall is in between: is the receiver running, and is the port right?',
  tls: 'The certificate is expired, for another name, or vouched for by nobody: renew it.',
  reset: 'The receiver, or a proxy in front of it, closed the line before it answered: look into its log.',
  protocol: 'What listens there does not speak HTTP: look at the port and at https or http in the URL.',
  refused: 'Jetpost does not call such an address: a webhook leads to the public internet, by https.',
  unsigned:
    'The signing secret cannot be opened, as JETPOST_SECRET has changed: set it back, or rotate the secret of this endpoint.'
}

/** What may help, or null where nobody can tell. */
export function adviceFor ({ status, errorKind }: LastAttempt): string | null {
  if (errorKind !== null) return ERROR_ADVICE[errorKind] ?? null
  if (status === null || (status >= 200 && status < 300)) return null
  if (status < 400) return 'Redirects are not followed: give the endpoint the URL that they lead to.'
  if (status === 401 || status === 403) {
    return 'The receiver turned it away: does it check the signature with the secret of this endpoint, over the raw body?'
  }
  if (status === 404 || status === 405) return 'Nothing takes a POST at this path: look at the URL.'
  if (status === 410) return 'The receiver says that nobody will ever listen there again, so the endpoint was disabled.'
  if (status === 429) return 'The receiver has enough for now: fewer requests at once, or batches, are gentler.'
  return status < 500
    ? 'The receiver does not take this request: its answer and its log may say why.'
    : 'The receiver itself failed: look into its log at the time of the request.'
}

const REASONS: Record<NonNullable<DeliverySummary['reason']>, string> = {
  endpoint_deleted: 'the endpoint was deleted',
  endpoint_disabled: 'the endpoint was disabled',
  expired: 'its time was over',
  event_gone: 'the event is no longer kept'
}

export function deliveryBadge ({ state, reason }: Pick<DeliverySummary, 'state' | 'reason'>): Html {
  return html`${badge(state)}${reason !== null && html` <span class="hint">${REASONS[reason]}</span>`}`
}

/** What came of a request: a status, or why there was none. */
export function answerText ({ status, error, errorKind }: LastAttempt): string {
  if (status !== null) return `HTTP ${status}`
  const words = error ?? ERROR_TEXTS[errorKind ?? 'other']
  return words.slice(0, 1).toUpperCase() + words.slice(1)
}

/** When it is tried next; null = never again, or nobody knows. */
export function nextTry (at: Date | string | null, nowMs: number): Html {
  return at !== null && new Date(at).getTime() <= nowMs ? html`due` : time(at, nowMs)
}

export function isFine ({ status }: Pick<DeliveryAttempt, 'status'>): boolean {
  return status !== null && status >= 200 && status < 300
}

/** `email.delivered`, or how many. */
export function eventsText ({ events }: Pick<DeliverySummary, 'events'>): string {
  return events.length === 1 ? events[0]!.type : `Batch of ${events.length} events`
}

/** The id that was asked for, if it is one of that kind. */
export function idIn (kind: 'ev' | 'em' | 'whd', text: string): string | null {
  return new RegExp(`^${kind}_[0-9a-z]{1,64}$`).test(text) ? text : null
}

/** A stretch of time, to the minute. */
export function stretchText (from: string, to: string): string {
  const minute = (iso: string) => iso.slice(0, 16).replace('T', ' ')
  return `${minute(from)} – ${minute(to)} UTC`
}
