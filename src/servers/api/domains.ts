import { Type, type Static } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { Nullable, type Refusal } from '#streams/define.ts'
import type { DomainEntry } from '#streams/directory.ts'
import { MUST_BE_DOMAIN, ownableName } from '#streams/domain/decide.ts'
import { DOMAIN_STATUSES } from '#streams/domain/facts.ts'
import { seenRecords } from '#streams/domain/records.ts'
import { addDomain, changeDomain, checkDomain, removeDomain, rotateDomainKeys } from '#src/actions/domain.ts'
import type { Handled } from '#src/actions/handle-command.ts'
import type { Services } from '#src/actions/services.ts'
import { DnsUnavailable } from '#src/dns/resolve.ts'
import { created, refuseFaults, type Api } from './context.ts'
import { notFound, unavailable } from './errors.ts'
import { sawOwnWrite, seeAllWrites } from './own-writes.ts'
import { listAnswer, ListQuery, pageOf, cursorParser, readPage } from './pages.ts'
import { askerOf, granted, IdParams, MUST_BE_OBJECT, textFaults } from './params.ts'
import { answerOfDefaults, defaultFields, defaultsAnswer, defaultsOf } from './send-defaults.ts'

const CreateRequest = Type.Object({
  name: Type.String({ maxLength: 1000, must: MUST_BE_DOMAIN, description: 'A domain to send from.' })
}, { must: MUST_BE_OBJECT, additionalProperties: false, examples: [{ name: 'example.com' }] })

const ChangeRequest = Type.Object(defaultFields('`null` = no default.'), {
  must: MUST_BE_OBJECT,
  additionalProperties: false,
  description: 'Defaults for mail from the domain. What is left out stays.',
  examples: [{ track: { opens: false, clicks: false }, unsubscribe: true }]
})

const OneOf = <T extends string>(...names: readonly T[]) => Type.Union(names.map(name => Type.Literal(name)))

const RecordAnswer = Type.Object({
  purpose: OneOf('dkim', 'return_path', 'dmarc'),
  type: OneOf('TXT', 'CNAME'),
  name: Type.String({ description: 'Full name, without a final dot.' }),
  value: Type.String({ description: 'As one string. DNS splits a TXT of more than 255 bytes.' }),
  required: Type.Boolean({ description: 'Whether the domain needs it to be verified.' }),
  stage: Type.Union((['current', 'next', 'previous', 'removable'] as const).map(name => Type.Literal(name)), {
    description: 'While keys are rotated: publish the records of `next`, which sign once DNS shows them; keep those ' +
      'of `previous` until `removable_at`; ' +
      'delete those that are `removable`.'
  }),
  removable_at: Nullable(Type.String()),
  state: OneOf('unchecked', 'ok', 'missing', 'wrong'),
  found: Type.Array(Type.String(), { description: 'What DNS showed, at most 5 records of 500 characters.' })
})

const RSA_VALUE = 'v=DKIM1; k=rsa; p=MIIBIj…'
const ED25519_VALUE = 'v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo='
const LASTING = { stage: 'current' as const, removable_at: null }
const DomainAnswer = Type.Object({
  id: Type.String(),
  name: Type.String(),
  status: OneOf(...DOMAIN_STATUSES),
  records: Type.Array(RecordAnswer),
  ...defaultsAnswer,
  created_at: Type.String(),
  checked_at: Nullable(Type.String({ description: 'When DNS last showed a change.' })),
  failing_since: Nullable(
    Type.String({
      description: 'Since when the records of a verified domain have been wrong. After 72 hours the domain is `failed`.'
    })
  )
}, {
  examples: [{
    id: 'dom_01m7ysb2k6p0s4v8x1z5b9d3fh',
    name: 'example.com',
    status: 'verified',
    records: [
      {
        purpose: 'dkim',
        type: 'TXT',
        name: 'jp20261120a1b2c3-rsa._domainkey.example.com',
        value: RSA_VALUE,
        required: true,
        ...LASTING,
        state: 'ok',
        found: [RSA_VALUE]
      },
      {
        purpose: 'dkim',
        type: 'TXT',
        name: 'jp20261120a1b2c3-ed25519._domainkey.example.com',
        value: ED25519_VALUE,
        required: false,
        ...LASTING,
        state: 'missing',
        found: []
      },
      {
        purpose: 'dmarc',
        type: 'TXT',
        name: '_dmarc.example.com',
        value: 'v=DMARC1; p=none',
        required: false,
        ...LASTING,
        state: 'missing',
        found: []
      }
    ],
    track: { opens: null, clicks: null },
    unsubscribe: null,
    created_at: '2026-11-20T09:30:00.000Z',
    checked_at: '2026-11-20T09:42:00.000Z',
    failing_since: null
  }]
})

/** A resolver that does not answer is seldom back at once. */
const DNS_RETRY_S = 10

const tags = ['Domains']

/** Domains are read from the directory in memory, which catches up with the log before each read and each decision. */
export function domainRoutes (app: Api, services: Services): void {
  addingRoute(app, services)
  readingRoutes(app, services)
  changingRoutes(app, services)
  recordRoutes(app, services)
}

