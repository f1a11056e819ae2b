import { Type, type TSchema } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { Nullable, type FieldFault } from '#streams/define.ts'
import { schemaFaults } from './context.ts'
import { FaultList, invalid } from './errors.ts'

const MUST_BE_CURSOR = 'be a next_cursor of this list'

/** What every list takes. */
export const ListQuery = Type.Object({
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 100, description: 'How many to list, 1 to 100. 25 when left out.' })
  ),
  cursor: Type.Optional(
    Type.String({ maxLength: 500, must: MUST_BE_CURSOR, description: 'The `next_cursor` of the page before.' })
  )
}, { additionalProperties: false })

/** What every list answers; its example is made of the item's. */
export function listAnswer<Item extends TSchema> (item: Item) {
  return Type.Object({ data: Type.Array(item), has_more: Type.Boolean(), next_cursor: Nullable(Type.String()) }, {
    examples: [{ data: item.examples, has_more: false, next_cursor: null }]
  })
}

export const LIMIT_DEFAULT = 25

/** How long a page is, and after what it begins; null = at the newest. */
export interface PageRequest<Cursor> {
  limit: number
  before: Cursor | null
}

/** Which page is asked for; `parse` gives null for a cursor that is not the list's. Throws 422 with the faults of
 *  schema, cursor and `more` together. */
export function readPage<Cursor> (
  request: FastifyRequest,
  parse: (cursor: string) => Cursor | null,
  more: FieldFault[] = []
): PageRequest<Cursor> {
  const { limit = LIMIT_DEFAULT, cursor } = request.query as { limit?: number, cursor?: unknown }
  const faults = new FaultList([...schemaFaults(request), ...more])
  // What the schema has refused may be of any type.
  const before = typeof cursor === 'string' && !faults.has('cursor') ? parse(cursor) : null
  if (cursor !== undefined && before === null) faults.must('cursor', 'invalid_cursor', MUST_BE_CURSOR)
  if (faults.all.length > 0) throw invalid(faults.all)
  return { limit, before }
}

/** Reads the cursors of a list held in memory; `prefix` = how the ids of its things begin. */
export function cursorParser (prefix: string): (cursor: string) => string | null {
  const position = new RegExp(`^\\d{4}-\\d\\d-\\d\\dT[\\d:.]{12}Z ${prefix}_[0-9a-z]{1,64}$`)
  return cursor => {
    const text = Buffer.from(cursor, 'base64url').toString()
    return position.test(text) ? text : null
  }
}

/** One page of things held in memory, newest first; the last one's time and id are where the next begins. */
export function pageOf<T extends { id: string, createdAt: string }, A> (
  items: T[],
  { limit, before }: PageRequest<string>,
  answer: (item: T) => A
) {
  const rest = items
    .filter(item => before === null || positionOf(item) < before)
    .sort((a, b) => (positionOf(a) < positionOf(b) ? 1 : -1))
  const page = rest.slice(0, limit)
  const more = rest.length > limit
  return {
    data: page.map(answer),
    has_more: more,
    next_cursor: more ? Buffer.from(positionOf(page.at(-1)!)).toString('base64url') : null
  }
}

function positionOf ({ createdAt, id }: { createdAt: string, id: string }): string {
  return `${createdAt} ${id}`
}
