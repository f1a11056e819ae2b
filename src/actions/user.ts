import { Refusal } from '#streams/define.ts'
import { nameFault } from '#streams/key/decide.ts'
import { principalOf } from '#streams/session/decide.ts'
import {
  decidePasskeyRemoval,
  decideUserChange,
  decideUserRemoval,
  foldAddress,
  operatorRoleFault,
  roleFault,
  userCountFault,
  userGrantFault
} from '#streams/user/decide.ts'
import { UserCreated } from '#streams/user/facts.ts'
import type { UserRole } from '#streams/user/roles.ts'
import type { UserEntry } from '#streams/user/state.ts'
import { timestamp } from '#src/base/clock.ts'
import { sha256Hex } from '#src/base/secret.ts'
import { countOf, SEEN_MS } from './directory.ts'
import { askedBy } from './fact-log.ts'
import { handleCommand, type CommandServices, type Handled } from './handle-command.ts'
import { endKeys, keysOfUser, type KeyAsker } from './key.ts'
import type { Asker, Services } from './services.ts'
import { LINK_PATH, mintLink } from './session.ts'

export interface NewUser {
  /** As people write it. */
  address: string
  /** Left out = the address. */
  name?: string
  role: UserRole
}

/** Follows from what there may be once: so two nodes that invite the same person at once make one user. */
function userIdOf (account: string, address: string): string {
  return `usr_${sha256Hex(`${account} ${address}`).slice(0, 32)}`
}

/** Adds a person to the account, who may sign in from now on. Refuses `invalid_address`, `invalid_name`,
 *  `invalid_role`, `user_exists`, and more powers than the one who asks has. Throws LogUnavailable or Conflict. */
export async function createUser (
  services: CommandServices,
  asker: KeyAsker,
  { address: given, name: givenName, role }: NewUser
): Promise<Handled<'user'> | Refusal> {
  const { account } = asker
  const address = foldAddress(given)
  if (address === null) return new Refusal('invalid_address', 'email must be an email address.')
  const name = givenName ?? address
  const fault = nameFault(name) ?? roleFault(role) ?? operatorRoleFault(role, account)
  if (fault !== null) return fault
  const user = userIdOf(account, address)
  return await handleCommand(
    services,
    'user',
    user,
    askedBy(asker),
    (known, nowMs) =>
      askerFault(services, asker, [{ account, role }], nowMs) ??
        (known === undefined ? null : new Refusal('user_exists', `${address} is a user of this account already.`)) ??
        userCountFault(countOf(services.directory.now.users.values(), account)) ??
        [{ type: UserCreated, data: { user, address, name, role } }]
  )
}

/** Changes what a user is called, or the role. It holds on every node within a second, for open sessions, too. Throws
 *  LogUnavailable or Conflict. */
export async function changeUser (
  services: CommandServices,
  asker: KeyAsker,
  id: string,
  change: Partial<Pick<UserEntry, 'name' | 'role'>>
): Promise<Handled<'user'> | Refusal> {
  return await handleCommand(services, 'user', id, askedBy(asker), (_user, nowMs) => {
    const user = ownUser(services, asker, id)
    if (user === undefined) return noSuchUser(id)
    const after = { ...user, ...change }
    return roleFault(after.role) ?? askerFault(services, asker, [user, after], nowMs) ??
      decideUserChange(user, change, besides(services, asker, user))
  })
}

/** How many keys ended with the user, and the sequence of the last fact in CONTROL. */
type Removal = { revoked: number, seq: number }

/** Removes a person: the sessions end everywhere. `withKeys` = the keys that they have made end as well, and those that
 *  these have made. Throws LogUnavailable or Conflict. */
export async function removeUser (
  services: CommandServices,
  asker: KeyAsker,
  id: string,
  withKeys: boolean
): Promise<Removal | Refusal> {
  const removed = await handleCommand(services, 'user', id, askedBy(asker), (_user, nowMs) => {
    const user = ownUser(services, asker, id)
    if (user === undefined) return noSuchUser(id)
    return askerFault(services, asker, [user], nowMs) ?? decideUserRemoval(user, besides(services, asker, user))
  })
  if (removed instanceof Refusal) return removed
  const { seq } = removed
  // Keys that were being made meanwhile never work.
  if (!withKeys || !await services.directory.reached(seq, SEEN_MS)) return { revoked: 0, seq }
  const keys = keysOfUser(services.directory.now, id)
  return keys.length === 0 ? { revoked: 0, seq } : await endKeys(services, asker, keys)
}

/** A link that signs the user in, once, within a day. It is shown to the one who asks and not mailed: mail is kept, and
 *  read by all who may read the account's. Throws LogUnavailable. */
export async function mintUserLink (
  services: Pick<Services, 'factLog' | 'directory'>,
  asker: KeyAsker,
  id: string,
  publicUrl: string
): Promise<{ url: string, expiresAt: string, seq: number } | Refusal> {
  const user = ownUser(services, asker, id)
  if (user === undefined) return noSuchUser(id)
  const fault = askerFault(services, asker, [user], services.factLog.clock.nowMs())
  if (fault !== null) return fault
  const { token, untilMs, seq } = await mintLink(services, asker, user)
  return { url: publicUrl + LINK_PATH + token, expiresAt: timestamp(untilMs), seq }
}

/** Takes a passkey from a user. Throws LogUnavailable or Conflict. */
export async function removePasskey (
  services: CommandServices,
  asker: Asker,
  user: string,
  passkey: string
): Promise<Handled<'user'> | Refusal> {
  return await handleCommand(
    services,
    'user',
    user,
    askedBy(asker),
    known => known === undefined ? noSuchUser(user) : decidePasskeyRemoval(known, passkey)
  )
}

/** Who asks as they are now: they may have been removed since their request came in. */
function askerFault (
  { directory }: Pick<Services, 'directory'>,
  { by }: KeyAsker,
  users: ReadonlyArray<Pick<UserEntry, 'account' | 'role'>>,
  nowMs: number
): Refusal | null {
  return by === null ? null : userGrantFault(principalOf(directory.now, by), users, nowMs)
}

function besides ({ directory }: CommandServices, { by }: KeyAsker, { id, account }: UserEntry) {
  const others = [...directory.now.users.values()].filter(user => user.account === account && user.id !== id)
  return { isSelf: by === id, others }
}

/** The account's user; another account's is none. */
export function ownUser (
  { directory }: Pick<Services, 'directory'>,
  { account }: Pick<Asker, 'account'>,
  id: string
): UserEntry | undefined {
  const user = directory.now.users.get(id)
  return user?.account === account ? user : undefined
}

const noSuchUser = (id: string) => new Refusal('not_found', `There is no user ${id}.`)
