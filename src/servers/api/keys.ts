import { Type, type Static } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { parseDomain } from '#streams/address.ts'
import { Nullable, type Refusal } from '#streams/define.ts'
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
import { LIMIT_CLASSES, SCOPES, type LimitClass } from '#streams/key/facts.ts'
import type { Services } from '#src/actions/services.ts'
import { changeKey, grantKey, ownKey, revokeKey, rotateKey, type KeyAsker } from '#src/actions/key.ts'
import { parseTime, timestamp } from '#src/base/clock.ts'
import { created, refuseFaults, schemaFaults, type Api } from './context.ts'
import { FaultList, invalid, notFound } from './errors.ts'
import { sawOwnWrite, seeAllWrites } from './own-writes.ts'
import { listAnswer, ListQuery, pageOf, cursorParser, readPage } from './pages.ts'
import { askerOf, granted, IdParams, MUST_BE_OBJECT, MUST_BE_TIME, orNothing } from './params.ts'
import { answerOfDefaults, defaultFields, defaultsAnswer, defaultsOf } from './send-defaults.ts'

const DOMAINS_MAX = 1000

const MUST_BE_DOMAIN = 'be a domain like example.com, or "*"'
const MUST_BE_END = `${MUST_BE_TIME}, or null`

const ScopeSchema = Type.Union(SCOPES.map(scope => Type.Literal(scope)), {
  must: 'be a scope, such as emails:send or full'
})
const DomainSchema = Type.String({ maxLength: 253, must: MUST_BE_DOMAIN })

/** What may be said of a key, when it is made and later. */
const fields = {
  name: Type.String({ minLength: 1, maxLength: 200, description: 'A name for people.' }),
  scopes: Type.Array(ScopeSchema, {
    minItems: 1,
    maxItems: 100,
    noun: 'scope',
    description: 'What the key may do. `["full"]` = everything.'
  }),
  domains: Type.Array(DomainSchema, {
    minItems: 1,
    maxItems: DOMAINS_MAX,
    noun: 'domain',
    description: `The domains the key may send from, 1 to ${DOMAINS_MAX}. \`["*"]\` = every domain of the account.`
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

const CreateRequest = Type.Object({
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
  hint: Type.String({ description: 'The first characters of the secret.' }),
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
      description: 'Requests a minute, by class. The operator sets them.'
    }
  ),
  ...defaultsAnswer,
  previous_expires_at: Type.Union([Type.String(), Type.Null()], {
    description: 'Until when the previous secret works. `null` = it does not.'
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

/** Keys are read from the directory in memory, which catches up with the log before each read and each decision: also
 *  the key that asks may have changed on another node. */
export function keyRoutes (app: Api, services: Services): void {
  makingRoute(app, services)
  readingRoutes(app, services)
  changingRoutes(app, services)
  rotatingRoute(app, services)
}

function makingRoute (app: Api, services: Services): void {
  const { clock } = services.factLog

  app.post('/keys', {
    config: { scope: 'keys:write', errors: [409] },
    schema: {
      operationId: 'createKey',
      summary: 'Create a key',
      description: 'The secret is `key` in this answer and nowhere else. A key grants no more than it holds: scopes, ' +
        'domains and time. A test key grants only test keys.',
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
  const { clock } = services.factLog

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
    const page = readPage(request, cursorParser('key'))
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
  const { clock } = services.factLog

  app.patch('/keys/:id', {
    config: { scope: 'keys:write', errors: [404, 409] },
    schema: {
      operationId: 'updateKey',
      summary: 'Change a key',
      description: 'What is left out stays. Neither before nor after may the key hold more than the key that asks. ' +
        'Scopes, domains and expiry of the key in JETPOST_API_KEY cannot be changed.',
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
      description: 'It stops working everywhere within a second. A key may revoke itself, and keys that hold no more ' +
        'than it does.',
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
  const { clock } = services.factLog

  app.post('/keys/:id/rotate', {
    config: { scope: 'keys:write', errors: [404, 409] },
    schema: {
      operationId: 'rotateKey',
      summary: 'Rotate the secret of a key',
      description: 'The previous secret works for `overlap_s` seconds more; an older one stops working. Both secrets ' +
        'are one key, with one id and one window.',
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

/** What a body says of a key. Throws 422 with every fault of schema and meaning together. */
function readFields (request: FastifyRequest, nowMs: number): KeyChange {
  const given = request.body as Partial<Static<typeof CreateRequest>>
  const faults = new FaultList(schemaFaults(request))
  // A body that is no object has no fields to look at.
  if (typeof given !== 'object' || given === null || Array.isArray(given)) throw invalid(faults.all)
  addMeaningFaults(given, nowMs, faults)
  if (faults.all.length > 0) throw invalid(faults.all)
  const { name, scopes, domains, expires_at: expiresAt } = given
  return {
    ...(name === undefined ? {} : { name }),
    ...(scopes === undefined ? {} : { scopes }),
    ...(domains === undefined ? {} : { domains }),
    ...(expiresAt === undefined ? {} : { expiresMs: expiresAt === null ? null : parseTime(expiresAt) }),
    defaults: defaultsOf(given)
  }
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
    for (const [i, domain] of domains.slice(0, DOMAINS_MAX).entries()) {
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

/** A key as the API shows it. */
export function keyAnswer (key: KeyEntry, nowMs: number): Static<typeof KeyAnswer> {
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
