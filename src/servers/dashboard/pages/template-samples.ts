import type { Template } from '#src/client/types.ts'
import { MustacheError, parse, type ParsedTemplate as Parsed } from '#src/content/mustache.ts'

/** Names that are looked at: a template may hold very many. */
const NAMES_MAX = 500

type Shape = Record<string, unknown>

/** Variables that show something of each place of a template: by its declarations, and by where a name stands. As JSON.
 */
export function sampleJson (
  { subject, html, text, variables }: Pick<Template, 'subject' | 'html' | 'text' | 'variables'>
): string {
  const shape: Shape = Object.create(null)
  const budget = { names: NAMES_MAX }
  for (const source of [subject, html, text]) fill(shape, read(source ?? ''), budget)
  for (const { name, type, fallback } of variables) shape[name] = fallback ?? fitting(type, shape[name], name)
  // A layout's place for its template is filled by the template.
  delete shape.content
  return JSON.stringify(shape, null, 2)
}

function read (source: string): Parsed {
  try {
    return parse(source)
  } catch (error) {
    if (error instanceof MustacheError) return []
    throw error
  }
}

function fill (shape: Shape, nodes: Parsed, budget: { names: number }): void {
  for (const node of nodes) {
    if ((node.kind !== 'value' && node.kind !== 'section') || --budget.names < 0) continue
    if (node.kind === 'value') put(shape, node.name, node.name.at(-1))
    else if (node.inverted) fill(shape, node.body, budget)
    else put(shape, node.name, inside(node.body, budget))
  }
}

/** What a section is likely to stand for: a list of texts, a list of things, or yes. */
function inside (body: Parsed, budget: { names: number }): unknown {
  if (body.some(node => node.kind === 'value' && node.name.length === 0)) return ['one', 'two']
  const item: Shape = Object.create(null)
  fill(item, body, budget)
  return Object.keys(item).length > 0 ? [item] : true
}

function put (shape: Shape, name: readonly string[], value: unknown): void {
  const last = name.at(-1)
  if (last === undefined) return
  let at = shape
  for (const part of name.slice(0, -1)) {
    const below = at[part]
    at[part] = typeof below === 'object' && below !== null && !Array.isArray(below) ? below : Object.create(null)
    at = at[part] as Shape
  }
  // A section tells more of a name than a place where it is put in.
  if (at[last] === undefined || typeof value === 'object') at[last] = value
}

function fitting (type: Template['variables'][number]['type'], guess: unknown, name: string): unknown {
  const first = Array.isArray(guess) ? guess[0] : guess
  switch (type) {
    case 'string':
      return name
    case 'number':
      return 1
    case 'boolean':
      return true
    case 'object':
      return typeof first === 'object' && first !== null ? first : {}
    case 'list':
      return Array.isArray(guess) ? guess : []
  }
}
