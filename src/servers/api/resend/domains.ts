import { Type } from '@sinclair/typebox'
import { Refusal } from '#streams/define.ts'
import type { DomainEntry } from '#streams/directory.ts'
import { MUST_BE_DOMAIN, ownableName } from '#streams/domain/decide.ts'
import { seenRecords, type SeenRecord } from '#streams/domain/records.ts'
import type { SendDefaults } from '#streams/email/defaults.ts'
import { addDomain, changeDomain, removeDomain, senderNameOf } from '#src/actions/domain.ts'
import { SEEN_MS } from '#src/actions/directory.ts'
import type { Services } from '#src/actions/services.ts'
import type { Api } from '../context.ts'
import { checkNow } from '../domains.ts'
import { askerOf, IdParams, MUST_BE_OBJECT, textFaults } from '../params.ts'
import { ResourceRoutes } from '../resource.ts'
import { AnAnswer, Maybe, resendList } from './resources.ts'

const tracking = { open_tracking: Maybe(Type.Boolean()), click_tracking: Maybe(Type.Boolean()) }
const CreateRequest = Type.Object({
  name: Type.String({ maxLength: 1000, must: MUST_BE_DOMAIN }),
  ...tracking
}, { must: MUST_BE_OBJECT })
const ChangeRequest = Type.Object(tracking, { must: MUST_BE_OBJECT })

/** Where mail leaves from: no region of Resend's. */
const REGION = 'self-hosted'

export function resendDomainRoutes (app: Api, services: Services): void {
  const routes = new ResourceRoutes(app, services, {
    kind: 'domain',
    tag: 'Domains',
    scopes: { read: 'domains:read', write: 'domains:write' },
    prefix: 'dom',
    schema: AnAnswer,
    answerOf: domain => ({ object: 'domain', ...domainOf(domain), ...recordsOf(services, domain) })
  })
  const only = ({ id }: DomainEntry) => ({ object: 'domain', id })

  routes.write('POST', '/domains', ['createDomain', 'Add a domain'], {
    schema: { body: CreateRequest, response: { 201: AnAnswer } },
    errors: [],
    faults: request => textFaults(request, 'name', ownableName),
    async act (request) {
      const added = await addDomain(services, askerOf(request), request.body.name)
      const defaults = trackingOf(request.body)
      if (added instanceof Refusal || Object.keys(defaults).length === 0) return added
      await services.directory.reached(added.seq, SEEN_MS)
      return await changeDomain(services, askerOf(request), added.domain, defaults)
    },
    tell: ({ domain }) => ({ ...domainOf(domain), ...recordsOf(services, domain) })
  })
  resendList(app, services, '/domains', { kind: 'domain', scope: 'domains:read', answerOf: domainOf })
  routes.get('/domains/:id', ['getDomain', 'Get a domain'])
  routes.write('PATCH', '/domains/:id', ['updateDomain', 'Change the defaults of a domain'], {
    schema: { params: IdParams, body: ChangeRequest, response: { 200: AnAnswer } },
    errors: [],
    act: async request => await changeDomain(services, askerOf(request), routes.own(request), trackingOf(request.body)),
    tell: ({ domain }) => only(domain)
  })
  routes.write('POST', '/domains/:id/verify', ['verifyDomain', 'Check the DNS records of a domain now'], {
    schema: { params: IdParams, response: { 200: AnAnswer } },
    errors: [],
    act: async request => await checkNow(services, askerOf(request), routes.own(request)),
    tell: ({ domain }) => only(domain)
  })
  routes.write('DELETE', '/domains/:id', ['deleteDomain', 'Delete a domain'], {
    schema: { params: IdParams, response: { 200: AnAnswer } },
    errors: [],
    async act (request) {
      const domain = routes.own(request)
      const removed = await removeDomain(services, askerOf(request), domain)
      return removed instanceof Refusal ? removed : { ...removed, id: domain.id }
    },
    tell: ({ id }) => ({ object: 'domain', id, deleted: true })
  })
}

function trackingOf (
  { open_tracking: opens, click_tracking: clicks }: { open_tracking?: boolean | null, click_tracking?: boolean | null }
): Partial<SendDefaults> {
  return { ...(opens == null ? {} : { opens }), ...(clicks == null ? {} : { clicks }) }
}

function domainOf ({ id, name, status, checkedAt, defaults, createdAt }: DomainEntry) {
  return {
    id,
    name,
    status: status === 'pending' && checkedAt === null ? 'not_started' : status,
    created_at: createdAt,
    region: REGION,
    capabilities: { sending: 'enabled', receiving: 'disabled' },
    open_tracking: defaults.opens ?? false,
    click_tracking: defaults.clicks ?? false
  }
}

const RECORDS: Partial<Record<SeenRecord['purpose'], string>> = { dkim: 'DKIM', return_path: 'SPF', spf: 'SPF' }
const STATES: Record<SeenRecord['state'], string> = {
  ok: 'verified',
  missing: 'pending',
  wrong: 'failed',
  unchecked: 'not_started'
}

/** Those to publish now, of the kinds that Resend knows. */
function recordsOf ({ settings }: Pick<Services, 'settings'>, domain: DomainEntry) {
  const seen = seenRecords(domain, settings.bounceDomain, senderNameOf(settings))
  return {
    records: seen.flatMap(({ purpose, stage, type, name, value, state }) => {
      const record = RECORDS[purpose]
      const isWanted = record !== undefined && (stage === 'current' || stage === 'next')
      return isWanted ? [{ record, name, type, ttl: 'Auto', status: STATES[state], value }] : []
    })
  }
}
