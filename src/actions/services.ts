import type { Actor } from '#streams/define.ts'
import type { Vault } from '#src/base/secret.ts'
import type { Tokens } from '#src/content/token.ts'
import type { Dns } from '#src/dns/resolve.ts'
import type { Blobs } from '#src/nats/blobs.ts'
import type { KeyUses } from '#src/nats/key-uses.ts'
import type { Compose } from './composer.ts'
import type { LiveDirectory } from './directory.ts'
import type { FactLog } from './fact-log.ts'
import type { SuppressionStore } from './suppression-store.ts'
import type { TemplateCache } from './template-cache.ts'

/** What actions need: where to write, what is known, where big bodies go, how secrets are sealed. */
export interface Services {
  factLog: FactLog
  directory: LiveDirectory
  blobs: Blobs
  vault: Vault
  suppressions: SuppressionStore
  templates: TemplateCache
  dns: Dns
  tokens: Tokens
  keyUses: KeyUses
  compose: Compose
  settings: ServiceSettings
}

/** Whether an account's webhooks may go to http and private addresses. */
export type MayCallPrivate = (account: string) => boolean

/** What the operator decided. */
export interface ServiceSettings {
  /** Whose webhooks may go to http and private addresses. */
  mayCallPrivate: MayCallPrivate
  /** Is mail refused from a domain whose DNS is not verified. */
  requireVerifiedDomains: boolean
  /** Host of the return path, or null when there is none. */
  bounceDomain: string | null
  /** The relay, or `direct:`; null = the mail catcher. */
  smtpUrl: string | null
  /** Our name in EHLO; null = the machine's. */
  hostname: string | null
  /** Where tracking and unsubscribe links lead. */
  trackingUrl: string
  /** How long content is kept, and facts about mail. */
  contentRetentionMs: number
  factsRetentionMs: number
}

/** Who gives a command, and under which id everything that follows can be found. */
export interface Commander {
  correlation: string
  actor: Actor
}

/** The same for one account. */
export interface Asker extends Commander {
  account: string
  /** Asks with a test key: to change test data alone. */
  test?: boolean
}
