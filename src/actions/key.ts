import { parseDomain } from '#streams/address.ts'
import { Refusal } from '#streams/define.ts'
import { KeyCreated, KeyLimitsChanged, KeyRevoked, LIMIT_CLASSES, SCOPES, type LimitClass, type Scope } from '#streams/key/facts.ts'
import { nameFault } from '#streams/key/decide.ts'
import { subjects } from '#streams/subjects.ts'
import { timestamp } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import { newSecret, sha256Hex } from '#src/base/secret.ts'
import type { Asker, Desk } from './desk.ts'
import { stamp } from './ledger.ts'

export interface NewKey {
  name: string
  test: boolean
  scopes: Scope[]
  domains: string[]
  /** Unix ms or null for never. */
  expiresMs: number | null
}

/** Makes a key and hands out its secret, the only time. `given` fixes secret and id, for the operator's own and the first key.
 *  Throws Conflict when a key of that id is there already. */
export async function createKey (
  desk: Desk, asker: Asker, key: NewKey, given?: { secret: string, id: string }
): Promise<{ key: string, secret: string, seq: number } | Refusal> {
  const fault = nameFault(key.name) ?? scopesFault(key.scopes) ?? domainsFault(key.domains)
  if (fault !== null) return fault
  const nowMs = desk.ledger.clock.nowMs()
  const secret = given?.secret ?? newSecret(key.test ? 'jp_test_' : 'jp_live_')
  const id = given?.id ?? newId('key', nowMs)
  const fact = stamp(KeyCreated, { ...asker, causation: null }, {
    key: id,
    name: key.name,
    hash: sha256Hex(secret),
    hint: `${secret.slice(0, 12)}…`,
    test: key.test,
    scopes: key.scopes,
    domains: key.domains,
    expiresAt: key.expiresMs === null ? null : timestamp(key.expiresMs)
  }, nowMs)
  const [seq] = await desk.ledger.control.append([{ subject: subjects.key(asker.account, id), fact, expectedSeq: 0 }])
  return { key: id, secret, seq: seq! }
}

function scopesFault (scopes: string[]): Refusal | null {
  const unknown = scopes.filter(scope => !(SCOPES as readonly string[]).includes(scope))
  return scopes.length === 0 || unknown.length > 0 ? new Refusal('invalid_scope', `Scopes are one or more of ${SCOPES.join(', ')}.`) : null
}

function domainsFault (domains: string[]): Refusal | null {
  const wrong = domains.length === 0 || domains.some(name => name !== '*' && parseDomain(name) !== name)
  return wrong ? new Refusal('invalid_domain', 'Domains are one or more host names in lower-case A-labels, or "*".') : null
}

/** Ends a key everywhere. Saying it twice is no fault. */
export async function revokeKey (desk: Desk, asker: Asker, id: string): Promise<{ seq: number } | Refusal> {
  const key = desk.directory.now.keys.get(id)
  if (key === undefined || key.account !== asker.account) return new Refusal('not_found', `There is no key ${id}.`)
  const fact = stamp(KeyRevoked, { ...asker, causation: null }, { key: id }, desk.ledger.clock.nowMs())
  const [seq] = await desk.ledger.control.append([{ subject: subjects.key(asker.account, id), fact }])
  return { seq: seq! }
}

/** Sets the operator's requests a minute for a key; classes left out keep the spec's. */
export async function limitKey (desk: Desk, correlation: string, id: string, limits: Partial<Record<LimitClass, number>>): Promise<{ seq: number } | Refusal> {
  const key = desk.directory.now.keys.get(id)
  if (key === undefined) return new Refusal('not_found', `There is no key ${id}.`)
  const wrong = Object.entries(limits).some(([name, limit]) =>
    !(LIMIT_CLASSES as readonly string[]).includes(name) || !Number.isInteger(limit) || limit < 1 || limit > 10_000_000)
  if (wrong) return new Refusal('invalid_limit', `Limits are whole numbers from 1 to 10000000 for ${LIMIT_CLASSES.join(', ')}.`)
  const asker = { account: key.account, correlation, causation: null }
  const fact = stamp(KeyLimitsChanged, asker, { key: id, limits: { ...key.limits, ...limits } }, desk.ledger.clock.nowMs())
  const [seq] = await desk.ledger.control.append([{ subject: subjects.key(key.account, id), fact }])
  return { seq: seq! }
}
