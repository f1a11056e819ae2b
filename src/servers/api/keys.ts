import { Type, type Static } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { parseDomain } from '#streams/address.ts'
import { NAME_LENGTH_MAX, Nullable, Refusal, type FieldFault } from '#streams/define.ts'
import type { KeyEntry } from '#streams/directory.ts'
import { NO_DEFAULTS } from '#streams/email/defaults.ts'
import {
  DEFAULT_LIMITS,
  domainsFault,
  expiryFault,
  limitOf,
  nameFault,
  OVERLAP_S_DEFAULT,
  OVERLAP_S_MAX,
  previousUntilMs,
  scopesFault,
  type KeyChange
} from '#streams/key/decide.ts'
import { byLimitClass, KEY_DOMAINS_MAX, SCOPES } from '#streams/key/facts.ts'
import type { Services } from '#src/actions/services.ts'
import {
  changeKey,
  grantKey,
  revokeKey,
  revokeWithChildren,
  rotateKey,
  type KeyAsker,
  type NewKey
} from '#src/actions/key.ts'
import { parseTime, timestamp } from '#src/base/clock.ts'
import { isUnanswered } from '#src/nats/errors.ts'
import { schemaFaults, type Api } from './context.ts'
import { FaultList } from './errors.ts'
import { askerOf, IdParams, MUST_BE_OBJECT, MUST_BE_TIME, orNothing } from './params.ts'
import { ResourceRoutes } from './resource.ts'
import { answerOfDefaults, defaultFields, defaultsAnswer, defaultsOf } from './send-defaults.ts'

const MUST_BE_DOMAIN = 'be a domain like example.com, or "*"'
const MUST_BE_END = `${MUST_BE_TIME}, or null`

const ScopeSchema = Type.Union(SCOPES.map(scope => Type.Literal(scope)), {
  must: 'be a scope, such as emails:send or full'
})
const DomainSchema = Type.String({ maxLength: 253, must: MUST_BE_DOMAIN })

/** What may be said of a key, when it is made and later. */
const fields = {
  name: Type.String({ minLength: 1, maxLength: NAME_LENGTH_MAX, description: 'A name for people.' }),
  scopes: Type.Array(ScopeSchema, {
    minItems: 1,
    maxItems: 100,
    noun: 'scope',
    description: 'What the key may do. `["full"]` = everything. Only a live key of the first account with domains ' +
      '`["*"]` can have `operator`, and only from a key that has it.'
  }),
  domains: Type.Array(DomainSchema, {
    minItems: 1,
    maxItems: KEY_DOMAINS_MAX,
    noun: 'domain',
    description: `The domains the key may send from, 1 to ${KEY_DOMAINS_MAX}. \`["*"]\` = every domain of the account.`
  }),
  expires_at: Type.Optional(
    Type.Union([Type.String({ must: MUST_BE_END }), Type.Null()], {
      must: MUST_BE_END,
      description: 'When the key expires. `null` = never.'
    })
  ),
  ...defaultFields('`null` = the domain decides.')
}
const BODY = { must: MUST_BE_OBJECT, additionalProperties: false }

export const CreateKeyRequest = Type.Object({
  ...fields,
  test: Type.Optional(
    Type.Boolean({ description: 'Whether its mail goes to the mail catcher only. False when left out.' })
  )
}, {
  ...BODY,
  examples: [{ name: 'Shop', scopes: ['emails:send', 'emails:read'], domains: ['example.com'] }, {
    name: 'Everything',
    scopes: ['full'],
    domains: ['*']
  }]
})

const ChangeRequest = Type.Partial(Type.Object(fields), {
  ...BODY,
  examples: [{ scopes: ['emails:send'], expires_at: '2027-01-31T12:00:00Z' }, { expires_at: null }]
})

const Rotation = Type.Object({
  overlap_s: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: OVERLAP_S_MAX,
      description: `Seconds that the previous secret keeps working. ${OVERLAP_S_DEFAULT} when left out; 0 = none.`
    })
  )
}, { additionalProperties: false })
const RotateRequest = orNothing(Rotation, [{ overlap_s: 3600 }, { overlap_s: 0 }])

