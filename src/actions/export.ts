import type { Projection, Query } from '#projections/define.ts'
import { answerFrom, askInTurn, type Reads } from '#src/postgres/reads.ts'

export const EXPORT_FORMATS = ['csv', 'ndjson'] as const
export type ExportFormat = typeof EXPORT_FORMATS[number]

export const EXPORT_TYPES: Record<ExportFormat, string> = {
  csv: 'text/csv; charset=utf-8',
  ndjson: 'application/x-ndjson; charset=utf-8'
}

/** Rows of one query: some hundred kB. */
export const EXPORT_PAGE_MAX = 1000

interface ExportPage<Item> {
  data: Item[]
  next_cursor: string | null
}

/** A whole list of an account as the text of a file, behind `head`. Resolves once the first page is there, with
 *  everything that the log held; the rest is read as it is taken. Throws ProjectionUnavailable, the pieces too. */
export async function exportPages<Item> (
  reads: Reads,
  account: string,
  projection: Projection,
  pageAfter: (cursor: string | null) => Query<ExportPage<Item>>,
  head: string,
  textOf: (item: Item) => string
): Promise<AsyncGenerator<string, void, void>> {
  const first = await answerFrom(reads, account, projection, pageAfter(null))
  return piecesOf(first, head, textOf, async cursor => await askInTurn(reads, account, pageAfter(cursor)))
}

async function* piecesOf<Item> (
  first: ExportPage<Item>,
  head: string,
  textOf: (item: Item) => string,
  next: (cursor: string) => Promise<ExportPage<Item>>
): AsyncGenerator<string, void, void> {
  if (head !== '') yield head
  for (let page = first;;) {
    const text = page.data.map(textOf).join('')
    if (text !== '') yield text
    if (page.next_cursor === null) return
    page = await next(page.next_cursor)
  }
}

/** Source: RFC 4180. */
export function csvLine (values: ReadonlyArray<string | null>): string {
  return `${values.map(value => quoted(value ?? '')).join(',')}\r\n`
}

function quoted (text: string): string {
  return /[",;\s]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
