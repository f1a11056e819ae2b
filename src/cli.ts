import { Complaint } from '#src/base/errors.ts'
import { type CliCommand, usageError, usageText } from '#src/cli/command.ts'
import { columnsOf, paint } from '#src/cli/style.ts'
import { didYouMean } from '#src/base/suggest.ts'
import { wrap } from '#src/cli/text.ts'

const LOOK_EVERY_MS = 500

/** Ends this process as SIGTERM does, within half a second after the process that started it has ended. For what npm
 *  starts: `npx` runs a shell that a signal ends and that does not pass it on. */
function endWithParent (): void {
  const parent = process.ppid
  const looking = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(looking)
    process.kill(process.pid, 'SIGTERM')
  }, LOOK_EVERY_MS)
  looking.unref()
}

import packageJson from '../package.json' with { type: 'json' }

/** No line of help is longer, however wide the terminal is. */
const HELP_COLUMNS = 110

interface Entry {
  /** What it does, in a line of the help. */
  does: string
  /** Each loads only what it needs: the whole of Jetpost takes longer to load than most of them to run. */
  load(): Promise<CliCommand>
}

/** Every command, in the groups of the help. */
const groups: Record<string, Record<string, Entry>> = {
  'Start and check': {
    start: {
      does: 'run the service: all of it, or the roles in JETPOST_ROLES',
      load: async () => (await import('#src/cli/start.ts')).start
    },
    doctor: {
      does: 'show the settings, and check what they point to',
      load: async () => (await import('#src/cli/doctor.ts')).doctor
    },
    bench: {
      does: 'measure how many emails a second a running service accepts and delivers',
      load: async () => (await import('#src/cli/bench.ts')).bench
    },
    dashboard: {
      does: 'print a link that signs you in to the dashboard once',
      load: async () => (await import('#src/cli/dashboard.ts')).dashboard
    },
    secret: {
      does: 'rotate JETPOST_SECRET: seal what is sealed with an older one again',
      load: async () => (await import('#src/cli/secret.ts')).secret
    }
  },
  'Mail': {
    send: { does: 'send an email through the API', load: async () => (await import('#src/cli/send.ts')).send },
    tail: {
      does: 'show what happens to emails, as it happens',
      load: async () => (await import('#src/cli/tail.ts')).tail
    },
    trace: {
      does: 'show all that happened to one email, and the webhooks it led to',
      load: async () => (await import('#src/cli/trace.ts')).trace
    },
    explain: {
      does: 'show what Jetpost makes of a bounce, a reply, an address …',
      load: async () => (await import('#src/cli/explain.ts')).explain
    }
  },
  'Accounts, keys, people, domains': {
    accounts: {
      does: 'list and create accounts',
      load: async () => (await import('#src/cli/accounts.ts')).accounts
    },
    keys: {
      does: 'list, create, rotate, limit and revoke API keys',
      load: async () => (await import('#src/cli/keys.ts')).keys
    },
    users: {
      does: 'list, add, change and remove people who sign in to the dashboard',
      load: async () => (await import('#src/cli/users.ts')).users
    },
    domains: {
      does: 'list, add, verify and remove sending domains, with their DNS records',
      load: async () => (await import('#src/cli/domains.ts')).domains
    },
    me: {
      does: 'show what the key in JETPOST_API_KEY may do',
      load: async () => (await import('#src/cli/me.ts')).me
    },
    'feedback-sources': {
      does: 'list, create, rotate and delete the URLs that relays report to',
      load: async () => (await import('#src/cli/feedback-sources.ts')).feedbackSources
    },
    suppressions: {
      does: 'import and export suppressed addresses, as CSV or NDJSON',
      load: async () => (await import('#src/cli/suppressions.ts')).suppressions
    },
    erase: {
      does: 'erase an address from the log and the projections',
      load: async () => (await import('#src/cli/erase.ts')).erase
    },
    erasures: { does: 'list erasures', load: async () => (await import('#src/cli/erase.ts')).erasures }
  },
  'Webhooks': {
    routes: {
      does: 'list, create, change and delete the ways of outgoing mail: relays, source addresses',
      load: async () => (await import('#src/cli/routes.ts')).routes
    },
    webhooks: {
      does: 'manage endpoints, show their deliveries, replay them',
      load: async () => (await import('#src/cli/webhooks.ts')).webhooks
    },
    replay: {
      does: 'post events of the past to any URL, to build a receiver',
      load: async () => (await import('#src/cli/replay.ts')).replay
    }
  },
  'Log and projections': {
    rebuild: {
      does: 'rebuild projections from the log',
      load: async () => (await import('#src/cli/rebuild.ts')).rebuild
    },
    verify: {
      does: 'verify the projections against the log, and the log itself',
      load: async () => (await import('#src/cli/verify.ts')).verify
    },
    migrate: {
      does: "build this version's projections ahead of its start",
      load: async () => (await import('#src/cli/migrate.ts')).migrate
    },
    backup: {
      does: 'copy the log into a folder while the service runs',
      load: async () => (await import('#src/cli/backup.ts')).backup
    },
    restore: {
      does: 'bring the log back from a backup',
      load: async () => (await import('#src/cli/restore.ts')).restore
    }
  }
}

const commands = new Map(Object.values(groups).flatMap(group => Object.entries(group)))

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
  if (name === '--help' || name === '-h' || name === 'help') return console.log(help())
  try {
    const entry = commands.get(name)
    if (entry === undefined) throw noCommand(name)
    const command = await entry.load()
    if (rest.includes('--help') || rest.includes('-h')) return console.log(helpOf(entry, command))
    await command.run(rest)
  } catch (error) {
    if (!(error instanceof Complaint)) throw error
    console.error(`${paint('red', 'jetpost:', process.stderr)} ${error.message}`)
    process.exitCode = usageError.is(error) ? 2 : 1
  }
}

function noCommand (name: string): Complaint {
  const hint = didYouMean(name, [...commands.keys()], known => `jetpost ${known}`) || ' See jetpost help.'
  return usageError(`There is no command ${JSON.stringify(name)}.${hint}`)
}

function helpOf ({ does }: Entry, { usage, details }: CliCommand): string {
  const columns = Math.min(columnsOf(process.stdout), HELP_COLUMNS)
  const sentence = `${does[0]!.toUpperCase()}${does.slice(1)}.`
  const text = [sentence, ...(details === undefined ? [] : [details])].join('\n\n')
  return [usageText(usage), '', ...text.split('\n').flatMap(line => wrap(line, columns))].join('\n')
}

function help (): string {
  const width = Math.max(...[...commands.keys()].map(name => name.length))
  const sections = Object.entries(groups).map(([title, group]) =>
    [
      paint('bold', title),
      ...Object.entries(group).map(([name, { does }]) => `  ${paint('cyan', name.padEnd(width))}  ${does}`)
    ].join('\n')
  )
  return [
    `Jetpost ${packageJson.version}: sends email, and tells what became of it.`,
    'usage: jetpost <command> [options]',
    ...sections,
    'jetpost <command> --help says more. Settings come from the environment: jetpost doctor --all shows them.'
  ].join('\n\n')
}
