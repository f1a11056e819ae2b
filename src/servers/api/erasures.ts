import { Type } from '@sinclair/typebox'
import { erasures } from '#projections/erasures/project.ts'
import {
  ErasurePage,
  ErasureRecord,
  getErasure,
  listErasures,
  parseCursor,
  pendingErasure,
  receiptOf,
  type RetentionPeriods
} from '#projections/erasures/queries.ts'
import { parseAddress } from '#streams/address.ts'
import { mailAddress } from '#streams/suppression/decide.ts'
import type { Services } from '#src/actions/services.ts'
import { erasureHashes, requestErasure } from '#src/actions/erasure.ts'
import { answerFrom, type Reads } from '#src/postgres/reads.ts'
import { refuseFaults, type Api } from './context.ts'
import { notFound } from './errors.ts'
import { ListQuery, readPage } from './pages.ts'
import { askerOf, granted, IdParams, MUST_BE_ADDRESS, MUST_BE_OBJECT, textFaults } from './params.ts'

const EraseRequest = Type.Object({
  address: Type.String({ maxLength: 320, must: MUST_BE_ADDRESS, description: 'The address to forget.' })
}, { must: MUST_BE_OBJECT, additionalProperties: false, examples: [{ address: 'ada@example.com' }] })

const shared = { tags: ['Erasures'] }

/** The scheduler erases; these routes ask for it and show how far it is. */
export function erasureRoutes (app: Api, services: Services, reads: Reads): void {
  const { contentRetentionMs: contentMs, factsRetentionMs: factsMs } = services.settings
  const kept = { contentMs, factsMs }
  createRoute(app, services, reads, kept)
  readRoutes(app, reads, kept)
}

function createRoute (app: Api, services: Services, reads: Reads, kept: RetentionPeriods): void {
  app.post('/erasures', {
    config: { scope: 'erasures:write' },
    schema: {
      ...shared,
      operationId: 'createErasure',
      summary: 'Forget a person',
      description: 'Cancels what is waiting for the address, and removes the address from the log and every ' +
        'projection, with all that was said to it and about it. ' +
        'What is counted stays: statuses, times, and that it is suppressed, by its hash. A second request ' +
        'while one is under way answers with the same erasure.',
      body: EraseRequest,
      response: { 202: ErasureRecord }
    },
    attachValidation: true
  }, async (request, reply) => {
    refuseFaults(request, textFaults(request, 'address', mailAddress))
    const { account } = request.principal!
    const { address } = request.body
    const hashes = erasureHashes(services.vault, account, parseAddress(address)!)
    const pending = await answerFrom(reads, account, erasures, pendingErasure({ account, hashes, kept }))
    const receipt = pending ?? receiptOf(granted(await requestErasure(services, askerOf(request), address)), kept)
    void reply.code(202).header('location', `/api/erasures/${receipt.id}`)
    return receipt
  })
}

function readRoutes (app: Api, reads: Reads, kept: RetentionPeriods): void {
  app.get('/erasures', {
    config: { scope: 'erasures:write' },
    schema: {
      ...shared,
      operationId: 'listErasures',
      summary: 'List erasures',
      description: 'Newest first.',
      querystring: ListQuery,
      response: { 200: ErasurePage }
    },
    attachValidation: true
  }, async request => {
    const { limit, before } = readPage(request, parseCursor)
    const { account } = request.principal!
    return await answerFrom(reads, account, erasures, listErasures({ account, limit, cursor: before, kept }))
  })

  app.get('/erasures/:id', {
    config: { scope: 'erasures:write', errors: [404] },
    schema: {
      ...shared,
      operationId: 'getErasure',
      summary: 'Get the receipt of an erasure',
      params: IdParams,
      response: { 200: ErasureRecord }
    }
  }, async request => {
    const { principal, params: { id } } = request
    const receipt = await answerFrom(
      reads,
      principal!.account,
      erasures,
      getErasure({ account: principal!.account, id, kept })
    )
    if (receipt === null) throw notFound()
    return receipt
  })
}
