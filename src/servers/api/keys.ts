import { Type, type Static } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { parseDomain } from '#streams/address.ts'
import { Nullable, Refusal } from '#streams/define.ts'
import type { Key } from '#streams/directory.ts'
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
  scopesFault
} from '#streams/key/decide.ts'
import { LIMIT_CLASSES, SCOPES, type LimitClass } from '#streams/key/facts.ts'
import type { Services } from '#src/actions/services.ts'
import { changeKey, grantKey, ownKey, revokeKey, rotateKey, type KeyAsker, type KeyChange } from '#src/actions/key.ts'
import { parseTime, timestamp } from '#src/base/clock.ts'
import { created, refuseFaults, schemaFaults, type Api } from './context.ts'
import { invalid, notFound, type Fault } from './errors.ts'
import { sawOwnWrite, seeAllWrites } from './own-writes.ts'
import { listAnswer, ListQuery, pageOf, placeAmong, readPage } from './pages.ts'
import { askerOf, granted, IdParams, orNothing, timeMessage } from './params.ts'
import { answerOfDefaults, defaultFields, defaultsAnswer, defaultsOf } from './send-defaults.ts'

const DOMAINS_MAX = 1000

const ScopeSchema = Type.Union(SCOPES.map(scope => Type.Literal(scope)), {
  description: `A scope is one of ${SCOPES.join(', ')}.`
})
const DomainSchema = Type.String({ maxLength: 253, description: 'A domain is a name like example.com, or "*".' })
const EXPIRES_AT = timeMessage('expires_at', ', or null for never')

/** What may be said of a key, when it is made and later. */
const fields = {
  name: Type.String({ minLength: 1, maxLength: 200, description: 'name has 1 to 200 characters.' }),
  scopes: Type.Array(ScopeSchema, {
    minItems: 1,
    maxItems: 100,
    description: 'scopes is a list of scopes, or ["full"].'
  }),
  domains: Type.Array(DomainSchema, {
    minItems: 1,
    maxItems: DOMAINS_MAX,
    description:
      `domains is a list of 1 to ${DOMAINS_MAX} domain names the key may send from, or ["*"] for every domain of the account.`
  }),
  expires_at: Type.Optional(Type.Union([Type.String(), Type.Null()], { description: EXPIRES_AT })),
  ...defaultFields('where the domain decides')
}
const BODY = { additionalProperties: false, description: 'The body is a JSON object.' }

const CreateRequest = Type.Object({
  ...fields,
  test: Type.Optional(
    Type.Boolean({ description: 'test is true for a key whose mail goes to the built-in catcher only.' })
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
      description: `overlap_s is a number of seconds from 0 to ${OVERLAP_S_MAX}.`
    })
  )
}, BODY)
const RotateRequest = orNothing(Rotation, [{ overlap_s: 3600 }, { overlap_s: 0 }])

const EXAMPLE = {
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
  created_at: '2026-11-21T12:00:00.000Z'
}
const KeyAnswer = Type.Object({
  id: Type.String(),
  name: Type.String(),
  hint: Type.String({ description: 'How the secret begins.' }),
  scopes: Type.Array(ScopeSchema),
  domains: Type.Array(Type.String()),
  test: Type.Boolean(),
  expires_at: Nullable(Type.String()),
  limits: Type.Object(
    Object.fromEntries(LIMIT_CLASSES.map(name => [name, Type.Integer()])) as Record<
      LimitClass,
      ReturnType<typeof Type.Integer>
    >,
    {
      description: 'Requests a minute, as the operator has set them.'
    }
  ),
  ...defaultsAnswer,
  previous_expires_at: Type.Union([Type.String(), Type.Null()], {
    description: 'Until when the secret before the last rotation works, or null when it works no more.'
  }),
  created_at: Type.String()
}, { examples: [EXAMPLE] })
const OpenAnswer = Type.Composite([
  Type.Object({ key: Type.String({ description: 'The secret, shown only here.' }) }),
  KeyAnswer
], {
  examples: [{ key: 'jp_live_4kQz…9wA', ...EXAMPLE }]
})

const tags = ['Keys']

/** Keys are read from the directory in memory. Whoever writes is looked at as the log has him: his own key may have
 *  changed on another node. */
