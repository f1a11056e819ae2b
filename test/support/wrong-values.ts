import { lookUp } from './openapi.ts'

type Json = Record<string, any>

/** A value that breaks one rule of a schema, and where it stands; undefined = it is left out. */
export interface WrongValue {
  at: string[]
  value: unknown
}

/** A value for each rule that a schema of an OpenAPI document has, at any depth, which breaks that rule. */
export function* wrongValues (document: Json, given: Json, at: string[] = []): Generator<WrongValue> {
  const schema = given.$ref === undefined ? given : lookUp(document, given.$ref)
  yield* wrongTypes(document, schema, at)
  if (schema.enum !== undefined) yield { at, value: 'nonsense' }
  if (schema.format === 'date-time') yield { at, value: 'tomorrow' }
  if (schema.pattern !== undefined) {
    yield {
      at,
      value: ['!', '', 'é'].find(text => !new RegExp(schema.pattern).test(text))
    }
  }
  if (schema.minLength > 0) yield { at, value: 'x'.repeat(schema.minLength - 1) }
  if (schema.maxLength !== undefined) yield { at, value: 'x'.repeat(schema.maxLength + 1) }
  if (schema.minimum !== undefined) yield { at, value: schema.minimum - 1 }
  if (schema.maximum !== undefined) yield { at, value: schema.maximum + 1 }
  if (schema.items !== undefined) yield* wrongLists(document, schema, at)
  yield* wrongMembers(document, schema, at)
  for (const option of schema.anyOf ?? []) yield* wrongValues(document, option, at)
}

function* wrongTypes (document: Json, schema: Json, at: string[]): Generator<WrongValue> {
  const allowed = typesOf(document, schema)
  const values: Array<[string, unknown]> = [['null', null], ['object', {}], ['integer', 7], ['string', 'x']]
  const [, value] = values.find(([type]) => !allowed.has(type)) ?? []
  if (allowed.size > 0 && value !== undefined) yield { at, value }
  if (allowed.has('integer') && !allowed.has('number')) yield { at, value: 1.5 }
}

function typesOf (document: Json, given: Json): Set<string> {
  const schema = given.$ref === undefined ? given : lookUp(document, given.$ref)
  const words = [schema.type ?? []].flat() as string[]
  const options = (schema.anyOf ?? []).flatMap((option: Json) => [...typesOf(document, option)])
  return new Set([...words, ...(words.includes('number') ? ['integer'] : []), ...options])
}

function* wrongLists (document: Json, schema: Json, at: string[]): Generator<WrongValue> {
  const item = schema.items.enum?.[0] ?? 'x'
  if (schema.minItems > 0) yield { at, value: [] }
  if (schema.maxItems !== undefined) yield { at, value: Array(schema.maxItems + 1).fill(item) }
  if (schema.uniqueItems === true) yield { at, value: [item, item] }
  yield* wrongValues(document, schema.items, [...at, '0'])
}

function* wrongMembers (document: Json, schema: Json, at: string[]): Generator<WrongValue> {
  for (const name of schema.required ?? []) yield { at: [...at, name], value: undefined }
  for (const [name, member] of Object.entries<Json>(schema.properties ?? {})) {
    yield* wrongValues(document, member, [...at, name])
  }
  if (schema.additionalProperties === false) yield { at: [...at, 'subjct'], value: 1 }
  if (typeof schema.additionalProperties === 'object') {
    yield* wrongValues(document, schema.additionalProperties, [...at, 'name'])
  }
}

/** A copy of a JSON value with another one in some place of it; objects and lists on the way are made. */
export function withValue (whole: unknown, [name, ...rest]: string[], value: unknown): unknown {
  if (name === undefined) return value
  const parent = typeof whole === 'object' && whole !== null ? whole : /^\d+$/.test(name) ? [] : {}
  const child = withValue((parent as Json)[name], rest, value)
  if (!Array.isArray(parent)) return { ...parent, [name]: child }
  return Object.assign([...parent], { [name]: child })
}
