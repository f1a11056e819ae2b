import type { Template } from '#src/client/types.ts'
import { MustacheError, parse, type ParsedTemplate as Parsed } from '#src/content/mustache.ts'

/** Names that are read: a template may have very many. */
const NAMES_MAX = 500

type SampleShape = Record<string, unknown>

type Sampled = Pick<Template, 'subject' | 'html' | 'text' | 'variables'>

/** Sample values for the variables of a template and its layout as JSON, by their declarations and by how they are
 *  used. */
export function sampleJson (template: Sampled, layout: Sampled | null = null): string {
  const shape: SampleShape = Object.create(null)
  const budget = { names: NAMES_MAX }
  const { subject, html, text } = template
  for (const source of [subject, html, text, layout?.html, layout?.text]) fill(shape, read(source ?? ''), budget)
  const declared = [...layout?.variables ?? [], ...template.variables]
  for (const { name, type, fallback } of declared) shape[name] = fallback ?? fitting(type, shape[name], name)
  // A template fills its layout's {{{content}}}.
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

function fill (shape: SampleShape, nodes: Parsed, budget: { names: number }): void {
  for (const node of nodes) {
    if ((node.kind !== 'value' && node.kind !== 'section') || --budget.names < 0) continue
    if (node.kind === 'value') put(shape, node.name, sampleText(node.name.at(-1) ?? ''))
    else if (node.inverted) fill(shape, node.body, budget)
    else put(shape, node.name, inside(node.body, budget))
  }
}

/** What a section is likely to need: a list of texts, a list of objects, or true. */
function inside (body: Parsed, budget: { names: number }): unknown {
  if (body.some(node => node.kind === 'value' && node.name.length === 0)) return ['one', 'two']
  const item: SampleShape = Object.create(null)
  fill(item, body, budget)
  return Object.keys(item).length > 0 ? [item] : true
}

function put (shape: SampleShape, name: readonly string[], value: unknown): void {
  const last = name.at(-1)
  if (last === undefined) return
  let at = shape
  for (const part of name.slice(0, -1)) {
    const below = at[part]
    at[part] = typeof below === 'object' && below !== null && !Array.isArray(below) ? below : Object.create(null)
    at = at[part] as SampleShape
  }
  // A section says more about a variable than a plain value.
  if (at[last] === undefined || typeof value === 'object') at[last] = value
}

function fitting (type: Template['variables'][number]['type'], guess: unknown, name: string): unknown {
  const first = Array.isArray(guess) ? guess[0] : guess
  switch (type) {
    case 'string':
      return sampleText(name)
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

/** What a variable is likely to hold, by the last words of its name; the first that fits. */
const TEXTS: Array<[name: RegExp, text: string]> = [
  [/\bfirst name$/, 'Ada'],
  [/\b(last|family) ?name$|\bsurname$/, 'Lovelace'],
  [/\b(company|organi[sz]ation|team|shop|brand)( name)?$/, 'Analytical Engines Ltd'],
  [/\b(product|item|article)( name)?$|\btitle$/, 'Ink'],
  [/\b(user ?|full ?)?name$|\b(user|customer|recipient|friend)$/, 'Ada Lovelace'],
  [/\be?mail( address)?$/, 'ada@example.com'],
  [/\b(url|link|href|website)$/, 'https://example.com/'],
  [/\b(date|day|deadline|birthday)$/, '21 November 2026'],
  [/\b(time|at)$/, '12:00'],
  [/\b(price|total|amount|cost|sum|balance|fee|tax)$/, '3.10'],
  [/\bcurrency$/, 'EUR'],
  [/\b(code|pin|otp|password)$/, '481516'],
  [/\b(count|quantity|qty|days|hours|minutes)$/, '3'],
  [/\b(order|invoice|number|no|id|reference|ref)$/, '1042'],
  [/\bcity$/, 'London'],
  [/\bcountry$/, 'England'],
  [/\bstreet|\baddress$/, '12 St James Square']
]

/** A text to show in a variable's place. Never its name: a mail with it reads as if it had not been filled. */
function sampleText (name: string): string {
  const words = name.replaceAll(/([a-z\d])([A-Z])/g, '$1 $2').replaceAll(/[_.-]+/g, ' ').trim().toLowerCase()
  return TEXTS.find(([like]) => like.test(words))?.[1] ?? `Example ${words}`.trim()
}
