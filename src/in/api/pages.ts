import { Type, type Static } from '@sinclair/typebox'
import { invalid } from './errors.ts'

/** What every list takes. */
export const ListQuery = Type.Object({
  limit: Type.Optional(Type.String({ pattern: '^([1-9]|[1-9][0-9]|100)$', description: 'limit is a number from 1 to 100.' })),
  cursor: Type.Optional(Type.String({ maxLength: 500, description: 'cursor is the next_cursor of an earlier answer.' }))
}, { additionalProperties: false })

const LIMIT_DEFAULT = 25

export function limitOfQuery (query: { limit?: string }): number {
  return query.limit === undefined ? LIMIT_DEFAULT : Number(query.limit)
}

/** One page of things held in memory, newest first: ids sort by time, so the last id of a page is where the next begins. */
export function pageOf<T extends { id: string }, A> (items: T[], query: Static<typeof ListQuery>, answer: (item: T) => A) {
  const limit = limitOfQuery(query)
  const before = query.cursor === undefined ? null : readCursor(query.cursor)
  const rest = items.filter(item => before === null || item.id < before).sort((a, b) => (a.id < b.id ? 1 : -1))
  const page = rest.slice(0, limit)
  const more = rest.length > limit
  return { data: page.map(answer), has_more: more, next_cursor: more ? Buffer.from(page.at(-1)!.id).toString('base64url') : null }
}

function readCursor (cursor: string): string {
  const id = Buffer.from(cursor, 'base64url').toString()
  if (!/^[a-z]+_[0-9a-z]{1,64}$/.test(id)) throw invalid([{ field: 'cursor', code: 'invalid_cursor', message: 'cursor is not a next_cursor of this list.' }])
  return id
}
