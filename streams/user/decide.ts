import { FIRST_ACCOUNT } from '../account/facts.ts'
import { parseAddress } from '../address.ts'
import { Refusal, type UnstampedOf } from '../define.ts'
import { isLive, isWithin, mayDo, nameFault } from '../key/decide.ts'
import type { Principal } from '../key/state.ts'
import {
  PasskeyAdded,
  PasskeyRemoved,
  PasskeyUsed,
  UserChanged,
  UserLinked,
  UserRemoved,
  PASSKEY_NAME_LENGTH_MAX,
  type NewPasskey,
  type userFacts
} from './facts.ts'
import { USER_ROLES, type UserRole } from './roles.ts'
import { userPrincipal, type Passkey, type UserEntry } from './state.ts'

/** Users an account may have: every process holds all of them in memory. */
export const USERS_MAX = 1000
export const PASSKEYS_MAX = 20
/** A sign-in link for somebody else works once, for so long: it is passed on by people. */
export const USER_LINK_MS = 24 * 3_600_000

type UserDecision = UnstampedOf<typeof userFacts[number]>

/** An address as users are known by; null = it is none. */
export function foldAddress (text: string): string | null {
  return parseAddress(text.trim())?.toLowerCase() ?? null
}

export function roleFault (role: string): Refusal | null {
  return (USER_ROLES as readonly string[]).includes(role)
    ? null
    : new Refusal('invalid_role', `role must be one of ${USER_ROLES.join(', ')}.`)
}

/** Operators are people of the first account. */
export function operatorRoleFault (role: UserRole, account: string): Refusal | null {
  return role !== 'operator' || account === FIRST_ACCOUNT
    ? null
    : new Refusal('invalid_role', 'operator must only be given in the first account.')
}

/** `count` = the users the account already has. */
export function userCountFault (count: number): Refusal | null {
  return count < USERS_MAX
    ? null
    : new Refusal('too_many_users', `An account can have at most ${USERS_MAX} users: remove one first.`)
}

/** Whether who asks may make `users` what they are, or give a way in as one of them: nobody hands on more than they
 *  hold. `held` undefined = they have been revoked or removed since they asked. */
export function userGrantFault (
  held: Principal | undefined,
  users: ReadonlyArray<Pick<UserEntry, 'account' | 'role'>>,
  nowMs: number
): Refusal | null {
  if (held === undefined || !isLive(held, nowMs)) {
    return new Refusal('unauthorized', 'The key or the user of this request is no more.')
  }
  const granted = mayDo(held, 'users:write') &&
    users.every(user => isWithin(userPrincipal({ ...NOBODY, ...user }), held))
  return granted
    ? null
    : new Refusal('insufficient_permissions', 'Nobody can give a role with more powers than their own.')
}

const NOBODY: Omit<UserEntry, 'account' | 'role'> = {
  id: '',
  address: '',
  name: '',
  identity: null,
  passkeys: [],
  createdAt: ''
}

/** Whether nobody could do for the account what only this user can: the last owner or operator among `others`, the
 *  users of the account without this one. */
export function isLastOfRank ({ role }: UserEntry, others: readonly UserEntry[]): boolean {
  if (role === 'operator') return !others.some(user => user.role === 'operator')
  return role === 'owner' && !others.some(user => user.role === 'owner' || user.role === 'operator')
}

const lastOfRank = ({ role }: UserEntry) =>
  new Refusal('last_user', `You are the last ${role}: make somebody else ${role} first.`)

/** What is left out stays. `self` = who asks is this user, beside `others` of the account. */
export function decideUserChange (
  user: UserEntry,
  { name = user.name, role = user.role }: Partial<Pick<UserEntry, 'name' | 'role'>>,
  { isSelf, others }: { isSelf: boolean, others: readonly UserEntry[] }
): UserDecision[] | Refusal {
  const fault = nameFault(name) ?? roleFault(role) ?? operatorRoleFault(role, user.account)
  if (fault !== null) return fault
  if (isSelf && role !== user.role && isLastOfRank(user, others)) return lastOfRank(user)
  return name === user.name && role === user.role ? [] : [{ type: UserChanged, data: { user: user.id, name, role } }]
}

export function decideUserRemoval (
  user: UserEntry,
  { isSelf, others }: { isSelf: boolean, others: readonly UserEntry[] }
): UserDecision[] | Refusal {
  if (isSelf && isLastOfRank(user, others)) return lastOfRank(user)
  return [{ type: UserRemoved, data: { user: user.id } }]
}

/** The first sign-in at an issuer links; from then on the subject counts and not the address, which may be given to
 *  somebody else there. */
export function decideLink (
  { id, identity }: UserEntry,
  { issuer, subject }: { issuer: string, subject: string }
): UserDecision[] | Refusal {
  if (identity === null) return [{ type: UserLinked, data: { user: id, issuer, subject } }]
  return identity.issuer === issuer && identity.subject === subject
    ? []
    : new Refusal('other_identity', 'This user signs in with another identity.')
}

export function decidePasskey (
  user: UserEntry,
  passkey: NewPasskey,
  isKnown: boolean
): UserDecision[] | Refusal {
  const { name } = passkey
  const isNamed = name.length <= PASSKEY_NAME_LENGTH_MAX && nameFault(name) === null
  if (!isNamed) {
    return new Refusal('invalid_name', `The name must have 1 to ${PASSKEY_NAME_LENGTH_MAX} characters.`)
  }
  if (isKnown) return new Refusal('known_passkey', 'This passkey is in use already.')
  if (user.passkeys.length >= PASSKEYS_MAX) {
    return new Refusal('too_many_passkeys', `A user can have at most ${PASSKEYS_MAX} passkeys: remove one first.`)
  }
  return [{ type: PasskeyAdded, data: { user: user.id, ...passkey } }]
}

export function decidePasskeyRemoval (user: UserEntry, id: string): UserDecision[] | Refusal {
  return user.passkeys.some(passkey => passkey.id === id)
    ? [{ type: PasskeyRemoved, data: { user: user.id, passkey: id } }]
    : new Refusal('not_found', 'There is no such passkey.')
}

/** A passkey has signed with this counter; one that never counts says nothing. Source: WebAuthn 7.2 step 22. */
export function decidePasskeyUse (
  { id: user }: UserEntry,
  { id: passkey, counter: last }: Passkey,
  counter: number
): UserDecision[] | Refusal {
  if (counter === 0 && last === 0) return []
  return counter > last
    ? [{ type: PasskeyUsed, data: { user, passkey, counter } }]
    : new Refusal('copied_passkey', 'This passkey has signed elsewhere since: it may be a copy. Remove it.')
}
