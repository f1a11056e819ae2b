import { Type, type Static } from '@sinclair/typebox'
import type { Projection } from '#projections/define.ts'
import { EmailPage, EmailRecord, EventFilter, getEmail, listEmails, parseCursor, type EmailFilters } from '#projections/emails/queries.ts'
import { EmailStatus } from '#projections/emails/status.ts'
import { asError, deadline } from '#src/base/errors.ts'
import type { View } from '#src/postgres/checkpoint.ts'
import { isUnavailable, type Pool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/run.ts'
import type { Query } from '#projections/define.ts'
import type { Api } from './context.ts'
import { invalid, notFound, unavailable, type Fault } from './errors.ts'
import { compileValidator } from './faults.ts'
import { limitOfQuery, ListQuery } from './pages.ts'

/** What reads need: the view's rows, and a way to wait until they show what the log holds. */
export interface Reads {
  pool: Pool
  view: View
  projection: Projection
}

const RFC3339 = '^\\d{4}-\\d\\d-\\d\\d[Tt]\\d\\d:\\d\\d:\\d\\d(\\.\\d{1,9})?([Zz]|[+-]\\d\\d:\\d\\d)$'
const Time = (name: string) => Type.Optional(Type.String({ pattern: RFC3339, description: `${name} is a time like 2026-11-21T12:00:00Z.` }))
const Text = (name: string, max: number) => Type.Optional(Type.String({ minLength: 1, maxLength: max, description: `${name} has 1 to ${max} characters.` }))

/** What GET /api/emails may be asked; `metadata[name]` stands beside these. */
const ListEmailsQuery = Type.Composite([ListQuery, Type.Object({
  status: Type.Optional(Type.Union(EmailStatus.anyOf, { description: 'status is one of the states of an email.' })),
  to: Text('to', 320),
  from: Text('from', 320),
  domain: Text('domain', 253),
  tag: Text('tag', 128),
  created_after: Time('created_after'),
  created_before: Time('created_before'),
  event: Type.Optional(Type.Union(EventFilter.anyOf, { description: 'event is one of the event types.' })),
  q: Text('q', 200)
})], { additionalProperties: false })
type ListEmailsQuery = Static<typeof ListEmailsQuery>

const checkQuery = compileValidator(ListEmailsQuery)
const METADATA_FILTERS_MAX = 5
/** How long a read waits for its view to show what was written before it came; the end of it is left for the view's own answer. */
const VIEW_TIMEOUT_MS = 2000
const VIEW_ANSWER_MS = 200
const EMAIL_ID = /^em_[0-9a-z]{1,64}$/

export function readRoutes (app: Api, reads: Reads): void {
  app.get('/emails', {
    config: { scope: 'emails:read' },
    schema: { response: { 200: EmailPage } }
  }, async request => {
    const { query, filters } = readQuery(request.query as Record<string, unknown>)
    const cursor = query.cursor === undefined ? null : parseCursor(query.cursor)
    if (query.cursor !== undefined && cursor === null) {
      throw invalid([{ field: 'cursor', code: 'invalid_cursor', message: 'cursor is not a next_cursor of this list.' }])
    }
    return await answerFrom(reads, listEmails({ account: request.key!.account, filters, limit: limitOfQuery(query), cursor }))
  })

  app.get('/emails/:id', {
    config: { scope: 'emails:read' },
    schema: { params: Type.Object({ id: Type.String() }), response: { 200: EmailRecord } }
  }, async request => {
    if (!EMAIL_ID.test(request.params.id)) throw notFound()
    const email = await answerFrom(reads, getEmail({ account: request.key!.account, id: request.params.id }))
    if (email === null) throw notFound()
    return email
  })
}

/** The answer once the view has everything the log held when the request came; else 503, never a stale answer. */
async function answerFrom<T> (reads: Reads, query: Query<T>): Promise<T> {
  try {
    if (!await isCaughtUp(reads)) throw unavailable('projection_behind', 'The view is behind the log')
    return await ask(reads.pool, query)
  } catch (error) {
    if (isUnavailable(error) || asError(error).message === SILENT) throw unavailable('view_unavailable', 'The view cannot be read now')
    throw error
  }
}

const SILENT = 'PostgreSQL says nothing'

/** Rejects with SILENT rather than wait for as long as a statement may take, three times what a reader is promised. */
async function isCaughtUp ({ view, projection }: Reads): Promise<boolean> {
  return await deadline(view.caughtUp(projection, VIEW_TIMEOUT_MS - VIEW_ANSWER_MS), VIEW_TIMEOUT_MS, SILENT)
}

function readQuery (given: Record<string, unknown>): { query: ListEmailsQuery, filters: EmailFilters } {
  const rest: Record<string, unknown> = {}
  const metadata: Record<string, string> = {}
  const faults: Fault[] = []
  for (const [name, value] of Object.entries(given)) {
    const key = /^metadata\[([^\]]{1,200})\]$/.exec(name)?.[1]
    if (key === undefined) rest[name] = value
    else if (typeof value === 'string' && !value.includes('\0') && !key.includes('\0')) metadata[key] = value
    else faults.push({ field: name, code: 'invalid_value', message: `${name} is given once, as text.` })
  }
  const checked = checkQuery(rest)
  if ('error' in checked) faults.push(...checked.error.faults)
  else faults.push(...meaningFaults(checked.value as ListEmailsQuery))
  if (Object.keys(metadata).length > METADATA_FILTERS_MAX) {
    faults.push({ field: 'metadata', code: 'too_many', message: `At most ${METADATA_FILTERS_MAX} metadata filters.` })
  }
  if (faults.length > 0) throw invalid(faults)
  const { limit: _limit, cursor: _cursor, ...filters } = rest as ListEmailsQuery
  return { query: rest as ListEmailsQuery, filters: Object.keys(metadata).length === 0 ? filters : { ...filters, metadata } }
}

/** What fits the schema and still means nothing: a 31st of February, a NUL. */
function meaningFaults (query: ListEmailsQuery): Fault[] {
  const faults: Fault[] = []
  for (const [field, value] of Object.entries(query)) {
    if (field.startsWith('created_') && Number.isNaN(Date.parse(value))) faults.push({ field, code: 'invalid_value', message: `${field} is no time.` })
    if (value.includes('\0')) faults.push({ field, code: 'invalid_characters', message: `${field} holds NUL.` })
  }
  return faults
}
