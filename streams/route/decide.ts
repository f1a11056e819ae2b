import { parseDomain } from '../address.ts'
import { Refusal, type UnstampedOf } from '../define.ts'
import {
  CAP_DAYS_MAX,
  DEFAULT_ROUTE,
  DIRECT,
  RouteChanged,
  RouteDeleted,
  RouteResealed,
  ROUTE_URL_LENGTH_MAX,
  type routeFacts,
  type RouteSettings,
  type RouteSource,
  type WarmUp
} from './facts.ts'
import type { RouteEntry } from './state.ts'

/** Routes an installation may have: each mail is held against all of them. */
export const ROUTES_MAX = 100

/** How TLS is used: `opportunistic` = when offered; `required` = or not at all; `unverified` = required, with any
 *  certificate; `off`. */
export const TLS_MODES = ['opportunistic', 'required', 'unverified', 'off'] as const

export type RouteDecision = UnstampedOf<typeof routeFacts[number]>

const NAME = /^[a-z0-9][a-z0-9-]{0,62}$/
const CONTROL = /[\p{Cc}\s]/u
const MUST_BE_URL = 'must look like smtp://user:password@host:587, smtps://… for TLS from the start, or direct:'

/** A route's URL as it may be shown, and whole where it holds a user or a password. */
export interface RouteUrl {
  url: string
  secretUrl: string | null
}

/** Parts the secret of a URL from the rest. A refusal never repeats the URL: it may hold a password. */
export function partUrl (text: string): RouteUrl | Refusal {
  if (text === DIRECT) return { url: DIRECT, secretUrl: null }
  const parsed = text.length > ROUTE_URL_LENGTH_MAX || CONTROL.test(text) ? null : URL.parse(text)
  if (parsed === null || !/^smtps?:$/.test(parsed.protocol) || parsed.hostname === '') {
    return new Refusal('invalid_url', `url ${MUST_BE_URL}.`)
  }
  if (!/^\/?$/.test(parsed.pathname) || parsed.hash !== '' || parsed.port === '0') {
    return new Refusal('invalid_url', `url must have no path and no fragment, and a port from 1 to 65535.`)
  }
  const fault = optionFault(parsed.searchParams) ?? credentialsFault(parsed)
  if (fault !== null) return fault
  const isSecret = parsed.username !== ''
  parsed.username = ''
  parsed.password = ''
  return { url: parsed.href, secretUrl: isSecret ? text : null }
}

function optionFault (options: URLSearchParams): Refusal | null {
  const names = [...options.keys()]
  if (names.some(name => name !== 'tls') || names.length > 1) {
    return new Refusal('invalid_url', 'url must have no option but tls, once.')
  }
  const mode = options.get('tls')
  return mode === null || (TLS_MODES as readonly string[]).includes(mode)
    ? null
    : new Refusal('invalid_url', `tls in url must be one of ${TLS_MODES.join(', ')}.`)
}

function credentialsFault ({ username, password }: URL): Refusal | null {
  if ((username === '') !== (password === '')) {
    return new Refusal('invalid_url', 'url must have both a user and a password, or neither.')
  }
  try {
    decodeURIComponent(username)
    decodeURIComponent(password)
    return null
  } catch {
    return new Refusal('invalid_url', 'url must have the % in its user and password as %25.')
  }
}

/** What is wrong with a route's name; `others` = the routes there are. */
export function nameFault (name: string, others: readonly RouteEntry[]): Refusal | null {
  if (!NAME.test(name)) {
    return new Refusal('invalid_name', 'name must have 1 to 63 of a-z, 0-9 and -, and must not begin with -.')
  }
  if (name === DEFAULT_ROUTE) return new Refusal('invalid_name', 'name must not be default: that is SMTP_URL.')
  return others.some(other => other.name === name)
    ? new Refusal('invalid_name', `name must be another: there is a route ${name}.`)
    : null
}

export function countFault (count: number): Refusal | null {
  return count < ROUTES_MAX
    ? null
    : new Refusal('too_many_routes', `There can be at most ${ROUTES_MAX} routes: delete one first.`)
}

