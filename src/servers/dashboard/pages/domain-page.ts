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

/** While something is awaited the page looks by itself. */
const REFRESH_S = 10
const KEYS_MAX = 25

export interface DomainPageOptions {
  directory: Directory
  /** Mail from a domain that is not verified is refused here. */
  isVerifiedRequired: boolean
  faults?: Faults
  status?: number
}

/** A domain as a badge: one that is verified and has begun to fail says so. */
export function statusBadge ({ status, failing_since: since }: Pick<Domain, 'status' | 'failing_since'>): Html {
  return status === 'verified' && since !== null ? badge('verified, failing', 'warn') : badge(status)
}

/** Everything about one domain: what to publish, how it stands, what mail from it does, who sends from it. */
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
<p class="hint">Many providers add the name of their zone by themselves: give them the short name for the zone that your DNS lies in.</p>
${records.map(record => recordCard(record, name, visit.nowMs))}</div>
<section class="card"><h2>As a zone file</h2><p class="hint">For providers that take whole files, or a name server of your own.</p>
${codeBlock(zoneFile(records), 'Zone file')}</section>
${rotationCard(visit, domain)}
${defaultsCard(visit, domain)}
${sendersCard(visit, domain, options.directory)}
${deleteCard(visit, domain)}`
  return { title: name, section: 'domains', page, status: options.status ?? 200 }
}

/** Where somebody has asked for a look: what was not right then. */
function checkedBox ({ query }: Visit, domain: Domain): Html | null {
  const trouble = query.has('checked') ? problemsOf(domain) : null
  return trouble === null ? null : html`<p class="box warn" role="status">Checked. Not right yet: ${trouble}.</p>`
}

function statusCard ({ nowMs }: Visit, domain: Domain, { isVerifiedRequired }: DomainPageOptions): Html {
  return html`<section class="card" aria-label="Status">${
    detailList([
      ['Status', statusBadge(domain)],
      ['Needed', problemsOf(domain) ?? 'Nothing'],
      ['Last news from DNS', time(domain.checked_at, nowMs)]
    ])
  }<p class="hint">${advice(domain, isVerifiedRequired, nowMs)}</p></section>`
}

const SENT_ANYWAY =
  'This installation sends mail from it all the same, but receivers cannot tell that it is yours, and are likely to take it for spam.'

function advice (domain: Domain, isVerifiedRequired: boolean, nowMs: number): Html {
  if (domain.status === 'failed') {
    return html`The required records have been wrong for three days. ${
      isVerifiedRequired ? 'Mail from it is refused until they are right again.' : SENT_ANYWAY
    }
Jetpost looks once a day; Check now looks at once.`
  }
  if (domain.status === 'pending') {
    return html`Publish the records below where your DNS is kept. Jetpost looks each minute at first, then less and less often, at least once an hour; the domain is
verified as soon as DNS shows what is required. ${
      isVerifiedRequired ? 'Until then mail from it is refused.' : SENT_ANYWAY
    }`
  }
  if (domain.failing_since !== null) {
    return html`A required record has been wrong since ${
      time(domain.failing_since, nowMs)
    }. Mail still goes out; after 72 hours the domain fails.`
  }
  return html`DNS shows what is required. Jetpost looks again twice to four times a day.`
}

function rotationCard (visit: Visit, { id, records }: Domain): Html {
  const stages = new Set(records.map(({ stage }) => stage))
  const start = actionButton(visit, 'Make new keys', {
    action: `/dashboard/domains/${id}/rotate`,
    confirmLabel: 'Make new keys',
    confirm:
      'New DKIM keys are made, and their records are to be published. Mail is signed with the present keys until DNS shows the new ones.'
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
    return html`<p>New keys wait for their records: publish those that are marked as new above. They sign from the first look that shows the RSA one, and the old
records are to stay for 7 days more.</p>`
  }
  const until = records.find(({ stage }) => stage === 'previous')?.removable_at
  if (until != null) {
    return html`<p>The new keys sign. Keep the records of the old ones until ${
      time(until, nowMs)
    }: mail that is on its way is checked with them.</p>`
  }
  return html`<p>Two keys sign, RSA for every receiver and Ed25519 where its record is seen. To replace them, new ones are made, you publish their records, and they
