import type { Actor } from '#streams/define.ts'
import type { Principal } from '#streams/directory.ts'
import type { Services } from '#src/actions/services.ts'
import type { Log } from '#src/base/log.ts'
import type { Reads } from '#src/postgres/reads.ts'
import type { CaughtMailbox } from '#src/operations/caught-mail.ts'
import type { OperationsService } from '#src/operations/operations.ts'
import type { Oidc } from './oidc.ts'
import type { Passkeys } from './passkeys.ts'

/** How people sign in beside keys and links; null = not in this installation. */
export interface SignInWays {
  oidc: Oidc | null
  passkeys: Passkeys | null
}

/** What the dashboard depends on. */
export interface DashboardContext {
  services: Services
  reads: Reads
  /** A fetch that this process answers from its API, with what `holder` may do. */
  fetchAs(holder: { principal: Principal, actor: Actor }, correlation: string): typeof fetch
  operations: OperationsService
  ways: SignInWays
  /** null = this process runs no mail catcher. */
  mailbox: CaughtMailbox | null
  /** Where clients reach Jetpost. */
  publicUrl: string
  log: Log
}
