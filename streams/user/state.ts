import type { FactOn } from '../catalog.ts'
import { NO_DEFAULTS } from '../email/defaults.ts'
import type { Principal } from '../key/state.ts'
import type { LinkEntry, SessionEntry } from '../session/state.ts'
import type { NewPasskey } from './facts.ts'
import { scopesOf, type UserRole } from './roles.ts'

export interface Passkey {
  /** Its credential id, base64url. */
  id: string
  name: string
  /** COSE, base64url. */
  publicKey: string
  /** As it was when it last signed; 0 = it does not count. */
  counter: number
  createdAt: string
}

export interface UserEntry {
  id: string
  account: string
  /** In lower case. */
  address: string
  name: string
  role: UserRole
  /** Who the user is at an OpenID Connect issuer; null = nobody has signed in there. */
  identity: { issuer: string, subject: string } | null
  passkeys: Passkey[]
  createdAt: string
}

/** What the user may do: all that the role may, on every domain of the account, with live mail. */
export function userPrincipal ({ id, account, name, role }: UserEntry): Principal {
  return {
    id,
    account,
    name,
    test: false,
    scopes: [...scopesOf(role, account)],
    domains: ['*'],
    expiresMs: null,
    defaults: NO_DEFAULTS,
    limits: {}
  }
}

/** A part of the directory. */
interface Users {
  users: Map<string, UserEntry>
  /** Ids of those who were removed. */
  formerUsers: Set<string>
  sessions: Map<string, SessionEntry>
  links: Map<string, LinkEntry>
}

/** Folds a fact about a user into them. */
export function evolveUsers (directory: Users, fact: FactOn<'user'>): void {
  const { users, formerUsers } = directory
  const { account, time } = fact
  if (fact.type === 'user.created') {
    const { user: id, ...rest } = fact.data
    formerUsers.delete(id)
    users.set(id, { ...rest, id, account, identity: null, passkeys: [], createdAt: time })
    return
  }
  const user = users.get(fact.data.user)
  if (user === undefined) return
  switch (fact.type) {
    case 'user.changed':
      Object.assign(user, { name: fact.data.name, role: fact.data.role })
      break
    case 'user.removed':
      return removeUser(directory, user.id)
    case 'user.linked':
      user.identity = { issuer: fact.data.issuer, subject: fact.data.subject }
      break
    case 'user.passkey_added':
      user.passkeys = [...user.passkeys, passkeyOf(fact.data, time)]
      break
    case 'user.passkey_used':
      user.passkeys = user.passkeys.map(passkey =>
        passkey.id === fact.data.passkey ? { ...passkey, counter: fact.data.counter } : passkey
      )
      break
    case 'user.passkey_removed':
      user.passkeys = user.passkeys.filter(({ id }) => id !== fact.data.passkey)
  }
}

/** Somebody who is invited again has the same id, but not what was open before. */
function removeUser ({ users, formerUsers, sessions, links }: Users, id: string): void {
  users.delete(id)
  formerUsers.add(id)
  for (const session of sessions.values()) if (session.principal === id) sessions.delete(session.id)
  for (const link of links.values()) if (link.principal === id) links.delete(link.session)
}

function passkeyOf ({ passkey: id, name, publicKey, counter }: NewPasskey, createdAt: string): Passkey {
  return { id, name, publicKey, counter, createdAt }
}