take over when DNS shows them. No mail goes out unsigned meanwhile.</p>`
}

/** As a select has it: '' = the domain says nothing. */
const choiceOf = (value: boolean | null): string => (value === null ? '' : String(value))

const DEFAULTS: Array<[name: string, label: string, of: (domain: Domain) => boolean | null]> = [
  ['opens', 'Track opens', ({ track }) => track.opens],
  ['clicks', 'Track clicks', ({ track }) => track.clicks],
  ['unsubscribe', 'Unsubscribe headers', ({ unsubscribe }) => unsubscribe]
]

function defaultsCard (visit: Visit, domain: Domain): Html {
  const options: Array<[string, string]> = [['', 'As usual: on'], ['true', 'On'], ['false', 'Off']]
  return html`<section class="card"><h2>Defaults</h2><p class="hint">For mail from this domain that does not say it itself, and whose key does not.</p>
${
    form(
      visit,
      { action: `/dashboard/domains/${domain.id}/defaults`, class: 'fields' },
      html`<div class="columns">
${
        DEFAULTS.map(([name, label, of]) => select(name, label, options, choiceOf(of(domain))))
      }</div><div class="actions"><button>Save</button></div>`
    )
  }</section>`
}

/** What the form of the defaults says. */
export function defaultsIn (
  given: URLSearchParams
): { track: { opens: boolean | null, clicks: boolean | null }, unsubscribe: boolean | null } {
  const choice = (name: string) => ({ true: true, false: false })[given.get(name) ?? ''] ?? null
  return { track: { opens: choice('opens'), clicks: choice('clicks') }, unsubscribe: choice('unsubscribe') }
}

function sendersCard (visit: Visit, domain: Domain, directory: Directory): Html {
  const body = mayDo(visit.key, 'keys:read')
    ? sendersIn(visit, domain, directory)
    : html`<p class="hint">The key you signed in with may not see keys.</p>`
  return html`<section class="card"><h2>Who may send from it</h2>${body}</section>`
}

function sendersIn ({ account: { id: account }, nowMs }: Visit, { name: domain }: Domain, { keys }: Directory): Html {
  const found = [...keys.values()].filter(key =>
    key.account === account && isLive(key, nowMs) && mayDo(key, 'emails:send') && maySendFrom(key, domain, account)
  )
  if (found.length === 0) {
    return html`<p class="hint">No key may: <a href="/dashboard/keys">make one</a> that has the scope <code>emails:send</code> and this domain.</p>`
  }
  const newest = found.toSorted((a, b) => (a.id < b.id ? 1 : -1)).slice(0, KEYS_MAX)
  return html`${
    found.length > KEYS_MAX && html`<p class="hint">${number(found.length)} keys; the newest ${KEYS_MAX}.</p>`
  }${
    table('Keys that may send from this domain', [
      { name: 'Key', kind: 'wide', cell: ({ id, name }) => html`<a href="/dashboard/keys/${id}">${name}</a>` },
      {
        name: 'Domains',
        cell: ({ domains }) => (domains.includes('*') ? 'every domain' : domains.slice(0, 5).join(', '))
      },
      { name: 'Expires', cell: ({ expiresMs }) => (expiresMs === null ? 'never' : time(new Date(expiresMs), nowMs)) }
    ], newest)
  }`
}

function deleteCard (visit: Visit, { id, name }: Domain): Html {
  const remove = actionButton(visit, 'Delete the domain', {
    action: `/dashboard/domains/${id}/delete`,
    danger: true,
    confirmLabel: `Delete ${name}`,
    confirm:
      `Mail from ${name} is refused from then on, what is still to be sent from it fails, and its DKIM keys are gone: adding it again makes new ones, with new records.`
  })
  return html`<section class="card"><h2>Delete</h2><p class="hint">Another account could then add the name. What was sent stays in the log.</p>${remove}</section>`
}
