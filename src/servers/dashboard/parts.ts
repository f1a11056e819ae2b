import { UNITS } from '#src/base/figures.ts'
import { JetpostError } from '#src/client/client.ts'
import { Html, html, type Value } from '#src/base/html.ts'
import { sha256Hex } from '#src/base/secret.ts'
import { formText } from './form-texts.ts'
import type { Visit } from './visit.ts'

export { counted, duration, number, percent } from '#src/base/figures.ts'

const NONE = new Html('')

/** A time relative to now; its title has the exact time, and app.js keeps the text current. */
export function time (at: string | Date | null | undefined, nowMs: number): Html {
  if (at == null) return html`<span class="none">–</span>`
  const iso = typeof at === 'string' ? at : at.toISOString()
  return html`<time datetime="${iso}" title="${exact(iso)}">${distance(Date.parse(iso) - nowMs)}</time>`
}

/** `2026-11-22 09:31:07.000 UTC`. */
export function exact (iso: string): string {
  const [day, clock] = new Date(iso).toISOString().split(/[TZ]/) as [string, string]
  return `${day} ${clock} UTC`
}

/** app.js writes it the same way. */
function distance (ms: number): string {
  const away = Math.abs(ms)
  const [unit, size] = UNITS.find(([, unitMs]) => away >= unitMs) ?? ['s', 1000]
  const count = Math.floor(away / size)
  if (unit === 's' && count < 5) return 'now'
  return ms < 0 ? `${count} ${unit} ago` : `in ${count} ${unit}`
}

/** The colour of a state. */
type Tone = 'good' | 'bad' | 'warn' | 'busy' | 'calm'

const TONES: Record<string, Tone> = {
  delivered: 'good',
  verified: 'good',
  enabled: 'good',
  ready: 'good',
  done: 'good',
  active: 'good',
  completed: 'good',
  bounced: 'bad',
  failed: 'bad',
  complained: 'bad',
  disabled: 'bad',
  not_ready: 'bad',
  expired: 'bad',
  in_doubt: 'warn',
  deferred: 'warn',
  partial: 'warn',
  retrying: 'warn',
  failing: 'bad',
  behind: 'warn',
  unsubscribed: 'warn',
  queued: 'busy',
  sending: 'busy',
  scheduled: 'busy',
  pending: 'busy',
  running: 'busy',
  opened: 'busy',
  clicked: 'busy'
}

/** A state as a coloured word; the word alone is enough to understand it. */
export function badge (state: string, tone: Tone = TONES[state] ?? 'calm'): Html {
  return html`<span class="badge ${tone}">${state.replaceAll('_', ' ')}</span>`
}

/** A text with a button that copies it. */
export function copyable (text: string, label = 'Copy'): Html {
  return html`<span class="copyable"><code>${text}</code>${copyButton(text, label)}</span>`
}

/** `label` says what is copied, for screen readers. */
function copyButton (text: string, label: string): Html {
  const marks = html`class="quiet copy" data-copy="${text}" aria-label="${label}" title="${label}"`
  return html`<button type="button" ${marks}>Copy</button>`
}

/** Code with a button that copies all of it. */
export function codeBlock (text: string, label: string): Html {
  const pre = html`<pre tabindex="0" role="region" aria-label="${label}"><code>${text}</code></pre>`
  return html`<div class="code">${pre}${copyButton(text, 'Copy the code')}</div>`
}

export interface Column<Row> {
  name: string
  cell(row: Row): Value
  /** `num` = right-aligned figures; `wide` = takes the space there is; `late` = left out on a phone. */
  kind?: 'num' | 'wide' | 'late'
}

/** A table; on a phone each row is a card whose cells carry the names of their columns. `caption` is for screen
 *  readers. `idOf` gives rows an id where the list refreshes itself: a row keeps its focus when new ones come above. */
