import { EVENT_TYPES } from '#streams/webhook/facts.ts'
import type { CreateWebhookRequest } from '#src/client/client.ts'
import { html, type Html } from '#src/base/html.ts'
import { checkbox, faultBox, field, form, type Faults, type FormField } from '../parts.ts'
import type { SubmitOnce } from '../submit-once.ts'
import { timeField, utcTime } from '../times.ts'
import type { Visit } from '../visit.ts'

const EVENT_TEXTS: Record<typeof EVENT_TYPES[number], string> = {
  'email.delivered': 'accepted by the mail server of its recipient',
  'email.bounced': 'rejected, put off, or given up',
  'email.opened': 'opened',
  'email.clicked': 'a link in it followed',
  'email.complained': 'marked as spam',
  'email.unsubscribed': 'its recipient unsubscribed'
}

/** Settings of an endpoint as a form holds them. */
export interface WebhookForm {
  url: string
  events: string[]
  everyDeferral: boolean
  batchEvents: string
  batchWait: string
  concurrency: string
  startAt: string
}

export const NEW_FORM: WebhookForm = {
  url: '',
  events: [...EVENT_TYPES],
  everyDeferral: false,
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
    batchEvents: text('batch.max_events'),
    batchWait: text('batch.max_wait_ms'),
    concurrency: text('concurrency'),
    startAt: text('start_at')
  }
}

export type EndpointSettings = Pick<CreateWebhookRequest, 'url' | 'events' | 'every_deferral' | 'batch' | 'concurrency'>

/** What the API is asked for; it says what is wrong with it. */
export function settingsIn (
  { url, events, everyDeferral, batchEvents, batchWait, concurrency }: WebhookForm
): EndpointSettings {
  const batch = batchEvents === '' && batchWait === ''
    ? null
    : { max_events: figureIn(batchEvents || '100'), max_wait_ms: figureIn(batchWait || '5000') }
  return {
    url,
    events,
    every_deferral: everyDeferral,
    batch,
    concurrency: concurrency === '' ? null : figureIn(concurrency)
  } as EndpointSettings
}

/** A number, or what was typed in its place. */
function figureIn (text: string): number | string {
  return /^\d{1,9}$/.test(text) ? Number(text) : text
}

/** Where a backfill begins; nothing = now. */
export function startIn ({ startAt }: WebhookForm): { start_at?: string } {
  return startAt === '' ? {} : { start_at: utcTime(startAt) }
}

const URL_FIELD: FormField = {
  name: 'url',
  label: 'URL',
  type: 'url',
  required: true,
  placeholder: 'https://example.com/webhooks/jetpost',
  code: true,
  hint: 'Events are POSTed there as JSON, signed.'
}

/** `once`: of an endpoint that is still to be made. */
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
${
      once !== null && timeField({
        name: 'start_at',
        label: 'Events since (UTC)',
        value: given.startAt,
        hint: 'Empty = from now on. A time in the past brings what has happened since then, as far back as it is kept.'
      }, faults)
    }
<details${isAdvanced(given) && html` open`}><summary>Batches and pace</summary><div class="columns">
${
      field({
        name: 'batch.max_events',
        label: 'Most events in one request',
        type: 'number',
        value: given.batchEvents,
        hint: 'Up to 100. Empty = one event a request.'
      }, faults)
    }
${
      field({
        name: 'batch.max_wait_ms',
        label: 'Longest wait, in ms',
        type: 'number',
        value: given.batchWait,
        hint: 'With batches: 100 to 60,000, 5,000 unless told.'
      }, faults)
    }
${
      field({
        name: 'concurrency',
        label: 'Requests at once',
        type: 'number',
        value: given.concurrency,
        hint: 'Up to 100. Empty = 8.'
      }, faults)
    }
</div></details>
<div class="actions"><button class="primary">${label}</button></div>`
  )
}

function eventFields ({ events, everyDeferral }: WebhookForm, faults: Faults): Html {
  const fault = faults.of('events')
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
      'Every deferral of an email is an event, not only the first and how it ends',
      everyDeferral
    )
  }</fieldset>`
}

function isAdvanced ({ batchEvents, batchWait, concurrency }: WebhookForm): boolean {
  return [batchEvents, batchWait, concurrency].some(text => text !== '')
}
