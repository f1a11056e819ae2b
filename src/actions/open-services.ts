import type { Clock } from '#src/base/clock.ts'
import type { Ring } from '#src/base/config-values.ts'
import type { Config } from '#src/base/config.ts'
import { createVault } from '#src/base/secret.ts'
import { createTokens } from '#src/content/token.ts'
import { openDns } from '#src/dns/resolve.ts'
import { openBlobs } from '#src/nats/blobs.ts'
import type { Bus } from '#src/nats/connect.ts'
import { KeyUses } from '#src/nats/key-uses.ts'
import { openComposer } from './composer.ts'
import type { MayCallPrivate, Services } from './services.ts'
import type { LiveDirectory } from './directory.ts'
import { createFactLog } from './fact-log.ts'
import { openSuppressionStore } from './suppression-store.ts'
import { openTemplateCache } from './template-cache.ts'
import { privateTargets } from './webhook.ts'

export type ServiceConfig = Pick<
  Config,
  | 'webhookAllowPrivate'
  | 'requireVerifiedDomains'
  | 'bounceDomain'
  | 'smtpUrl'
  | 'hostname'
  | 'trackingUrl'
  | 'contentRetentionMs'
  | 'factsRetentionMs'
  | 'dns'
>

export interface ServiceOptions {
  bus: Bus
  clock: Clock
  directory: LiveDirectory
  /** JETPOST_SECRET, newest first. */
  secrets: Ring
  config: ServiceConfig
  /** By default what JETPOST_WEBHOOK_ALLOW_PRIVATE says; tests bring their own. */
  mayCallPrivate?: MayCallPrivate
}

/** Opens a set of services; nothing of it needs to be closed. */
export async function openServices (
  { bus, clock, directory, secrets, config, mayCallPrivate = privateTargets(config.webhookAllowPrivate) }:
    ServiceOptions
): Promise<Services> {
  const vault = createVault(...secrets)
  const tokens = createTokens(...secrets)
  return {
    factLog: createFactLog(bus, clock),
    directory,
    blobs: await openBlobs(bus),
    vault,
    suppressions: openSuppressionStore(bus),
    templates: openTemplateCache(bus),
    dns: openDns(config.dns),
    tokens,
    keyUses: new KeyUses(bus),
    compose: openComposer({ directory, vault, tokens, settings: config }),
    settings: { ...config, mayCallPrivate }
  }
}