export const KEY_EXAMPLE = {
  id: 'key_01m7yse7ke2esfck840wxx2ekh',
  name: 'Shop',
  hint: 'jp_live_4kQz…',
  scopes: ['emails:send', 'emails:read'],
  domains: ['example.com'],
  test: false,
  expires_at: null,
  limits: DEFAULT_LIMITS,
  track: { opens: null, clicks: null },
  unsubscribe: null,
  previous_expires_at: null,
  made_by: 'key_01m7yse7ke2esfck840wxx2ekg',
  last_used_at: '2026-11-22T08:30:00.000Z',
  created_at: '2026-11-21T12:00:00.000Z'
}
export const KeyAnswer = Type.Object({
  id: Type.String(),
  name: Type.String(),
  hint: Type.String({ description: 'The first characters of the secret.' }),
  scopes: Type.Array(ScopeSchema),
  domains: Type.Array(Type.String()),
  test: Type.Boolean(),
  expires_at: Nullable(Type.String()),
  limits: Type.Object(byLimitClass(() => Type.Integer()), {
    description: 'Requests a minute, by class. The operator sets them.'
  }),
  ...defaultsAnswer,
  previous_expires_at: Type.Union([Type.String(), Type.Null()], {
    description: 'Until when the previous secret works. `null` = it does not.'
  }),
  made_by: Type.Union([Type.String(), Type.Null()], {
    description: 'The id of the key that made it, by the API or by a session of the dashboard. `null` = the operator ' +
      'did, or it is older than this is known.'
  }),
  last_used_at: Type.Union([Type.String(), Type.Null()], {
    description:
      'When it was last used, by the API or the dashboard, to within five minutes. `null` = not within 400 ' +
      'days, or it cannot be known now.'
  }),
  created_at: Type.String()
}, { examples: [KEY_EXAMPLE] })
const RevokeQuery = Type.Object({
  with_children: Type.Optional(
    Type.Boolean({ description: 'Whether the keys it has made end too, and those that they have made.' })
  )
}, { additionalProperties: false })
const RevokedAnswer = Type.Object({
  revoked: Type.Integer({ description: 'How many keys ended, this one included.' })
}, { examples: [{ revoked: 3 }] })
export const OpenKeyAnswer = Type.Composite([
  Type.Object({ key: Type.String({ description: 'The secret, shown only here.' }) }),
  KeyAnswer
], {
  examples: [{ key: 'jp_live_4kQz…9wA', ...KEY_EXAMPLE }]
})

const CREATE_TEXT = 'The secret is `key` in this answer and nowhere else. A key grants no more than it holds: ' +
  'scopes, domains and time. A test key grants only test keys.'
const CHANGE_TEXT = 'What is left out stays. Neither before nor after may the key hold more than the key that asks. ' +
  'Scopes, domains and expiry of the key in JETPOST_API_KEY cannot be changed.'
const REVOKE_TEXT = 'It stops working everywhere within a second. A key may revoke itself, and keys that hold no ' +
  'more than it does.\n\nWith `with_children=true` all keys that come from it end with it, and the answer is 200 and ' +
  'says how many; this also works where the key itself, or a key between, was revoked before. If one of them holds ' +
  'more than the key that asks, none ends.'
const ROTATE_TEXT = 'The previous secret works for `overlap_s` seconds more; an older one stops working. Both ' +
  'secrets are one key, with one id and one window.'

/** What was ahead when it was read may be past when it is decided; who may be an operator depends on more than
 *  scopes. */
export const KEY_FIELDS = { in_the_past: 'expires_at', invalid_scope: 'scopes' }

/** Also the key that asks may have changed on another node: it is judged once the directory has caught up. */
export function keyRoutes (app: Api, services: Services): void {
  const { clock } = services.factLog
  const answerOf = async (key: KeyEntry) => await keyAnswerOf(services, key)
  const faults = (request: FastifyRequest) => keyFaults(request, clock.nowMs())
  const revoke = async (
    request: FastifyRequest<{ Params: { id: string }, Querystring: Static<typeof RevokeQuery> }>
  ) => {
    const { params: { id }, query } = request
    if (query.with_children === true) return await revokeWithChildren(services, keyAskerOf(request), id)
    const ended = await revokeKey(services, keyAskerOf(request), id)
    return ended instanceof Refusal ? ended : { ...ended, revoked: null }
  }
  const routes = new ResourceRoutes(app, services, {
    kind: 'key',
    tag: 'Keys',
    testKeys: true,
    scopes: { read: 'keys:read', write: 'keys:write' },
    prefix: 'key',
    schema: KeyAnswer,
    answerOf
  })

  routes.write('POST', '/keys', ['createKey', 'Create a key', CREATE_TEXT], {
    schema: { body: CreateKeyRequest, response: { 201: OpenKeyAnswer } },
    errors: [409],
    faults,
    act: request => grantKey(services, keyAskerOf(request), newKeyOf(request.body)),
    fieldOf: KEY_FIELDS,
    location: ({ key }) => `/api/keys/${key.id}`,
    tell: async ({ key, secret }) => ({ key: secret, ...await answerOf(key) })
  })
  routes.list('/keys', ['listKeys', 'List keys'])
  routes.get('/keys/:id', ['getKey', 'Get a key'])
  routes.write('PATCH', '/keys/:id', ['updateKey', 'Change a key', CHANGE_TEXT], {
    schema: { params: IdParams, body: ChangeRequest, response: { 200: KeyAnswer } },
    errors: [404, 409],
    faults,
    act: request => changeKey(services, keyAskerOf(request), request.params.id, changeOf(request.body)),
    fieldOf: KEY_FIELDS,
    tell: ({ key }) => answerOf(key)
  })
  routes.write('DELETE', '/keys/:id', ['deleteKey', 'Revoke a key', REVOKE_TEXT], {
    schema: {
      params: IdParams,
      querystring: RevokeQuery,
      response: { 200: RevokedAnswer, 204: Type.Null() }
    },
    errors: [404],
    act: revoke,
    tell: ({ revoked }) => (revoked === null ? null : { revoked })
  })
  routes.write('POST', '/keys/:id/rotate', ['rotateKey', 'Rotate the secret of a key', ROTATE_TEXT], {
    schema: { params: IdParams, body: RotateRequest, response: { 200: OpenKeyAnswer } },
    errors: [404, 409],
    act: request =>
      rotateKey(services, keyAskerOf(request), request.params.id, request.body?.overlap_s ?? OVERLAP_S_DEFAULT),
    tell: async ({ key, secret }) => ({ key: secret, ...await answerOf(key) })
  })
}

