import type { Directory } from '#streams/directory.ts'
import { isLive, mayDo, maySendFrom } from '#streams/key/decide.ts'
import { html, type Html } from '#src/base/html.ts'
import type { Domain } from '#src/client/types.ts'
import {
  actionButton,
  badge,
  codeBlock,
  copyable,
  faultBox,
  detailList,
  form,
  heading,
  NO_FAULTS,
  number,
  refreshed,
  select,
  table,
  time,
  type Faults
} from '../parts.ts'
import type { PageResult, Visit } from '../visit.ts'
import { recordCard, problemsOf, zoneFile } from './domain-records.ts'

/** While DNS is expected to change. */
const REFRESH_S = 10
const KEYS_MAX = 25

export interface DomainPageOptions {
  directory: Directory
  /** Emails from a domain that is not verified are refused. */
  isVerifiedRequired: boolean
  faults?: Faults
  status?: number
}

/** A domain's status. */
export function statusBadge ({ status, failing_since: since }: Pick<Domain, 'status' | 'failing_since'>): Html {
  return status === 'verified' && since !== null ? badge('verified, failing', 'warn') : badge(status)
}

/** One domain: its DNS records, their state, DKIM keys, defaults, and the keys that may send from it. */
export function domainPage (visit: Visit, domain: Domain, options: DomainPageOptions): PageResult {
  const { id, name, records } = domain
  const isAwaited = domain.status !== 'verified' || domain.failing_since !== null ||
    records.some(({ stage }) => stage === 'next')
  const own = `/dashboard/domains/${id}${visit.query.has('checked') ? '?checked=1' : ''}`
  const check = actionButton(visit, 'Check now', { action: `/dashboard/domains/${id}/verify` })
  const page = html`${
    heading(name, html`${copyable(id, 'Copy the id')}${check}`, html`<a href="/dashboard/domains">Domains</a>`)
  }
${faultBox(options.faults ?? NO_FAULTS)}
<div ${isAwaited ? refreshed({ ...visit, url: own }, REFRESH_S, 'standing') : html`id="standing"`}>${
    checkedBox(visit, domain)
  }${statusCard(visit, domain, options)}
<h2>DNS records</h2>
<p class="hint">Many DNS providers add the name of the zone themselves. Give those the short name.</p>
${records.map(record => recordCard(record, name, visit.nowMs))}</div>
<section class="card"><h2>Zone file</h2>
<p class="hint">For providers that import zone files, or for your own name server.</p>
${codeBlock(zoneFile(records), 'Zone file')}</section>
${rotationCard(visit, domain)}
${defaultsCard(visit, domain)}
${sendersCard(visit, domain, options.directory)}
${deleteCard(visit, domain)}`
  return { title: name, section: 'domains', page, status: options.status ?? 200 }
}

/** The result of Check now. */
function checkedBox ({ query }: Visit, domain: Domain): Html | null {
  const problems = query.has('checked') ? problemsOf(domain) : null
  return problems === null ? null : html`<p class="box warn" role="status">Not verified yet. ${problems}.</p>`
}

function statusCard ({ nowMs }: Visit, domain: Domain, { isVerifiedRequired }: DomainPageOptions): Html {
  return html`<section class="card" aria-label="Status">${
    detailList([
      ['Status', statusBadge(domain)],
      ['Problems', problemsOf(domain) ?? 'None'],
      ['Last DNS check', time(domain.checked_at, nowMs)]
    ])
  }<p class="hint">${advice(domain, isVerifiedRequired, nowMs)}</p></section>`
}

const REFUSED = 'Until then, emails from this domain are refused.'
const SENT_ANYWAY = 'Until then, Jetpost sends emails from this domain, but receivers cannot verify them and are ' +
  'likely to treat them as spam.'

function advice (domain: Domain, isVerifiedRequired: boolean, nowMs: number): Html {
  const follows = isVerifiedRequired ? REFUSED : SENT_ANYWAY
  if (domain.status === 'failed') {
    return html`Required records were wrong for three days. Correct them, then choose Check now: Jetpost itself checks
once a day. ${follows}`
  }
  if (domain.status === 'pending') {
    return html`Add these records at your DNS provider. Jetpost checks every minute at first, later at least once an
hour, and verifies the domain once the required records are there. ${follows}`
  }
  if (domain.failing_since !== null) {
    return html`A required record has been wrong since ${
      time(domain.failing_since, nowMs)
    }. Emails are still sent. After
72 hours the domain fails.`
  }
  return html`All required records are correct. Jetpost checks them two to four times a day.`
}

function rotationCard (visit: Visit, { id, records }: Domain): Html {
  const stages = new Set(records.map(({ stage }) => stage))
  const start = actionButton(visit, 'Rotate keys', {
    action: `/dashboard/domains/${id}/rotate`,
    confirmLabel: 'Rotate keys',
    confirm:
      'Jetpost creates new DKIM keys, and you publish their records. The present keys sign until DNS has the new ones.'
  })
  const isIdle = !stages.has('next') && !stages.has('previous')
  return html`<section class="card" id="rotation"><h2>DKIM keys</h2>${rotationText(records, stages, visit.nowMs)}${
    isIdle && start
  }</section>`
}

