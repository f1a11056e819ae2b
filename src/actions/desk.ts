import type { Vault } from '#src/base/secret.ts'
import type { Blobs } from '#src/nats/blobs.ts'
import type { LiveDirectory } from './directory.ts'
import type { Ledger } from './ledger.ts'

/** What actions need: where to write, what is known, where big bodies go, how secrets are sealed. */
export interface Desk {
  ledger: Ledger
  directory: LiveDirectory
  blobs: Blobs
  vault: Vault
  /** May webhooks go to http and private addresses. */
  webhookAllowPrivate: boolean
}

/** Who asks, and under which id everything that follows can be found. */
export interface Asker {
  account: string
  correlation: string
}
