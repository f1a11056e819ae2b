import { Type, type Static } from '@sinclair/typebox'
import type { FieldFault } from '#streams/define.ts'
import { AUDIT_ACTIONS } from '#projections/audit/actions.ts'
import { audit } from '#projections/audit/project.ts'
import { AuditPage, listAudit, parseCursor, type AuditListOptions } from '#projections/audit/queries.ts'
import { exportAudit } from '#src/actions/audit-export.ts'
import { EXPORT_FORMATS } from '#src/actions/export.ts'
import { parseTime } from '#src/base/clock.ts'
import { answerFrom, type Reads } from '#src/postgres/reads.ts'
import { schemaFaults, type Api } from './context.ts'
import { FaultList, invalid } from './errors.ts'
import { sendFile } from './export.ts'
import { ListQuery, readPage } from './pages.ts'
import { MUST_BE_TIME, textReader, timeText } from './params.ts'

const filters = {
  actor: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 200,
      description:
        "Done by this key, also in the dashboard's sessions opened with it; or by this user, session, operator or " +
        'role.'
    })
  ),
  action: Type.Optional(
    Type.Union(AUDIT_ACTIONS.map(action => Type.Literal(action)), {
      must: 'be an action, such as key.created',
      description: 'This action.'
    })
  ),
  from: Type.Optional(timeText('Done then or later.')),
  to: Type.Optional(timeText('Done before then.'))
}
const ListAuditQuery = Type.Object({ ...ListQuery.properties, ...filters }, { additionalProperties: false })
const ExportAuditQuery = Type.Object({
  format: Type.Optional(
    Type.Union(EXPORT_FORMATS.map(format => Type.Literal(format)), { description: '`csv` when left out.' })
  ),
  ...filters
}, { additionalProperties: false })

type Filters = Pick<Static<typeof ListAuditQuery>, keyof typeof filters>

const LIST_TEXT =
  'Who changed what in the account, newest first. All given filters must hold. Sending mail, and what ' +
  'follows from mail, is in the events and not here.'
const EXPORT_TEXT = 'The same as a file. The answer is streamed: one that breaks off is not complete. A client that ' +
  'reads nothing for a minute is disconnected.'

/** Who did what. */
export function auditRoutes (app: Api, reads: Reads): void {
  app.get('/audit', {
    config: { scope: 'audit:read' },
    schema: {
      operationId: 'listAudit',
      summary: 'List who changed what',
      description: LIST_TEXT,
      tags: ['Audit'],
      querystring: ListAuditQuery,
      response: { 200: AuditPage }
    },
    attachValidation: true
  }, async request => {
    const { faults, ...filters } = readFilters(request.query, schemaFaults(request))
    const { limit, before } = readPage(request, parseCursor, faults)
    const { account } = request.principal!
    return await answerFrom(reads, account, audit, listAudit({ account, ...filters, limit, cursor: before }))
  })

  app.get('/audit/export', {
    config: { scope: 'audit:read' },
    schema: {
      operationId: 'exportAudit',
      summary: 'Export who changed what',
      description: EXPORT_TEXT,
      tags: ['Audit'],
      querystring: ExportAuditQuery,
      produces: ['text/csv', 'application/x-ndjson']
    },
    attachValidation: true
  }, async (request, reply) => {
    const found = schemaFaults(request)
    const query = request.query as Static<typeof ExportAuditQuery>
    const { faults, ...filters } = readFilters(query, found)
    if (found.length + faults.length > 0) throw invalid([...found, ...faults])
    const { format = 'csv' } = query
    const lines = await exportAudit(reads, { account: request.principal!.account, ...filters }, format)
    return await sendFile(request, reply, { name: 'audit', format, lines })
  })
}

/** The filters of a query, and the faults of meaning in it where the schema has found none (`found`). */
function readFilters (
  query: Filters,
  found: FieldFault[]
): Pick<AuditListOptions, 'actor' | 'action' | 'fromMs' | 'toMs'> & { faults: FieldFault[] } {
  const faults = new FaultList(found)
  const read = textReader(query, faults)
  const fromMs = read('from', parseTime, 'invalid_value', MUST_BE_TIME)
  const toMs = read('to', parseTime, 'invalid_value', MUST_BE_TIME)
  return {
    actor: query.actor ?? null,
    action: query.action ?? null,
    fromMs,
    toMs,
    faults: faults.all.slice(found.length)
  }
}