function rotationText (
  records: Domain['records'],
  stages: Set<Domain['records'][number]['stage']>,
  nowMs: number
): Html {
  if (stages.has('next')) {
    return html`<p>Publish the records marked as new above. The new keys sign once DNS has the RSA record. Keep the old
records for 7 days after that.</p>`
  }
  const until = records.find(({ stage }) => stage === 'previous')?.removable_at
  if (until != null) {
    return html`<p>The new keys sign. Keep the old records until ${time(until, nowMs)}: emails on their way are checked
with them.</p>`
  }
  return html`<p>Emails are signed with an RSA key, and with an Ed25519 key once its record is published. To rotate the
keys, Jetpost creates new ones, you publish their records, and they take over once DNS has them. No email is sent
unsigned.</p>`
}

/** The value of a select: '' = not set. */
const choiceOf = (value: boolean | null): string => (value === null ? '' : String(value))

const DEFAULTS: Array<[name: string, label: string, of: (domain: Domain) => boolean | null]> = [
  ['opens', 'Track opens', ({ track }) => track.opens],
  ['clicks', 'Track clicks', ({ track }) => track.clicks],
  ['unsubscribe', 'Unsubscribe headers', ({ unsubscribe }) => unsubscribe]
]

function defaultsCard (visit: Visit, domain: Domain): Html {
  const options: Array<[string, string]> = [['', 'Default (on)'], ['true', 'On'], ['false', 'Off']]
  const selects = DEFAULTS.map(([name, label, of]) => select(name, label, options, choiceOf(of(domain))))
  const fields = html`<div class="columns">${selects}</div><div class="actions"><button>Save</button></div>`
  return html`<section class="card"><h2>Defaults</h2>
<p class="hint">For emails from this domain, where neither the email nor its key sets these.</p>
${form(visit, { action: `/dashboard/domains/${domain.id}/defaults`, class: 'fields' }, fields)}</section>`
}

/** The posted defaults; null = not set. */
export function defaultsIn (
  given: URLSearchParams
): { track: { opens: boolean | null, clicks: boolean | null }, unsubscribe: boolean | null } {
  const choice = (name: string) => ({ true: true, false: false })[given.get(name) ?? ''] ?? null
  return { track: { opens: choice('opens'), clicks: choice('clicks') }, unsubscribe: choice('unsubscribe') }
}

function sendersCard (visit: Visit, domain: Domain, directory: Directory): Html {
  const body = mayDo(visit.principal, 'keys:read')
    ? sendersIn(visit, domain, directory)
    : html`<p class="hint">The key you signed in with may not see keys.</p>`
  return html`<section class="card"><h2>Keys</h2>
<p class="hint">Keys that may send from this domain.</p>${body}</section>`
}

function sendersIn ({ account: { id: account }, nowMs }: Visit, { name: domain }: Domain, { keys }: Directory): Html {
  const found = [...keys.values()].filter(key =>
    key.account === account && isLive(key, nowMs) && mayDo(key, 'emails:send') && maySendFrom(key, domain, account)
  )
  if (found.length === 0) {
    return html`<p class="hint">None. <a href="/dashboard/keys">Create a key</a> with the scope <code>emails:send</code>
and this domain.</p>`
  }
  const newest = found.toSorted((a, b) => (a.id < b.id ? 1 : -1)).slice(0, KEYS_MAX)
  const shortened = html`<p class="hint">The newest ${KEYS_MAX} of ${number(found.length)}.</p>`
  return html`${found.length > KEYS_MAX && shortened}${
    table('Keys that may send from this domain', [
      { name: 'Key', kind: 'wide', cell: ({ id, name }) => html`<a href="/dashboard/keys/${id}">${name}</a>` },
      {
        name: 'Domains',
        cell: ({ domains }) => (domains.includes('*') ? 'all' : domains.slice(0, 5).join(', '))
      },
      { name: 'Expires', cell: ({ expiresMs }) => (expiresMs === null ? 'never' : time(new Date(expiresMs), nowMs)) }
    ], newest)
  }`
}

function deleteCard (visit: Visit, { id, name }: Domain): Html {
  const remove = actionButton(visit, 'Delete domain', {
    action: `/dashboard/domains/${id}/delete`,
    danger: true,
    confirmLabel: `Delete ${name}`,
    confirm: `Emails from ${name} will be refused, emails that wait to be sent fail, and its DKIM keys are deleted. ` +
      'If you add it again, it gets new keys and new records.'
  })
  return html`<section class="card"><h2>Delete</h2>
<p class="hint">Another account can then add the domain. Sent emails stay in the log.</p>${remove}</section>`
}
