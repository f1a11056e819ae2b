import { Type, type Static } from '@sinclair/typebox'
import { parseAddress } from '#streams/address.ts'
import type { FieldFault } from '#streams/define.ts'
import { suppressible } from '#streams/suppression/decide.ts'
import { REASONS } from '#streams/suppression/facts.ts'
import { suppressions } from '#projections/suppressions/project.ts'
import {
  listSuppressions,
  parseCursor,
  recordOf,
  SuppressionPage,
  SuppressionRecord,
  type SuppressionListOptions
} from '#projections/suppressions/queries.ts'
import { parseTime } from '#src/base/clock.ts'
import type { Services } from '#src/actions/services.ts'
import { readSuppression, suppressionHash } from '#src/actions/suppression-store.ts'
import { suppress, unsuppress } from '#src/actions/suppression.ts'
import { answerFrom, type Reads } from '#src/postgres/reads.ts'
import { created, refuseFaults, schemaFaults, type Api } from './context.ts'
import { FaultList, notFound } from './errors.ts'
import { ListQuery, readPage } from './pages.ts'
import {
  askerOf,
  granted,
  MUST_BE_ADDRESS,
  MUST_BE_OBJECT,
  MUST_BE_TIME,
  textFaults,
  textReader,
  timeText
} from './params.ts'

const reason = (description: string) =>
  Type.Optional(Type.Union(REASONS.map(reason => Type.Literal(reason)), { description }))

const SuppressRequest = Type.Object({
  address: Type.String({ maxLength: 320, must: MUST_BE_ADDRESS, description: 'The address that gets no more mail.' }),
  reason: reason('Why. `manual` when left out; the others are for lists from elsewhere.')
}, {
  must: MUST_BE_OBJECT,
  additionalProperties: false,
  examples: [{ address: 'ada@example.com' }, { address: 'bob@example.com', reason: 'complaint' }]
})

const ListSuppressionsQuery = Type.Object({
  ...ListQuery.properties,
  reason: reason('Suppressed for this reason.'),
  address: Type.Optional(Type.String({ maxLength: 320, must: MUST_BE_ADDRESS, description: 'This address.' })),
  created_after: Type.Optional(timeText('Suppressed then or later.')),
  created_before: Type.Optional(timeText('Suppressed before then.'))
}, { additionalProperties: false })

const AddressParams = Type.Object({
  address: Type.String({ description: 'An email address, percent-encoded. Upper and lower case are the same.' })
})

export function suppressionRoutes (app: Api, services: Services, reads: Reads): void {
  createRoute(app, services)
  listRoute(app, reads)
  addressRoutes(app, services)
}

function createRoute (app: Api, services: Services): void {
  app.post('/suppressions', {
    config: { scope: 'suppressions:write', errors: [409] },
    schema: {
      operationId: 'createSuppression',
      summary: 'Suppress an address',
      description: 'It gets no mail of this account from now on. Answers 200 when it was suppressed before; a new ' +
        'reason is then added.',
      tags: ['Suppressions'],
      body: SuppressRequest,
      response: { 200: SuppressionRecord, 201: SuppressionRecord }
    },
    attachValidation: true
  }, async (request, reply) => {
    refuseFaults(request, textFaults(request, 'address', suppressible))
    const { address, reason = 'manual' } = request.body
    const done = granted(await suppress(services, askerOf(request), { address, reason, email: null }))
    if (done.created) created(reply, 201, `/api/suppressions/${encodeURIComponent(done.suppression.address!)}`)
    return recordOf(done.suppression)
  })
}

function listRoute (app: Api, reads: Reads): void {
  app.get('/suppressions', {
    config: { scope: 'suppressions:read' },
    schema: {
      operationId: 'listSuppressions',
      summary: 'List suppressed addresses',
      description: 'Newest first. All given filters must hold.',
      tags: ['Suppressions'],
      querystring: ListSuppressionsQuery,
      response: { 200: SuppressionPage }
    },
    attachValidation: true
  }, async request => {
    const { faults, ...filters } = readFilters(request.query, schemaFaults(request))
    const { limit, before } = readPage(request, parseCursor, faults)
    return await answerFrom(
      reads,
      request.principal!.account,
      suppressions,
      listSuppressions({ account: request.principal!.account, ...filters, limit, cursor: before })
    )
  })
}

/** One address is read from the log, also while the projection is unavailable. */
function addressRoutes (app: Api, services: Services): void {
  app.get('/suppressions/:address', {
    config: { scope: 'suppressions:read', errors: [404] },
    schema: {
      operationId: 'getSuppression',
      summary: 'Get the suppression of an address',
      tags: ['Suppressions'],
      params: AddressParams,
      response: { 200: SuppressionRecord }
    }
  }, async request => {
    const address = parseAddress(request.params.address)
    if (address === null) throw notFound()
    const { now: suppression } = await readSuppression(services.factLog.bus, request.principal!.account, address)
    if (suppression.standing.length === 0) throw notFound()
    return recordOf(suppression)
  })

  app.delete('/suppressions/:address', {
    config: { scope: 'suppressions:write', errors: [404, 409] },
    schema: {
      operationId: 'deleteSuppression',
      summary: 'Remove the suppression of an address',
      description: 'It gets mail again, whatever the reasons were.',
      tags: ['Suppressions'],
      params: AddressParams,
      response: { 204: Type.Null() }
    }
  }, async (request, reply) => {
    granted(await unsuppress(services, askerOf(request), request.params.address))
    return reply.code(204).send(null)
  })
}

/** The filters of a query, and the faults of meaning in it where the schema has found none (`found`). */
function readFilters (
  query: Static<typeof ListSuppressionsQuery>,
  found: FieldFault[]
): Pick<SuppressionListOptions, 'reason' | 'hash' | 'afterMs' | 'beforeMs'> & { faults: FieldFault[] } {
  const faults = new FaultList(found)
  const read = textReader(query, faults)
  const address = read('address', parseAddress, 'invalid_address', MUST_BE_ADDRESS)
  return {
    reason: query.reason ?? null,
    hash: address === null ? null : suppressionHash(address),
    afterMs: read('created_after', parseTime, 'invalid_value', MUST_BE_TIME),
    beforeMs: read('created_before', parseTime, 'invalid_value', MUST_BE_TIME),
    faults: faults.all.slice(found.length)
  }
}