export function table<Row> (
  caption: string,
  columns: Array<Column<Row>>,
  rows: Row[],
  idOf: ((row: Row) => string) | null = null
): Html {
  const heads = columns.map(({ name, kind = '' }) => html`<th scope="col" class="${kind}">${name}</th>`)
  const cells = (row: Row) =>
    columns.map(({ name, kind = '', cell }) => html`<td class="${kind}" data-name="${name}">${cell(row)}</td>`)
  const lines = rows.map(row => html`<tr${idOf !== null && html` id="${idOf(row)}"`}>${cells(row)}</tr>`)
  return html`<div class="table"><table><caption class="unseen">${caption}</caption>
<thead><tr>${heads}</tr></thead><tbody>${lines}</tbody></table></div>`
}

/** Names and values. */
export function detailList (pairs: Array<[name: string, value: Value] | null>): Html {
  const items = pairs.filter(pair => pair !== null)
    .map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)
  return html`<dl class="facts">${items}</dl>`
}

/** An empty list: what it will show, and the next step. */
export function empty (title: string, text: Value, next: Value = null): Html {
  return html`<div class="empty"><h2>${title}</h2><p>${text}</p>${next}</div>`
}

/** Links to the newest and the next page of a list, with its filters; null = this page is the last. */
export function pager (visit: Visit, nextCursor: string | null): Html {
  const first = visit.query.has('cursor')
    ? html`<a class="button" href="${withQuery(visit, { cursor: null })}">Newest</a>`
    : NONE
  const next = nextCursor === null
    ? NONE
    : html`<a class="button" rel="next" href="${withQuery(visit, { cursor: nextCursor })}">Older</a>`
  return first === NONE && next === NONE ? NONE : html`<nav class="pager" aria-label="Pages">${first}${next}</nav>`
}

/** The page's own URL with changed parameters; null removes one. */
export function withQuery (visit: Visit, changes: Record<string, string | null>): string {
  const query = new URLSearchParams(visit.query)
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) query.delete(name)
    else query.set(name, value)
  }
  const text = query.toString()
  return visit.url.split('?')[0]! + (text === '' ? '' : `?${text}`)
}

interface FormOptions {
  /** A path from /dashboard on. */
  action: string
  /** A question before the form is sent: what will happen, and whether it can be undone. */
  confirm?: string
  /** On the button that answers `confirm`. */
  confirmLabel?: string
  /** The browser asks before it leaves a page whose fields were changed and not sent; a form that came back with faults
   *  counts as changed. */
  guard?: Faults
  class?: string
  id?: string
}

/** A link that looks like a button; null where the visitor may not open it. */
export function buttonTo (
  visit: Visit,
  href: string,
  text: Value,
  { primary = false, download = false }: { primary?: boolean, download?: boolean } = {}
): Html | null {
  if (!visit.may('GET', href)) return null
  return html`<a class="button ${primary && 'primary'}" href="${href}"${download && html` download`}>${text}</a>`
}

/** A form that only this visitor can send; nothing where the visitor may not. */
export function form (
  visit: Visit,
  { action, confirm, confirmLabel, guard, class: name = '', id }: FormOptions,
  body: Value
): Html {
  if (!visit.may('POST', action)) return NONE
  const confirmMarks = confirm === undefined
    ? NONE
    : html` data-confirm="${confirm}" data-confirm-label="${confirmLabel ?? 'Continue'}"`
  const guardMarks = guard === undefined ? NONE : html` data-guard${guard.summary !== null && html` data-typed`}`
  const idMark = id === undefined ? NONE : html` id="${id}"`
  return html`<form method="post" action="${action}" class="${name}"${idMark}${confirmMarks}${guardMarks}>${
    hiddenField('csrf', visit.csrf)
  }${body}</form>`
}

export function hiddenField (name: string, value: string | number): Html {
  return html`<input type="hidden" name="${name}" value="${value}">`
}

