import { Type, type Static } from '@sinclair/typebox'
import { Nullable } from '#streams/define.ts'
import type { DomainEntry } from '#streams/directory.ts'
import { MUST_BE_DOMAIN, ownableName } from '#streams/domain/decide.ts'
import { DOMAIN_STATUSES } from '#streams/domain/facts.ts'
import { seenRecords } from '#streams/domain/records.ts'
import {
  addDomain,
  changeDomain,
  checkDomain,
  removeDomain,
  senderNameOf,
  rotateDomainKeys
} from '#src/actions/domain.ts'
import type { Asker, Services } from '#src/actions/services.ts'
import { DnsUnavailable } from '#src/dns/resolve.ts'
import type { Api } from './context.ts'
import { unavailable } from './errors.ts'
import { askerOf, IdParams, MUST_BE_OBJECT, textFaults } from './params.ts'
import { ResourceRoutes } from './resource.ts'
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
  purpose: OneOf('dkim', 'return_path', 'spf', 'dmarc'),
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

const ROTATE_TEXT = 'The new keys sign once DNS shows their records. Keep the old records for 7 days more.'

export function domainRoutes (app: Api, services: Services): void {
  const answerOf = (domain: DomainEntry) => domainAnswer(services, domain)
  const routes = new ResourceRoutes(app, services, {
    kind: 'domain',
    tag: 'Domains',
    scopes: { read: 'domains:read', write: 'domains:write' },
    prefix: 'dom',
    schema: DomainAnswer,
    answerOf
  })

  routes.write('POST', '/domains', [
    'createDomain',
    'Add a domain',
    'Answers 200 when the account has the domain already.'
  ], {
    schema: { body: CreateRequest, response: { 200: DomainAnswer, 201: DomainAnswer } },
    errors: [409],
    faults: request => textFaults(request, 'name', ownableName),
    act: request => addDomain(services, askerOf(request), request.body.name),
    location: ({ domain, isNew }) => (isNew ? `/api/domains/${domain.id}` : null),
    tell: ({ domain }) => answerOf(domain)
  })
  routes.list('/domains', ['listDomains', 'List domains'])
  routes.get('/domains/:id', ['getDomain', 'Get a domain'])
  routes.write('PATCH', '/domains/:id', ['updateDomain', 'Change the defaults of a domain'], {
    schema: { params: IdParams, body: ChangeRequest, response: { 200: DomainAnswer } },
    errors: [404, 409],
    act: async request => await changeDomain(services, askerOf(request), routes.own(request), defaultsOf(request.body)),
    tell: ({ domain }) => answerOf(domain)
  })
  routes.write('DELETE', '/domains/:id', ['deleteDomain', 'Delete a domain'], {
    schema: { params: IdParams, response: { 204: Type.Null() } },
    errors: [404, 409],
    act: async request => await removeDomain(services, askerOf(request), routes.own(request)),
    tell: () => null
  })
  routes.write('POST', '/domains/:id/rotate-dkim', [
    'rotateDomainKeys',
    'Rotate the DKIM keys of a domain',
    ROTATE_TEXT
  ], {
    schema: { params: IdParams, response: { 200: DomainAnswer } },
    errors: [404, 409],
    act: async request => await rotateDomainKeys(services, askerOf(request), routes.own(request)),
    tell: ({ domain }) => answerOf(domain)
  })
  routes.write('POST', '/domains/:id/verify', ['verifyDomain', 'Check the DNS records of a domain now'], {
    schema: { params: IdParams, response: { 200: DomainAnswer } },
    errors: [404, 409],
    act: async request => await checkNow(services, askerOf(request), routes.own(request)),
    tell: ({ domain }) => answerOf(domain)
  })
}

/** Throws 503 when DNS does not say. */
export async function checkNow (services: Services, asker: Asker, domain: DomainEntry) {
  return await checkDomain(services, asker, domain).catch(error => {
    throw error instanceof DnsUnavailable
      ? unavailable('dns_unavailable', `DNS does not answer for ${domain.name}: try again.`, DNS_RETRY_S)
      : error
  })
}

/** A domain as the API shows it. */
export function domainAnswer (
  { settings }: Pick<Services, 'settings'>,
  domain: DomainEntry
): Static<typeof DomainAnswer> {
  const { id, name, status, defaults, createdAt, checkedAt, failingSince } = domain
  const records = seenRecords(domain, settings.bounceDomain, senderNameOf(settings)).map((
    { removableAt, ...record }
  ) => ({
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
