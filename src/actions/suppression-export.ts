import { suppressions } from '#projections/suppressions/project.ts'
import {
  listSuppressions,
  parseCursor,
  type SuppressionListOptions,
  type SuppressionRecord
} from '#projections/suppressions/queries.ts'
import type { Reads } from '#src/postgres/reads.ts'
import { csvLine, EXPORT_PAGE_MAX, exportPages, type ExportFormat } from './export.ts'

type Exported = Pick<SuppressionListOptions, 'account' | 'reason' | 'afterMs' | 'beforeMs'>

/** All suppressions of an account as the lines of a file, newest first: a line for each reason of an address, as an
 *  import reads them. Resolves once the first page is there, with everything that the log held; the rest is read as it
 *  is taken. Throws ProjectionUnavailable, the lines too. */
export async function exportSuppressions (
  reads: Reads,
  wanted: Exported,
  format: ExportFormat
): Promise<AsyncGenerator<string, void, void>> {
  const pageAfter = (cursor: string | null) =>
    listSuppressions({
      ...wanted,
      hash: null,
      limit: EXPORT_PAGE_MAX,
      cursor: cursor === null ? null : parseCursor(cursor)
    })
  const head = format === 'csv' ? csvLine(['address', 'reason', 'email_id', 'since']) : ''
  return await exportPages(
    reads,
    wanted.account,
    suppressions,
    pageAfter,
    head,
    record => record.reasons.map(reason => lineOf(record, reason, format)).join('')
  )
}

function lineOf (
  { address }: SuppressionRecord,
  { reason, email_id: email, since }: SuppressionRecord['reasons'][number],
  format: ExportFormat
): string {
  return format === 'csv'
    ? csvLine([address, reason, email, since])
    : `${JSON.stringify({ address, reason, email_id: email, since })}\n`
}