/** A form of one button; `fields` go with it. Its id is a hash of what it does, so that a page that refreshes itself
 *  does not turn it into another button. */
export function actionButton (
  visit: Visit,
  label: string,
  options: FormOptions & { fields?: Record<string, string>, danger?: boolean }
): Html {
  const { action, fields = {}, danger = false } = options
  const hidden = Object.entries(fields).map(([name, value]) => hiddenField(name, value))
  const button = html`<button class="${danger && 'danger'}">${label}</button>`
  return form(visit, {
    ...options,
    class: `inline ${options.class ?? ''}`,
    id: `act-${sha256Hex(JSON.stringify([action, fields])).slice(0, 16)}`
  }, html`${hidden}${button}`)
}

export interface FormField {
  name: string
  label: string
  value?: string
  hint?: Value
  type?: 'text' | 'email' | 'url' | 'password' | 'search' | 'number' | 'datetime-local' | 'date'
  /** Makes it a text area of so many lines. */
  rows?: number
  required?: boolean
  placeholder?: string
  autocomplete?: string
  /** In a monospaced font. */
  code?: boolean
}

/** A labelled field with its hint and its fault. */
export function field (options: FormField, faults: Faults = NO_FAULTS): Html {
  const {
    name,
    label,
    value = '',
    hint = null,
    type = 'text',
    rows,
    required = false,
    placeholder = '',
    autocomplete = 'off',
    code = false
  } = options
  const fault = faults.of(name)
  const id = `field-${name}`
  const lines = html`${hint !== null && html`<span class="hint" id="${id}-hint">${hint}</span>`}${
    fault !== null && html`<span class="fault" id="${id}-fault">${fault}</span>`
  }`
  const described = [...(hint === null ? [] : [`${id}-hint`]), ...(fault === null ? [] : [`${id}-fault`])].join(' ')
  const state = html`${described !== '' && html` aria-describedby="${described}"`}${
    fault !== null && html` aria-invalid="true"`
  }${required && html` required`}`
  const marks = html`id="${id}" name="${name}" autocomplete="${autocomplete}"${state}${code && html` class="mono"`}`
  const input = rows === undefined
    ? html`<input type="${type}" ${marks} value="${value}" placeholder="${placeholder}">`
    : html`<textarea ${marks} rows="${rows}" placeholder="${placeholder}" spellcheck="false">
${value}</textarea>`
  return html`<div class="field"><label for="${id}">${label}</label>${input}${lines}</div>`
}

/** One of some values. */
export function select (
  name: string,
  label: string,
  options: Array<[value: string, text: string]>,
  chosen: string,
  marks: Value = null
): Html {
  const lines = options.map(([value, text]) =>
    html`<option value="${value}"${value === chosen && html` selected`}>${text}</option>`
  )
  return html`<div class="field"><label for="field-${name}">${label}</label>
<select id="field-${name}" name="${name}" ${marks}>${lines}</select></div>`
}

export function checkbox (name: string, value: string, label: Value, checked: boolean): Html {
  return html`<label class="check"><input type="checkbox" name="${name}" value="${value}"${
    checked && html` checked`
  }> <span>${label}</span></label>`
}

/** What is wrong with a form that was sent. */
export interface Faults {
  /** The faults of a field and of those within it, in sentences. */
  of(name: string): string | null
  /** All of it, for the box above the form; null = nothing is wrong. */
  summary: Html | string | null
}

export const NO_FAULTS: Faults = { of: () => null, summary: null }

/** A fault of no field. */
export function fault (summary: Html | string): Faults {
  return { of: () => null, summary }
}

