import { audit } from '#projections/audit/project.ts'
import { listAudit, parseCursor, type AuditListOptions, type AuditRecord } from '#projections/audit/queries.ts'
import type { Reads } from '#src/postgres/reads.ts'
import { csvLine, EXPORT_PAGE_MAX, exportPages, type ExportFormat } from './export.ts'

const COLUMNS = [
  'id',
  'at',
  'actor_kind',
  'actor_id',
  'key_id',
  'actor_name',
  'ip',
  'action',
  'subject_id',
  'summary',
  'session_id'
]

/** The account's commands as the lines of a file, newest first. Resolves once the first page is there, with everything
 *  that the log held; the rest is read as it is taken. Throws ProjectionUnavailable, the lines too. */
export async function exportAudit (
  reads: Reads,
  wanted: Omit<AuditListOptions, 'limit' | 'cursor'>,
  format: ExportFormat
): Promise<AsyncGenerator<string, void, void>> {
  const pageAfter = (cursor: string | null) =>
    listAudit({ ...wanted, limit: EXPORT_PAGE_MAX, cursor: cursor === null ? null : parseCursor(cursor) })
  return format === 'csv'
    ? await exportPages(reads, wanted.account, audit, pageAfter, csvLine(COLUMNS), csvOf)
    : await exportPages(reads, wanted.account, audit, pageAfter, '', record => `${JSON.stringify(record)}\n`)
}

function csvOf ({ id, at, actor, action, subject_id: subject, summary }: AuditRecord): string {
  const { kind = null, id: by = null, key_id: key = null, session_id: session = null, name = null, ip = null } =
    actor ?? {}
  return csvLine([id, at, kind, by, key, name, ip, action, subject, summary, session].map(asText))
}

/** Names are chosen by those who are watched: a spreadsheet must not take one for a formula. Source: OWASP, "CSV
 *  Injection". */
function asText (value: string | null): string | null {
  return value !== null && /^[=+\-@\t\r]/.test(value) ? `'${value}` : value
}
