import { JetpostError } from '#src/client/client.ts'
import { Html, html, type Value } from '#src/base/html.ts'
import { sha256Hex } from '#src/base/secret.ts'
import type { Visit } from './visit.ts'

const NONE = new Html('')

/** A time as far from now as it is; hovering tells it exactly, and the page keeps it true. */
export function time (at: string | Date | null | undefined, nowMs: number): Html {
  if (at == null) return html`<span class="none">–</span>`
  const iso = typeof at === 'string' ? at : at.toISOString()
  return html`<time datetime="${iso}" title="${exact(iso)}">${distance(Date.parse(iso) - nowMs)}</time>`
}

/** `22 Nov 2026, 09:31:07 UTC`. */
export function exact (iso: string): string {
  const [day, clock] = new Date(iso).toISOString().split(/[TZ]/) as [string, string]
  return `${day} ${clock} UTC`
}

const UNITS: Array<[unit: string, ms: number]> = [['d', 86_400_000], ['h', 3_600_000], ['min', 60_000], ['s', 1000]]

/** app.js says it in the same words. */
function distance (ms: number): string {
  const away = Math.abs(ms)
  const [unit, size] = UNITS.find(([, unitMs]) => away >= unitMs) ?? ['s', 1000]
  const count = Math.floor(away / size)
  if (unit === 's' && count < 5) return 'now'
  return ms < 0 ? `${count} ${unit} ago` : `in ${count} ${unit}`
}

/** A length of time: `270 ms`, `4.2 s`, `3 min 20 s`, `2 h 5 min`, `30 d`. */
export function span (ms: number): string {
  if (ms < 1000) return `${Math.floor(ms)} ms`
  if (ms < 60_000) return `${Math.floor(ms / 100) / 10} s`
  const from = UNITS.findIndex(([, unitMs]) => ms >= unitMs)
  const [[big, bigMs], [small, smallMs]] = [UNITS[from]!, UNITS[from + 1]!]
  const rest = Math.floor(ms % bigMs / smallMs)
  return `${Math.floor(ms / bigMs)} ${big}${rest === 0 ? '' : ` ${rest} ${small}`}`
}

/** How good a state is. */
type Tone = 'good' | 'bad' | 'warn' | 'busy' | 'calm'

const TONES: Record<string, Tone> = {
  delivered: 'good',
  verified: 'good',
  enabled: 'good',
  ready: 'good',
  done: 'good',
  live: 'good',
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
  failing: 'warn',
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

/** A state as a word in its colour; the word alone tells it, too. */
export function badge (state: string, tone: Tone = TONES[state] ?? 'calm'): Html {
  return html`<span class="badge ${tone}">${state.replaceAll('_', ' ')}</span>`
}

/** A text that people copy, with a button that does. */
export function copyable (text: string, label = 'Copy'): Html {
  return html`<span class="copyable"><code>${text}</code>${copyButton(text, label)}</span>`
}

/** `label` says what is copied, for whoever does not see where it stands. */
function copyButton (text: string, label: string): Html {
  return html`<button type="button" class="quiet copy" data-copy="${text}" aria-label="${label}" title="${label}">Copy</button>`
}

/** Code that people copy as a whole. */
export function codeBlock (text: string, label: string): Html {
  return html`<div class="code"><pre tabindex="0" role="region" aria-label="${label}"><code>${text}</code></pre>${
    copyButton(text, 'Copy the code')
  }</div>`
}

export interface Column<Row> {
  name: string
  cell(row: Row): Value
  /** `num` = right-aligned figures; `wide` = takes the module there is; `late` = left out on a phone. */
  kind?: 'num' | 'wide' | 'late'
}

/** Rows of things; on a phone each is a card whose cells carry the names of their columns. `caption` is for those who
 *  do not see the heading above. Where the list is drawn anew, `idOf` names its rows: what comes on top moves them, and
 *  makes no other row of one whose link has focus. */
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
  return html`<div class="table"><table><caption class="unseen">${caption}</caption><thead><tr>${heads}</tr></thead><tbody>${lines}</tbody></table></div>`
}

/** Names and what they stand for. */
export function facts (pairs: Array<[name: string, value: Value] | null>): Html {
  return html`<dl class="facts">${
    pairs.flatMap(pair => (pair === null ? [] : [html`<div><dt>${pair[0]}</dt><dd>${pair[1]}</dd></div>`]))
  }</dl>`
}

/** Where there is nothing yet: what would be here, and the next step. */
export function empty (title: string, text: Value, next: Value = null): Html {
  return html`<div class="empty"><h2>${title}</h2><p>${text}</p>${next}</div>`
}

