import type { Clock } from '#src/base/clock.ts'
import type { Config } from '#src/base/config.ts'
import { createVault } from '#src/base/secret.ts'
import { createTokens } from '#src/content/token.ts'
import { openDns } from '#src/dns/resolve.ts'
import { openBlobs } from '#src/nats/blobs.ts'
import type { Bus } from '#src/nats/connect.ts'
import { openComposer } from './composer.ts'
import type { Desk } from './desk.ts'
import type { LiveDirectory } from './directory.ts'
import { openLedger } from './ledger.ts'
import { openSuppressionBook } from './suppression-book.ts'
import { openTemplateShelf } from './template-shelf.ts'

export type DeskConfig = Pick<Config, 'webhookAllowPrivate' | 'requireVerifiedDomains' | 'bounceDomain' | 'trackingUrl' | 'contentRetentionMs' | 'factsRetentionMs' | 'dns'>

export interface DeskOptions {
  bus: Bus
  clock: Clock
  directory: LiveDirectory
  /** JETPOST_SECRET. */
  secret: string
  config: DeskConfig
}

/** Furnishes a desk; nothing of it needs to be closed. */
export async function openDesk ({ bus, clock, directory, secret, config }: DeskOptions): Promise<Desk> {
  const vault = createVault(secret)
  const tokens = createTokens(secret)
  return {
    ledger: openLedger(bus, clock),
    directory,
    blobs: await openBlobs(bus),
    vault,
    suppressions: openSuppressionBook(bus),
    templates: openTemplateShelf(bus),
    dns: openDns(config.dns),
    tokens,
    compose: openComposer({ directory, vault, tokens, settings: config }),
    settings: config
  }
}
