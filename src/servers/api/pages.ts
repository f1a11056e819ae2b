import { Type, type TSchema } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { Nullable } from '#streams/define.ts'
import { schemaFaults } from './context.ts'
import { invalid, type Fault } from './errors.ts'

/** What every list takes. */
export const ListQuery = Type.Object({
  limit: Type.Optional(
    Type.String({ pattern: '^([1-9]|[1-9][0-9]|100)$', description: 'limit is a number from 1 to 100.' })
  ),
  cursor: Type.Optional(Type.String({ maxLength: 500, description: 'cursor is the next_cursor of an earlier answer.' }))
}, { additionalProperties: false })

/** What every list answers; its example is made of the item's. */
export function listAnswer<Item extends TSchema> (item: Item) {
  return Type.Object({ data: Type.Array(item), has_more: Type.Boolean(), next_cursor: Nullable(Type.String()) }, {
    examples: [{ data: item.examples, has_more: false, next_cursor: null }]
  })
}

const LIMIT_DEFAULT = '25'

/** How long a page is, and after what it begins; null = at the newest. */
export interface Page<Place> {
  limit: number
  before: Place | null
}

/** Which page is asked for; `parse` gives null for a cursor that is not the list's. Throws 422 with the faults of
 *  schema, cursor and `more` together. */
export function readPage<Place> (
  request: FastifyRequest,
  parse: (cursor: string) => Place | null,
  more: Fault[] = []
): Page<Place> {
  const { limit = LIMIT_DEFAULT, cursor } = request.query as { limit?: string, cursor?: unknown }
  const faults = [...schemaFaults(request), ...more]
  // What the schema has refused may be of any type.
  const given = typeof cursor === 'string' && !faults.some(({ field }) => field === 'cursor') ? cursor : null
  const before = given === null ? null : parse(given)
  if (given !== null && before === null) {
    faults.push({ field: 'cursor', code: 'invalid_cursor', message: 'cursor is not a next_cursor of this list.' })
  }
  if (faults.length > 0) throw invalid(faults)
  return { limit: Number(limit), before }
}

/** Reads the cursors of a list held in memory; `prefix` = how the ids of its things begin. */
export function placeAmong (prefix: string): (cursor: string) => string | null {
  const place = new RegExp(`^\\d{4}-\\d\\d-\\d\\dT[\\d:.]{12}Z ${prefix}_[0-9a-z]{1,64}$`)
  return cursor => {
    const text = Buffer.from(cursor, 'base64url').toString()
    return place.test(text) ? text : null
  }
}

/** One page of things held in memory, newest first; the last one's time and id are where the next begins. */
export function pageOf<T extends { id: string, createdAt: string }, A> (
  items: T[],
  { limit, before }: Page<string>,
  answer: (item: T) => A
) {
  const rest = items.filter(item => before === null || placeOf(item) < before).sort((
    a,
    b
  ) => (placeOf(a) < placeOf(b) ? 1 : -1))
  const page = rest.slice(0, limit)
  const more = rest.length > limit
  return {
    data: page.map(answer),
    has_more: more,
    next_cursor: more ? Buffer.from(placeOf(page.at(-1)!)).toString('base64url') : null
  }
}

function placeOf ({ createdAt, id }: { createdAt: string, id: string }): string {
  return `${createdAt} ${id}`
}
