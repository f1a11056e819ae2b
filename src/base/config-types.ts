import type { Ring } from './config-values.ts'

export const ROLES = ['api', 'submission', 'sender', 'projector', 'webhooks', 'inbound', 'scheduler'] as const
export type RoleName = typeof ROLES[number]

/** Everything the environment may set. Read once; the rest of the program receives plain values. docs/settings.md is
 *  made from this by `npm run docs`. */
export interface Config {
  roles: Set<RoleName>
  processes: number
  host: string
  port: number
  publicUrl: string
  /** Where tracking and unsubscribe links lead. */
  trackingUrl: string
  dataDir: string
  /** null = made in the data folder; cannot be null with `natsUrl`. */
  secret: Ring | null
  natsUrl: string | null
  natsCreds: string | null
  natsReplicas: number
  databaseUrl: string | null
  smtpUrl: string | null
  /** Concurrent SMTP transactions of one sender; also the most that can be in doubt when it dies. */
  smtpConnections: number
  /** Port of MX hosts. */
  mxPort: number
  mxAllowPrivate: boolean
  hostname: string | null
  bounceDomain: string | null
  inboundHost: string
  /** null = no inbound listener. */
  inboundPort: number | null
  submissionHost: string
  /** With STARTTLS, and with TLS from the start; null = no such listener. */
  submissionPort: number | null
  submissionTlsPort: number | null
  /** Addresses and ranges that may log in without TLS. */
  submissionPlainNetworks: string[]
  /** Whether the same message is accepted once, by its Message-ID. */
  submissionOnce: boolean
  /** PEM files of the certificate of both SMTP servers; null = self-signed. */
  tlsCert: string | null
  tlsKey: string | null
  /** `host:port` of the resolver; null = the system's. */
  dns: string | null
  apiKey: string | null
  domains: string[]
  requireVerifiedDomains: boolean
  webhookAllowPrivate: boolean
  trustProxy: string[]
  /** The OpenID Connect issuer that people sign in at, and who we are there; null = none, and none but both. */
  oidcIssuer: string | null
  oidcClientId: string | null
  oidcClientSecret: string | null
  /** Domains whose people need no invitation, and what they are then. */
  oidcAllowedDomains: string[]
  oidcDefaultRole: string
  /** Who gets alerts by mail, and from whom; none = nobody, null only then. */
  alertTo: string[]
  alertFrom: string | null
  /** Where alerts are posted, and the secret that signs them; null = nowhere, both or neither. */
  alertUrl: string | null
  alertSecret: string | null
  /** Shares of an account's mail; null = none is suspended for that. */
  suspendBounces: number | null
  suspendComplaints: number | null
  factsRetentionMs: number
  contentRetentionMs: number
  natsBin: string | null
  natsPort: number | null
  postgresPort: number | null
  catcherPort: number | null
  logLevel: string
  /** Where traces go, without the slash at its end; null = there are none. */
  otlpEndpoint: string | null
  /** Share of the requests that begin a trace, 0 to 1. */
  traceRatio: number
}

export interface Setting<T> {
  env: string
  /** One phrase for `jetpost doctor`, and the first sentence in docs/settings.md. */
  means: string
  /** Further sentences for docs/settings.md. */
  details?: string
  /** The default in words, where `fallback` does not show it. */
  unset?: string
  fallback: T | ((env: Environment) => T)
  parse: (text: string) => T
  /** Shown as set or unset only, and never written down; 'login' = it may be written down where it holds no user name
   *  and no password. */
  secret?: 'whole' | 'login'
}

/** By the name of what it sets. */
export type Settings = { [Name in keyof Config]: Setting<Config[Name]> }

export type Environment = Record<string, string | undefined>