/** A key that asks changes keys within its own powers. */
export function keyAskerOf (request: FastifyRequest): KeyAsker {
  return { ...askerOf(request), by: request.principal!.id }
}

export function newKeyOf (
  { name, scopes, domains, test = false, ...body }: Static<typeof CreateKeyRequest>
): NewKey {
  const { expiresMs = null, defaults } = changeOf(body)
  return { name, scopes, domains, expiresMs, defaults: { ...NO_DEFAULTS, ...defaults }, test }
}

function changeOf ({ name, scopes, domains, expires_at: expiresAt, ...body }: Static<typeof ChangeRequest>): KeyChange {
  return {
    ...(name === undefined ? {} : { name }),
    ...(scopes === undefined ? {} : { scopes }),
    ...(domains === undefined ? {} : { domains }),
    ...(expiresAt === undefined ? {} : { expiresMs: expiresAt === null ? null : parseTime(expiresAt) }),
    defaults: defaultsOf(body)
  }
}

/** What is wrong with a body beyond its schema. */
export function keyFaults (request: FastifyRequest, nowMs: number): FieldFault[] {
  const { body } = request
  // A body that is no object has no fields to look at.
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return []
  const found = schemaFaults(request)
  const faults = new FaultList(found)
  addMeaningFaults({ ...body }, nowMs, faults)
  return faults.all.slice(found.length)
}

/** The faults of meaning in fields that the schema has found nothing wrong with, or with a part of. */
function addMeaningFaults (given: Record<string, unknown>, nowMs: number, faults: FaultList): void {
  const { name, scopes, domains, expires_at: expiresAt } = given
  const add = (field: string, refusal: Refusal | null) => {
    const isKnown = faults.all.some(fault => fault.field.startsWith(`${field}[`))
    if (refusal !== null && !isKnown) faults.add({ field, code: refusal.code, message: refusal.message })
  }
  if (typeof name === 'string') add('name', nameFault(name))
  if (isList(scopes)) add('scopes', scopesFault(scopes))
  if (Array.isArray(domains)) {
    for (const [i, domain] of domains.slice(0, KEY_DOMAINS_MAX).entries()) {
      const isWrong = typeof domain === 'string' && domain !== '*' && parseDomain(domain) === null
      if (isWrong) faults.must(`domains[${i}]`, 'invalid_domain', MUST_BE_DOMAIN)
    }
    if (isList(domains)) add('domains', domainsFault(domains))
  }
  if (typeof expiresAt === 'string') {
    const ms = parseTime(expiresAt)
    if (ms === null) faults.must('expires_at', 'invalid_value', MUST_BE_END)
    else add('expires_at', expiryFault(ms, nowMs))
  }
}

function isList (value: unknown): value is string[] {
  return Array.isArray(value) && value.every(item => typeof item === 'string')
}

/** A key as the API shows it. When it was last used is not worth an error. */
export async function keyAnswerOf (
  { keyUses, factLog: { clock } }: Pick<Services, 'keyUses' | 'factLog'>,
  key: KeyEntry
): Promise<Static<typeof KeyAnswer>> {
  const uses = await keyUses.lastOf([key]).catch((error: unknown) => {
    if (isUnanswered(error)) return new Map<string, number>()
    throw error
  })
  return keyAnswer(key, clock.nowMs(), uses.get(key.id) ?? null)
}

/** The same of a key whose last use is known; null = it is not. Unix ms. */
export function keyAnswer (key: KeyEntry, nowMs: number, lastUsedMs: number | null): Static<typeof KeyAnswer> {
  const { id, name, hint, scopes, domains, test, expiresMs, defaults, madeBy, createdAt } = key
  return {
    id,
    name,
    hint,
    scopes,
    domains,
    test,
    expires_at: timeOf(expiresMs),
    limits: byLimitClass(name => limitOf(key, name)),
    ...answerOfDefaults(defaults),
    previous_expires_at: timeOf(previousUntilMs(key, nowMs)),
    made_by: madeBy,
    last_used_at: timeOf(lastUsedMs),
    created_at: createdAt
  }
}

const timeOf = (ms: number | null) => (ms === null ? null : timestamp(ms))
