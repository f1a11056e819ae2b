import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

type Json = Record<string, any>

const WIDTH_MAX = 120
const FOLDER = join(import.meta.dirname, '..', '..', 'src', 'client')
const HEAD = '// Made from the OpenAPI document by `npm run client`. Do not edit.\n'

/** What the client knows of the API, made from its OpenAPI document: files of src/client, name → text. */
export function clientFiles (document: Json): Record<'types.ts' | 'operations.ts', string> {
  const operations = Object.entries<Json>(document.paths).flatMap(([path, methods]) =>
    Object.entries<Json>(methods).map(([method, operation]) => readOperation(document, path, method, operation))
  )
  const queries = operations.flatMap(({ query }) => (query === null ? [] : [[query.type, query.schema] as const]))
  const used = new Set(operations.flatMap(({ shapes }) => [...shapes]))
  const shapes = new Map<string, Json>([
    ...Object.entries<Json>(document.components.schemas).filter(([name]) => used.has(name)),
    ...queries
  ])
  return { 'types.ts': typesFile(shapes), 'operations.ts': operationsFile(operations, [...shapes.keys()]) }
}

/** Something that an operation takes: the path's own, the body, the query. */
interface Taken {
  name: string
  type: string
  optional: boolean
}

interface Operation {
  name: string
  /** What a person wants to know of it. */
  about: string
  method: string
  path: string
  /** In the order in which the client's method takes them. */
  takes: Taken[]
  query: (Taken & { schema: Json }) | null
  answer: string
  idempotent: boolean
  /** The media types that its body may have, where it is not JSON. */
  uploads: string[] | null
  /** Names of the schemas it speaks of, and of those that they speak of. */
  shapes: Set<string>
}

function readOperation (document: Json, path: string, method: string, operation: Json): Operation {
  const inPlace = (place: string): Json[] => operation.parameters.filter((parameter: Json) => parameter.in === place)
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({ name: name!, type: 'string', optional: false }))
  const body = bodyOf(document, method, operation)
  const query = queryOf(operation.operationId, inPlace('query'))
  return {
    name: operation.operationId,
    about: aboutOf(operation),
    method: method.toUpperCase(),
    path,
    takes: [...inPath, ...(body === null ? [] : [body]), ...(query === null ? [] : [query])],
    query,
    answer: answerOf(operation),
    idempotent: inPlace('header').some(({ name }) => name === 'Idempotency-Key'),
    uploads: uploadsOf(operation),
    shapes: namesIn(
      document,
      Object.entries(operation.responses).filter(([status]) => status < '300').concat(operation.requestBody ?? [])
    )
  }
}

/** Without the limit: an operator may have set another. */
function aboutOf ({ summary, description }: Json): string {
  const paragraphs = (description as string).split('\n\n').filter(text => !text.startsWith('Limit:'))
  return [`${summary}.`, ...paragraphs].join(' ')
}

/** What a POST needs nothing in may be left out: the client then sends `{}`. */
function bodyOf (document: Json, method: string, { requestBody }: Json): Taken | null {
  if (requestBody === undefined) return null
  if (uploadsOf({ requestBody }) !== null) return { name: 'body', type: 'string | Uint8Array', optional: false }
  const { schema } = requestBody.content['application/json']
  const { required = [] } = schema.$ref === undefined ? schema : document.components.schemas[nameOf(schema.$ref)]
  return { name: 'body', type: typeOf(schema, 1), optional: method === 'post' && required.length === 0 }
}

function uploadsOf ({ requestBody }: Json): string[] | null {
  const types = Object.keys(requestBody?.content ?? {})
  return types.length === 0 || types.includes('application/json') ? null : types
}

function queryOf (operation: string, parameters: Json[]): Operation['query'] {
  if (parameters.length === 0) return null
  const properties = Object.fromEntries(
    parameters.map(({ name, description, schema }) => [name, { ...schema, description }])
  )
  const required = parameters.filter(parameter => parameter.required).map(({ name }) => name)
  const pagesAlone = Object.keys(properties).join() === 'limit,cursor'
  const type = pagesAlone ? 'PageQuery' : `${operation.charAt(0).toUpperCase()}${operation.slice(1)}Query`
  return { name: 'query', type, optional: required.length === 0, schema: { type: 'object', properties, required } }
}

function answerOf ({ responses }: Json): string {
  const successes = Object.entries<Json>(responses).filter(([status]) => status < '300').map(([, response]) => response)
  return [...new Set(successes.map(contentOf))].join(' | ')
}

function contentOf (success: Json): string {
  const [[type, content] = []] = Object.entries<Json>(success.content ?? {})
  if (content === undefined) return 'undefined'
  return type === 'application/json' ? typeOf(content.schema, 1) : 'Uint8Array'
}

function namesIn (document: Json, value: unknown, names = new Set<string>()): Set<string> {
  for (const [, name] of JSON.stringify(value).matchAll(/"#\/components\/schemas\/([^"]+)"/g)) {
    if (names.has(name!)) continue
    names.add(name!)
    namesIn(document, document.components.schemas[name!], names)
  }
  return names
}

const nameOf = (reference: string): string => reference.split('/').at(-1)!

/** A schema as a TypeScript type; `depth` = how far its lines are indented, in steps of two. */
function typeOf (schema: Json, depth: number): string {
  if (schema.$ref !== undefined) return nameOf(schema.$ref)
  if (schema.enum !== undefined) return union(schema.enum.map(literal), depth)
  if (schema.const !== undefined) return literal(schema.const)
  const options = schema.anyOf ?? schema.oneOf
  if (options !== undefined) return union(options.map((option: Json) => typeOf(option, depth)), depth)
  if (schema.allOf !== undefined) return schema.allOf.map((part: Json) => typeOf(part, depth)).join(' & ')
  if (Array.isArray(schema.type)) {
    return union(schema.type.map((type: string) => typeOf({ ...schema, type }, depth)), depth)
  }
  if (schema.type === 'array') return arrayOf(typeOf(schema.items, depth))
  if (schema.type === 'object') return objectType(schema, depth)
  return ({ integer: 'number', number: 'number', string: 'string', boolean: 'boolean', null: 'null' } as Json)[
    schema.type
  ] ?? 'unknown'
}

