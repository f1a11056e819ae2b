import { readConfig } from '#src/base/config.ts'
import { Complaint } from '#src/base/errors.ts'
import { accounts } from '#src/cli/accounts.ts'
import { doctor } from '#src/cli/doctor.ts'
import { domains } from '#src/cli/domains.ts'
import { keys } from '#src/cli/keys.ts'
import { start } from '#src/cli/start.ts'
import { usageError, type Command } from '#src/cli/command.ts'
import { migrate } from '#src/postgres/migrate.ts'
import packageJson from '../package.json' with { type: 'json' }

const commands: Record<string, Command> = {
  start,
  doctor,
  accounts,
  keys,
  domains,
  migrate: {
    usage: 'jetpost migrate',
    means: 'brings the PostgreSQL schema up to date (DATABASE_URL; the embedded one is migrated at every start)',
    async run () {
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
    const command = commands[name]
    if (command === undefined) throw usageError(`There is no command ${JSON.stringify(name)}: see jetpost help.`)
    if (rest.includes('--help')) return console.log(`${command.usage}\n\n${command.means}`)
    await command.run(rest)
  } catch (error) {
    if (!(error instanceof Complaint)) throw error
    console.error(`jetpost: ${error.message}`)
    process.exitCode = usageError.is(error) ? 2 : 1
  }
}

function help (): string {
  const lines = Object.values(commands).map(({ usage, means }) => `  ${usage}\n      ${means}`)
  return `Jetpost ${packageJson.version}: sends email, and tells what became of it.\n\n${lines.join('\n')}\n\nSettings come from the environment: jetpost doctor shows them.`
}