/** What the API found wrong, for the form that was sent. Throws other errors again. */
export function faultsIn (error: unknown): Faults {
  if (
    !(error instanceof JetpostError) || error.status === null || ![400, 403, 404, 409, 413, 422].includes(error.status)
  ) throw error
  const { details, message, status } = error
  const within = (name: string) =>
    details.filter(({ field }) => field === name || field.startsWith(`${name}.`) || field.startsWith(`${name}[`))
  const forbidden = status === 403 ? 'You may not do this: it takes more than you hold.' : message
  return {
    of: name => within(name).map(formText).join(' ') || null,
    summary: details.length === 0 ? forbidden : details.map(formText).join(' ')
  }
}

/** The same for a posted form, which comes back with its fields also where the API cannot take it now. `once` = sending
 *  the form again does not do it twice. */
export function postFaultsIn (error: unknown, once: 'once' | null = null): Faults {
  if (!(error instanceof JetpostError) || (error.status !== null && ![429, 503].includes(error.status))) {
    return faultsIn(error)
  }
  const reason = error.status === null
    ? 'Jetpost did not answer in time. The change may have been made: check before you send the form again.'
    : sentence(error.message)
  return fault(`${once === null ? reason : SEND_AGAIN} What you typed is still here.`)
}

const SEND_AGAIN = 'Jetpost could not confirm that it accepted this. ' +
  'Send the form again in a moment: it is never done twice.'

/** With a full stop, where the text has no end of its own. */
export function sentence (text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`
}

export function faultBox ({ summary }: Faults): Html {
  return summary === null ? NONE : html`<p class="box bad" role="alert">${summary}</p>`
}

/** The cursor of this page of a list, as the API takes it. */
export function cursorOf ({ query }: Visit): { cursor?: string } {
  const cursor = query.get('cursor')
  return cursor === null ? {} : { cursor }
}

/** A kind of change in the account that parts of a page refresh themselves after. */
export type LiveTopic = 'emails' | 'deliveries'

/** Attributes of an element that refreshes itself after changes of `topic`, and keeps focus and scroll position. `id` =
 *  the element's. `seconds` = refreshes by the clock as well, for what no fact reports; `gapS` = not sooner than that
 *  after the last time. */
export function live (
  visit: Visit,
  topic: LiveTopic,
  id: string,
  seconds: number | null = null,
  gapS: number | null = null
): Html {
  const change = `live-${topic} from:body${gapS === null ? '' : ` throttle:${gapS}s`}`
  return refreshedBy(visit, seconds === null ? change : `${change}, every ${seconds}s`, id)
}

/** The same by the clock alone. */
export function refreshed (visit: Visit, seconds: number, id: string): Html {
  return refreshedBy(visit, `every ${seconds}s`, id)
}

function refreshedBy ({ url }: Visit, trigger: string, id: string): Html {
  return html`id="${id}" hx-get="${url}" hx-trigger="${trigger}" hx-select="#${id}" hx-target="this"
 hx-swap="morph:outerHTML" hx-sync="this:queue last"`
}

/** The heading of a page with its actions; `above` = the way back. */
export function heading (title: Value, actions: Value = null, above: Value = null): Html {
  const beside = actions !== null && html`<div class="actions">${actions}</div>`
  return html`<div class="head"><div>${
    above !== null && html`<p class="above">${above}</p>`
  }<h1>${title}</h1></div>${beside}</div>`
}

/** Links to the parts of a page. */
export function tabs (label: string, items: Array<{ text: string, href: string, isCurrent: boolean }>): Html {
  const links = items.map(({ text, href, isCurrent }) =>
    html`<li><a href="${href}"${isCurrent && html` aria-current="page"`}>${text}</a></li>`
  )
  return html`<nav aria-label="${label}"><ul class="tabs">${links}</ul></nav>`
}

const SIZES = ['B', 'kB', 'MB', 'GB', 'TB']

/** `12 kB`, `3.4 GB`, with a non-breaking space. */
export function size (bytes: number): string {
  const power = Math.min(SIZES.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)))
  const value = bytes / 1000 ** power
  return `${power === 0 || value >= 10 ? Math.round(value) : value.toFixed(1)}\u00a0${SIZES[power]}`
}
