import { pipeline } from 'node:stream/promises'
import { CsvError, parse, type Info } from 'csv-parse'
import { parseAddress } from '#streams/address.ts'
import { errorCode } from '#src/base/errors.ts'
import { BIG_BODY_BYTES_MAX } from './body-budget.ts'
import { bodyTooLarge, cutShort, invalid, malformedText, mustFault } from './errors.ts'

/** What an upload of addresses may be. */
export const UPLOAD_TYPES = ['text/csv', 'application/x-ndjson'] as const
export type UploadType = typeof UPLOAD_TYPES[number]

export const LINES_MAX = 50_000
/** As for every other body. */
/** An address has at most 320; other columns are not read. */
const LINE_CHARS_MAX = 10_000

/** One line of an upload, counted from 1. */
export interface UploadLine {
  line: number
  address: string
  /** null = it says none. */
  reason: string | null
}

/** A line that cannot be read. */
export interface UnreadLine {
  line: number
  code: string
  message: string
}

/** Reads the lines of an upload as it arrives, all of it before anything is done. Throws 400 for what is not UTF-8 or
 *  breaks off, 413 beyond 20 MB, and 422 beyond 50,000 lines, for what is not CSV, and where no column is the address.
 */
export async function readUpload (
  body: AsyncIterable<Buffer>,
  type: UploadType
): Promise<Array<UploadLine | UnreadLine>> {
  return await (type === 'text/csv' ? readCsv : readNdjson)(textOf(body))
}

async function* textOf (body: AsyncIterable<Buffer>): AsyncGenerator<string, void, void> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let bytes = 0
  for await (const chunk of whole(body)) {
    bytes += chunk.length
    if (bytes > BIG_BODY_BYTES_MAX) throw bodyTooLarge(BIG_BODY_BYTES_MAX)
    yield decode(decoder, chunk)
  }
  yield decode(decoder)
}

/** A client that goes away in the middle is no fault of ours. */
async function* whole (body: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void, void> {
  try {
    yield* body
  } catch (error) {
    throw errorCode(error) === 'ECONNRESET' ? cutShort() : error
  }
}

function decode (decoder: InstanceType<typeof TextDecoder>, chunk?: Buffer): string {
  try {
    return chunk === undefined ? decoder.decode() : decoder.decode(chunk, { stream: true })
  } catch {
    throw malformedText()
  }
}

interface CsvRecord {
  info: Info
  record: string[]
}

/** Comma, semicolon or tab: what spreadsheets write differs by country. */
const CSV = {
  delimiter: [',', ';', '\t'],
  relax_column_count: true,
  skip_empty_lines: true,
  trim: true,
  info: true,
  max_record_size: LINE_CHARS_MAX
}

async function readCsv (text: AsyncGenerator<string, void, void>): Promise<UploadLine[]> {
  const lines: UploadLine[] = []
  let columns: Columns | null = null
  try {
    await pipeline(text, parse(CSV), async (records: AsyncIterable<CsvRecord>) => {
      for await (const { record, info } of records) {
        if (columns === null) {
          columns = columnsOf(record)
          if (columns.isNamed) continue
        }
        const reason = columns.reason === null ? null : record[columns.reason] || null
        push(lines, { line: info.lines, address: record[columns.address] ?? '', reason })
      }
    })
  } catch (error) {
    if (!(error instanceof CsvError)) throw error
    const { lines: line = 1 } = error as { lines?: number }
    throw invalid([mustFault('body', 'invalid_csv', `be valid CSV: line ${line} cannot be read`)])
  }
  return lines
}

interface Columns {
  /** The first line names them. */
  isNamed: boolean
  address: number
  reason: number | null
}

/** The columns that the first line names, or the first two of a list without names. */
function columnsOf (first: string[]): Columns {
  const names = first.map(name => name.toLowerCase().replaceAll(/[\s_-]+/g, ' '))
  const address = names.findIndex(name => /^(address|e ?mail|e ?mail address|recipient)$/.test(name))
  if (address !== -1) {
    const reason = names.indexOf('reason')
    return { isNamed: true, address, reason: reason === -1 ? null : reason }
  }
  if (parseAddress(first[0] ?? '') !== null) return { isNamed: false, address: 0, reason: 1 }
  const must = 'begin with a line that names a column address or email, or with an address'
  throw invalid([mustFault('body', 'no_address_column', must)])
}

async function readNdjson (text: AsyncGenerator<string, void, void>): Promise<Array<UploadLine | UnreadLine>> {
  const lines: Array<UploadLine | UnreadLine> = []
  let line = 0
  let rest = ''
  const read = (json: string) => {
    line++
    if (json.trim() !== '') push(lines, objectIn(json, line))
  }
  for await (const piece of text) {
    const parts = (rest + piece).split('\n')
    rest = parts.pop()!
    for (const json of parts) read(json)
    if (rest.length > LINE_CHARS_MAX) {
      throw invalid([mustFault('body', 'too_long', `have at most ${LINE_CHARS_MAX} characters in line ${line + 1}`)])
    }
  }
  read(rest)
  return lines
}

function objectIn (json: string, line: number): UploadLine | UnreadLine {
  const { address, reason = null } = Object(parsed(json)) as { address?: unknown, reason?: unknown }
  if (typeof address !== 'string' || (typeof reason !== 'string' && reason !== null)) {
    const message = 'line must be a JSON object with an address, and perhaps a reason, which are strings.'
    return { line, code: 'invalid_json', message }
  }
  return { line, address: address.trim(), reason: reason?.trim() || null }
}

function parsed (json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return null
  }
}

function push<T> (lines: T[], line: T): void {
  if (lines.length === LINES_MAX) {
    throw invalid([mustFault('body', 'too_many', `have at most ${LINES_MAX} addresses`)])
  }
  lines.push(line)
}
