import type { TObject, TSchema } from '@sinclair/typebox'
import { TypeCompiler, ValueErrorType, type ValueError } from '@sinclair/typebox/compiler'
import type { FieldFault } from '#streams/define.ts'
import { FAULTS_MAX, labelOf, mustFault, unknownFault } from './errors.ts'

/** What messages call a name in a query. */
export const QUERY_MEMBER = 'query parameter'

/** A whole number in the one way it is written, so far that a double is exact. */
const DIGITS = /^(0|[1-9]\d{0,14})$/

/** What a schema may say for its faults, beside its `description`, which says what the field is. Neither is in the
 *  OpenAPI document. */
export interface FaultWords {
  /** What the value must do, after "<field> must ": `be a time with an offset`. Left out, JSON Schema's keywords say
   *  it. */
  must?: string
  /** What one item of a list, or one value of a record, is called; plural with an s. */
  noun?: string
}

/** The faults of a value that does not fit a schema; thrown to Fastify by its validator, read back by the route. */
export class SchemaFaults extends Error {
  readonly faults: FieldFault[]
  constructor (faults: FieldFault[]) {
    super('Validation failed')
    this.faults = faults
  }
}

/** Compiles a schema to Fastify's validator shape. It never changes the value: no coercion, no defaults, nothing
 *  dropped. `member` = what messages call a name in the value. */
export function compileValidator (schema: TSchema, member = 'field') {
  const check = TypeCompiler.Compile(schema)
  return (value: unknown): { value: unknown } | { error: SchemaFaults } => {
    if (check.Check(value)) return { value }
    return { error: new SchemaFaults(faultsOf(check.Errors(value), member)) }
  }
}

/** The same for a query string, in which a number is written in digits: what its schema calls an integer is read as
 *  one. */
export function compileQueryValidator (schema: TObject) {
  const validate = compileValidator(schema, QUERY_MEMBER)
  const named = (type: string) => Object.keys(schema.properties).filter(name => schema.properties[name]!.type === type)
  const [numbers, flags] = [named('integer'), named('boolean')]
  return (query: unknown) => validate(flags.reduce(withFlag, numbers.reduce(withNumber, query as Query)))
}

type Query = Record<string, unknown>

function withNumber (query: Query, name: string): Query {
  const text = query[name]
  return typeof text === 'string' && DIGITS.test(text) ? { ...query, [name]: Number(text) } : query
}

function withFlag (query: Query, name: string): Query {
  const text = query[name]
  return text === 'true' || text === 'false' ? { ...query, [name]: text === 'true' } : query
}

function faultsOf (errors: Iterable<ValueError>, member: string): FieldFault[] {
  const faults = new Map<string, FieldFault>()
  for (const error of withinUnions(errors)) {
    const fault = faultOf(error, member)
    // The first error at a place says most: a missing field is also "not a string".
    if (!faults.has(fault.field)) faults.set(fault.field, fault)
    if (faults.size >= FAULTS_MAX) break
  }
  return [...faults.values()]
}

/** A value of the type of one option is meant as that one, whose errors say where and what. */
function* withinUnions (errors: Iterable<ValueError>): Iterable<ValueError> {
  for (const error of errors) {
    const options = error.type === ValueErrorType.Union ? error.schema.anyOf as TSchema[] : []
    const meant = options.findIndex(({ type, const: only }) => only === undefined && isOfType(type, error.value))
    if (meant === -1) yield error
    else yield* withinUnions(error.errors[meant]!)
  }
}

function isOfType (type: unknown, value: unknown): boolean {
  if (type === 'array') return Array.isArray(value)
  if (type === 'object') return typeof value === 'object' && value !== null && !Array.isArray(value)
  return type === typeof value || (type === 'integer' && typeof value === 'number')
}

const CODES: Partial<Record<ValueErrorType, string>> = {
  [ValueErrorType.ObjectAdditionalProperties]: 'unknown_field',
  [ValueErrorType.ObjectRequiredProperty]: 'required',
  [ValueErrorType.StringMaxLength]: 'too_long',
  [ValueErrorType.StringMinLength]: 'too_short',
  [ValueErrorType.ArrayMaxItems]: 'too_many',
  [ValueErrorType.ArrayMinItems]: 'too_few',
  [ValueErrorType.ArrayUniqueItems]: 'not_unique',
  [ValueErrorType.ObjectMaxProperties]: 'too_many'
}

function faultOf ({ path, type, schema, value }: ValueError, member: string): FieldFault {
  const field = fieldOf(path) || 'body'
  const code = CODES[type] ?? 'invalid_value'
  // A parameter that comes twice is a list.
  const isRepeated = member === QUERY_MEMBER && Array.isArray(value) && schema.type !== 'array'
  if (isRepeated) return mustFault(field, code, 'be given once')
  if (code === 'unknown_field') return unknownFault(field, member, Object.keys(schema.properties ?? {}))
  if (code === 'required') return { field, code, message: `${labelOf(field)} is required.` }
  return mustFault(field, code, wordsFor(type, schema))
}

/** What a value must do to fit a schema, after an error of a type. */
function wordsFor (type: ValueErrorType, schema: TSchema & FaultWords): string {
  const { must, minLength, maxLength, minItems, maxItems, maxProperties, noun = 'item' } = schema
  if (must !== undefined) return must
  switch (type) {
    case ValueErrorType.StringMinLength:
      return minLength === 1 ? 'not be empty' : `have at least ${count(minLength, 'character')}`
    case ValueErrorType.StringMaxLength:
      return `have at most ${count(maxLength, 'character')}`
    case ValueErrorType.ArrayMinItems:
      return `have at least ${count(minItems, noun)}`
    case ValueErrorType.ArrayMaxItems:
      return `have at most ${count(maxItems, noun)}`
    case ValueErrorType.ObjectMaxProperties:
      return `have at most ${count(maxProperties, noun)}`
    case ValueErrorType.ArrayUniqueItems:
      return 'not contain duplicates'
    default:
      return `be ${valueOf(schema)}`
  }
}

function count (count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : noun.endsWith('s') ? 'es' : 's'}`
}

const TYPES: Record<string, string> = {
  string: 'a string',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
  null: 'null'
}

/** What the values of a schema are: `a whole number from 1 to 9`, `strict or permissive`. */
function valueOf ({ anyOf, const: only, type, minimum, maximum }: TSchema): string {
  if (anyOf !== undefined) return anyOf.map(valueOf).join(', ').replace(/, ([^,]*)$/, ' or $1')
  if (only !== undefined) return String(only)
  if (type !== 'integer' && type !== 'number') return TYPES[type as string] ?? 'left out'
  const number = type === 'integer' ? 'a whole number' : 'a number'
  if (minimum !== undefined && maximum !== undefined) return `${number} from ${minimum} to ${maximum}`
  if (minimum !== undefined) return `${number} of at least ${minimum}`
  return maximum === undefined ? number : `${number} of at most ${maximum}`
}

/** `/to/1` → `to[1]`, `/metadata/order` → `metadata.order`. */
function fieldOf (path: string): string {
  return path.split('/').slice(1)
    .map(part => part.replaceAll('~1', '/').replaceAll('~0', '~').slice(0, 100))
    .reduce((name, part) => (/^\d+$/.test(part) ? `${name}[${part}]` : name === '' ? part : `${name}.${part}`), '')
}
