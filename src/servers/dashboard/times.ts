import { knownTime, parseTime, timestamp } from '#src/base/clock.ts'
import type { Html } from '#src/base/html.ts'
import { field, type Faults, type FormField } from './parts.ts'

/** What a browser's time field holds, read as UTC. The API judges other texts. */
const FIELD = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,3})?)?$/

/** As the API wants it. */
export function utcTime (text: string): string {
  if (!FIELD.test(text)) return text
  return `${text.length === 16 ? `${text}:00` : text}Z`
}

/** As the field wants it: to the minute. */
export function fieldTime (at: string | null): string {
  return at === null ? '' : at.slice(0, 16)
}

/** The time in a field or a link as RFC 3339 in UTC; null = not a time. */
export function timeIn (text: string): string | null {
  const ms = parseTime(utcTime(text))
  return ms === null ? null : timestamp(knownTime(ms))
}

export const NOT_A_TIME = 'Enter a time in UTC, such as 2026-11-21T12:00.'

/** A field for a time. A text that is not a time is shown in a text field: a browser's time field would hide it. */
export function timeField (options: Omit<FormField, 'type' | 'value'> & { value: string }, faults?: Faults): Html {
  const { value } = options
  const at = timeIn(value)
  return field({
    ...options,
    type: value === '' || at !== null ? 'datetime-local' : 'text',
    value: at === null || FIELD.test(value) ? value : fieldTime(at)
  }, faults)
}
