import { FIRST_ACCOUNT } from '../account/facts.ts'
import { parseDomain } from '../address.ts'
import { NAME_LENGTH_MAX, Refusal, type UnstampedOf } from '../define.ts'
import type { KeyEntry, Principal } from './state.ts'
import type { SendDefaults } from '../email/defaults.ts'
import {
  KeyChanged,
  keyFacts,
  KeyLimitsChanged,
  KeyRotated,
  LIMIT_CLASSES,
  LIMIT_MAX,
  PARTS_OF_SCOPES,
  SCOPES,
  type LimitClass,
  type Scope
} from './facts.ts'

/** Keys an account may have: every process holds all of them in memory. */
export const KEYS_MAX = 10_000
/** How long the secret before a rotation goes on working, in seconds. */
export const OVERLAP_S_MAX = 7 * 86_400
export const OVERLAP_S_DEFAULT = 86_400

/** Requests a minute of each class, where no operator said otherwise. Source: spec section 8. */
export const DEFAULT_LIMITS: Record<LimitClass, number> = {
  'emails:send': 100,
  'emails:batch': 60,
  'emails:list': 300,
  'templates:create': 60,
  other: 60
}

export function limitOf (key: Pick<Principal, 'limits'>, limitClass: LimitClass): number {
  return key.limits[limitClass] ?? DEFAULT_LIMITS[limitClass]
}

export function isLive (key: Pick<Principal, 'expiresMs'>, nowMs: number): boolean {
  return key.expiresMs === null || key.expiresMs > nowMs
}

/** Whether the secret with this hash opens the key: the one it has, or the one before while a rotation overlaps. */
export function opens (key: KeyEntry, hash: string, nowMs: number): boolean {
  const known = key.hash === hash || (key.previous?.hash === hash && previousUntilMs(key, nowMs) !== null)
  return known && isLive(key, nowMs)
}

/** Until when the secret before the last rotation works, or null when it works no more. */
export function previousUntilMs ({ previous }: KeyEntry, nowMs: number): number | null {
  return previous !== null && previous.untilMs > nowMs ? previous.untilMs : null
}

/** Spec 5: the scope must include the action. */
export function mayDo ({ scopes }: Pick<Powers, 'scopes'>, scope: Scope): boolean {
  return scopes.some(held => held === 'full' || held === scope || PARTS_OF_SCOPES[held]?.includes(scope) === true)
}

/** Whether it may see and do what concerns the whole installation. It takes more than the scope: `full` is all that its
 *  key can have, and only some keys can have this. */
export function isOperator (key: Principal): boolean {
  return mayDo(key, 'operator') && canOperate(key)
}

/** Who may have the scope operator: neither another account, nor a key that was made to do less than its account. */
export function operatorFault (key: OperatorClaim & Pick<Principal, 'scopes'>): Refusal | null {
  return !key.scopes.includes('operator') || canOperate(key) ? null : new Refusal(
    'invalid_scope',
    'operator must only be given to a live key of the first account with domains ["*"].'
  )
}

type OperatorClaim = Pick<Principal, 'account' | 'test' | 'domains'>

function canOperate ({ account, test, domains }: OperatorClaim): boolean {
  return account === FIRST_ACCOUNT && !test && domains.includes('*')
}

/** Spec 4.1 rule 1: `from` must be on a domain linked to the key, and the domain must be its account's (or everybody's
 *  sandbox). */
export function maySendFrom (
  key: Pick<Principal, 'account' | 'domains'>,
  domain: string,
  owner: string | undefined
): boolean {
  const owned = domain === SANDBOX_DOMAIN || owner === key.account
  return owned && (key.domains.includes('*') || key.domains.includes(domain))
}

/** The built-in domain every account may send from and to. */
export const SANDBOX_DOMAIN = 'sandbox.jetpost.test'

/** What a key may do, from where, until when, and whether its mail goes out. */
export type Powers = Pick<Principal, 'scopes' | 'domains' | 'expiresMs' | 'test'>

/** A key that may do nothing: within every other. */
export const NO_POWERS: Powers = { scopes: [], domains: [], expiresMs: 0, test: true }

/** Whether `wanted` is in nothing more than `held`. A key makes, changes, rotates and ends only keys within its own
 *  powers, before and after: so no chain of grants leads above the key it began with. A live key is more than a test
 *  key, whose mail goes nowhere. */
export function isWithin (wanted: Powers, held: Powers): boolean {
  return wanted.scopes.every(scope => mayDo(held, scope)) &&
    (held.domains.includes('*') || wanted.domains.every(domain => held.domains.includes(domain))) &&
    (held.expiresMs === null || (wanted.expiresMs !== null && wanted.expiresMs <= held.expiresMs)) &&
    (wanted.test || !held.test)
}

/** What a test key may not change: all that live mail depends on, and all that is kept of it. */
export const testKeyRefusal = () =>
  new Refusal('insufficient_permissions', 'A test key must only change test data: use a live key.')

/** What the key that asks may not hand on; `held` is that key as it is now, or undefined when it has been revoked since
 *  it came in. */
export function grantFault (held: Principal | undefined, wanted: Powers[], nowMs: number): Refusal | null {
  if (held === undefined || !isLive(held, nowMs)) {
    return new Refusal('unauthorized', 'The key or the user of this request is no more.')
  }
  const granted = mayDo(held, 'keys:write') && wanted.every(powers => isWithin(powers, held))
  return granted ? null : new Refusal('insufficient_permissions', 'A key cannot grant more than it holds.')
}

/** Beginning of the ids of keys whose secret JETPOST_API_KEY fixes; no other key's goes on with a letter. */
export const FIXED_KEY = 'key_env'

export type KeyDecision = UnstampedOf<typeof keyFacts[number]>

