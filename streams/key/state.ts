import type { FactNamed, FactOn } from '../catalog.ts'
import { principalBehind } from '../define.ts'
import type { SendDefaults } from '../email/defaults.ts'
import type { LimitClass, Scope } from './facts.ts'

/** Who asks, or has signed in: a key, or a user with the powers of the role. */
export interface Principal {
  /** `key_…` or `usr_…`. */
  id: string
  account: string
  name: string
  /** Its mail goes to the mail catcher only, and it changes test data alone. */
  test: boolean
  scopes: Scope[]
  domains: string[]
  /** Unix ms, or null for never. */
  expiresMs: number | null
  defaults: SendDefaults
  limits: Partial<Record<LimitClass, number>>
}

export interface KeyEntry extends Principal {
  hash: string
  hint: string
  /** The secret before the last rotation, while it still works; Unix ms. */
  previous: { hash: string, untilMs: number } | null
  /** Id of the key or the user that made it, itself or by a session; null = another did. */
  madeBy: string | null
  createdAt: string
}

/** The directory's keys. */
export interface KeyMaps {
  /** By the SHA-256 of the secret; a key in rotation stands under both. */
  keysByHash: Map<string, KeyEntry>
  keys: Map<string, KeyEntry>
  /** Of every key there ever was: what a revoked key has made is known by it. */
  keyOrigins: Map<string, Pick<KeyEntry, 'account' | 'madeBy'>>
  /** Ids of users who were removed. */
  formerUsers: Set<string>
}

/** Folds a fact about a key into them. */
export function evolveKeys (directory: KeyMaps, fact: FactOn<'key'>): void {
  switch (fact.type) {
    case 'key.created':
      return addKey(directory, fact)
    case 'key.changed':
      return changeKey(directory, fact.data)
    case 'key.rotated':
      return rotateKey(directory, fact.data)
    case 'key.limits_changed': {
      const key = directory.keys.get(fact.data.key)
      if (key !== undefined) key.limits = fact.data.limits
      return
    }
    case 'key.revoked':
      return removeKey(directory, fact.data.key)
  }
}

function addKey (directory: KeyMaps, { data, account, time, actor }: FactNamed<'key.created'>): void {
  const { key: id, expiresAt, ...rest } = data
  const madeBy = principalBehind(actor)
  directory.keyOrigins.set(id, { account, madeBy })
  // Its maker was revoked or removed while it made it: it never works, or it would outlive the revocation of both.
  if (madeBy !== null && isGone(directory, madeBy)) return
  const key = { ...rest, id, account, previous: null, expiresMs: msOf(expiresAt), limits: {}, madeBy, createdAt: time }
  directory.keys.set(id, key)
  directory.keysByHash.set(key.hash, key)
}

function isGone ({ keyOrigins, keys, formerUsers }: KeyMaps, principal: string): boolean {
  return formerUsers.has(principal) || (keyOrigins.has(principal) && !keys.has(principal))
}

function changeKey (directory: KeyMaps, { key: id, expiresAt, ...powers }: FactNamed<'key.changed'>['data']): void {
  const key = directory.keys.get(id)
  if (key !== undefined) Object.assign(key, powers, { expiresMs: msOf(expiresAt) })
}

function rotateKey (
  directory: KeyMaps,
  { key: id, hash, hint, previousUntil }: FactNamed<'key.rotated'>['data']
): void {
  const key = directory.keys.get(id)
  if (key === undefined) return
  if (key.previous !== null) directory.keysByHash.delete(key.previous.hash)
  Object.assign(key, { hash, hint, previous: { hash: key.hash, untilMs: Date.parse(previousUntil) } })
  directory.keysByHash.set(hash, key)
}

function removeKey (directory: KeyMaps, id: string): void {
  const key = directory.keys.get(id)
  if (key === undefined) return
  directory.keysByHash.delete(key.hash)
  if (key.previous !== null) directory.keysByHash.delete(key.previous.hash)
  directory.keys.delete(id)
}

function msOf (time: string | null): number | null {
  return time === null ? null : Date.parse(time)
}
