import { roleActor } from '#src/actions/fact-log.ts'
import { firstStart } from '#src/actions/first-start.ts'
import { LINK_PATH, mintLink, operatorsKey } from '#src/actions/session.ts'
import type { AppContext, AppOptions } from '#src/app/context.ts'
import { listen, refuseTakenPort } from '#src/app/listen.ts'
import { duringElections, openContext } from '#src/app/open-context.ts'
import { openCatcher, startRoles } from '#src/app/roles.ts'
import { openSubmission } from '#src/app/submission.ts'
import { Workers } from '#src/app/workers.ts'
import { hasDashboard, type Config } from '#src/base/config.ts'
import type { RoleName } from '#src/base/config-types.ts'
import type { Bus } from '#src/nats/connect.ts'
import { MAILBOX_LINK_PATH } from '#src/servers/mailbox/pages.ts'

/** A running Jetpost process. */
export interface App {
  /** Where its HTTP server listens. */
  url: string
  /** Port of the inbound listener; null = there is none. */
  inboundPort: number | null
  /** Ports of SMTP submission, with STARTTLS and with TLS from the start; null = there is none. */
  submissionPort: number | null
  submissionTlsPort: number | null
  /** The first account's key when this start made it: shown once, nowhere else to be had. */
  firstKey: string | null
  /** A link into the dashboard, below `url`, that works once within 15 minutes; null where there is no dashboard, or no
   *  key for it. Throws LogUnavailable. */
  mintSignInPath(): Promise<string | null>
  /** A link into the mailbox, below `url`, that works once; null where the mailbox is in the dashboard alone. */
  mintMailboxPath(): string | null
  /** Its connection to NATS, for code that follows the log beside it. */
  bus: Bus
  /** Ids of the secrets it seals and opens with, newest first. */
  keyIds: readonly string[]
  /** Whether this process has folded sequence `seq` of CONTROL. */
  hasSeen(seq: number): Promise<boolean>
  /** Takes nothing new, finishes what it holds, stops everything it started. Safe to call twice. */
  stop(): Promise<void>
}

/** Starts the roles that the settings name, in order; when a later step fails, what was started is stopped again. */
export async function startApp (config: Config, options: AppOptions): Promise<App> {
  const stack = new AsyncDisposableStack()
  try {
    await refuseTakenPort(config)
    const workers = launchWorkers(config, options)
    stack.defer(() => workers?.kill())
    const context = await openContext(config, options, stack)
    const firstKey = await duringElections(() => firstStart(context.services, config))
    // At once, whatever becomes of the rest of this start.
    if (firstKey !== null) options.onFirstKey?.(firstKey)
    if (workers === null) await startRoles(context)
    else await startWorkers(context, workers)
    await openSubmission(context)
    return appOf(context, await listen(context), firstKey)
  } catch (error) {
    await stack.disposeAsync()
    throw error
  }
}

/** Roles that take mail in: what they answer does not wait for what other roles do. */
const FRONT: ReadonlySet<RoleName> = new Set(['api', 'submission'])

/** A process for the roles other than those in front, where the settings want one; it loads its code while the servers
 *  start. */
function launchWorkers (config: Config, { environment, onWorkersLog, log }: AppOptions): Workers | null {
  if (environment === undefined || config.processes === 1) return null
  if (!config.roles.has('api') || [...config.roles].every(role => FRONT.has(role))) return null
  return new Workers({ environment, log, onLogLine: onWorkersLog })
}

async function startWorkers (context: AppContext, workers: Workers): Promise<void> {
  const { config, servers: { natsUrl, databaseUrl }, log, stack } = context
  const roles = new Set([...config.roles].filter(role => !FRONT.has(role)))
  const catcherUrl = config.roles.has('sender') ? (await openCatcher(context)).url : null
  stack.defer(() => workers.stop())
  await workers.start({ config: { ...config, roles }, servers: { natsUrl, databaseUrl }, catcherUrl })
  context.workers = workers
  log.info(
    { api: process.pid, workers: workers.pid, roles: [...roles] },
    'two processes: api and submission here, the other roles beside it'
  )
}

function appOf (context: AppContext, url: string, firstKey: string | null): App {
  const { config, services, bus, inbound, submission, workers, mailboxDoor, stack } = context
  const signsIn = config.roles.has('api') && hasDashboard(config)
  let stopping: Promise<void> | null = null
  return {
    url,
    inboundPort: workers?.inboundPort ?? inbound?.port ?? null,
    submissionPort: submission?.port ?? null,
    submissionTlsPort: submission?.tlsPort ?? null,
    firstKey,
    async mintSignInPath () {
      const key = signsIn ? operatorsKey(services) : null
      return key === null
        ? null
        : LINK_PATH + (await mintLink(services, { correlation: 'start', actor: roleActor('start') }, key)).token
    },
    mintMailboxPath: () => (mailboxDoor === null ? null : MAILBOX_LINK_PATH + mailboxDoor.mintToken()),
    bus,
    keyIds: services.vault.keyIds,
    hasSeen: seq => services.directory.reached(seq, 0),
    stop: () => (stopping ??= stack.disposeAsync())
  }
}
