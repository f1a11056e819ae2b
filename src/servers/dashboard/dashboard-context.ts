import type { KeyEntry } from '#streams/directory.ts'
import type { Services } from '#src/actions/services.ts'
import type { Log } from '#src/base/log.ts'
import type { Reads } from '#src/postgres/reads.ts'
import type { CaughtMailbox } from '#src/operations/caught-mail.ts'
import type { Operations } from '#src/operations/operations.ts'

/** What the dashboard stands on. */
export interface DashboardContext {
  services: Services
  reads: Reads
  /** The API as somebody, asked from within this process. */
  fetchAs(key: KeyEntry, correlation: string): typeof fetch
  operations: Operations
  /** null = this process catches no mail. */
  mailbox: CaughtMailbox | null
  /** Where clients reach Jetpost. */
  publicUrl: string
  log: Log
}
