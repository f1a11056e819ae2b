import { REASONS } from '#streams/suppression/facts.ts'
import { EXPORT_FORMATS } from '#src/actions/export.ts'
import type { ImportSuppressionsAnswer } from '#src/client/client.ts'
import { misused, noVerb, readArgs, takeOnly, usageError, type CliCommand } from './command.ts'
import { bytesOf } from './input.ts'
import { print } from './table.ts'
import { withApi } from './with-api.ts'

const options = { format: { type: 'string' }, reason: { type: 'string' } } as const

type Values = ReturnType<typeof readArgs<typeof options>>['values']

/** What the API takes. */
const BYTES_MAX = 20 * 1024 * 1024
/** For 50,000 addresses, on a machine that is busy. */
const IMPORT_MS = 300_000
const LINES_SHOWN = 20

export const suppressions: CliCommand = {
  usage: `jetpost suppressions import <file> [--format csv|ndjson] [--reason <reason>] [--json]
jetpost suppressions export [--format csv|ndjson] [--reason <reason>]`,
  details: `  Uses JETPOST_PUBLIC_URL and JETPOST_API_KEY.
  import <file>  suppresses its addresses, at most 50,000; - is standard input. In CSV the first line names the
                 columns: address or email, and perhaps reason. In NDJSON each line is an object with them.
                 What is suppressed already stays, so it can be run again. Exit code 1 when a line was refused
  export         prints all of them, a line for each reason of an address
  --format       csv or ndjson. By default what the name of the file ends with, else csv
  --reason       import: the reason of all lines; export: only those with it. ${REASONS.join(', ')}`,
  async run (args) {
    const { positionals: [verb, ...more], values, given } = readArgs(args, options)
    if (verb === undefined) throw misused(suppressions)
    if (verb !== 'import' && verb !== 'export') throw noVerb(suppressions, 'suppressions', verb, ['import', 'export'])
    takeOnly(given, verb === 'import' ? ['format', 'reason', 'json'] : ['format', 'reason'], `suppressions ${verb}`)
    if (more.length !== (verb === 'import' ? 1 : 0)) throw misused(suppressions)
    await (verb === 'import' ? importFile(more[0]!, values) : exportAll(values))
  }
}

async function importFile (path: string, values: Values): Promise<void> {
  const format = formatIn(values) ?? (path.endsWith('.ndjson') || path.endsWith('.jsonl') ? 'ndjson' : 'csv')
  const contentType = format === 'csv' ? 'text/csv' : 'application/x-ndjson'
  const reason = reasonIn(values)
  const body = await bytesOf(path, BYTES_MAX)
  const report = await withApi(
    async jetpost => await jetpost.suppressions.import(body, { reason }, { contentType }),
    { timeoutMs: IMPORT_MS, deadlineMs: IMPORT_MS }
  )
  if (report.refused.length > 0) process.exitCode = 1
  if (values.json) return print([{ ...report }], true)
  show(report)
}

function show ({ lines, added, unchanged, refused }: ImportSuppressionsAnswer): void {
  print([{ lines, added, unchanged, refused: refused.length }], false)
  if (refused.length === 0) return
  console.log('')
  print(refused.slice(0, LINES_SHOWN), false)
  const left = refused.length - LINES_SHOWN
  if (left > 0) console.log(`… and ${left} more: --json shows all of them.`)
}

async function exportAll (values: Values): Promise<void> {
  const query = { format: formatIn(values), reason: reasonIn(values) }
  await withApi(async jetpost => {
    for await (const bytes of jetpost.suppressions.export(query)) {
      // What the reader does not take yet is not read either.
      if (!process.stdout.write(bytes)) await new Promise(resolve => process.stdout.once('drain', resolve))
    }
  })
}

function formatIn ({ format }: Values) {
  const known = EXPORT_FORMATS.find(name => name === format)
  if (format !== undefined && known === undefined) throw usageError('--format must be csv or ndjson.')
  return known
}

function reasonIn ({ reason }: Values) {
  const known = REASONS.find(name => name === reason)
  if (reason !== undefined && known === undefined) throw usageError(`--reason must be one of ${REASONS.join(', ')}.`)
  return known
}
