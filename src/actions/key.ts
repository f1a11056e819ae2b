import { Refusal } from '#streams/define.ts'
import type { Directory, KeyEntry } from '#streams/directory.ts'
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
import { principalOf } from '#streams/session/decide.ts'
import { groupsOf } from '#streams/groups.ts'
import { timestamp } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import { newSecret, sha256Hex } from '#src/base/secret.ts'
import type { Asker, Commander } from './services.ts'
import { countOf, SEEN_MS } from './directory.ts'
import { askedBy, stamp } from './fact-log.ts'
import { createEntity, handleCommand, type CommandServices, type Handled } from './handle-command.ts'

/** `expiresMs` is Unix ms, or null for never. */
export type NewKey = Pick<KeyEntry, 'name' | 'test' | 'scopes' | 'domains' | 'expiresMs' | 'defaults'>

/** The one who asks for a change of keys. */
export interface KeyAsker extends Asker {
  /** Id of the key or the user that asks, which hands on no more than it holds; null = the operator, who holds
   *  everything. */
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

/** Makes a key of another account, for its operator. In the operator's own account this gives no more than any key
 *  gives: the scope operator alone would otherwise lead to `full`. Refuses `not_found` and what is wrong with the key.
 *  Throws LogUnavailable. */
export async function createKeyFor (
  services: CommandServices,
  by: KeyAsker,
  account: string,
  wanted: NewKey
): Promise<OpenKey | Refusal> {
  if (account === by.account) return await grantKey(services, by, wanted)
  const isThere = services.directory.now.accounts.has(account)
  if (!isThere) return new Refusal('not_found', `There is no account ${account}.`)
  return await makeKey(services, { ...by, account }, wanted)
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

/** How many keys ended, and the sequence of the last one's fact in CONTROL. */
type Revocation = { revoked: number, seq: number }

/** Ends a key everywhere: of whatever happens at the same moment, this holds. Throws LogUnavailable. */
export async function revokeKey (
  services: CommandServices,
  asker: KeyAsker,
  id: string
): Promise<Revocation | Refusal> {
  const key = keyWithin(services, asker, id, services.factLog.clock.nowMs())
  return key instanceof Refusal ? key : await endKeys(services, asker, [key])
}

/** The same for all keys that it has made, and those that they have made, also where some of them are revoked already.
 *  Refuses where one of them holds more than the key that asks; then none ends. Should it throw, it can be done again:
 *  the key itself ends last. Throws LogUnavailable. */
export async function revokeWithChildren (
  services: CommandServices,
  asker: KeyAsker,
  id: string
): Promise<Revocation | Refusal> {
  const { directory, factLog } = services
  const done = { seq: 0, revoked: 0 }
  for (;;) {
    const keys = keysFrom(directory.now, asker.account, id)
    if (keys.length === 0) return done.revoked === 0 ? noSuchKey(id) : done
    // Once it is over with a key that revokes itself, it has no powers to go by any more.
    const fault = done.revoked === 0 ? askerFault(services, asker, keys, factLog.clock.nowMs()) : null
    if (fault !== null) return fault
    const { seq, revoked } = await endKeys(services, asker, keys)
    done.seq = seq
    done.revoked += revoked
    // One may have made another meanwhile; from here on none can.
    if (!await directory.reached(seq, SEEN_MS)) return done
  }
}

/** The keys that still work of those that come from one, the youngest first and itself last. */
export function keysFrom ({ keys, keyOrigins }: KeysByOrigin, account: string, id: string): KeyEntry[] {
  return keyOrigins.get(id)?.account === account ? descendantsOf({ keys, keyOrigins }, id) : []
}

/** The same of the keys that a user has made, and those that they have made. */
export function keysOfUser (directory: KeysByOrigin, user: string): KeyEntry[] {
  return descendantsOf(directory, user)
}

type KeysByOrigin = Pick<Directory, 'keys' | 'keyOrigins'>

function descendantsOf ({ keys, keyOrigins }: KeysByOrigin, maker: string): KeyEntry[] {
  const found = new Set([maker])
  // In the order in which they were made: a key comes after its maker.
  for (const [key, { madeBy }] of keyOrigins) if (madeBy !== null && found.has(madeBy)) found.add(key)
  return [...found].flatMap(key => keys.get(key) ?? []).reverse()
}

/** Facts of one append: as many as one commit takes. */
const GROUP_MAX = 250

export async function endKeys (
  { factLog }: CommandServices,
  asker: Asker,
  keys: readonly KeyEntry[]
): Promise<Revocation> {
  let seq = 0
  for (const group of groupsOf(keys, GROUP_MAX)) {
    const nowMs = factLog.clock.nowMs()
    // In the audit log of the account that loses the key: an operator's has made keys of others.
    const facts = group.map(({ id, account }) => stamp(KeyRevoked, askedBy({ ...asker, account }), { key: id }, nowMs))
    seq = (await factLog.append(facts.map(fact => ({ fact })))).at(-1)!
  }
  return { seq, revoked: keys.length }
}

/** Sets the operator's requests a minute for a key; classes left out stay as they are. Throws LogUnavailable or
 *  Conflict. */
export async function limitKey (
  services: CommandServices,
  by: Commander,
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
    askedBy({ ...by, account: known.account }),
    key => (key === undefined ? noSuchKey(id) : decideLimits(key, limits))
  )
}

/** Who asks as they are now: they may have been narrowed or revoked since their request came in. */
function askerFault (
  { directory }: CommandServices,
  { by }: KeyAsker,
  wanted: Powers[],
  nowMs: number
): Refusal | null {
  return by === null ? null : grantFault(principalOf(directory.now, by), wanted, nowMs)
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