/** What no schema finds in the settings of the route `name`; `names` = those of all routes there are. */
export function settingsFault (
  name: string,
  settings: Omit<RouteSettings, 'url' | 'sealedUrl'>,
  names: readonly string[]
): Refusal | null {
  const { match, fallbacks, hostname, sources, warmUp } = settings
  const domains = [...match.senderDomains, ...match.recipientDomains]
  if (domains.some(domain => parseDomain(domain) !== domain)) {
    return new Refusal('invalid_match', 'match must name domains in lower case, like example.com.')
  }
  return fallbacksFault(name, fallbacks, names) ?? hostnameFault('hostname', hostname) ?? sourcesFault(sources) ??
    warmUpFault('warm_up', warmUp)
}

function fallbacksFault (name: string, fallbacks: readonly string[], names: readonly string[]): Refusal | null {
  if (fallbacks.includes(name) || new Set(fallbacks).size !== fallbacks.length) {
    return new Refusal('invalid_fallbacks', 'fallbacks must name other routes, each once.')
  }
  const unknown = fallbacks.find(other => other !== DEFAULT_ROUTE && !names.includes(other))
  return unknown === undefined
    ? null
    : new Refusal('invalid_fallbacks', `fallbacks must name routes that there are: there is no route ${unknown}.`)
}

function hostnameFault (field: string, hostname: string | null): Refusal | null {
  if (hostname === null || (/[.]/.test(hostname) && parseDomain(hostname) === hostname)) return null
  return new Refusal('invalid_hostname', `${field} must be a host name in lower case, like mail.example.com.`)
}

function sourcesFault (sources: readonly RouteSource[]): Refusal | null {
  for (const [i, { address, hostname, warmUp }] of sources.entries()) {
    if (!isAddress(address)) {
      return new Refusal('invalid_sources', `sources[${i}].address must be an IPv4 or IPv6 address of this machine.`)
    }
    const fault = hostnameFault(`sources[${i}].hostname`, hostname) ?? warmUpFault(`sources[${i}].warm_up`, warmUp)
    if (fault !== null) return new Refusal('invalid_sources', fault.message)
  }
  return new Set(sources.map(({ address }) => address)).size === sources.length
    ? null
    : new Refusal('invalid_sources', 'sources must have different addresses.')
}

function isAddress (text: string): boolean {
  if (text.includes(':')) return /^[0-9a-f:.]+$/.test(text) && URL.canParse(`http://[${text}]/`)
  return /^(?:\d{1,3}\.){3}\d{1,3}$/.test(text) &&
    text.split('.').every(part => String(Number(part)) === part && Number(part) < 256)
}

function warmUpFault (field: string, warmUp: WarmUp | null): Refusal | null {
  if (warmUp === null) return null
  const ms = Date.parse(`${warmUp.from}T00:00:00Z`)
  if (Number.isNaN(ms) || new Date(ms).toISOString().slice(0, 10) !== warmUp.from) {
    return new Refusal('invalid_warm_up', `${field}.from must be a day, like 2026-12-01.`)
  }
  return warmUp.perDay.length <= CAP_DAYS_MAX
    ? null
    : new Refusal('invalid_warm_up', `${field}.per_day must have at most ${CAP_DAYS_MAX} days.`)
}

/** What changes; nothing when the settings are the same. What is left out stays. */
export function decideRouteChange (route: RouteEntry, changes: Partial<RouteSettings>): RouteDecision[] {
  const { id, name, createdAt: _createdAt, ...before } = route
  const after = { ...before, ...changes }
  if (JSON.stringify(after) === JSON.stringify(before)) return []
  return [{ type: RouteChanged, data: { route: id, name, ...after } }]
}

/** `reseal`: null = it is sealed with the newest secret. */
export function decideRouteReseal (
  { id, name, sealedUrl }: RouteEntry,
  reseal: (sealed: string) => string | null
): RouteDecision[] {
  const resealed = sealedUrl === null ? null : reseal(sealedUrl)
  return resealed === null ? [] : [{ type: RouteResealed, data: { route: id, name, sealedUrl: resealed } }]
}

export function decideRouteDeletion ({ id, name }: RouteEntry): RouteDecision[] {
  return [{ type: RouteDeleted, data: { route: id, name } }]
}
