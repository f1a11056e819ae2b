import { DEFAULT_LIMITS, FIXED_KEY, mayDo, OVERLAP_S_DEFAULT } from '#streams/key/decide.ts'
import { LIMIT_CLASSES, type LimitClass } from '#streams/key/facts.ts'
import type { CreateKeyAnswer, Key as KeyRecord } from '#src/client/client.ts'
import { html, type Html } from '#src/base/html.ts'
import { curlFor, FIRST_EMAIL } from '../curl.ts'
import {
  actionButton,
  badge,
  codeBlock,
  copyable,
  exact,
  detailList,
  faultBox,
  form,
  heading,
  number,
  select,
  time,
  type Faults
} from '../parts.ts'
import type { Visit } from '../visit.ts'
import { defaultFields, fieldsIn, nameField, powerFields, type KeyFields } from './key-form.ts'

const ABOVE = html`<a href="/dashboard/keys">Keys</a>`

/** The only page that ever shows a secret. */
export function secretPage (key: CreateKeyAnswer, how: 'made' | 'rotated', publicUrl: string): Html {
  const { scopes, domains, previous_expires_at: previousUntil } = key
  const old = previousUntil === null
    ? 'The secret before works no more.'
    : `The secret before works until ${exact(previousUntil)}.`
  const sends = domains[0] === '*' && (scopes.includes('full') || scopes.includes('emails:send'))
  return html`${heading(how === 'made' ? 'The new key' : 'The new secret', null, ABOVE)}
<div class="box secret"><p><strong>Copy it now: it is shown this once and nowhere else.</strong> Jetpost keeps its fingerprint alone.</p>
${copyable(key.key, 'Copy the secret')}</div>
${
    how === 'rotated' &&
    html`<p>${old} ${opensDashboard(key) && 'Sessions of this dashboard that were opened with it end with it.'}</p>`
  }
${
    how === 'made' && sends &&
    html`<section class="card"><h2>Try it</h2><p class="hint">With the key in <code>JETPOST_API_KEY</code>.</p>
${codeBlock(curlFor(publicUrl, '/api/emails', FIRST_EMAIL), 'An email as a command')}</section>`
  }
<p><a class="button" href="/dashboard/keys/${key.id}">${key.name}</a> <a class="button" href="/dashboard/keys">All keys</a></p>`
}

/** One key: what it may do, and what can be done about it. `typed` = a form that came back. */
export function keyPage (
  visit: Visit,
  key: KeyRecord,
  domains: string[],
  faults: Faults,
  typed: KeyFields | null
): Html {
  const isOver = key.expires_at !== null && Date.parse(key.expires_at) <= visit.nowMs
  const isOwn = key.id === visit.key.id
  const title = html`${key.name} ${isOver ? badge('expired') : badge('live')} ${key.test && badge('test', 'busy')} ${
    isOwn && badge('this session', 'good')
  }`
  const isUsual = LIMIT_CLASSES.every(name => key.limits[name] === DEFAULT_LIMITS[name])
  return html`${heading(title, null, ABOVE)}${faultBox(faults)}
<section class="card"><h2>As it is</h2>${
    detailList([
      ['Secret begins with', html`<code>${key.hint}</code>`],
      ['Made', time(key.created_at, visit.nowMs)],
      ['Expires', key.expires_at === null ? 'never' : time(key.expires_at, visit.nowMs)],
      key.previous_expires_at === null
        ? null
        : ['The secret before works until', time(key.previous_expires_at, visit.nowMs)],
      ...(isUsual ? [['Requests a minute', 'as for every key'] as [string, string]] : limitFacts(key))
    ])
  }<p>${copyable(key.id, 'Copy the id')}</p></section>
${mayDo(visit.key, 'keys:write') ? editForms(visit, key, { domains, faults, typed, isOver, isOwn }) : READ_ONLY}`
}

export const READ_ONLY =
  html`<p class="box calm">The key you signed in with may see keys, and not change them: that takes <code>keys:write</code>.</p>`

