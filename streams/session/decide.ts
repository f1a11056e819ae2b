import type { Directory, KeyEntry, Principal } from '../directory.ts'
import { isLive, mayDo } from '../key/decide.ts'
import { SCOPES, type Scope } from '../key/facts.ts'
import { userPrincipal } from '../user/state.ts'
import type { SessionEntry } from './state.ts'

/** A session ends after this long, in ms, and sooner when nobody uses it. */
export const SESSION_MS = 14 * 86_400_000
/** Of one key or user at the same time: the one opened longest ago ends when there would be more. */
export const SESSIONS_MAX = 50
/** The secret in the cookie is replaced when it is this old. Not more often: each time is a fact in CONTROL, which is
 *  kept for ever. */
export const ROTATE_AFTER_MS = 12 * 3_600_000
/** A secret that nobody came to have replaced ends the session: a day without use never does before, a day and a half
 *  always. */
export const SESSION_IDLE_MS = ROTATE_AFTER_MS + 24 * 3_600_000
/** How long the secret before it goes on working: the answer that brought the new one may be lost, and a request
 *  with the old one is given it again. Longer would suit a closed laptop, and a thief with an old cookie. */
export const ROTATION_OVERLAP_MS = 3_600_000
/** A sign-in link works once, for so long. */
export const LINK_MS = 15 * 60_000

/** What cannot be taken back asks again who sits there when they last showed it so long ago. */
export const CONFIRMED_MS = 3_600_000

/** The key or the user with this id, as it is now. */
export function principalOf ({ keys, users }: Directory, id: string): KeyEntry | Principal | undefined {
  const user = users.get(id)
  return user === undefined ? keys.get(id) : userPrincipal(user)
}

export function isUser ({ id }: Pick<Principal, 'id'>): boolean {
  return id.startsWith('usr_')
}

export function mayOpenDashboard (principal: Principal): boolean {
  return isUser(principal) || mayDo(principal, 'dashboard')
}

/** What the scope dashboard does not open: what hands on powers that could be greater than the key's own, and the audit
 *  log, which tells of them. */
const isApart = (scope: Scope) => ['full', 'operator', 'audit:read'].includes(scope) || /^(keys|users):/.test(scope)

/** What somebody may do who has signed in: a user what the role may; with a key all that it may, and with the scope
 *  dashboard all there is in its account but what is apart. */
export function asVisitor (principal: Principal): Principal {
  if (isUser(principal) || principal.scopes.includes('full')) return principal
  const { scopes } = principal
  return { ...principal, scopes: [...new Set([...scopes, ...SCOPES.filter(scope => !isApart(scope))])] }
}

/** Whether the secret with this hash opens the session: it is as good as its key or user, a key's as long as the secret
 *  that it was opened with, and no longer. */
export function isOpen (
  session: SessionEntry,
  principal: KeyEntry | Principal | undefined,
  hash: string,
  nowMs: number
): boolean {
  const { secretMs, previousHash } = session
  const known = session.hash === hash || (previousHash === hash && nowMs < secretMs + ROTATION_OVERLAP_MS)
  return known && principal !== undefined && !isOver(session, principal, nowMs) && isLive(principal, nowMs) &&
    mayOpenDashboard(principal)
}

/** When a session ends however it is used, Unix ms: a session opened with a secret that was rotated away ends with
 *  that secret. */
export function endMs ({ untilMs, keyHash }: SessionEntry, principal: KeyEntry | Principal): number {
  if (!('hash' in principal) || keyHash === principal.hash) return untilMs
  const { previous } = principal
  return previous !== null && keyHash === previous.hash ? Math.min(untilMs, previous.untilMs) : 0
}

/** Whether a session has come to its end by itself. */
export function isOver (session: SessionEntry, principal: KeyEntry | Principal, nowMs: number): boolean {
  return nowMs >= endMs(session, principal) || nowMs >= session.secretMs + SESSION_IDLE_MS
}

/** Whether who sits there has shown who they are not long ago: a browser may be left alone, or its cookie stolen. */
export function isConfirmed ({ confirmedMs }: SessionEntry, nowMs: number): boolean {
  return nowMs < confirmedMs + CONFIRMED_MS
}

/** Whether who brings the secret with this hash is to be given the next one. */
export function isStale (session: SessionEntry, hash: string, nowMs: number): boolean {
  return session.hash !== hash || nowMs >= session.secretMs + ROTATE_AFTER_MS
}
