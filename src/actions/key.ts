import { Refusal } from '#streams/define.ts'
import type { KeyEntry } from '#streams/directory.ts'
import { KeyCreated, KeyRevoked, type LimitClass } from '#streams/key/facts.ts'
import {
  countFault,
  decideChange,
  decideLimits,
  decideRotation,
  domainsFault,
  expiryFault,
  foldDomains,
  grantFault,
  limitsFault,
  NO_POWERS,
  nameFault,
  operatorFault,
  scopesFault,
  type KeyChange,
  type Powers
} from '#streams/key/decide.ts'
import { timestamp } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import { newSecret, sha256Hex } from '#src/base/secret.ts'
import type { Asker } from './services.ts'
import { countOf } from './directory.ts'
import { askedBy, stamp } from './fact-log.ts'
import { createEntity, handleCommand, type CommandServices, type Handled } from './handle-command.ts'

/** `expiresMs` is Unix ms, or null for never. */
export type NewKey = Pick<KeyEntry, 'name' | 'test' | 'scopes' | 'domains' | 'expiresMs' | 'defaults'>

/** The one who asks for a change of keys. */
export interface KeyAsker extends Asker {
  /** Id of the key that asks, which hands on no more than it holds; null = the operator, who holds everything. */
  by: string | null
}

/** A key with its secret, which is shown now and never again. */
export type OpenKey = Handled<'key'> & { secret: string }

/** Makes a key for the operator. `given` fixes secret and id, for the operator's own and the first key.
 *  Throws Conflict when a key of that id is there already, and LogUnavailable. */
export async function createKey (
  services: CommandServices,
  asker: Asker,
  wanted: NewKey,
  given?: { secret: string, id: string }
): Promise<{ key: string, secret: string, seq: number } | Refusal> {
  const made = await makeKey(services, asker, wanted, given)
  return made instanceof Refusal ? made : { ...made, key: made.key.id }
}

/** Makes a key within the powers of the one that asks. Throws LogUnavailable. */
export async function grantKey (
  services: CommandServices,
  asker: KeyAsker,
  wanted: NewKey
): Promise<OpenKey | Refusal> {
  const fault = askerFault(services, asker, [folded(wanted)], services.factLog.clock.nowMs())
  return fault ?? await makeKey(services, asker, wanted)
}

async function makeKey (
  services: CommandServices,
  asker: Asker,
  wanted: NewKey,
  given?: { secret: string, id: string }
): Promise<OpenKey | Refusal> {
  const nowMs = services.factLog.clock.nowMs()
  const { expiresMs, ...settings } = folded(wanted)
  const fault = fieldsFault(wanted, nowMs) ?? operatorFault({ ...settings, account: asker.account }) ??
    countFault(countOf(services.directory.now.keys.values(), asker.account))
  if (fault !== null) return fault
  const { secret, ...marks } = openSecret(wanted.test, given?.secret)
  const id = given?.id ?? newId('key', nowMs)
  const data = { key: id, ...settings, ...marks, expiresAt: expiresMs === null ? null : timestamp(expiresMs) }
  return { ...await createEntity(services, 'key', id, stamp(KeyCreated, askedBy(asker), data, nowMs)), secret }
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
  services: CommandServices,
  asker: KeyAsker,
  id: string,
  wanted: KeyChange
): Promise<Handled<'key'> | Refusal> {
  const change = folded(wanted)
  return fieldsFault(change, services.factLog.clock.nowMs()) ??
    await handleCommand(services, 'key', id, askedBy(asker), (_key, nowMs) => {
      const key = ownKey(services, asker, id)
      // Checked before it is known whether the key exists: the powers asked for may be too much for any key.
      const wanted = [{ ...NO_POWERS, ...change }, ...(key === undefined ? [] : [key])]
      const fault = askerFault(services, asker, wanted, nowMs)
      return fault ?? (key === undefined ? noSuchKey(id) : decideChange(key, change))
    })
}

/** Gives a key a new secret; the one before it works `overlapS` seconds longer, and any older one no more. Throws
 *  LogUnavailable or Conflict. */
export async function rotateKey (
  services: CommandServices,
  asker: KeyAsker,
  id: string,
  overlapS: number
): Promise<OpenKey | Refusal> {
  const known = keyWithin(services, asker, id, services.factLog.clock.nowMs())
  if (known instanceof Refusal) return known
  const { secret, ...marks } = openSecret(known.test)
  const rotated = await handleCommand(services, 'key', id, askedBy(asker), (_key, nowMs) => {
    const key = keyWithin(services, asker, id, nowMs)
    return key instanceof Refusal ? key : decideRotation(key, marks, overlapS, nowMs)
  })
  return rotated instanceof Refusal ? rotated : { ...rotated, secret }
}

/** Ends a key everywhere: of whatever happens at the same moment, this holds. Throws LogUnavailable. */
export async function revokeKey (
  services: CommandServices,
  asker: KeyAsker,
  id: string
): Promise<{ seq: number } | Refusal> {
  const nowMs = services.factLog.clock.nowMs()
  const key = keyWithin(services, asker, id, nowMs)
  if (key instanceof Refusal) return key
  const fact = stamp(KeyRevoked, askedBy(asker), { key: id }, nowMs)
  const [seq] = await services.factLog.append([{ fact }])
  return { seq: seq! }
}

/** Sets the operator's requests a minute for a key; classes left out stay as they are. Throws LogUnavailable or
 *  Conflict. */
export async function limitKey (
  services: CommandServices,
  correlation: string,
  id: string,
  limits: Partial<Record<LimitClass, number>>
): Promise<Handled<'key'> | Refusal> {
  const fault = limitsFault(limits)
  if (fault !== null) return fault
  const known = services.directory.now.keys.get(id)
  if (known === undefined) return noSuchKey(id)
  return await handleCommand(
    services,
    'key',
    id,
    askedBy({ account: known.account, correlation }),
    key => (key === undefined ? noSuchKey(id) : decideLimits(key, limits))
  )
}

/** The key that asks as it is now: it may have been narrowed or revoked since its request came in. */
function askerFault (
  { directory }: CommandServices,
  { by }: KeyAsker,
  wanted: Powers[],
  nowMs: number
): Refusal | null {
  return by === null ? null : grantFault(directory.now.keys.get(by), wanted, nowMs)
}

/** The account's key, when the one that asks holds as much as it does. */
function keyWithin (services: CommandServices, asker: KeyAsker, id: string, nowMs: number): KeyEntry | Refusal {
  const key = ownKey(services, asker, id)
  return askerFault(services, asker, key === undefined ? [] : [key], nowMs) ?? key ?? noSuchKey(id)
}

/** The account's key; another account's is none. */
export function ownKey (
  services: CommandServices,
  { account }: Pick<Asker, 'account'>,
  id: string
): KeyEntry | undefined {
  const key = services.directory.now.keys.get(id)
  return key?.account === account ? key : undefined
}

const noSuchKey = (id: string) => new Refusal('not_found', `There is no key ${id}.`)
