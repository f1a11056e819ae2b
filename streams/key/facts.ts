import { Type } from '@sinclair/typebox'
import { factType, Id, Name, Nullable, Time, type FactOf } from '../define.ts'
import { SendDefaults } from '../email/defaults.ts'

export const SCOPES = [
  'emails:send',
  'emails:read',
  'emails:metadata',
  'emails:list',
  'templates:read',
  'templates:write',
  'domains:read',
  'domains:write',
  'keys:read',
  'keys:write',
  'webhooks:read',
  'webhooks:write',
  'suppressions:read',
  'suppressions:write',
  'erasures:write',
  'users:read',
  'users:write',
  'audit:read',
  'dashboard',
  'operator',
  'full'
] as const
export type Scope = typeof SCOPES[number]

/** Scopes that are a part of others: who may read emails may read them without their content, and list them. */
export const PARTS_OF_SCOPES: Partial<Record<Scope, readonly Scope[]>> = {
  'emails:read': ['emails:metadata', 'emails:list'],
  'emails:metadata': ['emails:list']
}

/** The classes of spec section 8: each key has one window a minute for each. Batches have one of their own, so that
 *  they take no place of other requests, nor those of them. */
export const LIMIT_CLASSES = ['emails:send', 'emails:batch', 'emails:list', 'templates:create', 'other'] as const
export type LimitClass = typeof LIMIT_CLASSES[number]

/** Requests a minute that an operator may allow. */
export const LIMIT_MAX = 10_000_000
/** Domains of one key. */
export const KEY_DOMAINS_MAX = 1000

export function byLimitClass<Value> (valueOf: (limitClass: LimitClass) => Value): Record<LimitClass, Value> {
  return Object.fromEntries(LIMIT_CLASSES.map(name => [name, valueOf(name)])) as Record<LimitClass, Value>
}

/** Requests a minute by class, where the operator differs from the spec's. */
export const Limits = Type.Partial(
  Type.Object(byLimitClass(() => Type.Integer({ minimum: 1, maximum: LIMIT_MAX })))
)

/** What may be changed about a key. */
const powers = {
  name: Name,
  scopes: Type.Array(Type.Union(SCOPES.map(scope => Type.Literal(scope))), { minItems: 1 }),
  /** Names, or `*` for every domain of the account. */
  domains: Type.Array(Type.String(), { minItems: 1, maxItems: KEY_DOMAINS_MAX }),
  expiresAt: Nullable(Time),
  defaults: SendDefaults
}

export const KeyCreated = factType(
  'key.created',
  1,
  Type.Object({
    key: Id('key'),
    ...powers,
    /** SHA-256 of the secret, hex; the secret itself is nowhere. */
    hash: Type.String({ pattern: '^[0-9a-f]{64}$' }),
    /** What lists show of it: its first characters. */
    hint: Type.String({ maxLength: 16 }),
    test: Type.Boolean()
  })
)

/** All of what may be changed, as it is from now on. */
export const KeyChanged = factType('key.changed', 1, Type.Object({ key: Id('key'), ...powers }))

/** The key has a new secret; the one before it works until `previousUntil`, and any older one no more. */
export const KeyRotated = factType(
  'key.rotated',
  1,
  Type.Object({
    key: Id('key'),
    hash: Type.String({ pattern: '^[0-9a-f]{64}$' }),
    hint: Type.String({ maxLength: 16 }),
    previousUntil: Time
  })
)

export const KeyLimitsChanged = factType('key.limits_changed', 1, Type.Object({ key: Id('key'), limits: Limits }))

export const KeyRevoked = factType('key.revoked', 1, Type.Object({ key: Id('key') }))

export const keyFacts = [KeyCreated, KeyChanged, KeyRotated, KeyLimitsChanged, KeyRevoked] as const

export type KeyCreated = FactOf<typeof KeyCreated>