const LIMIT_NAMES: Record<LimitClass, string> = {
  'emails:send': 'Sending, a minute',
  'emails:list': 'Lists of emails, a minute',
  'templates:create': 'New templates, a minute',
  other: 'All else, a minute'
}

function limitFacts ({ limits }: KeyRecord): Array<[string, string]> {
  return LIMIT_CLASSES.map(name => [LIMIT_NAMES[name], number(limits[name])])
}

const FIXED =
  html`<p class="box calm"><code>JETPOST_API_KEY</code> fixes this key: the operator changes its secret there. Its scopes, domains and end stay as they are.</p>`

interface KeyForm {
  domains: string[]
  faults: Faults
  typed: KeyFields | null
  isOver: boolean
  isOwn: boolean
}

function editForms (visit: Visit, key: KeyRecord, { domains, faults, typed, isOver, isOwn }: KeyForm): Html {
  const isFixed = key.id.startsWith(FIXED_KEY)
  const fields = typed ?? fieldsIn(key)
  return html`${isFixed && FIXED}
${
    form(
      visit,
      { action: `/dashboard/keys/${key.id}`, class: 'card fields' },
      html`<h2>Change it</h2>${nameField(fields, faults)}
${isFixed ? hiddenFields(fields) : powerFields(fields, domains, faults)}${
        defaultFields(fields)
      }<div><button class="primary">Save</button></div>`
    )
  }
${!isFixed && !isOver && rotation(visit, key, isOwn)}
<section class="card"><h2>Revoke it</h2><p>It stops everywhere within a second, with all its secrets.
${isFixed && html`While <code>JETPOST_API_KEY</code> holds it, the next start makes a key of it again.`}
${isOwn && html`<strong>You are signed in with it: this ends your session.</strong>`}</p>
${
    actionButton(visit, 'Revoke this key', {
      action: `/dashboard/keys/${key.id}/revoke`,
      confirm: confirmRevoke(key, isOwn),
      confirmLabel: 'Revoke it',
      danger: true
    })
  }</section>`
}

/** What a fixed key holds goes with its form as it is. */
function hiddenFields ({ scopes, domains, expires }: KeyFields): Html {
  const hidden = (name: string, value: string) => html`<input type="hidden" name="${name}" value="${value}">`
  return html`${scopes.map(scope => hidden('scopes', scope))}${hidden('domains', domains)}${
    hidden('expires_at', expires)
  }`
}

function opensDashboard ({ scopes }: Pick<KeyRecord, 'scopes'>): boolean {
  return scopes.includes('full') || scopes.includes('dashboard')
}

function confirmRevoke (key: KeyRecord, isOwn: boolean): string {
  const { name } = key
  const sessions = isOwn
    ? ' You are signed in with it, and are signed out at once.'
    : opensDashboard(key)
    ? ' Whoever is signed in here with it is signed out.'
    : ''
  return `Whatever uses ${name} gets 401 from now on.${sessions} This cannot be undone.`
}

const OVERLAPS: Array<[value: string, text: string]> = [['0', 'Not at all'], ['3600', 'One hour'], [
  String(OVERLAP_S_DEFAULT),
  'One day'
], ['604800', 'Seven days']]

const CONFIRM_ROTATION =
  'The new secret is shown once. The one that is used now ends after the time you chose, and any older one at once.'

function rotation (visit: Visit, key: KeyRecord, isOwn: boolean): Html {
  const sessions = `Whoever signed in here with the present secret is signed out when it ends${
    isOwn ? ', you too' : ''
  }.`
  const fields = html`<input type="hidden" name="hint" value="${key.hint}">
${
    select('overlap_s', 'The present secret works on for', OVERLAPS, String(OVERLAP_S_DEFAULT))
  }<div><button>Make a new secret</button></div>`
  return html`<section class="card"><h2>Give it a new secret</h2><p>The key stays the same, with its id, scopes and limits. ${
    opensDashboard(key) && sessions
  }</p>
${
    form(visit, {
      action: `/dashboard/keys/${key.id}/rotate`,
      class: 'fields',
      confirm: CONFIRM_ROTATION,
      confirmLabel: 'Make a new secret'
    }, fields)
  }</section>`
}
