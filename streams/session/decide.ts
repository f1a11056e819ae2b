import type { Key, Session } from '../directory.ts'
import { isLive, mayDo } from '../key/decide.ts'
import { SCOPES } from '../key/facts.ts'

/** A session ends after this long, in ms, and sooner when nobody uses it. */
export const SESSION_MS = 14 * 86_400_000
/** Of one key at the same time: the one opened longest ago ends when there would be more. */
export const SESSIONS_MAX = 50
/** The secret in the cookie is replaced when it is this old. Not more often: each time is a fact in CONTROL, which is kept for ever. */
export const ROTATE_AFTER_MS = 12 * 3_600_000
/** A secret that nobody came to have replaced ends the session: a day without use never does before, a day and a half always. */
export const SESSION_IDLE_MS = ROTATE_AFTER_MS + 24 * 3_600_000
/** How long the secret before it goes on working. */
export const ROTATION_OVERLAP_MS = 60_000
/** A sign-in link works once, for so long. */
export const LINK_MS = 15 * 60_000

export function mayOpenDashboard (key: Key): boolean {
  return mayDo(key, 'dashboard')
}

/** What somebody who signed in with this key may do: all that it may, and with the scope dashboard all there is but to see and to make keys, whose powers could be
 *  greater than its own. */
export function asVisitor (key: Key): Key {
  return key.scopes.includes('full') ? key : { ...key, scopes: [...new Set([...key.scopes, ...SCOPES.filter(scope => scope !== 'full' && !scope.startsWith('keys:'))])] }
}

/** Whether the secret with this hash opens the session: it is as good as its key, and no longer. */
export function isOpen (session: Session, key: Key | undefined, hash: string, nowMs: number): boolean {
  const { secretMs, previousHash } = session
  const known = session.hash === hash || (previousHash === hash && nowMs < secretMs + ROTATION_OVERLAP_MS)
  return known && !isOver(session, nowMs) && key !== undefined && isLive(key, nowMs) && mayOpenDashboard(key)
}

/** Whether a session has come to its end by itself. */
export function isOver ({ secretMs, untilMs }: Session, nowMs: number): boolean {
  return nowMs >= untilMs || nowMs >= secretMs + SESSION_IDLE_MS
}

export function shouldRotate (session: Session, hash: string, nowMs: number): boolean {
  return session.hash === hash && nowMs >= session.secretMs + ROTATE_AFTER_MS
}
