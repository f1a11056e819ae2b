import type { FieldFault } from '#streams/define.ts'
import { mustFault } from '../errors.ts'

/** A tag of Resend's: a name and a value. Jetpost keeps it in `metadata`. */
export interface ResendTag {
  name: string
  value: string
}

const MUST_BE_TAGS = 'be a list of objects with name and value'

/** The tags of a request by name, null = none; of two with one name the last holds. */
export function readTags (given: unknown): { tags: Record<string, unknown> | null, fault: FieldFault | null } {
  const none = { tags: null, fault: null }
  if (given == null) return none
  if (!Array.isArray(given)) return { tags: null, fault: mustFault('tags', 'invalid_value', MUST_BE_TAGS) }
  const pairs: Array<[string, unknown]> = []
  for (const [i, tag] of given.entries()) {
    const { name, value } = Object(tag) as Partial<Record<keyof ResendTag, unknown>>
    if (typeof name !== 'string' || value === undefined) {
      return { tags: null, fault: mustFault(`tags[${i}]`, 'invalid_value', 'be an object with name and value') }
    }
    pairs.push([name, typeof value === 'number' || typeof value === 'boolean' ? String(value) : value])
  }
  return pairs.length === 0 ? none : { tags: Object.fromEntries(pairs), fault: null }
}
