import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '#src/base/config.ts'
import { settings } from '#src/base/settings.ts'

export const PAGE = join(import.meta.dirname, '..', '..', 'docs', 'settings.md')

const HEAD = `<!-- Generated from src/base/settings.ts by \`npm run docs\`: change the settings there. -->

# Settings

Settings come from the environment. They are read once, at the start; a wrong value stops the start, and the error names
every setting that cannot be used, and every name that begins with JETPOST_ and is no setting. An empty value counts as
unset. \`npx jetpost doctor\` shows each setting as understood and checks what it points to.

Booleans are \`true\` or \`false\`. Lists are separated by commas.
`

const GROUPS: Array<[title: string, names: Array<keyof Config>]> = [
  ['Process', ['roles', 'processes', 'dataDir', 'secret', 'logLevel']],
  ['HTTP', ['host', 'port', 'publicUrl', 'trackingUrl', 'trustProxy']],
  ['NATS and PostgreSQL', [
    'natsUrl',
    'natsCreds',
    'natsReplicas',
    'databaseUrl',
    'factsRetentionMs',
    'contentRetentionMs'
  ]],
  ['Outgoing mail', ['smtpUrl', 'smtpConnections', 'hostname', 'mxPort', 'mxAllowPrivate', 'dns']],
  ['Mail that comes back', ['bounceDomain', 'inboundPort', 'inboundHost']],
  ['SMTP submission', [
    'submissionPort',
    'submissionTlsPort',
    'submissionHost',
    'submissionPlainNetworks',
    'submissionOnce'
  ]],
  ['Certificate of both', ['tlsCert', 'tlsKey']],
  ['Accounts, domains and webhooks', ['apiKey', 'domains', 'requireVerifiedDomains', 'webhookAllowPrivate']],
  ['People', ['oidcIssuer', 'oidcClientId', 'oidcClientSecret', 'oidcAllowedDomains', 'oidcDefaultRole']],
  ['Alerts', ['alertTo', 'alertFrom', 'alertUrl', 'alertSecret']],
  ['Accounts', ['suspendBounces', 'suspendComplaints']],
  ['Traces', ['otlpEndpoint', 'traceRatio']],
  ['Embedded servers', ['natsBin', 'natsPort', 'postgresPort', 'catcherPort']]
]

/** docs/settings.md. Throws when a setting stands in no group, or in two. */
export function settingsPage (): string {
  const grouped = GROUPS.flatMap(([, names]) => names).toSorted()
  const all = Object.keys(settings).toSorted()
  if (grouped.join() !== all.join()) {
    throw new Error('Every setting must stand in one group of test/support/settings-page.ts')
  }
  return `${HEAD}${GROUPS.map(([title, names]) => section(title, names)).join('')}`
}

function section (title: string, names: Array<keyof Config>): string {
  const rows = names.map(name => `| \`${settings[name].env}\` | ${meaningOf(name)} | ${defaultOf(name)} |\n`)
  return `\n## ${title}\n\n| setting | meaning | default |\n|---|---|---|\n${rows.join('')}`
}

function meaningOf (name: keyof Config): string {
  const { means, details } = settings[name]
  const first = `${means.charAt(0).toUpperCase()}${means.slice(1)}.`
  return details === undefined ? first : `${first} ${details}`
}

function defaultOf (name: keyof Config): string {
  const { unset, fallback } = settings[name]
  if (unset !== undefined) return unset
  return fallback === null ? 'unset' : `\`${String(fallback)}\``
}

if (process.argv[1] === import.meta.filename) writeFileSync(PAGE, settingsPage())