/** The way to the next page of a list, which keeps the filters; null = this is the last one. */
export function pager (visit: Visit, nextCursor: string | null): Html {
  const first = visit.query.has('cursor')
    ? html`<a class="button" href="${withQuery(visit, { cursor: null })}">Newest</a>`
    : NONE
  const next = nextCursor === null
    ? NONE
    : html`<a class="button" rel="next" href="${withQuery(visit, { cursor: nextCursor })}">Older</a>`
  return first === NONE && next === NONE ? NONE : html`<nav class="pager" aria-label="Pages">${first}${next}</nav>`
}

/** The page's own URL with other parameters; null takes one out. */
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
  /** Where it goes: a path from /dashboard on. */
  action: string
  /** Asked before it goes, where it hurts: what will happen, and that it cannot be undone. */
  confirm?: string
  /** On the button that goes on, where `confirm` asks. */
  confirmLabel?: string
  /** Whoever leaves the page with something typed and not sent is asked first; what came back with these faults is
   *  typed already. */
  guard?: Faults
  class?: string
  id?: string
}

/** A form that only this visitor can send. */
export function form (
  visit: Visit,
  { action, confirm, confirmLabel, guard, class: name = '', id }: FormOptions,
  body: Value
): Html {
  const asking = confirm === undefined
    ? NONE
    : html` data-confirm="${confirm}" data-confirm-label="${confirmLabel ?? 'Go on'}"`
  const guarding = guard === undefined ? NONE : html` data-guard${guard.summary !== null && html` data-typed`}`
  const named = id === undefined ? NONE : html` id="${id}"`
  return html`<form method="post" action="${action}" class="${name}"${named}${asking}${guarding}><input type="hidden" name="csrf" value="${visit.csrf}">${body}</form>`
}

/** One button that does something. `fields` go with it. What it does is in its id, of which nobody reads anything:
 *  drawn anew, a page makes no other button of it. */
export function act (
  visit: Visit,
  label: string,
  options: FormOptions & { fields?: Record<string, string>, danger?: boolean }
): Html {
  const { action, fields = {}, danger = false } = options
  const hidden = Object.entries(fields).map(([name, value]) =>
    html`<input type="hidden" name="${name}" value="${value}">`
  )
  const button = html`<button class="${danger && 'danger'}">${label}</button>`
  return form(visit, {
    ...options,
    class: `inline ${options.class ?? ''}`,
    id: `act-${sha256Hex(JSON.stringify([action, fields])).slice(0, 16)}`
  }, html`${hidden}${button}`)
}

export interface Field {
  name: string
  label: string
  value?: string
  hint?: Value
  type?: 'text' | 'email' | 'url' | 'password' | 'search' | 'number' | 'datetime-local' | 'date'
  /** Lines of a text area in place of a line. */
  rows?: number
  required?: boolean
  placeholder?: string
  autocomplete?: string
  /** Shown in letters of one width. */
  code?: boolean
}

