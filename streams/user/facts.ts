import { Type, type Static } from '@sinclair/typebox'
import { factType, Id, Name } from '../define.ts'
import { USER_ROLES } from './roles.ts'

export const ADDRESS_LENGTH_MAX = 320
/** Of an issuer's URL and of the name that it gives somebody. Source: OpenID Connect Core 2 (sub: 255). */
const IDENTITY_LENGTH_MAX = 2000
export const PASSKEY_NAME_LENGTH_MAX = 100

const UserRoleSchema = Type.Union(USER_ROLES.map(role => Type.Literal(role)))
const base64url = (lengthMax: number) => Type.String({ pattern: `^[A-Za-z0-9_-]{1,${lengthMax}}$` })
/** Its credential id. Source: WebAuthn 4, at most 1023 bytes. */
const PasskeyId = base64url(1364)
const Counter = Type.Integer({ minimum: 0, maximum: 0xffffffff })

/** A person may sign in to the dashboard of the account, with the powers of the role. The id follows from account and
 *  address: one address is one user, also where two invite it at once. */
export const UserCreated = factType(
  'user.created',
  1,
  Type.Object({
    user: Id('usr'),
    /** In lower case. */
    address: Type.String({ minLength: 3, maxLength: ADDRESS_LENGTH_MAX }),
    name: Name,
    role: UserRoleSchema
  })
)

/** All of what may be changed, as it is from now on. */
export const UserChanged = factType(
  'user.changed',
  1,
  Type.Object({ user: Id('usr'), name: Name, role: UserRoleSchema })
)

export const UserRemoved = factType('user.removed', 1, Type.Object({ user: Id('usr') }))

/** Who signs in at this issuer as this subject is the user from now on, whatever address it has there. */
export const UserLinked = factType(
  'user.linked',
  1,
  Type.Object({
    user: Id('usr'),
    issuer: Type.String({ minLength: 1, maxLength: IDENTITY_LENGTH_MAX }),
    subject: Type.String({ minLength: 1, maxLength: IDENTITY_LENGTH_MAX })
  })
)

export const PasskeyAdded = factType(
  'user.passkey_added',
  1,
  Type.Object({
    user: Id('usr'),
    passkey: PasskeyId,
    name: Type.String({ minLength: 1, maxLength: PASSKEY_NAME_LENGTH_MAX }),
    /** COSE. */
    publicKey: base64url(8192),
    counter: Counter
  })
)

/** The passkey counts how often it signs: one that goes back is a copy. */
export const PasskeyUsed = factType(
  'user.passkey_used',
  1,
  Type.Object({ user: Id('usr'), passkey: PasskeyId, counter: Counter })
)

export const PasskeyRemoved = factType(
  'user.passkey_removed',
  1,
  Type.Object({ user: Id('usr'), passkey: PasskeyId })
)

export const userFacts = [
  UserCreated,
  UserChanged,
  UserRemoved,
  UserLinked,
  PasskeyAdded,
  PasskeyUsed,
  PasskeyRemoved
] as const

export type NewPasskey = Omit<Static<typeof PasskeyAdded['data']>, 'user'>