/** What is left out stays as it is. */
export type KeyChange = Partial<Pick<KeyEntry, 'name' | 'scopes' | 'domains' | 'expiresMs'>> & {
  defaults?: Partial<SendDefaults>
}

/** All that may be changed, as it is from now on; nothing when it is so already. */
export function decideChange (key: KeyEntry, { defaults, ...change }: KeyChange): KeyDecision[] | Refusal {
  const fault = powersFault(key, change) ?? operatorFault({ ...key, ...change })
  if (fault !== null) return fault
  const before = settingsOf(key)
  const after = settingsOf({ ...key, ...change, defaults: { ...key.defaults, ...defaults } })
  return JSON.stringify(before) === JSON.stringify(after)
    ? []
    : [{ type: KeyChanged, data: { key: key.id, ...after } }]
}

function settingsOf ({ name, scopes, domains, expiresMs, defaults }: KeyEntry) {
  return { name, scopes, domains, expiresAt: expiresMs === null ? null : new Date(expiresMs).toISOString(), defaults }
}

/** A new secret, known by its `marks`; the one before it works `overlapS` seconds longer, and any older one no more. */
export function decideRotation (
  key: KeyEntry,
  marks: Pick<KeyEntry, 'hash' | 'hint'>,
  overlapS: number,
  nowMs: number
): KeyDecision[] | Refusal {
  const fault = rotationFault(key, nowMs)
  if (fault !== null) return fault
  // What ends at once has ended by every node's clock, also by one that is behind.
  const untilMs = overlapS === 0 ? 0 : nowMs + overlapS * 1000
  return [{ type: KeyRotated, data: { key: key.id, ...marks, previousUntil: new Date(untilMs).toISOString() } }]
}

export function limitsFault (limits: Partial<Record<LimitClass, number>>): Refusal | null {
  const wrong = Object.entries(limits).some(([name, limit]) =>
    !(LIMIT_CLASSES as readonly string[]).includes(name) || !Number.isInteger(limit) || limit < 1 || limit > LIMIT_MAX
  )
  return wrong
    ? new Refusal(
      'invalid_limit',
      `limits must be whole numbers from 1 to ${LIMIT_MAX} for ${LIMIT_CLASSES.join(', ')}.`
    )
    : null
}

/** Classes that are left out stay as they are. */
export function decideLimits ({ id, limits }: KeyEntry, change: Partial<Record<LimitClass, number>>): KeyDecision[] {
  return [{ type: KeyLimitsChanged, data: { key: id, limits: { ...limits, ...change } } }]
}

/** A new secret for a fixed key would end with the next start, and the old one come back. */
export function rotationFault (key: KeyEntry, nowMs: number): Refusal | null {
  return fixedFault(key) ??
    (isLive(key, nowMs) ? null : new Refusal('key_expired', 'The key has expired: set a later expires_at first.'))
}

/** The operator's key is everybody's last way in, so that only its name and what it says about mail may be changed. */
export function powersFault (key: KeyEntry, change: Partial<Powers>): Refusal | null {
  const { scopes, domains, expiresMs } = change
  return scopes === undefined && domains === undefined && expiresMs === undefined ? null : fixedFault(key)
}

function fixedFault ({ id }: KeyEntry): Refusal | null {
  if (!id.startsWith(FIXED_KEY)) return null
  return new Refusal('key_fixed', 'JETPOST_API_KEY sets this key: only the operator can change it there.')
}

/** `count` = the keys the account already has. */
export function countFault (count: number): Refusal | null {
  return count < KEYS_MAX
    ? null
    : new Refusal('too_many_keys', `An account can have at most ${KEYS_MAX} keys: delete one first.`)
}

/** A name of 1 to NAME_LENGTH_MAX characters with something to see in it, and nothing that a terminal would obey. */
export function nameFault (name: string): Refusal | null {
  const fine = name.trim() !== '' && name.length <= NAME_LENGTH_MAX && !/\p{Cc}/u.test(name) && name.isWellFormed()
  return fine
    ? null
    : new Refusal(
      'invalid_name',
      `name must have 1 to ${NAME_LENGTH_MAX} characters, no control characters, and not only spaces.`
    )
}

/** `full` stands alone: beside others it would look as if they narrowed it. */
export function scopesFault (scopes: string[]): Refusal | null {
  const strange = scopes.find(scope => !(SCOPES as readonly string[]).includes(scope))
  if (strange !== undefined) return new Refusal('invalid_scope', `scopes must not contain ${strange}: it is no scope.`)
  const fine = scopes.length > 0 && isAlone('full', scopes)
  return fine ? null : new Refusal('invalid_scope', 'scopes must be a list of scopes, or ["full"].')
}

/** `*` stands alone, for the same reason. The names need not be the account's yet. */
export function domainsFault (domains: string[]): Refusal | null {
  const fine = domains.length > 0 && domains.every(name => name === '*' || parseDomain(name) !== null) &&
    isAlone('*', domains)
  return fine ? null : new Refusal('invalid_domain', 'domains must be a list of domain names, or ["*"].')
}

/** `*` or a domain as lower-case A-labels, each once, however they were spelt. */
export function foldDomains (domains: string[]): string[] {
  return [...new Set(domains.map(name => parseDomain(name) ?? name))]
}

function isAlone (all: string, names: string[]): boolean {
  return !names.includes(all) || new Set(names).size === 1
}

/** An end lies ahead, in a year of four digits. */
export function expiryFault (expiresMs: number, nowMs: number): Refusal | null {
  if (expiresMs <= nowMs) return new Refusal('in_the_past', 'expires_at must be in the future.')
  return expiresMs < Date.UTC(10_000, 0)
    ? null
    : new Refusal('invalid_value', 'expires_at must be before the year 10000.')
}
