import type { ConsumerPlan } from '#streams/topology.ts'
import type { MayCallPrivate, Services } from '#src/actions/services.ts'
import type { Clock } from '#src/base/clock.ts'
import type { Config } from '#src/base/config.ts'
import type { Log } from '#src/base/log.ts'
import type { Role } from '#src/base/role.ts'
import type { Bus } from '#src/nats/connect.ts'
import type { Counters, Quotas } from '#src/nats/counters.ts'
import type { EnsureOptions } from '#src/nats/ensure.ts'
import type { AlertKeeper } from '#src/operations/alerts/alerts.ts'
import type { Pool } from '#src/postgres/pool.ts'
import type { InboundServer } from '#src/servers/inbound-smtp/server.ts'
import type { MailboxDoor } from '#src/servers/mailbox/pages.ts'
import type { Catcher } from '#src/servers/mailbox/server.ts'
import type { Metrics } from '#src/servers/ops/metrics.ts'
import type { SubmissionServer } from '#src/servers/submission/server.ts'
import type { Projector } from '#src/workers/projector/projector.ts'
import type { Servers } from '#src/workers/projector/rebuild.ts'
import type { Sender, SenderTimings } from '#src/workers/sender/sender.ts'
import type { Workers } from './workers.ts'
import type { Assignment } from './workers-protocol.ts'

/** What an app needs beside its settings. */
export interface AppOptions {
  log: Log
  /** Called with each line on what the start is busy with, for an operator. */
  say(line: string): void
  /** Called with the first account's key when this start made it, before anything else can fail: nobody can read it
   *  later. */
  onFirstKey?(key: string): void
  /** Gives up a start that is not finished. */
  signal?: AbortSignal
  /** Of a second process, where the settings want one; left out = all roles run in this one. */
  environment?: NodeJS.ProcessEnv
  /** Takes each line of the second process's log; left out = it goes to stderr. */
  onWorkersLog?: (line: string) => void
  /** Servers that another process runs; left out = those of the settings, and embedded ones where they name none. */
  servers?: Assignment['servers']
  /** Time as actions see it; tests bring their own. */
  clock?: Clock
  /** Whose webhooks may go to http and private addresses; tests bring their own. */
  mayCallPrivate?: MayCallPrivate
  /** What tests shorten of the sender's patience. */
  timings?: Partial<SenderTimings>
}

/** What the parts of one process share. Whatever is started defers its stop to `stack`. */
export interface AppContext {
  readonly config: Config
  readonly log: Log
  readonly bus: Bus
  readonly pool: Pool
  readonly services: Services
  readonly topology: EnsureOptions
  readonly servers: Servers
  readonly timings: Partial<SenderTimings>
  readonly metrics: Metrics
  readonly stack: AsyncDisposableStack
  readonly counters: Counters
  readonly quotas: Quotas
  /** Recreates a consumer of this plan if the server has lost it; resolves to whether it had. */
  readonly repair: (plan: ConsumerPlan) => Promise<boolean>
  /** Makes the reconciler run at once, where this process has one. */
  reconcileSoon: () => void
  /** The second process, where this start made one. */
  workers: Workers | null
  catcher: Catcher | null
  /** null = mail that was caught is in the dashboard alone. */
  mailboxDoor: MailboxDoor | null
  inbound: InboundServer | null
  submission: SubmissionServer | null
  sender: Sender | null
  projectors: Projector[]
  alerts: AlertKeeper | null
  /** All that /readyz reports on, besides the servers. */
  roles: Array<Pick<Role, 'name' | 'unhealthyReason'>>
}
