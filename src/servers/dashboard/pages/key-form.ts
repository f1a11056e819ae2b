import { SCOPES, type Scope } from '#streams/key/facts.ts'
import type { CreateKeyRequest, Key as KeyRecord } from '#src/client/client.ts'
import { html, type Html } from '#src/base/html.ts'
import { checkbox, faultBox, field, form, heading, select, type Faults } from '../parts.ts'
import type { SubmitOnce } from '../submit-once.ts'
import type { Visit } from '../visit.ts'
import { fieldTime, utcTime } from '../times.ts'

/** The fields of a key's form. */
export interface KeyFields {
  name: string
  scopes: string[]
  domains: string
  expires: string
  opens: string
  clicks: string
  unsubscribe: string
  test: boolean
}

const MEANINGS: Record<Scope, string> = {
  full: 'everything, and this dashboard',
  dashboard: 'this dashboard, except its keys',
  operator: 'Operations and Mailbox in this dashboard',
  'emails:send': 'send, cancel and retry emails',
  'emails:read': 'read emails with their content, events and statistics',
  'emails:metadata': 'read emails and events without content, and statistics',
  'emails:list': 'list emails and read statistics',
  'templates:read': 'read templates',
  'templates:write': 'create and edit templates',
  'domains:read': 'read domains and their DNS records',
  'domains:write': 'add and delete domains',
  'keys:read': 'read keys, without their secrets',
  'keys:write': 'create keys with no more scopes than this one has',
  'webhooks:read': 'read endpoints',
  'webhooks:write': 'create and edit endpoints',
  'suppressions:read': 'read suppressed addresses',
  'suppressions:write': 'add and remove suppressions',
  'erasures:write': 'erase addresses',
  'users:read': 'read the people of the account',
  'users:write': 'invite, change and remove people with no more powers than this key has',
  'audit:read': 'read who changed what'
}

export function fieldsOf (given: URLSearchParams): KeyFields {
  const text = (name: string, or = '') => given.get(name) ?? or
  return {
    name: text('name'),
    scopes: given.getAll('scopes'),
    domains: text('domains', '*'),
    expires: text('expires_at'),
    opens: text('opens'),
    clicks: text('clicks'),
    unsubscribe: text('unsubscribe'),
    test: given.has('test')
  }
}

/** The form of a stored key. */
export function fieldsIn (
  { name, scopes, domains, expires_at: expiresAt, track, unsubscribe, test }: KeyRecord
): KeyFields {
  const choiceOf = (choice: boolean | null) => (choice === null ? '' : String(choice))
  return {
    name,
    scopes,
    domains: domains.join('\n'),
    expires: fieldTime(expiresAt),
    opens: choiceOf(track.opens),
    clicks: choiceOf(track.clicks),
    unsubscribe: choiceOf(unsubscribe),
    test
  }
}

/** The API request. With the `present` key only what differs from it: the API refuses to change other fields of a fixed
 *  key. */
export function bodyOf (typed: KeyFields, present: KeyRecord | null = null): CreateKeyRequest {
  const choice = (text: string) => (text === '' ? null : text === 'true')
  const before = present === null ? null : fieldsIn(present)
  const same = (name: 'domains' | 'expires') => before !== null && before[name] === typed[name].replaceAll('\r', '')
  const sameScopes = before !== null && [...before.scopes].sort().join() === [...typed.scopes].sort().join()
  const body = {
    name: typed.name,
    ...(sameScopes ? {} : { scopes: typed.scopes }),
    ...(same('domains') ? {} : { domains: typed.domains.split(/[\s,;]+/).filter(name => name !== '') }),
    // The form has minutes: an unchanged time keeps its seconds.
    ...(same('expires') ? {} : { expires_at: typed.expires === '' ? null : utcTime(typed.expires) }),
    track: { opens: choice(typed.opens), clicks: choice(typed.clicks) },
    unsubscribe: choice(typed.unsubscribe)
  }
  return body as CreateKeyRequest
}

const TEST = 'Test key: its emails only go to the built-in mail catcher. This cannot be changed later.'

export function newKeyForm (visit: Visit, once: SubmitOnce, domains: string[], faults: Faults, typed: KeyFields): Html {
  return html`${heading('Create a key', null, html`<a href="/dashboard/keys">Keys</a>`)}${faultBox(faults)}
${
    form(
      visit,
      { action: '/dashboard/keys', class: 'card fields' },
      html`${once.field()}${nameField(typed, faults)}${powerFields(visit, typed, domains, faults)}
<fieldset><legend>Live or test</legend>${checkbox('test', 'on', TEST, typed.test)}</fieldset>
${defaultFields(typed)}
<div><button class="primary">Create key</button></div>`
    )
  }`
}

export function nameField (typed: KeyFields, faults: Faults): Html {
  return field({
    name: 'name',
    label: 'Name',
    value: typed.name,
    required: true,
    hint: 'Which application uses it, and where.',
    placeholder: 'Shop, production'
  }, faults)
}

/** Scopes, domains and expiry. */
export function powerFields (visit: Visit, typed: KeyFields, domains: string[], faults: Faults): Html {
  const box = (scope: Scope) =>
    checkbox(
      'scopes',
      scope,
      html`<code>${scope}</code><br><span class="hint">${MEANINGS[scope]}</span>`,
      typed.scopes.includes(scope)
    )
  const isOffered = (scope: Scope) => scope !== 'operator' || visit.isOperator || typed.scopes.includes(scope)
  const fault = faults.of('scopes') !== null && typed.scopes.length === 0 ? NO_SCOPE : faults.of('scopes')
  return html`<fieldset><legend>Scopes</legend>${fault !== null && html`<p class="fault">${fault}</p>`}
<div class="checks">${box('full')}</div>
<div class="checks">${SCOPES.filter(scope => scope !== 'full' && isOffered(scope)).map(box)}</div></fieldset>
<div class="columns">${
    field({
      name: 'domains',
      label: 'Domains',
      value: typed.domains,
      rows: 3,
      code: true,
      hint: domainsHint(domains)
    }, faults)
  }
${
    field({
      name: 'expires_at',
      label: 'Expires (UTC)',
      type: 'datetime-local',
      value: typed.expires,
      hint: 'Empty = never.'
    }, faults)
  }</div>`
}

const NO_SCOPE = 'Choose at least one scope.'
const NAMED_MAX = 10

function domainsHint (domains: string[]): Html {
  const names = html`${domains.slice(0, NAMED_MAX).map((name, i) => html`${i > 0 && ', '}<code>${name}</code>`)}${
    domains.length > NAMED_MAX && ' and more'
  }`
  const own = domains.length === 0 ? 'Your account has no domain yet.' : html`Your domains: ${names}.`
  return html`Domains the key may send from, one per line. <code>*</code> = all domains of the account. ${own}`
}

const CHOICES: Array<[value: string, text: string]> = [['', "Domain's default"], ['true', 'On'], ['false', 'Off']]

/** Used for emails that do not set these themselves. */
export function defaultFields (typed: KeyFields): Html {
  return html`<fieldset><legend>Defaults for emails sent with this key</legend><div class="columns">
${select('opens', 'Track opens', CHOICES, typed.opens)}
${select('clicks', 'Track clicks', CHOICES, typed.clicks)}
${select('unsubscribe', 'Unsubscribe link', CHOICES, typed.unsubscribe)}</div></fieldset>`
}
