import { SCOPES, type Scope } from '#streams/key/facts.ts'
import type { CreateKeyRequest, Key as KeyRecord } from '#src/client/client.ts'
import { html, type Html } from '#src/base/html.ts'
import { checkbox, faultBox, field, form, heading, select, type Faults } from '../parts.ts'
import type { SubmitOnce } from '../submit-once.ts'
import type { Visit } from '../visit.ts'
import { fieldTime, utcTime } from '../times.ts'

/** What a form says of a key, as it was typed. */
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
  full: 'everything, also in this dashboard',
  dashboard: 'this dashboard, without its keys',
  'emails:send': 'send, cancel and retry mail',
  'emails:read': 'see mail, events and figures',
  'templates:read': 'see templates',
  'templates:write': 'make and change templates',
  'domains:read': 'see domains and their DNS records',
  'domains:write': 'add and remove domains',
  'keys:read': 'see keys, never their secrets',
  'keys:write': 'make keys that may do no more than it',
  'webhooks:read': 'see endpoints',
  'webhooks:write': 'make and change endpoints',
  'suppressions:read': 'see who gets no mail',
  'suppressions:write': 'suppress addresses, and lift it',
  'erasures:write': 'have a person forgotten for good'
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

/** The form of a key as it is. */
export function fieldsIn (
  { name, scopes, domains, expires_at: expiresAt, track, unsubscribe, test }: KeyRecord
): KeyFields {
  const said = (choice: boolean | null) => (choice === null ? '' : String(choice))
  return {
    name,
    scopes,
    domains: domains.join('\n'),
    expires: fieldTime(expiresAt),
    opens: said(track.opens),
    clicks: said(track.clicks),
    unsubscribe: said(unsubscribe),
    test
  }
}

/** What is asked of the API. Of a key that is there (`present`) only what was changed: a fixed one lets nothing else be
 *  said. */
export function bodyOf (typed: KeyFields, present: KeyRecord | null = null): CreateKeyRequest {
  const choice = (text: string) => (text === '' ? null : text === 'true')
  const before = present === null ? null : fieldsIn(present)
  const same = (name: 'domains' | 'expires') => before !== null && before[name] === typed[name].replaceAll('\r', '')
  const sameScopes = before !== null && [...before.scopes].sort().join() === [...typed.scopes].sort().join()
  const body = {
    name: typed.name,
    ...(sameScopes ? {} : { scopes: typed.scopes }),
    ...(same('domains') ? {} : { domains: typed.domains.split(/[\s,;]+/).filter(name => name !== '') }),
    // A form knows minutes: what nobody touched keeps its seconds.
    ...(same('expires') ? {} : { expires_at: typed.expires === '' ? null : utcTime(typed.expires) }),
    track: { opens: choice(typed.opens), clicks: choice(typed.clicks) },
    unsubscribe: choice(typed.unsubscribe)
  }
  return body as CreateKeyRequest
}

const TEST = 'A test key: its mail goes to the built-in catcher, and nowhere else. This cannot be changed later.'

export function newKeyForm (visit: Visit, once: SubmitOnce, domains: string[], faults: Faults, typed: KeyFields): Html {
  return html`${heading('Make a key', null, html`<a href="/dashboard/keys">Keys</a>`)}${faultBox(faults)}
${
    form(
      visit,
      { action: '/dashboard/keys', class: 'card fields' },
      html`${once.mark()}${nameField(typed, faults)}${powerFields(typed, domains, faults)}
<fieldset><legend>Live or test</legend>${checkbox('test', 'on', TEST, typed.test)}</fieldset>${
        defaultFields(typed)
      }<div><button class="primary">Make the key</button></div>`
    )
  }`
}

export function nameField (typed: KeyFields, faults: Faults): Html {
  return field({
    name: 'name',
    label: 'Name',
    value: typed.name,
    required: true,
    hint: 'Who uses it, and where.',
    placeholder: 'Shop, production'
  }, faults)
}

/** What it may do, from where, until when. */
export function powerFields (typed: KeyFields, domains: string[], faults: Faults): Html {
  const box = (scope: Scope) =>
    checkbox(
      'scopes',
      scope,
      html`<code>${scope}</code><br><span class="hint">${MEANINGS[scope]}</span>`,
      typed.scopes.includes(scope)
    )
  const fault = faults.of('scopes') !== null && typed.scopes.length === 0 ? 'Tick at least one.' : faults.of('scopes')
  return html`<fieldset><legend>What it may do</legend>${
    fault !== null && html`<p class="fault">${fault}</p>`
  }<div class="checks">${box('full')}</div>
<div class="checks">${SCOPES.filter(scope => scope !== 'full').map(box)}</div></fieldset>
<div class="columns">${
    field({
      name: 'domains',
      label: 'Domains it may send from',
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

const NAMED_MAX = 10

function domainsHint (domains: string[]): Html {
  const names = html`${domains.slice(0, NAMED_MAX).map((name, i) => html`${i > 0 && ', '}<code>${name}</code>`)}${
    domains.length > NAMED_MAX && ' and more'
  }`
  return html`One a line; <code>*</code> = every domain of the account. ${
    domains.length === 0 ? 'It has none yet but the sandbox.' : html`It has ${names}.`
  }`
}

const CHOICES: Array<[value: string, text: string]> = [['', 'As the domain says'], ['true', 'Yes'], ['false', 'No']]

/** What holds for mail that does not say it itself. */
export function defaultFields (typed: KeyFields): Html {
  return html`<fieldset><legend>For mail that does not say it itself</legend><div class="columns">${
    select('opens', 'Track opens', CHOICES, typed.opens)
  }
${select('clicks', 'Track clicks', CHOICES, typed.clicks)}${
    select('unsubscribe', 'Offer to unsubscribe', CHOICES, typed.unsubscribe)
  }</div></fieldset>`
}
