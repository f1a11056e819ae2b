import { isDeepStrictEqual } from 'node:util'
import { Refusal } from '#streams/define.ts'
import type { KeyEntry } from '#streams/directory.ts'
import type { SendDefaults } from '#streams/email/defaults.ts'
import {
  KeyChanged,
  KeyCreated,
  KeyLimitsChanged,
  KeyRevoked,
  KeyRotated,
  LIMIT_CLASSES,
  type LimitClass
} from '#streams/key/facts.ts'
import {
  countFault,
  domainsFault,
  expiryFault,
  foldDomains,
  grantFault,
  NO_POWERS,
  nameFault,
  powersFault,
  rotationFault,
  scopesFault,
  type Powers
} from '#streams/key/decide.ts'
import { subjects } from '#streams/subjects.ts'
import { timestamp } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import { newSecret, sha256Hex } from '#src/base/secret.ts'
import type { Asker, Services } from './services.ts'
import { countOf } from './directory.ts'
import { stamp } from './appenders.ts'
import { retryOnConflictOf } from './retry-on-conflict.ts'

/** `expiresMs` is Unix ms, or null for never. */
export type NewKey = Pick<KeyEntry, 'name' | 'test' | 'scopes' | 'domains' | 'expiresMs' | 'defaults'>

/** What is left out stays as it is. */
export type KeyChange = Partial<Omit<NewKey, 'test' | 'defaults'>> & { defaults?: Partial<SendDefaults> }

/** The one who asks for a change of keys. */
export interface KeyAsker extends Asker {
  /** Id of the key that asks, which hands on no more than it holds; null = the operator, who holds everything. */
  by: string | null
}

/** A key with its secret, which is shown now and never again. */
export interface OpenKey {
  key: KeyEntry
  secret: string
  /** In CONTROL: a node whose directory has reached it knows the key. */
  seq: number
}

type KeyServices = Pick<Services, 'appenders' | 'directory'>

/** Makes a key for the operator. `given` fixes secret and id, for the operator's own and the first key.
 *  Throws Conflict when a key of that id is there already, and LogUnavailable. */
export async function createKey (
  services: KeyServices,
  asker: Asker,
  wanted: NewKey,
  given?: { secret: string, id: string }
): Promise<{ key: string, secret: string, seq: number } | Refusal> {
  const made = await makeKey(services, asker, wanted, given)
  return made instanceof Refusal ? made : { ...made, key: made.key.id }
}

/** Makes a key within the powers of the one that asks. Throws LogUnavailable. */
export async function grantKey (services: KeyServices, asker: KeyAsker, wanted: NewKey): Promise<OpenKey | Refusal> {
  return askerFault(services, asker, [folded(wanted)]) ?? await makeKey(services, asker, wanted)
}

async function makeKey (
  services: KeyServices,
  { account, correlation }: Asker,
  wanted: NewKey,
  given?: { secret: string, id: string }
): Promise<OpenKey | Refusal> {
  const nowMs = services.appenders.clock.nowMs()
  const fault = fieldsFault(wanted, nowMs) ?? countFault(countOf(services.directory.now.keys.values(), account))
  if (fault !== null) return fault
  const { secret, ...marks } = openSecret(wanted.test, given?.secret)
  const { expiresMs, ...data } = { ...folded(wanted), ...marks }
  const id = given?.id ?? newId('key', nowMs)
  const fact = stamp(KeyCreated, { account, correlation, causation: null }, {
    key: id,
    ...data,
    expiresAt: timeOf(expiresMs)
  }, nowMs)
  const [seq] = await services.appenders.append([{ fact, expectedSeq: 0 }])
  return {
    key: { ...data, id, account, expiresMs, previous: null, limits: {}, createdAt: fact.time },
    secret,
    seq: seq!
  }
}

/** A secret, and what is kept of it. */
function openSecret (
  test: boolean,
  secret = newSecret(test ? 'jp_test_' : 'jp_live_')
): { secret: string, hash: string, hint: string } {
  return { secret, hash: sha256Hex(secret), hint: `${secret.slice(0, 12)}…` }
}

function fieldsFault ({ name, scopes, domains, expiresMs = null }: KeyChange, nowMs: number): Refusal | null {
  return (name === undefined ? null : nameFault(name)) ??
    (scopes === undefined ? null : scopesFault(scopes)) ??
    (domains === undefined ? null : domainsFault(domains)) ??
    (expiresMs === null ? null : expiryFault(expiresMs, nowMs))
}

/** Each scope and each domain once. */
function folded<T extends KeyChange> (wanted: T): T {
  const { scopes, domains } = wanted
  return {
    ...wanted,
    ...(scopes === undefined ? {} : { scopes: [...new Set(scopes)] }),
    ...(domains === undefined ? {} : { domains: foldDomains(domains) })
  }
}

/** Changes what a key is called, may do and says about mail. Saying it twice is no fault. Throws LogUnavailable or
 *  Conflict. */
