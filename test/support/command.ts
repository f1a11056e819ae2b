import { Complaint } from '#src/base/errors.ts'
import { usageError, type Command } from '#src/cli/command.ts'

export interface Ended { code: number, out: string, err: string }

let before: Promise<unknown> = Promise.resolve()

/** Runs a command of the shell in this process, where starting another would prove no more: what it printed, and the exit code of its process. One after the
 *  other: settings and the console are everybody's. For those that print by the console and end by themselves. */
export function runHere (command: Command, args: string[], env: Record<string, string>): Promise<Ended> {
  const run = before.then(async () => await runAlone(command, args, env))
  before = run.catch(() => {})
  return run
}

async function runAlone (command: Command, args: string[], env: Record<string, string>): Promise<Ended> {
  const { env: ownEnv } = process
  const { log: ownLog } = console
  let out = ''
  process.env = { PATH: ownEnv.PATH, ...env }
  console.log = text => { out += `${text}\n` }
  try {
    await command.run(args)
    return { code: 0, out, err: '' }
  } catch (error) {
    if (!(error instanceof Complaint)) throw error
    return { code: usageError.is(error) ? 2 : 1, out, err: `jetpost: ${error.message}\n` }
  } finally {
    process.env = ownEnv
    console.log = ownLog
  }
}