export function keyRoutes (app: Api, services: Services): void {
  makingRoute(app, services)
  readingRoutes(app, services)
  changingRoutes(app, services)
  rotatingRoute(app, services)
}

function makingRoute (app: Api, services: Services): void {
  const { clock } = services.appenders

  app.post('/keys', {
    config: { scope: 'keys:write', errors: [409] },
    schema: {
      operationId: 'createKey',
      summary: 'Create a key',
      description:
        'The secret is `key` in this answer and nowhere else. A key grants no more than it holds: scopes, domains, time, and a test key only test keys.',
      tags,
      body: CreateRequest,
      response: { 201: OpenAnswer }
    },
    attachValidation: true
  }, async (request, reply) => {
    const { name, scopes, domains, expiresMs = null, defaults } = readFields(request, clock.nowMs())
    const wanted = {
      name: name!,
      scopes: scopes!,
      domains: domains!,
      expiresMs,
      defaults: { ...NO_DEFAULTS, ...defaults },
      test: request.body.test ?? false
    }
    await seeAllWrites(services)
    const made = granted(await grantKey(services, keyAskerOf(request), wanted), FIELDS)
    await sawOwnWrite(services, made.seq)
    created(reply, 201, `/api/keys/${made.key.id}`)
    return { key: made.secret, ...keyAnswer(made.key, clock.nowMs()) }
  })
}

function readingRoutes (app: Api, services: Services): void {
  const { clock } = services.appenders

  app.get('/keys', {
    config: { scope: 'keys:read' },
    schema: {
      operationId: 'listKeys',
      summary: 'List keys',
      tags,
      querystring: ListQuery,
      response: { 200: listAnswer(KeyAnswer) }
    },
    attachValidation: true
  }, async request => {
    const page = readPage(request, placeAmong('key'))
    await seeAllWrites(services)
    const own = [...services.directory.now.keys.values()].filter(key => key.account === request.key!.account)
    return pageOf(own, page, key => keyAnswer(key, clock.nowMs()))
  })

  app.get('/keys/:id', {
    config: { scope: 'keys:read', errors: [404] },
    schema: { operationId: 'getKey', summary: 'Get a key', tags, params: IdParams, response: { 200: KeyAnswer } }
  }, async request => {
    await seeAllWrites(services)
    const key = ownKey(services, request.key!, request.params.id)
    if (key === undefined) throw notFound()
    return keyAnswer(key, clock.nowMs())
  })
}

function changingRoutes (app: Api, services: Services): void {
  const { clock } = services.appenders

  app.patch('/keys/:id', {
    config: { scope: 'keys:write', errors: [404, 409] },
    schema: {
      operationId: 'updateKey',
      summary: 'Change a key',
      description: 'What is left out stays. Neither before nor after may the key hold more than the one that asks. ' +
        'Of the key that the operator has fixed, scopes, domains and end stay as they are.',
      tags,
      params: IdParams,
      body: ChangeRequest,
      response: { 200: KeyAnswer }
    },
    attachValidation: true
  }, async request => {
    const change = readFields(request, clock.nowMs())
    await seeAllWrites(services)
    const changed = granted(await changeKey(services, keyAskerOf(request), request.params.id, change), FIELDS)
    await sawOwnWrite(services, changed.seq)
    return keyAnswer(changed.key, clock.nowMs())
  })

  app.delete('/keys/:id', {
    config: { scope: 'keys:write', errors: [404] },
    schema: {
      operationId: 'deleteKey',
      summary: 'Revoke a key',
      description:
        'It stops everywhere within a second, with all its secrets. A key may revoke itself, and keys that hold no more than it does.',
      tags,
      params: IdParams,
      response: { 204: Type.Null() }
    }
  }, async (request, reply) => {
    await seeAllWrites(services)
    const revoked = granted(await revokeKey(services, keyAskerOf(request), request.params.id))
    await sawOwnWrite(services, revoked.seq)
    return reply.code(204).send(null)
  })
}

