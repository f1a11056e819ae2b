import { Type, type Static } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { NAME_LENGTH_MAX, Nullable, Refusal } from '#streams/define.ts'
import { nameFault } from '#streams/key/decide.ts'
import { foldAddress } from '#streams/user/decide.ts'
import { ADDRESS_LENGTH_MAX } from '#streams/user/facts.ts'
import { USER_ROLES } from '#streams/user/roles.ts'
import type { UserEntry } from '#streams/user/state.ts'
import type { KeyAsker } from '#src/actions/key.ts'
import type { Services } from '#src/actions/services.ts'
import { changeUser, createUser, mintUserLink, removeUser } from '#src/actions/user.ts'
import { timestamp } from '#src/base/clock.ts'
import { hasDashboard } from '#src/base/config.ts'
import { isUnanswered } from '#src/nats/errors.ts'
import type { Api } from './context.ts'
import { conflict } from './errors.ts'
import { askerOf, IdParams, MUST_BE_ADDRESS, MUST_BE_OBJECT, textFaults } from './params.ts'
import { ResourceRoutes } from './resource.ts'

const BODY = { must: MUST_BE_OBJECT, additionalProperties: false }
const RoleSchema = Type.Union(USER_ROLES.map(role => Type.Literal(role)), {
  must: `be one of ${USER_ROLES.join(', ')}`,
  description: 'What the person may do. `operator` only in the first account.'
})
const fields = {
  name: Type.String({ minLength: 1, maxLength: NAME_LENGTH_MAX, description: 'What people call the person.' }),
  role: RoleSchema
}

const CreateRequest = Type.Object({
  email: Type.String({
    maxLength: ADDRESS_LENGTH_MAX,
    must: MUST_BE_ADDRESS,
    description: 'The address by which a first sign-in at the issuer is recognised. It cannot be changed later.'
  }),
  name: Type.Optional(fields.name),
  role: fields.role
}, { ...BODY, examples: [{ email: 'ada@example.com', name: 'Ada Lovelace', role: 'developer' }] })
const ChangeRequest = Type.Partial(Type.Object(fields), { ...BODY, examples: [{ role: 'viewer' }] })

const EXAMPLE = {
  id: 'usr_7f2c9b1e4d6a8035c1f7e2b94d6a8035',
  email: 'ada@example.com',
  name: 'Ada Lovelace',
  role: 'developer',
  issuer: 'https://login.example.com',
  passkeys: 1,
  last_seen_at: '2026-11-22T08:30:00.000Z',
  created_at: '2026-11-21T12:00:00.000Z'
}
const UserAnswer = Type.Object({
  id: Type.String(),
  email: Type.String(),
  name: Type.String(),
  role: RoleSchema,
  issuer: Nullable(Type.String({ description: 'Where the person has signed in by OpenID Connect. `null` = nowhere.' })),
  passkeys: Type.Integer({ description: 'How many passkeys the person has.' }),
  last_seen_at: Nullable(
    Type.String({
      description: 'When the person last used the dashboard, to within five minutes. `null` = not within 400 days, ' +
        'or it cannot be known now.'
    })
  ),
  created_at: Type.String()
}, { examples: [EXAMPLE] })
const RemoveQuery = Type.Object({
  with_keys: Type.Optional(
    Type.Boolean({ description: 'Whether the keys that the person has made end too, and those that these have made.' })
  )
}, { additionalProperties: false })
const RemovedAnswer = Type.Object({ revoked: Type.Integer({ description: 'How many keys ended.' }) }, {
  examples: [{ revoked: 2 }]
})
const LinkAnswer = Type.Object({
  url: Type.String({ description: 'The link, shown only here.' }),
  expires_at: Type.String()
}, {
  examples: [{ url: 'https://mail.example.com/dashboard/link?token=…', expires_at: '2026-11-22T12:00:00.000Z' }]
})

const CREATE_TEXT = 'The person may sign in to the dashboard from now on: at the issuer in JETPOST_OIDC_ISSUER with ' +
  'this address, or by a link (`POST /api/users/{id}/link`). Nobody gives a role with more powers than their own.'
const CHANGE_TEXT = 'What is left out stays. A new role holds at once, also for open sessions. The last operator and ' +
  'the last owner cannot give up that role themselves.'
