import { isPlain, MUST_BE_PLAIN } from '#streams/json.ts'
import { readType, typeFault, type FileFault } from './attachments.ts'

/** One more form of the same message, such as an invitation (`text/calendar; method=REQUEST`). */
export interface Alternative {
  /** Without `charset`, which is UTF-8. */
  contentType: string
  content: string
}

export const ALTERNATIVES_MAX = 3
/** Each. */
export const ALTERNATIVE_BYTES_MAX = 256 * 1024

/** Every fault of the further forms of a message, each field's first one. What is of the wrong type is passed over: the
 *  schema has named it. */
export function alternativeFaults (list: readonly unknown[]): FileFault[] {
  return list.slice(0, ALTERNATIVES_MAX).flatMap((given, i) => {
    const { content_type: type, content } = Object(given) as Record<string, unknown>
    const faults = {
      content_type: typeof type === 'string' ? textTypeFault(type) : null,
      content: typeof content === 'string' ? textFault(content) : null
    }
    return Object.entries(faults).flatMap(([name, fault]) =>
      fault === null ? [] : [{ field: `[${i}].${name}`, ...fault }]
    )
  })
}

export function readAlternative (given: { content_type: string, content: string }): Alternative {
  return { contentType: readType(given.content_type, /^(charset|name)(\*|$)/i), content: given.content }
}

/** Plain text and html have fields of their own; in `multipart/alternative` a reader shows one form only. */
function textTypeFault (type: string): Omit<FileFault, 'field'> | null {
  const fault = typeFault(type)
  if (fault !== null) return fault
  if (/^text\/(?!(plain|html)\s*(;|$))/i.test(type)) return null
  return {
    code: 'invalid_value',
    message: 'content_type must be a text type like text/calendar, other than text/plain and text/html.'
  }
}

function textFault (content: string): Omit<FileFault, 'field'> | null {
  if (Buffer.byteLength(content) > ALTERNATIVE_BYTES_MAX) {
    return { code: 'too_long', message: 'content must be at most 256 kB.' }
  }
  return isPlain(content) ? null : { code: 'invalid_characters', message: `content must ${MUST_BE_PLAIN}.` }
}
