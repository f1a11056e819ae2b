import { Type, type Static } from '@sinclair/typebox'
import { parseAddress } from '#streams/address.ts'
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
import { notFound, type Fault } from './errors.ts'
import { ListQuery, readPage } from './pages.ts'
import { askerOf, fieldFaults, granted, timeMessage } from './params.ts'

const Reason = Type.Union(REASONS.map(reason => Type.Literal(reason)), {
  description: `reason is one of ${REASONS.join(', ')}.`
})
const Address = Type.String({ maxLength: 320, description: 'address is a mail address.' })
const Time = (name: string) => Type.String({ maxLength: 40, description: timeMessage(name) })

const SuppressRequest = Type.Object({
  address: Address,
  reason: Type.Optional(Reason)
}, {
  additionalProperties: false,
  description:
    'The body is a JSON object. Without a reason it is `manual`; the others are for lists brought along from elsewhere.',
  examples: [{ address: 'ada@example.com' }, { address: 'bob@example.com', reason: 'complaint' }]
})

const ListSuppressionsQuery = Type.Object({
  ...ListQuery.properties,
  reason: Type.Optional(Reason),
  address: Type.Optional(Address),
  created_after: Type.Optional(Time('created_after')),
  created_before: Type.Optional(Time('created_before'))
}, { additionalProperties: false })

const AddressParams = Type.Object({
  address: Type.String({ description: 'A mail address, percent-encoded, in any case of letters.' })
})

/** The list is a view. One address is read from the log, also while the view is away. */
export function suppressionRoutes (app: Api, services: Services, reads: Reads): void {
  app.post('/suppressions', {
    config: { scope: 'suppressions:write', errors: [409] },
    schema: {
      operationId: 'createSuppression',
      summary: 'Suppress an address',
      description:
        'It gets no mail of this account from now on. 200 when it was suppressed before; a further reason then joins those that stand.',
      tags: ['Suppressions'],
      body: SuppressRequest,
      response: { 200: SuppressionRecord, 201: SuppressionRecord }
    },
    attachValidation: true
  }, async (request, reply) => {
    refuseFaults(request, fieldFaults(request, 'address', suppressible))
    const { address, reason = 'manual' } = request.body
    const done = granted(await suppress(services, askerOf(request), { address, reason, email: null }))
    if (done.created) created(reply, 201, `/api/suppressions/${encodeURIComponent(done.suppression.address!)}`)
    return recordOf(done.suppression)
  })

  app.get('/suppressions', {
    config: { scope: 'suppressions:read' },
    schema: {
      operationId: 'listSuppressions',
      summary: 'List suppressed addresses',
      description:
        'Those of the account, newest first. All filters given must hold. `created_after` is inclusive, `created_before` is not.',
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
      suppressions,
      listSuppressions({ account: request.key!.account, ...filters, limit, cursor: before })
    )
  })

  app.get('/suppressions/:address', {
    config: { scope: 'suppressions:read', errors: [404] },
    schema: {
      operationId: 'getSuppression',
      summary: 'Look at the suppression of an address',
      tags: ['Suppressions'],
      params: AddressParams,
      response: { 200: SuppressionRecord }
    }
  }, async request => {
    const address = parseAddress(request.params.address)
    if (address === null) throw notFound()
    const { now: suppression } = await readSuppression(services.appenders.bus, request.key!.account, address)
    if (suppression.standing.length === 0) throw notFound()
    return recordOf(suppression)
  })

  app.delete('/suppressions/:address', {
    config: { scope: 'suppressions:write', errors: [404, 409] },
    schema: {
      operationId: 'deleteSuppression',
      summary: 'Let an address have mail again',
      description: 'Whatever the reasons were, all of them end.',
      tags: ['Suppressions'],
      params: AddressParams,
      response: { 204: Type.Null() }
    }
  }, async (request, reply) => {
    granted(await unsuppress(services, askerOf(request), request.params.address))
    return reply.code(204).send(null)
  })
}

/** What a query asks for, and the faults of meaning in it where the schema has found none (`known`). */
function readFilters (
  query: Static<typeof ListSuppressionsQuery>,
  known: Fault[]
): Pick<SuppressionListOptions, 'reason' | 'hash' | 'afterMs' | 'beforeMs'> & { faults: Fault[] } {
  const faults: Fault[] = []
  function read<T> (
    field: keyof typeof query,
    parse: (text: string) => T | null,
    code: string,
    message: string
  ): T | null {
    const text = query[field]
    if (text === undefined || known.some(fault => fault.field === field)) return null
    const value = parse(text)
    if (value === null) faults.push({ field, code, message })
    return value
  }
  const address = read('address', parseAddress, 'invalid_address', Address.description!)
  return {
    reason: query.reason ?? null,
    hash: address === null ? null : suppressionHash(address),
    afterMs: read('created_after', parseTime, 'invalid_value', timeMessage('created_after')),
    beforeMs: read('created_before', parseTime, 'invalid_value', timeMessage('created_before')),
    faults
  }
}
