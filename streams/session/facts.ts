import { Type } from '@sinclair/typebox'
import { factType, Id, PrincipalId, Time } from '../define.ts'

/** SHA-256 of a secret, hex; the secret itself is nowhere. */
const Hash = Type.String({ pattern: '^[0-9a-f]{64}$' })

export const BROWSER_LENGTH_MAX = 100

/** Before there were users only keys opened sessions. */
function ofKey ({ key: principal, ...data }: { key: string }): object {
  return { ...data, principal }
}

/** A link was made that opens one session of a key or a user, once. What is in the link is random, and told here alone:
 *  who knows JETPOST_SECRET still cannot make one. */
export const SessionLinkMade = factType(
  'session.link_made',
  2,
  Type.Object({
    /** The session that it opens. */
    session: Id('ses'),
    principal: PrincipalId,
    /** Of the secret in the link. */
    hash: Hash,
    /** Until when it can be used. */
    until: Time
  }),
  [ofKey]
)

/** Somebody signed in to the dashboard: with a key, with a link that stands for a key or a user, or as a user. */
export const SessionOpened = factType(
  'session.opened',
  2,
  Type.Object({
    session: Id('ses'),
    principal: PrincipalId,
    /** Of the secret in the browser's cookie. */
    hash: Hash,
    /** Of the key's secret that was shown, with which the session ends. Left out where a link stood for the key, whose
     *  secret it is as it was then, and for users, who have none. */
    secret: Type.Optional(Hash),
    /** When it ends, however it is used. */
    until: Time,
    /** `Firefox 140 on Linux`, as the browser says; left out where it does not. */
    browser: Type.Optional(Type.String({ minLength: 1, maxLength: BROWSER_LENGTH_MAX }))
  }),
  [ofKey]
)

/** The browser has a new secret; the one before works for a while, since the answer that brought this one may be lost.
 */
export const SessionRotated = factType('session.rotated', 1, Type.Object({ session: Id('ses'), hash: Hash }))

/** Who sits there has shown again who they are: by the key's secret, a passkey, or the issuer. */
export const SessionConfirmed = factType('session.confirmed', 1, Type.Object({ session: Id('ses') }))

export const SessionEnded = factType('session.ended', 1, Type.Object({ session: Id('ses') }))

export const sessionFacts = [
  SessionLinkMade,
  SessionOpened,
  SessionRotated,
  SessionConfirmed,
  SessionEnded
] as const
