import { parseArgs, type ParseArgsConfig } from 'node:util'
import { Complaint, errorCode } from '#src/base/errors.ts'
import { didYouMean } from '#src/base/suggest.ts'

export interface CliCommand {
  /** Each form it takes, a line each. */
  usage: string
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

/** `usage: jetpost …`, the forms of it under each other. */
export function usageText (usage: string): string {
  return `usage: ${usage.replaceAll('\n', '\n       ')}`
}

/** The complaint about a command line that is none of the forms. */
export function misused ({ usage }: Pick<CliCommand, 'usage'>): Complaint {
  return usageError(usageText(usage))
}

/** The same where the first word is none of its verbs. */
export function noVerb (command: Pick<CliCommand, 'usage'>, name: string, verb: string, verbs: Iterable<string>) {
  const hint = didYouMean(verb, [...verbs], known => `jetpost ${name} ${known}`)
  return hint === '' ? misused(command) : usageError(`There is no ${name} ${verb}.${hint}`)
}

/** For a command that is only its name. */
export function takeNothing (args: string[], command: Pick<CliCommand, 'usage'>): void {
  if (args.length > 0) throw misused(command)
}

/** node:util's parseArgs, with our kind of complaint; `given` = the options that are there, and not by default. Every
 *  command takes --json. */
export function readArgs<T extends NonNullable<ParseArgsConfig['options']>> (args: string[], options: T) {
  const all = { ...options, json: { type: 'boolean' as const, default: false } }
  try {
    const { values, positionals, tokens } = parseArgs({ args, options: all, allowPositionals: true, tokens: true })
    return { values, positionals, given: tokens.flatMap(token => (token.kind === 'option' ? [token.name] : [])) }
  } catch (error) {
    throw usageError(argsFault(error as Error, Object.keys(all)))
  }
}

/** Node's own words, but for an option that is none. */
function argsFault (error: Error, names: string[]): string {
  const [, dashes, name] = /'(--?)([^']+)'/.exec(error.message) ?? []
  if (errorCode(error) !== 'ERR_PARSE_ARGS_UNKNOWN_OPTION' || name === undefined) return error.message
  return `There is no option ${dashes}${name}.${didYouMean(name, names, known => `--${known}`) || ' See --help.'}`
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
