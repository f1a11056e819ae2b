import type { TSchema } from '@sinclair/typebox'
import { TypeCompiler, ValueErrorType, type ValueError } from '@sinclair/typebox/compiler'
import { FAULTS_MAX, type Fault } from './errors.ts'

/** The faults of a value that does not fit a schema; thrown to Fastify by its validator, read back by the route. */
export class SchemaFaults extends Error {
  readonly faults: Fault[]
  constructor (faults: Fault[]) {
    super('Validation failed')
    this.faults = faults
  }
}

/** Compiles a schema to Fastify's validator shape. It never changes the value: no coercion, no defaults, nothing
 *  dropped. */
export function compileValidator (schema: TSchema) {
  const check = TypeCompiler.Compile(schema)
  return (value: unknown): { value: unknown } | { error: SchemaFaults } => {
    if (check.Check(value)) return { value }
    return { error: new SchemaFaults(faultsOf(check.Errors(value))) }
  }
}

function faultsOf (errors: Iterable<ValueError>): Fault[] {
  const faults = new Map<string, Fault>()
  for (const error of meant(errors)) {
    const fault = faultOf(error)
    // The first error at a place says most: a missing field is also "not a string".
    if (!faults.has(fault.field)) faults.set(fault.field, fault)
    if (faults.size >= FAULTS_MAX) break
  }
  return [...faults.values()]
}

/** What is meant to be an object or nothing is an object: its own faults say where. */
function* meant (errors: Iterable<ValueError>): Iterable<ValueError> {
  for (const error of errors) {
    const { anyOf: [some, none] = [] } = error.schema as { anyOf?: TSchema[] }
    if (some?.type === 'object' && none?.type === 'null') yield* meant(error.errors[0]!)
    else yield error
  }
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

function faultOf (error: ValueError): Fault {
  const field = fieldName(error.path)
  const code = CODES[error.type] ?? 'invalid_value'
  if (code === 'unknown_field') return { field, code, message: `${field} is not a field of this request.` }
  if (code === 'required') return { field, code, message: `${field} is required.` }
  return {
    field,
    code,
    message: firstSentence(error.schema.description as string | undefined) ?? `${field} is ${wordsFor(error.schema)}.`
  }
}

/** What a field is; the rest of a description, what comes of it, is for readers of the document. */
function firstSentence (description: string | undefined): string | undefined {
  return description?.replace(/\. [A-Z].*$/s, '.')
}

const TYPES: Record<string, string> = {
  string: 'a string',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
  null: 'null'
}

/** What a value of a schema is that has no words of its own. */
function wordsFor (
  { anyOf, const: only, type, minLength, maxLength, minItems, maxItems, minimum, maximum }: TSchema
): string {
  if (anyOf !== undefined) return (anyOf as TSchema[]).map(wordsFor).join(' or ')
  if (only !== undefined) return JSON.stringify(only)
  const bounds = [
    bound('at least', minimum),
    bound('at most', maximum),
    bound('not shorter than', minLength ?? minItems),
    bound('not longer than', maxLength ?? maxItems)
  ]
  return [TYPES[type as string] ?? 'something else', ...bounds].filter(words => words !== '').join(', ')
}

function bound (words: string, value: unknown): string {
  return value === undefined ? '' : `${words} ${String(value)}`
}

/** `/to/1` → `to[1]`, `/metadata/order` → `metadata.order`. */
function fieldName (path: string): string {
  return path.split('/').slice(1)
    .map(part => part.replaceAll('~1', '/').replaceAll('~0', '~').slice(0, 100))
    .reduce((name, part) => (/^\d+$/.test(part) ? `${name}[${part}]` : name === '' ? part : `${name}.${part}`), '') ||
    'body'
}
