import { parseArgs, type ParseArgsConfig } from 'node:util'
import { Complaint } from '#src/base/errors.ts'

export interface Command {
  usage: string
  means: string
  /** What --help adds. */
  details?: string
  run(args: string[]): Promise<void>
}

const usageErrors = new WeakSet<Complaint>()

/** A Complaint about the command line itself: exit code 2. */
export function usageError (message: string): Complaint {
  const complaint = new Complaint(message)
  usageErrors.add(complaint)
  return complaint
}
usageError.is = (error: Complaint): boolean => usageErrors.has(error)

/** For a command that is only its name. */
export function takeNothing (args: string[], usage: string): void {
  if (args.length > 0) throw usageError(`usage: ${usage}`)
}

/** node:util's parseArgs, with our kind of complaint; `given` = the options that are there, and not by default. Every
 *  command takes --json. */
export function readArgs<T extends NonNullable<ParseArgsConfig['options']>> (args: string[], options: T) {
  try {
    const { values, positionals, tokens } = parseArgs({
      args,
      options: { ...options, json: { type: 'boolean' as const, default: false } },
      allowPositionals: true,
      tokens: true
    })
    return { values, positionals, given: tokens.flatMap(token => (token.kind === 'option' ? [token.name] : [])) }
  } catch (error) {
    throw usageError((error as Error).message)
  }
}

/** Refuses what was given to a verb that does not take it: ignored, `--dry-run` would do what it was to prevent. */
export function takeOnly (given: readonly string[], takes: readonly string[], verb: string): void {
  const strange = given.find(option => !takes.includes(option))
  if (strange !== undefined) {
    throw usageError(
      `--${strange} is no option of ${verb}, which takes ${takes.map(option => `--${option}`).join(', ')}.`
    )
  }
}

/** Rows as JSON, or as columns a person can read. */
export function print (rows: Array<Record<string, unknown>>, json: boolean): void {
  if (json) return console.log(JSON.stringify(rows, null, 2))
  if (rows.length === 0) return console.log('(none)')
  const names = Object.keys(rows[0]!)
  const cells = [names, ...rows.map(row => names.map(name => String(row[name] ?? '')))]
  const widths = names.map((_name, i) => Math.max(...cells.map(row => row[i]!.length)))
  for (const row of cells) console.log(row.map((cell, i) => cell.padEnd(widths[i]!)).join('  ').trimEnd())
}
