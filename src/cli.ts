import { readConfig } from '#src/base/config.ts'
import { Complaint } from '#src/base/errors.ts'
import { accounts } from '#src/cli/accounts.ts'
import { doctor } from '#src/cli/doctor.ts'
import { domains } from '#src/cli/domains.ts'
import { keys } from '#src/cli/keys.ts'
import { send } from '#src/cli/send.ts'
import { start } from '#src/cli/start.ts'
import { tail } from '#src/cli/tail.ts'
import { trace } from '#src/cli/trace.ts'
import { takeNothing, usageError, type Command } from '#src/cli/command.ts'
import { migrate } from '#src/postgres/migrate.ts'
import packageJson from '../package.json' with { type: 'json' }

const commands: Record<string, Command> = {
  start,
  doctor,
  accounts,
  keys,
  domains,
  send,
  tail,
  trace,
  migrate: {
    usage: 'jetpost migrate',
    means: 'brings the PostgreSQL schema up to date (DATABASE_URL; the embedded one is migrated at every start)',
    async run (args) {
      takeNothing(args, 'jetpost migrate')
      const { databaseUrl } = readConfig(process.env)
      if (databaseUrl === null) throw new Complaint('Set DATABASE_URL: the embedded PostgreSQL is migrated by `jetpost start`.')
      await migrate(databaseUrl)
    }
  }
}

/** Runs one command line; the exit code is 0 when done, 1 when it could not be, 2 when it was not understood. */
export async function run (argv: string[]): Promise<void> {
  const [name = 'help', ...rest] = argv
  if (name === '--version' || name === 'version') return console.log(packageJson.version)
  if (name === '--help' || name === '-h' || name === 'help') return console.log(help())
  try {
    const command = Object.hasOwn(commands, name) ? commands[name] : undefined
    if (command === undefined) throw usageError(`There is no command ${JSON.stringify(name)}: see jetpost help.`)
    if (rest.includes('--help') || rest.includes('-h')) return console.log([command.usage, command.means, ...(command.details === undefined ? [] : [command.details])].join('\n\n'))
    await command.run(rest)
  } catch (error) {
    if (!(error instanceof Complaint)) throw error
    console.error(`jetpost: ${error.message}`)
    process.exitCode = usageError.is(error) ? 2 : 1
  }
  // A connection that was given up may still be trying.
  process.exit()
}

function help (): string {
  const lines = Object.values(commands).map(({ usage, means }) => `  ${usage}\n      ${means}`)
  return `Jetpost ${packageJson.version}: sends email, and tells what became of it.\n\n${lines.join('\n')}\n\nSettings come from the environment: jetpost doctor shows them.`
}
