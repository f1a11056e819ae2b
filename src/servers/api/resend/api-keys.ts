import { Type, type Static } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { Refusal } from '#streams/define.ts'
import type { KeyEntry, Principal } from '#streams/directory.ts'
import { NO_DEFAULTS } from '#streams/email/defaults.ts'
import { changeKey, grantKey, revokeKey, type NewKey } from '#src/actions/key.ts'
import type { Services } from '#src/actions/services.ts'
import type { Api } from '../context.ts'
import { KEY_FIELDS, keyAnswerOf, keyAskerOf, keyFaults } from '../keys.ts'
import { IdParams, MUST_BE_OBJECT } from '../params.ts'
import { ResourceRoutes } from '../resource.ts'
import { AnAnswer, Maybe, resendList } from './resources.ts'

const Permission = Type.Union([Type.Literal('full_access'), Type.Literal('sending_access'), Type.Null()], {
  must: 'be full_access or sending_access'
})
const Name = Type.String({ minLength: 1, maxLength: 200 })
const CreateRequest = Type.Object({
  name: Name,
  permission: Type.Optional(Permission),
  domain_id: Maybe(Type.String())
}, { must: MUST_BE_OBJECT })
const ChangeRequest = Type.Object({ name: Name }, { must: MUST_BE_OBJECT })

const FIELDS = { ...KEY_FIELDS, unknown_domain: 'domain_id' }

export function resendKeyRoutes (app: Api, services: Services): void {
  const { clock } = services.factLog
  const answerOf = async (key: KeyEntry) => {
    const { id, name, created_at, last_used_at } = await keyAnswerOf(services, key)
    return { id, name, created_at, last_used_at }
  }
  const faults = (request: FastifyRequest) => keyFaults(request, clock.nowMs())
  const routes = new ResourceRoutes(app, services, {
    kind: 'key',
    tag: 'Keys',
    testKeys: true,
    scopes: { read: 'keys:read', write: 'keys:write' },
    prefix: 'key',
    schema: AnAnswer,
    answerOf
  })

  routes.write('POST', '/api-keys', ['createKey', 'Create a key'], {
    schema: { body: CreateRequest, response: { 201: AnAnswer } },
    errors: [],
    faults,
    async act (request) {
      const wanted = newKeyOf(services, request.principal!, request.body)
      return wanted instanceof Refusal ? wanted : await grantKey(services, keyAskerOf(request), wanted)
    },
    fieldOf: FIELDS,
    tell: ({ key, secret }) => ({ id: key.id, token: secret })
  })
  resendList(app, services, '/api-keys', { kind: 'key', scope: 'keys:read', answerOf })
  routes.write('PATCH', '/api-keys/:id', ['updateKey', 'Change a key'], {
    schema: { params: IdParams, body: ChangeRequest, response: { 200: AnAnswer } },
    errors: [],
    faults,
    act: request =>
      changeKey(services, keyAskerOf(request), request.params.id, { name: request.body.name, defaults: {} }),
    tell: ({ key }) => ({ object: 'api_key', id: key.id })
  })
  routes.write('DELETE', '/api-keys/:id', ['deleteKey', 'Revoke a key'], {
    schema: { params: IdParams, response: { 200: AnAnswer } },
    errors: [],
    async act (request) {
      const { id } = request.params
      const ended = await revokeKey(services, keyAskerOf(request), id)
      return ended instanceof Refusal ? ended : { ...ended, id }
    },
    tell: ({ id }) => ({ object: 'api_key', id, deleted: true })
  })
}

/** A key of the asker's domains, or of one of them, for as long as the asker; a test key's is one too. */
function newKeyOf (
  { directory }: Pick<Services, 'directory'>,
  { account, domains, expiresMs, test }: Principal,
  { name, permission, domain_id: domainId }: Static<typeof CreateRequest>
): NewKey | Refusal {
  const own = [...directory.now.domains.values()].filter(domain => domain.account === account)
  const domain = own.find(({ id }) => id === domainId)
  if (domainId != null && domain === undefined) {
    return new Refusal('unknown_domain', 'domain_id must be the id of a domain of the account.')
  }
  return {
    name,
    scopes: permission === 'sending_access' ? ['emails:send'] : ['full'],
    domains: domain === undefined ? [...domains] : [domain.name],
    expiresMs,
    defaults: NO_DEFAULTS,
    test
  }
}