/** A labelled field, with what is wrong with what it held. */
export function field (about: Field, faults: Faults = NO_FAULTS): Html {
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
  } = about
  const fault = faults.of(name)
  const id = `field-${name}`
  const lines = html`${hint !== null && html`<span class="hint" id="${id}-hint">${hint}</span>`}${
    fault !== null && html`<span class="fault" id="${id}-fault">${fault}</span>`
  }`
  const told = [...(hint === null ? [] : [`${id}-hint`]), ...(fault === null ? [] : [`${id}-fault`])].join(' ')
  const state = html`${told !== '' && html` aria-describedby="${told}"`}${
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
  return html`<div class="field"><label for="field-${name}">${label}</label><select id="field-${name}" name="${name}" ${marks}>${lines}</select></div>`
}

export function checkbox (name: string, value: string, label: Value, checked: boolean): Html {
  return html`<label class="check"><input type="checkbox" name="${name}" value="${value}"${
    checked && html` checked`
  }> <span>${label}</span></label>`
}

/** What is wrong with a form that came back. */
export interface Faults {
  /** Of one field, or of those within it. */
  of(name: string): string | null
  /** In a sentence above the form, when there is something. */
  summary: Html | string | null
}

export const NO_FAULTS: Faults = { of: () => null, summary: null }

/** One that is of no field. */
export function fault (summary: Html | string): Faults {
  return { of: () => null, summary }
}

/** What the API said no to, for the form it came from. Throws again what no form can mend. */
export function faultsIn (error: unknown): Faults {
  if (
    !(error instanceof JetpostError) || error.status === null || ![400, 403, 404, 409, 413, 422].includes(error.status)
  ) throw error
  const { details, message, status } = error
  const within = (name: string) =>
    details.filter(({ field }) => field === name || field.startsWith(`${name}.`) || field.startsWith(`${name}[`))
  const forbidden = status === 403 ? 'The key you signed in with may not do this.' : message
  return {
    of: name => within(name).map(({ message: text }) => text).join(' ') || null,
    summary: details.length === 0 ? forbidden : details.map(({ message: text }) => text).join(' ')
  }
}

/** The same for a form that was posted, which comes back with all that was typed also where it cannot be taken just
 *  now. `once` = posted again, it is not done twice. */
export function unsentIn (error: unknown, once: 'once' | null = null): Faults {
  if (!(error instanceof JetpostError) || (error.status !== null && ![429, 503].includes(error.status))) {
    return faultsIn(error)
  }
  const said = error.status === null
    ? 'There was no answer in time. It may have been done: look before you do it again.'
    : error.message.replace(/[^.]$/, '$&.')
  const again =
    'It was not taken just now, or nobody could say so. Send it again from here in a moment: it cannot be done twice.'
  return fault(`${once === null ? said : again} Nothing that you typed is lost.`)
}

export function faultBox ({ summary }: Faults): Html {
  return summary === null ? NONE : html`<p class="box bad" role="alert">${summary}</p>`
}

/** Where a list of the API goes on, by the link to this page of it. */
export function cursorOf ({ query }: Visit): { cursor?: string } {
  const cursor = query.get('cursor')
  return cursor === null ? {} : { cursor }
}

/** What happens in the log of the account: the page's parts wait for it. */
export type Kind = 'emails' | 'deliveries'

/** Attributes of an element that is drawn anew whenever something of `kind` has happened, keeping focus and scrolling
 *  as they are. `id` must be the element's. With `seconds` by the clock as well, while something goes on there that no
 *  log tells. `gapS` = no sooner after another time. */
export function live (
  visit: Visit,
  kind: Kind,
  id: string,
  seconds: number | null = null,
  gapS: number | null = null
): Html {
  return redrawn(
    visit,
    `live-${kind} from:body${gapS === null ? '' : ` throttle:${gapS}s`}${
      seconds === null ? '' : `, every ${seconds}s`
    }`,
    id
  )
}

/** The same by the clock, for what is in no log. */
export function refreshed (visit: Visit, seconds: number, id: string): Html {
  return redrawn(visit, `every ${seconds}s`, id)
}

function redrawn ({ url }: Visit, trigger: string, id: string): Html {
  return html`id="${id}" hx-get="${url}" hx-trigger="${trigger}" hx-select="#${id}" hx-target="this" hx-swap="morph:outerHTML" hx-sync="this:queue last"`
}

/** A head line with what can be done there. */
export function heading (title: Value, actions: Value = null, above: Value = null): Html {
  const beside = actions !== null && html`<div class="actions">${actions}</div>`
  return html`<div class="head"><div>${
    above !== null && html`<p class="above">${above}</p>`
  }<h1>${title}</h1></div>${beside}</div>`
}

export function number (value: number): string {
  return value.toLocaleString('en-GB')
}

/** `1 fact`, `3,000 facts`. */
export function counted (count: number, one: string, many = `${one}s`): string {
  return `${number(count)} ${count === 1 ? one : many}`
}

/** `0.0312` → `3.12 %`. */
export function percent (rate: number | null): string {
  return rate === null ? '–' : `${(rate * 100).toFixed(rate > 0 && rate < 0.01 ? 2 : 1)} %`
}

/** Parts of a page that have URLs of their own. */
export function tabs (label: string, items: Array<{ text: string, href: string, isCurrent: boolean }>): Html {
  const links = items.map(({ text, href, isCurrent }) =>
    html`<li><a href="${href}"${isCurrent && html` aria-current="page"`}>${text}</a></li>`
  )
  return html`<nav aria-label="${label}"><ul class="tabs">${links}</ul></nav>`
}

const SIZES = ['B', 'kB', 'MB', 'GB', 'TB']

/** `12 kB`, `3.4 GB`, never on two lines. */
export function size (bytes: number): string {
  const power = Math.min(SIZES.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)))
  const value = bytes / 1000 ** power
  return `${power === 0 || value >= 10 ? Math.round(value) : value.toFixed(1)}\u00a0${SIZES[power]}`
}