const REMOVE_TEXT = 'The sessions of the person end everywhere within a second. With `with_keys=true` the keys that ' +
  'they have made end too, and the answer is 200 and says how many.'
const LINK_TEXT = 'It works once, within a day, and signs in as this person: pass it on where only they can read it.'

const FIELDS = { invalid_address: 'email', invalid_name: 'name', invalid_role: 'role' }

/** The people of an account. */
export function userRoutes (app: Api, services: Services, publicUrl: string): void {
  const tellUser = async ({ user }: { user: UserEntry }) => await answerOf(services, user)
  const routes = new ResourceRoutes(app, services, {
    kind: 'user',
    tag: 'Users',
    scopes: { read: 'users:read', write: 'users:write' },
    prefix: 'usr',
    schema: UserAnswer,
    answerOf: async user => await answerOf(services, user)
  })

  routes.write('POST', '/users', ['createUser', 'Add a user', CREATE_TEXT], {
    schema: { body: CreateRequest, response: { 201: UserAnswer } },
    errors: [409],
    faults: request => [...textFaults(request, 'email', addressFault), ...textFaults(request, 'name', nameFault)],
    act (request) {
      const { email: address, ...rest } = request.body
      return createUser(services, userAskerOf(request), { address, ...rest })
    },
    fieldOf: FIELDS,
    location: ({ user }) => `/api/users/${user.id}`,
    tell: tellUser
  })
  routes.list('/users', ['listUsers', 'List users'])
  routes.get('/users/:id', ['getUser', 'Get a user'])
  routes.write('PATCH', '/users/:id', ['updateUser', 'Change a user', CHANGE_TEXT], {
    schema: { params: IdParams, body: ChangeRequest, response: { 200: UserAnswer } },
    errors: [404, 409],
    faults: request => textFaults(request, 'name', nameFault),
    act: request => changeUser(services, userAskerOf(request), request.params.id, request.body),
    fieldOf: FIELDS,
    tell: tellUser
  })
  routes.write('DELETE', '/users/:id', ['deleteUser', 'Remove a user', REMOVE_TEXT], {
    schema: { params: IdParams, querystring: RemoveQuery, response: { 200: RemovedAnswer, 204: Type.Null() } },
    errors: [404, 409],
    async act (request: FastifyRequest<{ Params: { id: string }, Querystring: Static<typeof RemoveQuery> }>) {
      const withKeys = request.query.with_keys === true
      const removed = await removeUser(services, userAskerOf(request), request.params.id, withKeys)
      return removed instanceof Refusal ? removed : { ...removed, withKeys }
    },
    tell: ({ revoked, withKeys }) => (withKeys ? { revoked } : null)
  })
  routes.write('POST', '/users/:id/link', ['createUserLink', 'Create a sign-in link', LINK_TEXT], {
    schema: { params: IdParams, response: { 200: LinkAnswer } },
    errors: [404, 409],
    async act (request) {
      if (!hasDashboard({ publicUrl })) {
        throw conflict(
          'no_dashboard',
          'JETPOST_PUBLIC_URL must have a host of its own: below a path there is no dashboard.'
        )
      }
      return await mintUserLink(services, userAskerOf(request), request.params.id, publicUrl)
    },
    tell: ({ url, expiresAt }) => ({ url, expires_at: expiresAt })
  })
}

function addressFault (text: string): Refusal | null {
  return foldAddress(text) === null ? new Refusal('invalid_address', `email must ${MUST_BE_ADDRESS}.`) : null
}

/** Who asks hands on no more than they hold. */
function userAskerOf (request: FastifyRequest): KeyAsker {
  return { ...askerOf(request), by: request.principal!.id }
}

/** When they were last here is not worth an error. */
async function answerOf (
  { keyUses }: Pick<Services, 'keyUses'>,
  user: UserEntry
): Promise<Static<typeof UserAnswer>> {
  const { id, address: email, name, role, identity, passkeys, createdAt } = user
  const uses = await keyUses.lastOf([user]).catch((error: unknown) => {
    if (isUnanswered(error)) return new Map<string, number>()
    throw error
  })
  const lastMs = uses.get(id)
  return {
    id,
    email,
    name,
    role,
    issuer: identity?.issuer ?? null,
    passkeys: passkeys.length,
    last_seen_at: lastMs === undefined ? null : timestamp(lastMs),
    created_at: createdAt
  }
}
