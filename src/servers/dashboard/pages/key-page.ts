import { DEFAULT_LIMITS, FIXED_KEY, mayDo, OVERLAP_S_DEFAULT } from '#streams/key/decide.ts'
import { isUser } from '#streams/session/decide.ts'
import type { Principal } from '#streams/directory.ts'
import { LIMIT_CLASSES, type LimitClass } from '#streams/key/facts.ts'
import type { CreateKeyAnswer, Key as KeyRecord } from '#src/client/client.ts'
import { html, type Html } from '#src/base/html.ts'
import { curlFor, FIRST_EMAIL } from '../curl.ts'
import {
  badge,
  checkbox,
  codeBlock,
  copyable,
  counted,
  exact,
  detailList,
  faultBox,
  form,
  heading,
  hiddenField,
  number,
  select,
  time,
  type Faults
} from '../parts.ts'
import type { Visit } from '../visit.ts'
import { defaultFields, fieldsIn, nameField, powerFields, type KeyFields } from './key-form.ts'

const ABOVE = html`<a href="/dashboard/keys">Keys</a>`

/** The only page that shows a secret. */
export function secretPage (key: CreateKeyAnswer, how: 'created' | 'rotated', publicUrl: string): Html {
  const { scopes, domains, previous_expires_at: previousUntil } = key
  const sends = domains[0] === '*' && (scopes.includes('full') || scopes.includes('emails:send'))
  const old = previousUntil === null
    ? 'The previous secret no longer works.'
    : `The previous secret works until ${exact(previousUntil)}.`
  const rotated = html`<p>${old} ${
    opensDashboard(key) && 'Dashboard sessions opened with the previous secret end with it.'
  }</p>`
  return html`${heading(how === 'created' ? 'Key created' : 'Secret rotated', null, ABOVE)}
<div class="box secret"><p><strong>Copy the secret now. It is not shown again.</strong> Jetpost keeps its hash only.</p>
${copyable(key.key, 'Copy the secret')}</div>
${how === 'rotated' && rotated}
${how === 'created' && sends && exampleCard(publicUrl)}
<p><a class="button" href="/dashboard/keys/${key.id}">${key.name}</a>
<a class="button" href="/dashboard/keys">All keys</a></p>`
}

function exampleCard (publicUrl: string): Html {
  return html`<section class="card"><h2>Send an email</h2>
<p class="hint">With the key in <code>JETPOST_API_KEY</code>.</p>
${codeBlock(curlFor(publicUrl, '/api/emails', FIRST_EMAIL), 'An email as a command')}</section>`
}

/** Where a key comes from, and what comes from it. */
export interface KeyFamily {
  /** The key or the user that made it; null = neither did, or it is no more. */
  maker: Pick<Principal, 'id' | 'name'> | null
  /** How many working keys come from it. */
  children: number
}

/** One key with its forms. `typed` = a form that came back. */
export function keyPage (
  visit: Visit,
  key: KeyRecord,
  { domains, faults, typed, ...family }: KeyFamily & Pick<KeyForm, 'domains' | 'faults' | 'typed'>
): Html {
  const isOver = key.expires_at !== null && Date.parse(key.expires_at) <= visit.nowMs
  const isOwn = key.id === visit.principal.id
  const title = html`${key.name} ${isOver ? badge('expired') : badge('active')} ${key.test && badge('test', 'busy')} ${
    isOwn && badge('this session', 'good')
  }`
  const isUsual = LIMIT_CLASSES.every(name => key.limits[name] === DEFAULT_LIMITS[name])
  return html`${heading(title, null, ABOVE)}${faultBox(faults)}
<section class="card"><h2>Details</h2>${
    detailList([
      ['Secret begins with', html`<code>${key.hint}</code>`],
      ['Created', time(key.created_at, visit.nowMs)],
      key.made_by === null ? null : ['Made by', makerOf(key.made_by, family)],
      ['Last used', key.last_used_at === null ? 'never' : time(key.last_used_at, visit.nowMs)],
      ['Expires', key.expires_at === null ? 'never' : time(key.expires_at, visit.nowMs)],
      key.previous_expires_at === null
        ? null
        : ['Previous secret works until', time(key.previous_expires_at, visit.nowMs)],
      ...(isUsual ? [['Rate limits', 'default'] as [string, string]] : limitDetails(key))
    ])
  }<p>${copyable(key.id, 'Copy the id')}</p></section>
${
    mayDo(visit.principal, 'keys:write')
      ? editForms(visit, key, { domains, faults, typed, isOver, isOwn, children: family.children })
      : READ_ONLY
  }`
}

