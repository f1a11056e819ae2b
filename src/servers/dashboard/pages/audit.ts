import { Readable } from 'node:stream'
import { AUDIT_ACTIONS } from '#projections/audit/actions.ts'
import { exportAudit } from '#src/actions/audit-export.ts'
import { EXPORT_TYPES } from '#src/actions/export.ts'
import { html, type Html } from '#src/base/html.ts'
import type { ListAuditAnswer, ListAuditQuery } from '#src/client/client.ts'
import {
  empty,
  faultBox,
  faultsIn,
  field,
  heading,
  NO_FAULTS,
  pager,
  select,
  table,
  time,
  type Faults
} from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { download } from '../download.ts'
import type { PageResult, Pages, Visit } from '../visit.ts'

type AuditRecord = ListAuditAnswer['data'][number]

const NOTHING: ListAuditAnswer = { data: [], has_more: false, next_cursor: null }

/** Who changed what: the list, and all of it as a file. */
export function auditPages (pages: Pages, { reads }: DashboardContext): void {
  pages.get('/audit', 'audit:read', async visit => {
    try {
      return pageResult(listPage(visit, await visit.api.audit.page(queryIn(visit)), NO_FAULTS))
    } catch (error) {
      return { ...pageResult(listPage(visit, NOTHING, faultsIn(error))), status: 422 }
    }
  })

  pages.get('/audit/export', 'audit:read', async visit => {
    const wanted = { account: visit.account.id, actor: null, action: null, fromMs: null, toMs: null }
    const lines = await exportAudit(reads, wanted, 'csv')
    return download(EXPORT_TYPES.csv, 'audit.csv', Readable.from(lines, { objectMode: false }))
  })
}

function pageResult (page: Html): Extract<PageResult, { page: Html }> {
  return { title: 'Audit', section: 'audit', page }
}

/** As the API takes it. */
function queryIn ({ query }: Visit): ListAuditQuery {
  return Object.fromEntries(['actor', 'action', 'cursor'].flatMap(name => {
    const value = query.get(name)?.trim() ?? ''
    return value === '' ? [] : [[name, value]]
  }))
}

const ACTIONS: Array<[string, string]> = [
  ['', 'All actions'],
  ...AUDIT_ACTIONS.map((action): [string, string] => [
    action,
    action
  ])
]

function listPage (visit: Visit, { data, next_cursor: next }: ListAuditAnswer, faults: Faults): Html {
  const { actor = '', action = '' } = queryIn(visit)
  const file = html`<a class="button" href="/dashboard/audit/export" download>Export CSV</a>`
  const filters = html`<form method="get" action="/dashboard/audit" class="filters" role="search">
${field({ name: 'actor', label: 'By', value: actor, placeholder: 'key_…, usr_…, ses_…, a role' }, faults)}
${select('action', 'Action', ACTIONS, action, html`data-submit`)}<button>Filter</button></form>`
  const list = data.length === 0
    ? empty(
      'Nothing found',
      'Changes of keys, domains, webhooks, templates, suppressions and settings are listed here.'
    )
    : table<AuditRecord>('Changes in the account', [
      { name: 'When', cell: ({ at }) => time(at, visit.nowMs) },
      { name: 'What', kind: 'wide', cell: ({ summary }) => summary },
      { name: 'By', cell: actorOf },
      { name: 'Address', cell: ({ actor }) => (actor?.ip == null ? none() : html`<code>${actor.ip}</code>`) }
    ], data)
  return html`${heading('Audit', file)}
<p class="hint">Who changed what in this account, by the API, this dashboard, the command line, or Jetpost itself.</p>
${faultBox(faults)}${filters}${list}${pager(visit, next)}`
}

const none = () => html`<span class="none">–</span>`

const KINDS = {
  key: 'API key',
  session: 'in the dashboard',
  user: 'person',
  operator: 'operator',
  role: 'Jetpost'
} as const

function actorOf ({ actor }: AuditRecord): Html {
  if (actor === null) return none()
  const { kind, id, name } = actor
  return html`<a href="/dashboard/audit?actor=${encodeURIComponent(actor.key_id ?? id)}">${name}</a>
<div class="hint">${KINDS[kind]}</div>`
}
