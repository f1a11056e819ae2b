/** An object of JSON that others wrote: any field may be missing, or hold anything. */
export type JsonObject = Record<string, unknown>

const VALUE_LENGTH_MAX = 4000

export function objectOf (value: unknown): JsonObject | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value as JsonObject : null
}

/** '' = it is none. */
export function textOf (value: unknown): string {
  return typeof value === 'string' ? value.slice(0, VALUE_LENGTH_MAX) : ''
}

/** Empty when it is none. */
export function listOf (value: unknown): unknown[] {
  return Array.isArray(value) ? value : []
}
