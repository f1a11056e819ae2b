import type { KeyEntry } from '../directory.ts'
import { isLive, mayDo } from '../key/decide.ts'
import { SCOPES } from '../key/facts.ts'
import type { SessionEntry } from './state.ts'

/** A session ends after this long, in ms, and sooner when nobody uses it. */
export const SESSION_MS = 14 * 86_400_000
/** Of one key at the same time: the one opened longest ago ends when there would be more. */
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

/** What cannot be taken back asks for the key again when it was last shown so long ago. */
export const CONFIRMED_MS = 3_600_000

export function mayOpenDashboard (key: KeyEntry): boolean {
  return mayDo(key, 'dashboard')
}

/** What somebody who signed in with this key may do: all that it may, and with the scope dashboard all there is in its
 *  account but the keys, whose powers could be greater than its own, and the audit log, which tells of them. */
export function asVisitor (key: KeyEntry): KeyEntry {
  return key.scopes.includes('full')
    ? key
    : {
      ...key,
      scopes: [
        ...new Set([
          ...key.scopes,
          ...SCOPES.filter(scope => !['full', 'operator', 'audit:read'].includes(scope) && !scope.startsWith('keys:'))
        ])
      ]
    }
}

/** Whether the secret with this hash opens the session: it is as good as its key, as long as the secret that it was
 *  opened with, and no longer. */
export function isOpen (session: SessionEntry, key: KeyEntry | undefined, hash: string, nowMs: number): boolean {
  const { secretMs, previousHash } = session
  const known = session.hash === hash || (previousHash === hash && nowMs < secretMs + ROTATION_OVERLAP_MS)
  return known && key !== undefined && !isOver(session, key, nowMs) && isLive(key, nowMs) && mayOpenDashboard(key)
}

/** When a session ends however it is used, Unix ms: a session opened with a secret that was rotated away ends with
 *  that secret. */
export function endMs ({ untilMs, keyHash }: SessionEntry, { hash, previous }: KeyEntry): number {
  if (keyHash === hash) return untilMs
  return keyHash === previous?.hash ? Math.min(untilMs, previous.untilMs) : 0
}

/** Whether a session has come to its end by itself. */
export function isOver (session: SessionEntry, key: KeyEntry, nowMs: number): boolean {
  return nowMs >= endMs(session, key) || nowMs >= session.secretMs + SESSION_IDLE_MS
}

/** Whether who sits there was the key's holder not long ago: a browser may be left alone, or its cookie stolen. */
export function isConfirmed ({ confirmedMs }: SessionEntry, nowMs: number): boolean {
  return nowMs < confirmedMs + CONFIRMED_MS
}

/** Whether who brings the secret with this hash is to be given the next one. */
export function isStale (session: SessionEntry, hash: string, nowMs: number): boolean {
  return session.hash !== hash || nowMs >= session.secretMs + ROTATE_AFTER_MS
}
