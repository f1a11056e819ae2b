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
