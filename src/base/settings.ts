import { availableParallelism } from 'node:os'
import {
  address,
  boolean,
  collectorUrl,
  duration,
  ehloName,
  hostName,
  integer,
  list,
  oneOf,
  percentage,
  proxies,
  ratio,
  resolver,
  ring,
  smtpUrl,
  text,
  UNIT_MS,
  url,
  webUrl
} from './config-values.ts'

import { peopleSettings } from './settings-people.ts'
import { ROLES, type RoleName, type Settings } from './config-types.ts'
import { smtpServerSettings } from './settings-smtp.ts'

function roles (value: string): Set<RoleName> {
  if (value === 'all') return new Set(ROLES)
  const names = list(value)
  const unknown = names.filter(name => !(ROLES as readonly string[]).includes(name))
  if (names.length === 0 || unknown.length > 0) throw new Error(`must be all or a list of ${ROLES.join(', ')}`)
  return new Set(names as RoleName[])
}

const port = integer(1, 65_535)

/** Every setting: environment name, meaning, default, reading. */
export const settings: Settings = {
  roles: {
    env: 'JETPOST_ROLES',
    means: `what this process does: all, or a list of ${ROLES.join(', ')}`,
    details: 'Several processes that share one NATS and one PostgreSQL may have different roles. `api` includes the ' +
      'dashboard and the tracking pages, `submission` is SMTP for clients, `projector` includes the reactions, ' +
      '`scheduler` the domain checks.',
    unset: '`all`',
    fallback: new Set(ROLES),
    parse: roles
  },
  processes: {
    env: 'JETPOST_PROCESSES',
    means: 'processes that a start makes of its roles: 1, or 2',
    details: 'With 2, `api` and `submission` run apart from the others: accepting mail does not wait for sending it.',
    unset: '2 where the machine has four cores or more, otherwise 1',
    fallback: () => availableParallelism() < 4 ? 1 : 2,
    parse: integer(1, 2)
  },
  host: { env: 'HOST', means: 'address the HTTP server listens on', fallback: '127.0.0.1', parse: address },
  port: {
    env: 'PORT',
    means: 'port of the HTTP server',
    details: '0 = a free port.',
    fallback: 8080,
    parse: integer(0, 65_535)
  },
  publicUrl: {
    env: 'JETPOST_PUBLIC_URL',
    means: 'URL at which clients reach the HTTP server',
    details: 'With a path, such as `https://example.com/mail`, there is no dashboard: it needs a host of its own.',
    unset: '`http://localhost:<PORT>`',
    fallback: env => `http://localhost:${env.PORT ?? 8080}`,
    parse: webUrl
  },
  trackingUrl: {
    env: 'JETPOST_TRACKING_URL',
    means: 'base URL of tracking and unsubscribe links',
    details: 'Where it leads to this machine alone (`localhost`), mail to a relay or straight to servers has no such ' +
      'links. With http, mail programs ignore one-click unsubscribing.',
    unset: '`JETPOST_PUBLIC_URL`',
    fallback: env => env.JETPOST_PUBLIC_URL?.replace(/\/+$/, '') ?? `http://localhost:${env.PORT ?? 8080}`,
    parse: webUrl
  },
  dataDir: {
    env: 'JETPOST_DATA_DIR',
    means: 'folder of the embedded servers and the generated secret',
    details: 'Created with mode 0700. One Jetpost at a time uses it.',
    fallback: './data',
    parse: text
  },
  secret: {
    env: 'JETPOST_SECRET',
    means: 'encrypts recoverable secrets and signs tokens; required with NATS_URL',
    details: 'At least 32 random characters: `openssl rand -hex 32` makes them. One that is published with Jetpost ' +
      'is refused. Up to 5, separated by commas, make a ring: the first encrypts and signs, all decrypt and verify. ' +
      '[How to change it](operating.md#change-the-secret), and what no longer works without it.',
    unset: 'generated, in the data folder',
    fallback: null,
    secret: 'whole',
    parse: ring
  },
  natsUrl: {
    env: 'NATS_URL',
    means: 'a NATS server to use instead of the embedded one',
    details:
      'nats-server 2.15 or newer. A comma separates the servers of a cluster. With `tls://` nothing is said to a ' +
      'server without TLS. See [encryption](operating.md#encryption).',
    unset: 'embedded NATS',
    fallback: null,
    secret: 'login',
    parse: url('nats:', 'tls:')
  },
  natsCreds: {
    env: 'NATS_CREDS',
    means: 'path of a NATS credentials file, or of a file with the seed of an nkey',
    details: 'In place of user and password in `NATS_URL`.',
    fallback: null,
    parse: text
  },
  natsReplicas: {
    env: 'JETPOST_NATS_REPLICAS',
    means: 'replicas of each stream: 1, or 3 or 5 on a cluster',
    fallback: 1,
    parse: integer(1, 5)
  },
  databaseUrl: {
    env: 'DATABASE_URL',
    means: 'a PostgreSQL database to use instead of the embedded one',
    details: 'The role needs `create` and `temporary` on the database. `?sslmode=verify-full` asks for TLS: see ' +
      '[encryption](operating.md#encryption).',
    unset: 'embedded PostgreSQL',
    fallback: null,
    secret: 'login',
    parse: url('postgres:', 'postgresql:')
  },
  smtpUrl: {
    env: 'SMTP_URL',
    means: "relay for outgoing mail; direct: = straight to the recipients' servers; unset = the built-in mail catcher",
    details: '`smtp://user:pass@host:587` or `smtps://…`. With a password TLS is required, otherwise it is used when ' +
      'offered; `?tls=required`, `unverified`, `opportunistic` or `off` overrides that.',
    unset: 'built-in mail catcher',
    fallback: null,
    secret: 'login',
    parse: smtpUrl
  },
  smtpConnections: {
    env: 'JETPOST_SMTP_CONNECTIONS',
    means: 'SMTP transactions at once',
    details: 'From 1 to 1000. It is also the most mail that can be in doubt when a sender dies.',
    fallback: 100,
    parse: integer(1, 1000)
  },
  mxPort: { env: 'JETPOST_MX_PORT', means: 'port of MX hosts in direct mode', fallback: 25, parse: port },
  mxAllowPrivate: {
    env: 'JETPOST_MX_ALLOW_PRIVATE',
    means: 'allow MX hosts with private addresses',
    fallback: false,
    parse: boolean
  },
  hostname: {
    env: 'JETPOST_HOSTNAME',
    means: 'host name in EHLO, and of the SMTP servers',
    details: 'In direct mode it must have an address whose PTR record is this name.',
    unset: "the machine's host name",
    fallback: null,
    parse: ehloName
  },
  bounceDomain: {
    env: 'JETPOST_BOUNCE_DOMAIN',
    means: 'domain of the return path, to which bounces come back',
    details: 'Its MX record leads to `JETPOST_INBOUND_PORT`. Sending domains point a CNAME at it.',
    fallback: null,
    parse: hostName
  },
  ...smtpServerSettings,
  dns: {
    env: 'JETPOST_DNS',
    means: 'resolver for mail, webhooks and domain checks, host:port',
    details: 'For example `127.0.0.1:5353` or `[::1]:53`.',
    unset: "the system's",
    fallback: null,
    parse: resolver
  },
  apiKey: {
    env: 'JETPOST_API_KEY',
    means: 'a full-access key of the first account; a new value revokes the old one',
    details: '`jp_live_` or `jp_test_` and at least 16 characters.',
    unset: 'generated, printed once',
    fallback: null,
    secret: 'whole',
    parse: value => {
      const isKey = /^jp_(live|test)_[A-Za-z0-9_-]{16,200}$/.test(value)
      if (!isKey) throw new Error('must look like jp_live_… or jp_test_… with at least 16 characters after that')
      return value
    }
  },
  domains: {
    env: 'JETPOST_DOMAINS',
    means: "domains the first account starts with, besides the sandbox's",
    details: 'A comma-separated list.',
    unset: 'none',
    fallback: [],
    parse: list
  },
  requireVerifiedDomains: {
    env: 'JETPOST_REQUIRE_VERIFIED_DOMAINS',
    means: 'refuse mail from a domain whose DNS records are not verified',
    details:
      'The error is 422 `domain_unverified`. Where `SMTP_URL` is set, `false` holds for the first account alone.',
    unset: '`false` on embedded NATS, otherwise `true`',
    // A process that takes mail for others to send may not know the relay.
    fallback: env => env.NATS_URL !== undefined,
    parse: boolean
  },
  webhookAllowPrivate: {
    env: 'JETPOST_WEBHOOK_ALLOW_PRIVATE',
    means: 'allow webhook endpoints, and files by URL, of the first account with http: URLs and private addresses',
    details: 'Those of other accounts never have them. For trying out: an answer is shown to those who hold a key, ' +
      'and what answers may be any service of this machine and its network.',
    fallback: false,
    parse: boolean
  },
  trustProxy: {
    env: 'JETPOST_TRUST_PROXY',
    means: 'addresses and ranges whose X-Forwarded-For is trusted',
    details:
      'A comma-separated list; `loopback`, `linklocal` and `uniquelocal` name the usual ranges. Set it behind a ' +
      'proxy: otherwise all clients share one address, and the limits of one address.',
    unset: 'none',
    fallback: [],
    parse: proxies
  },
  ...peopleSettings,
  suspendBounces: {
    env: 'JETPOST_SUSPEND_BOUNCES',
    means: 'bounce rate, in percent, above which an account is suspended',
    details: 'Of its mail of the last 24 hours. 0 = never. See [accounts](operating.md#accounts-keys-and-limits).',
    unset: '10',
    fallback: 0.1,
    parse: percentage
  },
  suspendComplaints: {
    env: 'JETPOST_SUSPEND_COMPLAINTS',
    means: 'complaint rate, in percent, above which an account is suspended',
    details: 'The same.',
    unset: '0.5',
    fallback: 0.005,
    parse: percentage
  },
  factsRetentionMs: {
    env: 'JETPOST_RETENTION',
    means: 'how long facts about mail are kept',
    details: 'Days, hours or minutes: `90d`, `120h`. At least 5 days, and always 10 days longer than content.',
    unset: '`90d`',
    fallback: 90 * UNIT_MS.d!,
    parse: duration(5 * UNIT_MS.d!)
  },
  contentRetentionMs: {
    env: 'JETPOST_CONTENT_RETENTION',
    means: "how long mail's content is kept",
    details: 'At least 5 days. Mail can be scheduled this far ahead, less 4 days.',
    unset: '`30d`',
    fallback: 30 * UNIT_MS.d!,
    parse: duration(5 * UNIT_MS.d!)
  },
  natsBin: {
    env: 'JETPOST_NATS_BIN',
    means: 'a nats-server binary for the embedded NATS',
    unset: 'looked for, or downloaded once',
    fallback: null,
    parse: text
  },
  natsPort: {
    env: 'JETPOST_NATS_PORT',
    means: 'port of the embedded NATS',
    unset: 'a free port, then the same one',
    fallback: null,
    parse: port
  },
  postgresPort: {
    env: 'JETPOST_POSTGRES_PORT',
    means: 'port of the embedded PostgreSQL',
    unset: 'a free port, then the same one',
    fallback: null,
    parse: port
  },
  catcherPort: {
    env: 'JETPOST_CATCHER_PORT',
    means: 'SMTP port of the built-in mail catcher',
    unset: 'a free port',
    fallback: null,
    parse: port
  },
  logLevel: {
    env: 'JETPOST_LOG_LEVEL',
    means: 'log level: trace, debug, info, warn, error, fatal or silent',
    details: 'Logs go to stderr.',
    fallback: 'info',
    parse: oneOf('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent')
  },
  otlpEndpoint: {
    env: 'OTEL_EXPORTER_OTLP_ENDPOINT',
    means: 'OpenTelemetry collector that gets traces',
    details: 'OTLP over HTTP, such as `http://localhost:4318`. [What a trace shows](operating.md#traces). ' +
      '`OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME` mean what they do elsewhere.',
    unset: 'no traces',
    fallback: null,
    parse: collectorUrl
  },
  traceRatio: {
    env: 'OTEL_TRACES_SAMPLER_ARG',
    means: 'share of the requests that are traced, from 0 to 1',
    details: 'A client that sends `traceparent` decides for its own requests.',
    fallback: 1,
    parse: ratio
  }
}