function rotatingRoute (app: Api, services: Services): void {
  const { clock } = services.appenders

  app.post('/keys/:id/rotate', {
    config: { scope: 'keys:write', errors: [404, 409] },
    schema: {
      operationId: 'rotateKey',
      summary: 'Give a key a new secret',
      description:
        `The secret before works \`overlap_s\` seconds longer (${OVERLAP_S_DEFAULT} when left out; 0 ends it at once), and any older one no more. ` +
        'Both are one key, with one id and one window.',
      tags,
      params: IdParams,
      body: RotateRequest,
      response: { 200: OpenAnswer }
    },
    attachValidation: true
  }, async request => {
    refuseFaults(request)
    await seeAllWrites(services)
    const rotated = granted(
      await rotateKey(services, keyAskerOf(request), request.params.id, request.body?.overlap_s ?? OVERLAP_S_DEFAULT)
    )
    await sawOwnWrite(services, rotated.seq)
    return { key: rotated.secret, ...keyAnswer(rotated.key, clock.nowMs()) }
  })
}

/** What was ahead when it was read may be past when it is decided. */
const FIELDS = { in_the_past: 'expires_at' }

function keyAskerOf (request: FastifyRequest): KeyAsker {
  return { ...askerOf(request), by: request.key!.id }
}

/** What a body says of a key; throws 422 with every fault of schema and meaning together. */
function readFields (request: FastifyRequest, nowMs: number): KeyChange {
  const given = request.body as Partial<Static<typeof CreateRequest>>
  const faults = schemaFaults(request)
  // A body that is no object has no fields to look at.
  if (typeof given !== 'object' || given === null || Array.isArray(given)) throw invalid(faults)
  // What the schema has said of a field, or of a part of it, is enough.
  const known = faults.map(fault => fault.field.replace(/\[.*/, ''))
  faults.push(...meaningFaults(given, nowMs).filter(fault => !known.includes(fault.field)))
  if (faults.length > 0) throw invalid(faults)
  const { name, scopes, domains, expires_at: expiresAt } = given
  return {
    ...(name === undefined ? {} : { name }),
    ...(scopes === undefined ? {} : { scopes }),
    ...(domains === undefined ? {} : { domains }),
    ...(expiresAt === undefined ? {} : { expiresMs: expiresAt === null ? null : parseTime(expiresAt) }),
    defaults: defaultsOf(given)
  }
}

/** The faults of meaning, also where the schema has found some of its own: nothing here is sure to be of its type. */
function meaningFaults (given: Record<string, unknown>, nowMs: number): Fault[] {
  const { name, scopes, domains, expires_at: expiresAt } = given
  const faults: Fault[] = []
  const say = (field: string, refusal: Refusal | null) => {
    if (refusal !== null) faults.push({ field, code: refusal.code, message: refusal.message })
  }
  if (typeof name === 'string') say('name', nameFault(name))
  if (isList(scopes)) say('scopes', scopesFault(scopes))
  if (Array.isArray(domains)) {
    const wrong = [...domains.slice(0, DOMAINS_MAX).entries()].filter(([, domain]) =>
      typeof domain === 'string' && domain !== '*' && parseDomain(domain) === null
    )
    for (const [i] of wrong) say(`domains[${i}]`, new Refusal('invalid_domain', `domains[${i}] is not a domain name.`))
    if (wrong.length === 0 && isList(domains)) say('domains', domainsFault(domains))
  }
  if (typeof expiresAt === 'string') {
    const ms = parseTime(expiresAt)
    say('expires_at', ms === null ? new Refusal('invalid_value', EXPIRES_AT) : expiryFault(ms, nowMs))
  }
  return faults
}

function isList (value: unknown): value is string[] {
  return Array.isArray(value) && value.every(item => typeof item === 'string')
}

/** A key as the API shows it. */
export function keyAnswer (key: Key, nowMs: number): Static<typeof KeyAnswer> {
  const { id, name, hint, scopes, domains, test, expiresMs, defaults, createdAt } = key
  return {
    id,
    name,
    hint,
    scopes,
    domains,
    test,
    expires_at: timeOf(expiresMs),
    limits: Object.fromEntries(LIMIT_CLASSES.map(name => [name, limitOf(key, name)])) as Record<LimitClass, number>,
    ...answerOfDefaults(defaults),
    previous_expires_at: timeOf(previousUntilMs(key, nowMs)),
    created_at: createdAt
  }
}

const timeOf = (ms: number | null) => (ms === null ? null : timestamp(ms))
