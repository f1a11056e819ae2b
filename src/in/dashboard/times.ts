import { parseTime } from '#src/base/clock.ts'
import { Unfit } from './visit.ts'

/** What a browser's field for a time holds, meant in UTC; other texts are for the API to judge. */
const FIELD = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,3})?)?$/

/** As the API wants it. */
export function utcTime (typed: string): string {
  if (!FIELD.test(typed)) return typed
  return `${typed.length === 16 ? `${typed}:00` : typed}Z`
}

/** As the field wants it: to the minute. */
export function typedTime (at: string | null): string {
  return at === null ? '' : at.slice(0, 16)
}

/** Of such a field, or of a link: Unix ms; null = it is empty. Throws Unfit. */
export function momentIn (name: string, typed: string | null): number | null {
  if (typed === null || typed === '') return null
  const ms = parseTime(utcTime(typed))
  if (ms === null) throw new Unfit(`${name} is a time like 2026-11-21T12:00, in UTC.`)
  return ms
}

/** The field's text for a moment. */
export function momentText (ms: number | null): string {
  return typedTime(ms === null ? null : new Date(ms).toISOString())
}
