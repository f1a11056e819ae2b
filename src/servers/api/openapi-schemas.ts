import type { FaultWords } from './faults.ts'
import { ref, type Json } from './openapi-parts.ts'
import { MUST_BE_TIME } from './params.ts'

/** Bodies and answers under names of their own. What equals one of them, at any depth of another, is a reference to it.
 */
export interface Models {
  /** A schema that was named, as a reference; any other as it is, with references inside. */
  refer(schema: unknown): unknown
  /** The named ones. */
  components(): Json
}

/** `named`: name → schema as routes have it. Of two that are equal the first name holds; of two of one name the second
 *  stays without. */
export function createModels (named: Array<[string, unknown]>): Models {
  const names = new Map<string, string>()
  const schemas = new Map<string, unknown>()
  for (const [name, raw] of named) {
    const schema = portable(raw)
    const text = JSON.stringify(schema)
    if (names.has(text) || schemas.has(name)) continue
    names.set(text, name)
    schemas.set(name, schema)
  }

  function referAll (value: unknown): unknown {
    const name = isObject(value) ? names.get(JSON.stringify(value)) : undefined
    return name === undefined ? inside(value) : ref('schemas', name)
  }

  function inside (value: unknown): unknown {
    if (Array.isArray(value)) return value.map(referAll)
    return isObject(value)
      ? Object.fromEntries(Object.entries(value).map(([key, child]) => [key, referAll(child)]))
      : value
  }

  return {
    refer: schema => referAll(portable(schema)),
    components: () =>
      Object.fromEntries(
        [...schemas].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, schema]) => [name, inside(schema)])
      )
  }
}

/** A TypeBox schema as plain JSON Schema 2020-12 that tools of any language read well. It allows the same values.
 *  Examples are the document's to place. `name` = what is described, where it has one. */
export function portable (schema: unknown, name = ''): unknown {
  return simplify(JSON.parse(JSON.stringify(schema)), name)
}

function simplify (value: unknown, key: string): unknown {
  if (Array.isArray(value)) return value.map(child => simplify(child, ''))
  if (!isObject(value)) return value
  const entries = Object.entries(value).filter(([name, child]) => !isOurs(name, child))
  const schema = Object.fromEntries(entries.map(([name, child]) => [name, simplify(child, name)]))
  return timed(named(choice(schema)), isTime(value, key))
}

/** Examples are the document's to place; `must` and `noun` are for faults. */
function isOurs (name: string, child: unknown): boolean {
  return (name === 'examples' && Array.isArray(child)) || (/^(must|noun)$/.test(name) && typeof child === 'string')
}

/** What must be a time is one, and what is called `…_at` and does not say what else it must be. */
function isTime ({ must }: Json & FaultWords, key: string): boolean {
  return must === undefined ? /^time$|_(at|after|before)$/.test(key) : must.startsWith(MUST_BE_TIME)
}

/** One of some words is an `enum`; something or null is a type of two names, as are the bare types. */
function choice (schema: Json): Json {
  const { anyOf, ...rest } = schema
  if (!Array.isArray(anyOf)) return schema
  const options = anyOf as Json[]
  if (options.every(option => option.type === 'string' && 'const' in option)) {
    return {
      ...rest,
      type: 'string',
      enum: options.map(option => option.const)
    }
  }
  if (options.every(option => Object.keys(option).join() === 'type' && typeof option.type === 'string')) {
    return {
      ...rest,
      type: options.map(option => option.type)
    }
  }
  const [some, none, ...others] = options
  if (
    some === undefined || none?.type !== 'null' || others.length > 0 || typeof some.type !== 'string' || 'const' in some
  ) return schema
  return {
    ...some,
    ...rest,
    ...(Array.isArray(some.enum) ? { enum: [...some.enum as unknown[], null] } : {}),
    type: [some.type, 'null']
  }
}

const ANY_NAME = '^[^]*$'

/** A record: generators of clients know its values only by this name. The pattern of any names is read by JavaScript
 *  alone. */
function named (schema: Json): Json {
  const { patternProperties, ...rest } = schema
  if (!isObject(patternProperties)) return schema
  const [[pattern, values] = []] = Object.entries(patternProperties)
  const record = { ...rest, additionalProperties: values }
  return pattern === ANY_NAME ? record : { ...record, propertyNames: { pattern } }
}

/** The format of a time says more than a pattern can. */
function timed (schema: Json, isTime: boolean): Json {
  if (!isTime || ![schema.type].flat().includes('string')) return schema
  const { pattern: _pattern, ...rest } = schema
  return { ...rest, format: 'date-time' }
}

function isObject (value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