const arrayOf = (item: string): string => (/^\w+$/.test(item) ? `${item}[]` : `Array<${item}>`)

function objectType ({ properties, required = [], additionalProperties }: Json, depth: number): string {
  if (properties !== undefined) return `{\n${fields(properties, required, depth)}\n${'  '.repeat(depth - 1)}}`
  const others = typeof additionalProperties === 'object' ? additionalProperties : {}
  return `Record<string, ${typeOf(others, depth)}>`
}

function fields (properties: Json, required: string[], depth: number): string {
  const indent = '  '.repeat(depth)
  return Object.entries<Json>(properties).map(([name, schema]) => {
    const about = schema.description === undefined ? '' : `${comment(schema.description, indent)}\n`
    const type = typeOf(schema, depth + 1)
    return `${about}${indent}${propertyName(name)}${required.includes(name) ? '' : '?'}:${
      type.startsWith('\n') ? '' : ' '
    }${type}`
  }).join('\n')
}

const propertyName = (name: string): string => (/^[a-z_]\w*$/i.test(name) ? name : literal(name))

function literal (value: unknown): string {
  return typeof value === 'string' ? `'${value.replaceAll(/['\\]/g, '\\$&')}'` : String(value)
}

/** Alternatives on one line, or on as many as it takes. */
function union (alternatives: string[], depth: number): string {
  const different = [...new Set(alternatives)]
  const line = different.join(' | ')
  if (line.length <= WIDTH_MAX - 20 || line.includes('\n')) return line
  const indent = '  '.repeat(depth)
  return wrapped(different, ' | ', WIDTH_MAX - indent.length - 3).map(text => `\n${indent}| ${text}`).join('')
}

/** Prose as a doc comment. */
function comment (text: string, indent = ''): string {
  const lines = wrapped(text.replaceAll('*/', '* /').split(/\s+/), ' ', WIDTH_MAX - indent.length - 7)
  return `${indent}/** ${lines.join(`\n${indent} *  `)} */`
}

function wrapped (parts: string[], glue: string, width: number): string[] {
  const lines: string[] = []
  for (const part of parts) {
    const longer = `${lines.at(-1)}${glue}${part}`
    if (lines.length > 0 && longer.length <= width) lines[lines.length - 1] = longer
    else lines.push(part)
  }
  return lines
}

function typesFile (shapes: Map<string, Json>): string {
  const declarations = [...shapes].map(([name, schema]) => {
    const type = typeOf(schema, 1)
    const declared = type.startsWith('{')
      ? `export interface ${name} ${type}\n`
      : `export type ${name} =${type.startsWith('\n') ? '' : ' '}${type}\n`
    return schema.description === undefined ? declared : `${comment(schema.description)}\n${declared}`
  })
  return [HEAD, ...declarations].join('\n')
}

function operationsFile (operations: Operation[], shapes: string[]): string {
  const typed = operations.map(({ name, about, takes, answer }) => {
    const tuple = takes.map(({ name, type, optional }) => `${name}${optional ? '?' : ''}: ${type}`).join(', ')
    const line = `  ${name}: { takes: [${tuple}], answer: ${answer} }`
    const wrapped = `  ${name}: {\n    takes: [${tuple}]\n    answer: ${answer}\n  }`
    return `${comment(about, '  ')}\n${line.length <= WIDTH_MAX ? line : wrapped}\n`
  })
  const known = operations.map(({ name, method, path, takes, idempotent, uploads }) => {
    const names = takes.map(({ name }) => literal(name)).join(', ')
    const more = [
      ...(idempotent ? ['idempotent: true'] : []),
      ...(uploads === null ? [] : [`uploads: [${uploads.map(literal).join(', ')}]`])
    ]
    const parts = [`method: ${literal(method)}`, `path: ${literal(path)}`, `takes: [${names}]`, ...more]
    const line = `  ${name}: { ${parts.join(', ')} }`
    return line.length < WIDTH_MAX ? line : `  ${name}: {\n${parts.map(part => `    ${part}`).join(',\n')}\n  }`
  })
  const spoken = shapes.filter(name => new RegExp(`\\b${name}\\b`).test(typed.join('')))
  return [
    HEAD,
    `import type {\n${
      wrapped(spoken.map((name, i) => (i < spoken.length - 1 ? `${name},` : name)), ' ', WIDTH_MAX - 2).map(line =>
        `  ${line}`
      ).join('\n')
    }\n} from ${literal('./types.ts')}\n`,
    `/** What each operation takes and answers, by its operationId. */\nexport interface Operations {\n${
      typed.join('')
    }}\n`,
    '/** How each is asked for: `takes` names what stands in its path, then body and query. */\n' +
    `export const operations = {\n${known.join(',\n')}\n} as const`,
    ''
  ].join('\n')
}

/** Writes both files from the document of the Jetpost that this tree makes, started for that. */
if (import.meta.main) {
  const { startTree } = await import('./tree.ts')
  const tree = await startTree()
  try {
    const answer = await tree.request('GET', '/openapi.json')
    for (const [name, text] of Object.entries(clientFiles(answer.body))) writeFileSync(join(FOLDER, name), text)
  } finally {
    await tree.dispose()
  }
}
