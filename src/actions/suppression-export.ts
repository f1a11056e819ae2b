import { suppressions } from '#projections/suppressions/project.ts'
import {
  listSuppressions,
  parseCursor,
  type SuppressionListOptions,
  type SuppressionPage,
  type SuppressionRecord
} from '#projections/suppressions/queries.ts'
import { answerFrom, type Reads } from '#src/postgres/reads.ts'
import { ask } from '#src/postgres/query.ts'

export const EXPORT_FORMATS = ['csv', 'ndjson'] as const
export type ExportFormat = typeof EXPORT_FORMATS[number]

export const EXPORT_TYPES: Record<ExportFormat, string> = {
  csv: 'text/csv; charset=utf-8',
  ndjson: 'application/x-ndjson; charset=utf-8'
}

/** Rows of one query: some hundred kB. */
const PAGE_MAX = 1000

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
    listSuppressions({ ...wanted, hash: null, limit: PAGE_MAX, cursor: cursor === null ? null : parseCursor(cursor) })
  const first = await answerFrom(reads, suppressions, pageAfter(null))
  return linesOf(first, format, async cursor => await ask(reads.pool, pageAfter(cursor)))
}

async function* linesOf (
  first: SuppressionPage,
  format: ExportFormat,
  next: (cursor: string) => Promise<SuppressionPage>
): AsyncGenerator<string, void, void> {
  if (format === 'csv') yield csvLine(['address', 'reason', 'email_id', 'since'])
  for (let page = first;;) {
    const text = page.data.flatMap(record => record.reasons.map(reason => lineOf(record, reason, format))).join('')
    if (text !== '') yield text
    if (page.next_cursor === null) return
    page = await next(page.next_cursor)
  }
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

/** Source: RFC 4180. */
function csvLine (values: ReadonlyArray<string | null>): string {
  return `${values.map(value => quoted(value ?? '')).join(',')}\r\n`
}

function quoted (text: string): string {
  return /[",;\s]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
