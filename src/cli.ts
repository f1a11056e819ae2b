import { Complaint } from '#src/base/errors.ts'
import { usageError, type Command } from '#src/cli/command.ts'
import { endWithParent } from '#src/cli/parent.ts'
import packageJson from '../package.json' with { type: 'json' }

/** Each loads only what it needs: the whole of Jetpost takes longer to load than most of them to do. */
const commands: Record<string, () => Promise<Command>> = {
  start: async () => (await import('#src/cli/start.ts')).start,
  doctor: async () => (await import('#src/cli/doctor.ts')).doctor,
  accounts: async () => (await import('#src/cli/accounts.ts')).accounts,
  keys: async () => (await import('#src/cli/keys.ts')).keys,
  domains: async () => (await import('#src/cli/domains.ts')).domains,
  webhooks: async () => (await import('#src/cli/webhooks.ts')).webhooks,
  dashboard: async () => (await import('#src/cli/dashboard.ts')).dashboard,
  send: async () => (await import('#src/cli/send.ts')).send,
  tail: async () => (await import('#src/cli/tail.ts')).tail,
  trace: async () => (await import('#src/cli/trace.ts')).trace,
  replay: async () => (await import('#src/cli/replay.ts')).replay,
  erase: async () => (await import('#src/cli/erase.ts')).erase,
  erasures: async () => (await import('#src/cli/erase.ts')).erasures,
  explain: async () => (await import('#src/cli/explain.ts')).explain,
  backup: async () => (await import('#src/cli/backup.ts')).backup,
  restore: async () => (await import('#src/cli/restore.ts')).restore,
  rebuild: async () => (await import('#src/cli/rebuild.ts')).rebuild,
  verify: async () => (await import('#src/cli/verify.ts')).verify,
  migrate: async () => (await import('#src/cli/migrate.ts')).migrate
}

/** Runs one command line, and ends the process. */
export async function run (argv: string[]): Promise<void> {
  if (process.env.npm_lifecycle_event !== undefined) endWithParent()
  await execute(argv)
  // What was printed must be out before a connection that was given up, and may still be trying, is cut off.
  await new Promise<void>(resolve => process.stdout.write('', () => resolve()))
  process.exit()
}

/** Runs one command line; the exit code will be 0 when done, 1 when it could not be, 2 when it was not understood. */
export async function execute (argv: string[]): Promise<void> {
  const [name = 'help', ...rest] = argv
  if (name === '--version' || name === 'version') return console.log(packageJson.version)
  if (name === '--help' || name === '-h' || name === 'help') return console.log(await help())
  try {
    const load = Object.hasOwn(commands, name) ? commands[name] : undefined
    if (load === undefined) throw usageError(`There is no command ${JSON.stringify(name)}: see jetpost help.`)
    const command = await load()
    if (rest.includes('--help') || rest.includes('-h')) {
      return console.log(
        [command.usage, command.means, ...(command.details === undefined ? [] : [command.details])].join('\n\n')
      )
    }
    await command.run(rest)
  } catch (error) {
    if (!(error instanceof Complaint)) throw error
    console.error(`jetpost: ${error.message}`)
    process.exitCode = usageError.is(error) ? 2 : 1
  }
}

async function help (): Promise<string> {
  const all = await Promise.all(Object.values(commands).map(load => load()))
  const lines = all.map(({ usage, means }) => `  ${usage}\n      ${means}`)
  return `Jetpost ${packageJson.version}: sends email, and tells what became of it.\n\n${
    lines.join('\n')
  }\n\nSettings come from the environment: jetpost doctor shows them.`
}