function makerOf (id: string, { maker }: KeyFamily): Html {
  if (maker === null) return html`<code>${id}</code>, which is no more`
  return html`<a href="/dashboard/${isUser(maker) ? 'people' : 'keys'}/${id}">${maker.name}</a>`
}

const READ_ONLY = html`<p class="box calm">You may see keys, but not change them: that takes the scope
<code>keys:write</code>.</p>`

const LIMIT_NAMES: Record<LimitClass, string> = {
  'emails:send': 'Emails sent per minute',
  'emails:batch': 'Batches sent per minute',
  'emails:list': 'Email lists per minute',
  'templates:create': 'New templates per minute',
  other: 'Other requests per minute'
}

function limitDetails ({ limits }: KeyRecord): Array<[string, string]> {
  return LIMIT_CLASSES.map(name => [LIMIT_NAMES[name], number(limits[name])])
}

const FIXED = html`<p class="box calm">The operator sets this key in <code>JETPOST_API_KEY</code>. Its secret, scopes,
domains and expiry cannot be changed here.</p>`

interface KeyForm {
  domains: string[]
  faults: Faults
  typed: KeyFields | null
  isOver: boolean
  isOwn: boolean
  /** How many working keys come from it. */
  children: number
}

function editForms (visit: Visit, key: KeyRecord, { domains, faults, typed, isOver, isOwn, children }: KeyForm): Html {
  const isFixed = key.id.startsWith(FIXED_KEY)
  const fields = typed ?? fieldsIn(key)
  return html`${isFixed && FIXED}
${
    form(
      visit,
      { action: `/dashboard/keys/${key.id}`, class: 'card fields' },
      html`<h2>Edit</h2>${nameField(fields, faults)}
${isFixed ? hiddenFields(fields) : powerFields(visit, fields, domains, faults)}
${defaultFields(fields)}
<div><button class="primary">Save</button></div>`
    )
  }
${!isFixed && !isOver && rotation(visit, key, isOwn)}
<section class="card"><h2>Revoke</h2><p>The key and all its secrets stop working within a second.
${isFixed && html`The next start creates it again, as long as <code>JETPOST_API_KEY</code> is set.`}
${isOwn && html`<strong>You are signed in with this key: revoking it ends your session.</strong>`}</p>
${
    form(visit, {
      action: `/dashboard/keys/${key.id}/revoke`,
      class: 'fields',
      confirm: confirmRevoke(key, isOwn),
      confirmLabel: 'Revoke key'
    }, html`${children > 0 && childrenBox(children)}<div><button class="danger">Revoke key</button></div>`)
  }</section>`
}

function childrenBox (children: number): Html {
  return checkbox('with_children', 'true', `Also revoke ${counted(children, 'key')} made with this key`, false)
}

/** The fields of a fixed key that cannot be changed. */
function hiddenFields ({ scopes, domains, expires }: KeyFields): Html {
  const hidden = scopes.map(scope => hiddenField('scopes', scope))
  return html`${hidden}${hiddenField('domains', domains)}${hiddenField('expires_at', expires)}`
}

function opensDashboard ({ scopes }: Pick<KeyRecord, 'scopes'>): boolean {
  return scopes.includes('full') || scopes.includes('dashboard')
}

function confirmRevoke (key: KeyRecord, isOwn: boolean): string {
  const { name } = key
  const others = opensDashboard(key) ? ' Everyone signed in with it is signed out.' : ''
  const sessions = isOwn ? ' You are signed in with it and will be signed out.' : others
  return `Requests with ${name} will get 401 from now on.${sessions} This cannot be undone.`
}

const OVERLAPS: Array<[value: string, text: string]> = [
  ['0', 'Not at all'],
  ['3600', 'One hour'],
  [String(OVERLAP_S_DEFAULT), 'One day'],
  ['604800', 'Seven days']
]

const CONFIRM_ROTATION = 'The new secret is shown once. ' +
  'The present secret works for the time you chose. Older secrets stop working now.'

function rotation (visit: Visit, key: KeyRecord, isOwn: boolean): Html {
  const who = isOwn ? 'Everyone, including you,' : 'Everyone'
  const sessions = `${who} who signed in with the present secret is signed out when it stops working.`
  const fields = html`${hiddenField('hint', key.hint)}
${select('overlap_s', 'Keep the present secret for', OVERLAPS, String(OVERLAP_S_DEFAULT))}
<div><button>Rotate secret</button></div>`
  const options = {
    action: `/dashboard/keys/${key.id}/rotate`,
    class: 'fields',
    confirm: CONFIRM_ROTATION,
    confirmLabel: 'Rotate secret'
  }
  return html`<section class="card"><h2>Rotate secret</h2>
<p>The key keeps its id, scopes and limits. ${opensDashboard(key) && sessions}</p>
${form(visit, options, fields)}</section>`
}
