import { Type, type Static } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { refuseFaults } from '../context.ts'
import { invalid, mustFault } from '../errors.ts'

export const ResendListQuery = Type.Object({
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })),
  after: Type.Optional(Type.String({ maxLength: 100 })),
  before: Type.Optional(Type.String({ maxLength: 100 }))
})

const LIMIT_DEFAULT = 20

/** A page of a list: what is older than `after`, or newer than `before`, which are ids; the newest without both. */
export interface ResendPage {
  limit: number
  after: string | null
  before: string | null
}

/** Throws 422. */
export function readResendPage (request: FastifyRequest): ResendPage {
  refuseFaults(request)
  const { limit = LIMIT_DEFAULT, after, before } = request.query as Static<typeof ResendListQuery>
  if (after !== undefined && before !== undefined) {
    throw invalid([mustFault('before', 'not_supported', 'not come together with after')])
  }
  return { limit, after: after ?? null, before: before ?? null }
}

/** `field` names nothing of the list. */
export const noSuchPlace = (field: 'after' | 'before') =>
  invalid([mustFault(field, 'invalid_value', 'be an id of this list')])

export function listOf<Item> (data: Item[], hasMore: boolean) {
  return { object: 'list', has_more: hasMore, data }
}

/** A page of things held in memory. Throws 422 for an id that none of them has. */
export function pageOfAll<T extends { id: string, createdAt: string }> (
  all: readonly T[],
  { limit, after, before }: ResendPage
): { page: T[], hasMore: boolean } {
  const newestFirst = [...all].sort((a, b) => (isNewer(a, b) ? -1 : 1))
  const indexOf = (field: 'after' | 'before', id: string) => {
    const index = newestFirst.findIndex(item => item.id === id)
    if (index === -1) throw noSuchPlace(field)
    return index
  }
  if (before !== null) {
    const end = indexOf('before', before)
    const start = Math.max(0, end - limit)
    return { page: newestFirst.slice(start, end), hasMore: start > 0 }
  }
  const start = after === null ? 0 : indexOf('after', after) + 1
  return { page: newestFirst.slice(start, start + limit), hasMore: newestFirst.length > start + limit }
}

function isNewer (a: { id: string, createdAt: string }, b: { id: string, createdAt: string }): boolean {
  return a.createdAt === b.createdAt ? a.id > b.id : a.createdAt > b.createdAt
}