export async function changeKey (
  services: KeyServices,
  asker: KeyAsker,
  id: string,
  wanted: KeyChange
): Promise<{ key: KeyEntry, seq: number } | Refusal> {
  const { defaults, ...change } = folded(wanted)
  return fieldsFault(change, services.appenders.clock.nowMs()) ??
    await retryOnConflictOf(services.directory, async () => {
      const key = ownKey(services, asker, id)
      // Checked before it is known whether the key exists: the powers asked for may be too much for any key.
      const fault = askerFault(services, asker, [{ ...NO_POWERS, ...change }, ...(key === undefined ? [] : [key])])
      if (fault !== null) return fault
      if (key === undefined) return noSuchKey(id)
      const fixed = powersFault(key, change)
      if (fixed !== null) return fixed
      const next: KeyEntry = { ...key, ...change, defaults: { ...key.defaults, ...defaults } }
      if (isDeepStrictEqual(next, key)) return { key, seq: 0 }
      const { name, scopes, domains, expiresMs } = next
      const fact = stamp(KeyChanged, causeOf(asker), {
        key: id,
        name,
        scopes,
        domains,
        expiresAt: timeOf(expiresMs),
        defaults: next.defaults
      }, services.appenders.clock.nowMs())
      return { key: next, seq: await appendTo(services, key, fact) }
    })
}

/** Gives a key a new secret; the one before it works `overlapS` seconds longer, and any older one no more. Throws
 *  LogUnavailable or Conflict. */
export async function rotateKey (
  services: KeyServices,
  asker: KeyAsker,
  id: string,
  overlapS: number
): Promise<OpenKey | Refusal> {
  return await retryOnConflictOf(services.directory, async () => {
    const key = keyWithin(services, asker, id)
    if (key instanceof Refusal) return key
    const nowMs = services.appenders.clock.nowMs()
    const closed = rotationFault(key, nowMs)
    if (closed !== null) return closed
    const { secret, ...marks } = openSecret(key.test)
    // What ends at once has ended by every node's clock, also by one that is behind.
    const untilMs = overlapS === 0 ? 0 : nowMs + overlapS * 1000
    const fact = stamp(KeyRotated, causeOf(asker), { key: id, ...marks, previousUntil: timestamp(untilMs) }, nowMs)
    const seq = await appendTo(services, key, fact)
    return { key: { ...key, ...marks, previous: { hash: key.hash, untilMs } }, secret, seq }
  })
}

/** Ends a key everywhere: of whatever happens at the same moment, this holds. Throws LogUnavailable. */
export async function revokeKey (
  services: KeyServices,
  asker: KeyAsker,
  id: string
): Promise<{ seq: number } | Refusal> {
  const key = keyWithin(services, asker, id)
  if (key instanceof Refusal) return key
  const fact = stamp(KeyRevoked, causeOf(asker), { key: id }, services.appenders.clock.nowMs())
  const [seq] = await services.appenders.append([{ fact }])
  return { seq: seq! }
}

/** Sets the operator's requests a minute for a key; classes left out stay as they are. Throws LogUnavailable or
 *  Conflict. */
export async function limitKey (
  services: KeyServices,
  correlation: string,
  id: string,
  limits: Partial<Record<LimitClass, number>>
): Promise<{ key: KeyEntry, seq: number } | Refusal> {
  const wrong = Object.entries(limits).some(([name, limit]) =>
    !(LIMIT_CLASSES as readonly string[]).includes(name) || !Number.isInteger(limit) || limit < 1 || limit > 10_000_000
  )
  if (wrong) {
    return new Refusal(
      'invalid_limit',
      `limits must be whole numbers from 1 to 10000000 for ${LIMIT_CLASSES.join(', ')}.`
    )
  }
  return await retryOnConflictOf(services.directory, async () => {
    const key = services.directory.now.keys.get(id)
    if (key === undefined) return noSuchKey(id)
    const next = { ...key, limits: { ...key.limits, ...limits } }
    const fact = stamp(KeyLimitsChanged, causeOf({ account: key.account, correlation }), {
      key: id,
      limits: next.limits
    }, services.appenders.clock.nowMs())
    return { key: next, seq: await appendTo(services, key, fact) }
  })
}

/** The key that asks as it is now: it may have been narrowed or revoked since its request came in. */
function askerFault (services: KeyServices, { by }: KeyAsker, wanted: Powers[]): Refusal | null {
  return by === null ? null : grantFault(services.directory.now.keys.get(by), wanted, services.appenders.clock.nowMs())
}

/** The account's key, when the one that asks holds as much as it does. */
function keyWithin (services: KeyServices, asker: KeyAsker, id: string): KeyEntry | Refusal {
  const key = ownKey(services, asker, id)
  return askerFault(services, asker, key === undefined ? [] : [key]) ?? key ?? noSuchKey(id)
}

/** The account's key; another account's is none. */
export function ownKey (services: KeyServices, { account }: Pick<Asker, 'account'>, id: string): KeyEntry | undefined {
  const key = services.directory.now.keys.get(id)
  return key?.account === account ? key : undefined
}

const noSuchKey = (id: string) => new Refusal('not_found', `There is no key ${id}.`)
const causeOf = ({ account, correlation }: Asker) => ({ account, correlation, causation: null })
const timeOf = (ms: number | null) => (ms === null ? null : timestamp(ms))

/** Only onto the state that was decided on. Throws Conflict when the key has moved on: a change never follows a
 *  revocation. */
async function appendTo (
  services: KeyServices,
  { account, id }: KeyEntry,
  fact: ReturnType<typeof stamp>
): Promise<number> {
  const expectedSeq = services.directory.now.versions.get(subjects.key(account, id))!
  const [seq] = await services.appenders.append([{ fact, expectedSeq }])
  return seq!
}
