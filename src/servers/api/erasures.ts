import { Type } from '@sinclair/typebox'
import { erasures } from '#projections/erasures/project.ts'
import {
  ErasurePage,
  ErasureRecord,
  getErasure,
  listErasures,
  parseCursor,
  pendingErasure,
  receiptOf
} from '#projections/erasures/queries.ts'
import { Refusal } from '#streams/define.ts'
import { parseAddress } from '#streams/address.ts'
import type { Services } from '#src/actions/services.ts'
import { requestErasure } from '#src/actions/erasure.ts'
import { suppressionHash } from '#src/actions/suppression-store.ts'
import { answerFrom, type Reads } from '#src/postgres/reads.ts'
import { refuseFaults, type Api } from './context.ts'
import { notFound } from './errors.ts'
import { ListQuery, readPage } from './pages.ts'
import { askerOf, fieldFaults, granted, IdParams } from './params.ts'

const EraseRequest = Type.Object({
  address: Type.String({ maxLength: 320, description: 'address is a mail address.' })
}, {
  additionalProperties: false,
  description: 'The body is a JSON object.',
  examples: [{ address: 'ada@example.com' }]
})

/** The work is the scheduler's: here it is asked for, and looked at. */
export function erasureRoutes (app: Api, services: Services, reads: Reads): void {
  const shared = { tags: ['Erasures'] }
  const { contentRetentionMs: contentMs, factsRetentionMs: factsMs } = services.settings
  const kept = { contentMs, factsMs }

  app.post('/erasures', {
    config: { scope: 'erasures:write' },
    schema: {
      ...shared,
      operationId: 'createErasure',
      summary: 'Forget a person',
      description:
        'Calls off what still waits for the address, and takes it out of the log and of every view, with all that was said to it and about it. What is ' +
        'counted stays: statuses, times, and that it is suppressed, by its hash alone. Asked again while it is under way, it answers with the same erasure.',
      body: EraseRequest,
      response: { 202: ErasureRecord }
    },
    attachValidation: true
  }, async (request, reply) => {
    refuseFaults(
      request,
      fieldFaults(
        request,
        'address',
        text => parseAddress(text) ?? new Refusal('invalid_address', 'address is not a mail address.')
      )
    )
    const { account } = request.key!
    const { address } = request.body
    const pending = await answerFrom(
      reads,
      erasures,
      pendingErasure({ account, hash: suppressionHash(parseAddress(address)!), kept })
    )
    const receipt = pending ?? receiptOf(granted(await requestErasure(services, askerOf(request), address)), kept)
    void reply.code(202).header('location', `/api/erasures/${receipt.id}`)
    return receipt
  })

  app.get('/erasures', {
    config: { scope: 'erasures:write' },
    schema: {
      ...shared,
      operationId: 'listErasures',
      summary: 'List erasures',
      description: 'Those of the account, newest first.',
      querystring: ListQuery,
      response: { 200: ErasurePage }
    },
    attachValidation: true
  }, async request => {
    const { limit, before } = readPage(request, parseCursor)
    return await answerFrom(
      reads,
      erasures,
      listErasures({ account: request.key!.account, limit, cursor: before, kept })
    )
  })

  app.get('/erasures/:id', {
    config: { scope: 'erasures:write', errors: [404] },
    schema: {
      ...shared,
      operationId: 'getErasure',
      summary: 'The receipt of an erasure',
      params: IdParams,
      response: { 200: ErasureRecord }
    }
  }, async request => {
    const receipt = await answerFrom(
      reads,
      erasures,
      getErasure({ account: request.key!.account, id: request.params.id, kept })
    )
    if (receipt === null) throw notFound()
    return receipt
  })
}
