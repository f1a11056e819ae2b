import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import type { Answer } from './app.ts'

type Json = Record<string, any>

/** One operation of the document, its references to parameters, headers and responses followed. */
export interface Operation {
  id: string
  /** In capitals. */
  method: string
  /** `/api/emails/{id}`. */
  path: string
  summary: string
  description: string
  tags: string[]
  /** What the key must allow; null = nothing in particular. */
  scope: string | null
  limitClass: string
  parameters: Array<{ name: string, in: 'path' | 'query' | 'header', required: boolean, schema: Json }>
  body: { required: boolean, schema: Json, examples: unknown[] } | null
  /** The media types that its body may have, where it is not JSON. */
  uploads: string[] | null
  /** Status → what it looks like. */
  responses: Map<number, DescribedResponse>
}

interface DescribedResponse {
  description: string
  headers: Record<string, { required: boolean, schema: Json }>
  content: Record<string, { schema?: Json, example?: unknown, examples?: Record<string, { value: unknown }> }>
  links: Record<string, { operationId: string, parameters: Record<string, string> }>
}

/** An OpenAPI 3.1 document that can be held against what a server does. */
export interface Described {
  document: Json
  operations: Operation[]
  /** What about an answer is not as the document says; empty = it fits. */
  faultsOf(operation: Operation, answer: Answer): string[]
  /** What about a value does not fit a schema of the document. */
  mismatch(schema: Json, value: unknown): string[]
}

/** Throws a sentence for a schema that is none, or a reference that leads nowhere. */
export function readDescription (document: Json): Described {
  const ajv = new Ajv2020({ strict: true, allowUnionTypes: true, allErrors: true })
  formats.default(ajv)
  for (const [name, schema] of Object.entries<Json>(document.components.schemas)) {
    ajv.addSchema(located(schema), `schemas:${name}`)
  }
  for (const name of Object.keys(document.components.schemas)) ajv.getSchema(`schemas:${name}`)
  const compiled = new Map<string, ValidateFunction>()

  function mismatch (schema: Json, value: unknown): string[] {
    const text = JSON.stringify(schema)
    const validate = compiled.get(text) ?? ajv.compile(located(schema))
    compiled.set(text, validate)
    return validate(value)
      ? []
      : (validate.errors ?? []).map(error =>
        `${error.instancePath || 'the value'} ${error.message} ${JSON.stringify(error.params)}`
      )
  }

  function faultsOf (operation: Operation, answer: Answer): string[] {
    const response = operation.responses.get(answer.status)
    if (response === undefined) {
      return [`${operation.id} answered ${answer.status}, which is not described: ${JSON.stringify(answer.body)}`]
    }
    const faults = [...headerFaults(response.headers, answer), ...contentFaults(response.content, answer)]
    return faults.map(fault => `${operation.id} ${answer.status}: ${fault}`)
  }

  function headerFaults (headers: DescribedResponse['headers'], answer: Answer): string[] {
    return Object.entries(headers).flatMap(([name, { required, schema }]) => {
      const text = answer.headers.get(name)
      if (text === null) return required ? [`${name} is missing`] : []
      return mismatch(schema, schema.type === 'integer' ? Number(text) : text).map(fault => `${name}: ${fault}`)
    })
  }

  function contentFaults (content: DescribedResponse['content'], { headers, body }: Answer): string[] {
    const types = Object.keys(content)
    const type = headers.get('content-type')?.split(';')[0]
    if (types.length === 0) return body === '' && type === undefined ? [] : [`a body of ${type}, and none is described`]
    if (type === undefined || content[type] === undefined) return [`${type} is not among ${types.join(', ')}`]
    return mismatch(content[type].schema ?? {}, body)
  }

  return { document, operations: operationsOf(document), faultsOf, mismatch }
}

/** References as they are known to ajv, and objects with no more in them than the document says: nothing takes out of
 *  an answer what does not belong there. */
function located (schema: Json): Json {
  return JSON.parse(JSON.stringify(schema).replaceAll('"#/components/schemas/', '"schemas:'), (_key, value: Json) => {
    return value?.type === undefined || value.properties === undefined
      ? value
      : { additionalProperties: false, ...value }
  }) as Json
}

function operationsOf (document: Json): Operation[] {
  const follow = (value: Json): Json => (value.$ref === undefined ? value : lookUp(document, value.$ref))
  return Object.entries<Json>(document.paths).flatMap(([path, methods]) =>
    Object.entries<Json>(methods).map(([method, operation]) => ({
      id: operation.operationId,
      method: method.toUpperCase(),
      path,
      summary: operation.summary,
      description: operation.description,
      tags: operation.tags,
      scope: operation.security[0].key[0] ?? null,
      limitClass: operation['x-rate-limit'].class,
      parameters: operation.parameters.map(follow),
      uploads: uploadsOf(operation),
      body: operation.requestBody === undefined || uploadsOf(operation) !== null ? null : {
        required: operation.requestBody.required,
        schema: operation.requestBody.content['application/json'].schema,
        examples: Object.values<Json>(operation.requestBody.content['application/json'].examples ?? {}).map(example =>
          example.value
        )
      },
      responses: new Map(
        Object.entries<Json>(operation.responses).map(([status, given]) => {
          const { description, headers = {}, content = {}, links = {} } = follow(given)
          return [
            Number(status),
            { description, headers: mapValues(headers, follow), content, links } as DescribedResponse
          ]
        })
      )
    }))
  )
}

function uploadsOf ({ requestBody }: Json): string[] | null {
  const types = Object.keys(requestBody?.content ?? {})
  return types.length === 0 || types.includes('application/json') ? null : types
}

function mapValues (object: Json, change: (value: Json) => Json): Json {
  return Object.fromEntries(Object.entries<Json>(object).map(([name, value]) => [name, change(value)]))
}

/** What a reference within the document points to. */
export function lookUp (document: Json, reference: string): Json {
  const steps = reference.replace(/^#\//, '').split('/').map(step =>
    decodeURIComponent(step).replaceAll('~1', '/').replaceAll('~0', '~')
  )
  const found = steps.reduce<Json | undefined>((value, step) => value?.[step], document)
  if (found === undefined) throw new Error(`${reference} leads nowhere`)
  return found
}

/** Every reference in a value. */
export function referencesIn (value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, child]) => (key === '$ref' ? [child as string] : referencesIn(child)))
}

/** Counts answers by operation and status, and shows them as a table. */
export interface Tally {
  count(operation: string, status: number): void
  of(operation: string, status: number): number
  /** A row for each operation; a dot stands where the status is described and did not come. */
  lines(operations: Operation[]): string[]
}

export function createTally (): Tally {
  const counts = new Map<string, number>()
  const of = (operation: string, status: number) => counts.get(`${operation} ${status}`) ?? 0
  return {
    of,
    count: (operation, status) => void counts.set(`${operation} ${status}`, of(operation, status) + 1),
    lines (operations) {
      const statuses = [...new Set(operations.flatMap(({ responses }) => [...responses.keys()]))].sort((a, b) => a - b)
      const wide = Math.max(...operations.map(({ id }) => id.length))
      const cell = (
        operation: Operation,
        status: number
      ) => (operation.responses.has(status) ? String(of(operation.id, status) || '·') : '')
      return [
        [' '.repeat(wide), ...statuses].join('  '),
        ...operations.map(operation =>
          [operation.id.padEnd(wide), ...statuses.map(status => cell(operation, status).padStart(3))].join('  ')
        )
      ]
    }
  }
}
