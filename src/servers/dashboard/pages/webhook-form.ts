import { EVENT_TYPES } from '#streams/webhook/facts.ts'
import type { CreateWebhookRequest } from '#src/client/client.ts'
import { html, type Html } from '#src/base/html.ts'
import { checkbox, faultBox, field, form, select, type Faults, type FormField } from '../parts.ts'
import type { SubmitOnce } from '../submit-once.ts'
import { timeField, utcTime } from '../times.ts'
import type { Visit } from '../visit.ts'

const EVENT_TEXTS: Record<typeof EVENT_TYPES[number], string> = {
  'email.delivered': "accepted by the recipient's mail server",
  'email.bounced': 'rejected, deferred or failed',
  'email.opened': 'opened by the recipient',
  'email.clicked': 'a link was clicked',
  'email.complained': 'marked as spam',
  'email.unsubscribed': 'the recipient unsubscribed'
}

/** The fields of an endpoint's form. */
export interface WebhookForm {
  url: string
  events: string[]
  everyDeferral: boolean
  mode: string
  /** Chosen once, when it is made. */
  format: string
  batchEvents: string
  batchWait: string
  concurrency: string
  startAt: string
}

export const NEW_FORM: WebhookForm = {
  url: '',
  events: [...EVENT_TYPES],
  everyDeferral: false,
  mode: 'both',
  format: 'jetpost',
  batchEvents: '',
  batchWait: '',
  concurrency: '',
  startAt: ''
}

export function formIn ({ form: given }: Visit): WebhookForm {
  const text = (name: string) => (given.get(name) ?? '').trim()
  return {
    url: text('url'),
    events: given.getAll('events'),
    everyDeferral: given.has('every_deferral'),
    mode: text('mode') || 'both',
    format: text('format') || 'jetpost',
    batchEvents: text('batch.max_events'),
    batchWait: text('batch.max_wait_ms'),
    concurrency: text('concurrency'),
    startAt: text('start_at')
  }
}

export type EndpointSettings = Pick<
  CreateWebhookRequest,
  'url' | 'events' | 'every_deferral' | 'mode' | 'batch' | 'concurrency'
>

/** The form as the API takes it; the API checks it. */
export function settingsIn (
  { url, events, everyDeferral, mode, batchEvents, batchWait, concurrency }: WebhookForm
): EndpointSettings {
  const batch = batchEvents === '' && batchWait === ''
    ? null
    : { max_events: figureIn(batchEvents || '100'), max_wait_ms: figureIn(batchWait || '5000') }
  return {
    url,
    events,
    every_deferral: everyDeferral,
    mode,
    batch,
    concurrency: concurrency === '' ? null : figureIn(concurrency)
  } as EndpointSettings
}

/** A number, or the text that is none. */
function figureIn (text: string): number | string {
  return /^\d{1,9}$/.test(text) ? Number(text) : text
}

/** What only a new endpoint is told: its format, and where a backfill begins; none = no backfill. */
export function onceIn ({ format, startAt }: WebhookForm): Pick<CreateWebhookRequest, 'format' | 'start_at'> {
  return {
    format: format as CreateWebhookRequest['format'],
    ...(startAt === '' ? {} : { start_at: utcTime(startAt) })
  }
}

const URL_FIELD: FormField = {
  name: 'url',
  label: 'URL',
  type: 'url',
  required: true,
  placeholder: 'https://example.com/webhooks/jetpost',
  code: true,
  hint: 'Jetpost sends signed JSON to this URL.'
}

/** `once` = for a new endpoint. */
export function webhookForm (
  visit: Visit,
  { action, label, once = null }: { action: string, label: string, once?: SubmitOnce | null },
  given: WebhookForm,
  faults: Faults
): Html {
  return form(
    visit,
    { action, class: 'fields', guard: faults },
    html`${once !== null && once.field()}${faultBox(faults)}
${field({ ...URL_FIELD, value: given.url }, faults)}
${eventFields(given, faults)}
${once !== null && select('format', 'Format of events', FORMATS, given.format)}
${
      once !== null && timeField({
        name: 'start_at',
        label: 'Send events since (UTC)',
        value: given.startAt,
        hint: 'If empty, from now on. For a time in the past, Jetpost also sends earlier events that it still has.'
      }, faults)
    }
<details${isAdvanced(given) && html` open`}><summary>Batches and concurrency</summary><div class="columns">
${
      field({
        name: 'batch.max_events',
        label: 'Events per request',
        type: 'number',
        value: given.batchEvents,
        hint: 'Up to 100. If empty, one.'
      }, faults)
    }
${
      field({
        name: 'batch.max_wait_ms',
        label: 'Longest wait (ms)',
        type: 'number',
        value: given.batchWait,
        hint: 'For batches: 100 to 60,000. Default 5,000.'
      }, faults)
    }
${
      field({
        name: 'concurrency',
        label: 'Concurrent requests',
        type: 'number',
        value: given.concurrency,
        hint: 'Up to 100. Default 8.'
      }, faults)
    }
</div></details>
<div class="actions"><button class="primary">${label}</button></div>`
  )
}

function eventFields ({ events, everyDeferral, mode }: WebhookForm, faults: Faults): Html {
  const fault = faults.of('events') !== null && events.length === 0 ? NO_EVENT : faults.of('events')
  return html`<fieldset><legend>Events</legend><div class="checks">
${
    EVENT_TYPES.map(type =>
      checkbox(
        'events',
        type,
        html`<code>${type}</code><br><span class="hint">${EVENT_TEXTS[type]}</span>`,
        events.includes(type)
      )
    )
  }
</div>${fault !== null && html`<p class="fault">${fault}</p>`}
<hr>
${
    checkbox(
      'every_deferral',
      'yes',
      'Send an event for every deferral of an email, not only for the first one',
      everyDeferral
    )
  }
${select('mode', 'Emails', MODES, mode)}</fieldset>`
}

const MODES: Array<[string, string]> = [
  ['both', 'Sent with live and test keys'],
  ['live', 'Sent with live keys'],
  ['test', 'Sent with test keys']
]

const FORMATS: Array<[string, string]> = [
  ['jetpost', 'Jetpost'],
  ['resend', 'Resend']
]

const NO_EVENT = 'Choose at least one event.'

function isAdvanced ({ batchEvents, batchWait, concurrency }: WebhookForm): boolean {
  return [batchEvents, batchWait, concurrency].some(text => text !== '')
}
