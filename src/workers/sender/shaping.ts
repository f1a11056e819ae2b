import type { SmtpReply, SmtpStage } from '#streams/email/decide.ts'

/** How much mail one site takes from us. Figures per site, however many domains it serves. */
export interface TrafficShape {
  /** Connections at once, at most. */
  connections: number
  /** Mails over one connection. */
  messages: number
  /** How long a connection may rest. */
  idleMs: number
  /** New connections a minute. */
  connectionsPerMinute: number
  messagesPerSecond: number
  /** No mail without TLS, whatever its certificate. */
  tlsRequired: boolean
  /** Replies after which the whole site is suspended. */
  suspensions: ReadonlyArray<{ says: RegExp, ms: number }>
  /** It serves domains of many owners, some of whom write its replies. */
  shared: boolean
}

/** Hosts whose names end in one of `suffixes` are one site, under `name`; with `apart` each set of MX hosts there is a
 *  site of its own. */
interface Provider {
  name: string
  suffixes: readonly string[]
  apart?: true
  shape: Partial<TrafficShape>
}

const MINUTE_MS = 60_000

/** Source: the shaping that KumoMTA ships as its community's experience; 60 s of rest are what Postfix keeps a
 *  connection for. */
const USUAL: TrafficShape = {
  connections: 10,
  messages: 100,
  idleMs: 60_000,
  connectionsPerMinute: 100,
  messagesPerSecond: 100,
  tlsRequired: false,
  suspensions: [],
  shared: false
}

/** Yahoo's words for "your mail draws complaints" and "your address sends too much": they hold for hours. */
const YAHOO_SUSPENSIONS = [{ says: /\[TS{1,2}04\]/i, ms: 120 * MINUTE_MS }]

/** The great receivers. Source as above. */
const PROVIDERS: readonly Provider[] = [
  {
    name: 'google',
    suffixes: ['.google.com', '.googlemail.com'],
    shape: { connections: 5, messages: 50, tlsRequired: true }
  },
  { name: 'outlook-consumer', suffixes: ['.olc.protection.outlook.com'], shape: { connections: 5, messages: 50 } },
  { name: 'outlook-business', suffixes: ['.mail.protection.outlook.com'], shape: { connections: 5, messages: 50 } },
  { name: 'outlook-dnssec', suffixes: ['.mx.microsoft'], shape: { connections: 5, messages: 50 } },
  {
    name: 'yahoo',
    suffixes: ['.yahoodns.net'],
    shape: { connections: 10, messages: 20, suspensions: YAHOO_SUSPENSIONS }
  },
  { name: 'icloud', suffixes: ['.icloud.com'], shape: { connections: 10, messages: 5 } },
  // Each of its regions has hosts, and limits, of its own.
  { name: 'mimecast', suffixes: ['.mimecast.com'], apart: true, shape: { connections: 10, messages: 100 } },
  {
    name: 'comcast',
    suffixes: ['.comcast.net'],
    shape: {
      connections: 25,
      messages: 1000,
      idleMs: 30_000,
      tlsRequired: true,
      suspensions: [{ says: /\bRL000010\b/, ms: 5 * MINUTE_MS }]
    }
  },
  { name: 'orange', suffixes: ['.orange.fr'], shape: { connections: 2, messages: 100, tlsRequired: true } },
  {
    name: 'yahoo-japan',
    suffixes: ['.yahoo.co.jp'],
    shape: {
      connections: 2,
      messages: 20,
      messagesPerSecond: 10,
      suspensions: [...YAHOO_SUSPENSIONS, { says: /\bVS98\b/, ms: 120 * MINUTE_MS }]
    }
  }
]

/** A site's name and what it takes, by the names of a domain's MX hosts, the preferred first. A provider counts only
 *  when all of them are its own: a domain with a filter before it is a site of its own. Pure. */
export function siteOf (hosts: readonly string[]): { name: string, shape: TrafficShape } {
  const provider = PROVIDERS.find(({ suffixes }) =>
    hosts.every(host => suffixes.some(suffix => `.${host}`.endsWith(suffix)))
  )
  const set = setOf(hosts)
  if (provider === undefined) return { name: set, shape: USUAL }
  return { name: provider.apart === true ? set : provider.name, shape: { ...USUAL, shared: true, ...provider.shape } }
}

/** The same hosts, whatever their order and preferences, are the same set. Many hosts make a long name: it is for keys
 *  only. */
export function setOf (hosts: readonly string[]): string {
  return hosts.toSorted().join(' ')
}

/** What receivers say when they hold back our mail for our reputation. */
const REPUTATION = [
  /temporarily deferred/i,
  /rate[- ]limited due to (?:the )?(?:ip|sender|domain) reputation/i,
  /messages from \S+ weren'?t sent/i,
  /server busy\b.{0,80}\bfrom\b/is
]

/** Suspend the site · slow it down · the same, once another domain's replies say so too · nothing.
 */
export type Demand = { suspendMs: number } | 'slow' | 'hearsay' | null

/** What a reply demands for the whole site. Words after RCPT may be those of one mailbox's owner: a final refusal there
 *  is about this mail, whatever it says, and at a shared site one domain's words alone slow no other mail. Pure. */
export function demandOf (
  shape: TrafficShape,
  { code, text }: Pick<SmtpReply, 'code' | 'text'>,
  stage: SmtpStage
): Demand {
  const early = stage !== 'rcpt' && stage !== 'data'
  const passing = code >= 400 && code < 500
  const suspension = passing ? shape.suspensions.find(({ says }) => says.test(text)) : undefined
  if (suspension !== undefined) return { suspendMs: suspension.ms }
  const counts = passing || (early && code >= 500)
  if (!counts || !REPUTATION.some(pattern => pattern.test(text))) return null
  return early || !shape.shared ? 'slow' : 'hearsay'
}

/** A relay is the operator's own, with the number of connections that he has set. */
export function relayShape (connections: number): TrafficShape {
  return { ...USUAL, connections, idleMs: 30_000, connectionsPerMinute: Infinity, messagesPerSecond: Infinity }
}