function addingRoute (app: Api, services: Services): void {
  app.post('/domains', {
    config: { scope: 'domains:write', errors: [409] },
    schema: {
      operationId: 'createDomain',
      summary: 'Add a domain',
      description: 'Answers 200 when the account has the domain already.',
      tags,
      body: CreateRequest,
      response: { 200: DomainAnswer, 201: DomainAnswer }
    },
    attachValidation: true
  }, async (request, reply) => {
    refuseFaults(request, textFaults(request, 'name', ownableName))
    await seeAllWrites(services)
    const added = granted(await addDomain(services, askerOf(request), request.body.name))
    await sawOwnWrite(services, added.seq)
    if (added.isNew) created(reply, 201, `/api/domains/${added.domain.id}`)
    return domainAnswer(services, added.domain)
  })
}

function readingRoutes (app: Api, services: Services): void {
  app.get('/domains', {
    config: { scope: 'domains:read' },
    schema: {
      operationId: 'listDomains',
      summary: 'List domains',
      tags,
      querystring: ListQuery,
      response: { 200: listAnswer(DomainAnswer) }
    },
    attachValidation: true
  }, async request => {
    const page = readPage(request, cursorParser('dom'))
    await seeAllWrites(services)
    const own = [...services.directory.now.domains.values()].filter(({ account }) => account === request.key!.account)
    return pageOf(own, page, domain => domainAnswer(services, domain))
  })

  app.get('/domains/:id', {
    config: { scope: 'domains:read', errors: [404] },
    schema: {
      operationId: 'getDomain',
      summary: 'Get a domain',
      tags,
      params: IdParams,
      response: { 200: DomainAnswer }
    }
  }, async request => domainAnswer(services, await ownDomain(services, request, request.params.id)))
}

function changingRoutes (app: Api, services: Services): void {
  app.patch('/domains/:id', {
    config: { scope: 'domains:write', errors: [404, 409] },
    schema: {
      operationId: 'updateDomain',
      summary: 'Change the defaults of a domain',
      tags,
      params: IdParams,
      body: ChangeRequest,
      response: { 200: DomainAnswer }
    },
    attachValidation: true
  }, async request => {
    refuseFaults(request)
    const domain = await ownDomain(services, request, request.params.id)
    return await answerOnceSeen(
      services,
      await changeDomain(services, askerOf(request), domain, defaultsOf(request.body))
    )
  })

  app.delete('/domains/:id', {
    config: { scope: 'domains:write', errors: [404, 409] },
    schema: {
      operationId: 'deleteDomain',
      summary: 'Delete a domain',
      tags,
      params: IdParams,
      response: { 204: Type.Null() }
    }
  }, async (request, reply) => {
    const domain = await ownDomain(services, request, request.params.id)
    await answerOnceSeen(services, await removeDomain(services, askerOf(request), domain))
    return reply.code(204).send(null)
  })
}

function recordRoutes (app: Api, services: Services): void {
  app.post('/domains/:id/rotate-dkim', {
    config: { scope: 'domains:write', errors: [404, 409] },
    schema: {
      operationId: 'rotateDomainKeys',
      summary: 'Rotate the DKIM keys of a domain',
      description: 'The new keys sign once DNS shows their records. Keep the old records for 7 days more.',
      tags,
      params: IdParams,
      response: { 200: DomainAnswer }
    }
  }, async request => {
    const domain = await ownDomain(services, request, request.params.id)
    return await answerOnceSeen(services, await rotateDomainKeys(services, askerOf(request), domain))
  })

  app.post('/domains/:id/verify', {
    config: { scope: 'domains:write', errors: [404, 409] },
    schema: {
      operationId: 'verifyDomain',
      summary: 'Check the DNS records of a domain now',
      tags,
      params: IdParams,
      response: { 200: DomainAnswer }
    }
  }, async request => {
    const domain = await ownDomain(services, request, request.params.id)
    const checked = await checkDomain(services, askerOf(request), domain).catch(error => {
      throw error instanceof DnsUnavailable
        ? unavailable('dns_unavailable', `DNS does not answer for ${domain.name}: try again.`, DNS_RETRY_S)
        : error
    })
    return await answerOnceSeen(services, checked)
  })
}

async function ownDomain (services: Services, request: FastifyRequest, id: string): Promise<DomainEntry> {
  await seeAllWrites(services)
  for (const domain of services.directory.now.domains.values()) {
    if (domain.id === id && domain.account === request.key!.account) return domain
  }
  throw notFound()
}

async function answerOnceSeen (
  services: Services,
  result: Handled<'domain'> | Refusal
): Promise<Static<typeof DomainAnswer>> {
  const { domain, seq } = granted(result)
  await sawOwnWrite(services, seq)
  return domainAnswer(services, domain)
}

/** A domain as the API shows it. */
export function domainAnswer (
  { settings }: Pick<Services, 'settings'>,
  domain: DomainEntry
): Static<typeof DomainAnswer> {
  const { id, name, status, defaults, createdAt, checkedAt, failingSince } = domain
  const records = seenRecords(domain, settings.bounceDomain).map(({ removableAt, ...record }) => ({
    ...record,
    removable_at: removableAt
  }))
  return {
    id,
    name,
    status,
    records,
    ...answerOfDefaults(defaults),
    created_at: createdAt,
    checked_at: checkedAt,
    failing_since: failingSince
  }
}
