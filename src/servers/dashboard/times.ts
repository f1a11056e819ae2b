import { knownTime, parseTime, timestamp } from '#src/base/clock.ts'
import type { Html } from '#src/base/html.ts'
import { field, type Faults, type FormField } from './parts.ts'

/** What a browser's field for a time holds, meant in UTC; other texts are for the API to judge. */
const FIELD = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,3})?)?$/

/** As the API wants it. */
export function utcTime (typed: string): string {
  if (!FIELD.test(typed)) return typed
  return `${typed.length === 16 ? `${typed}:00` : typed}Z`
}

/** As the field wants it: to the minute. */
export function fieldTime (at: string | null): string {
  return at === null ? '' : at.slice(0, 16)
}

/** Of such a field, or of a link: RFC 3339 in UTC, or null for what is no time. */
export function timeIn (typed: string): string | null {
  const ms = parseTime(utcTime(typed))
  return ms === null ? null : timestamp(knownTime(ms))
}

export const NO_TIME = 'A time is like 2026-11-21T12:00, in UTC.'

/** A field for a time. What is none would not be seen in a browser's own. */
export function timeField (about: Omit<FormField, 'type' | 'value'> & { value: string }, faults?: Faults): Html {
  const { value } = about
  const at = timeIn(value)
  return field({
    ...about,
    type: value === '' || at !== null ? 'datetime-local' : 'text',
    value: at === null || FIELD.test(value) ? value : fieldTime(at)
  }, faults)
}
