import { DEPTH_MAX, MustacheError, type Name, type Node, type ParsedTemplate } from './mustache-parse.ts'

export { MustacheError, parse, weightOf, type Node, type ParsedTemplate } from './mustache-parse.ts'

/** Nodes rendered, values looked at: some ten milliseconds' worth. */
const STEPS_MAX = 1_000_000
/** What a template may make, in UTF-8. */
const BYTES_MAX = 2 * 1024 * 1024

/** What the templates of one request may take together, as much as is left: each render takes of it. */
export interface RenderBudget {
  steps: number
  bytes: number
}

const BUDGET_STEPS = 2_000_000
const BUDGET_BYTES = 20 * 1024 * 1024

export function newRenderBudget (): RenderBudget {
  return { steps: BUDGET_STEPS, bytes: BUDGET_BYTES }
}

export interface RenderOptions {
  /** How `{{name}}` is put in; `{{{name}}}` is put in as it is. */
  escape: 'html' | 'none'
  /** What `{{>name}}` stands for. */
  partials?: ReadonlyMap<string, ParsedTemplate>
  /** Called with the name of each value that is used but was not given; of a partial with its `>`. */
  onMiss?: (name: string, node: Node) => void
  /** Called with each value in a section that was given: the same node may be missed with another item. */
  onFind?: (node: Node) => void
  /** Shared with the other renders of a request; left out, a new one. */
  budget?: RenderBudget
}

/** A value whose own names are known, and the one around it. */
interface Frame {
  value: unknown
  around: Frame | null
}

interface Run extends Required<RenderOptions> {
  out: string
  bytesLeft: number
  stepsLeft: number
}

/** What JSON data make of a template. Only own properties of objects have names; nothing is called. Strings, numbers
 *  and booleans are put in, all else is the empty string. Throws MustacheError when it would go beyond 1,000,000 steps,
 *  200 levels, 2 MB or the budget. Source: github.com/mustache/spec 1.4, the core modules: no lambdas, no dynamic
 *  names, no inheritance. */
export function render (
  template: ParsedTemplate,
  data: unknown,
  { escape, partials = new Map(), onMiss = () => {}, onFind = () => {}, budget = newRenderBudget() }: RenderOptions
): string {
  const run: Run = { escape, partials, onMiss, onFind, budget, out: '', bytesLeft: BYTES_MAX, stepsLeft: STEPS_MAX }
  walk(run, template, { value: data, around: null }, '', 0)
  return run.out
}

function walk (run: Run, nodes: ParsedTemplate, frame: Frame, indent: string, depth: number): void {
  if (depth > DEPTH_MAX) throw new MustacheError('too_deep', `Sections and partials are nested over ${DEPTH_MAX} deep.`)
  for (const node of nodes) {
    step(run)
    switch (node.kind) {
      case 'text':
        writeText(run, node, indent)
        break
      case 'value':
        writeValue(run, node, frame)
        break
      case 'section':
        walkSection(run, node, frame, indent, depth)
        break
      case 'partial':
        walkPartial(run, node, frame, indent, depth)
    }
  }
}

function step (run: Run): void {
  if (--run.stepsLeft < 0) throw new MustacheError('too_many_steps', `Rendering takes over ${STEPS_MAX} steps.`)
  if (--run.budget.steps < 0) {
    throw new MustacheError(
      'too_many_steps',
      `Rendering the templates of one request takes over ${BUDGET_STEPS} steps.`
    )
  }
}

function write (run: Run, text: string): void {
  const bytes = Buffer.byteLength(text)
  if ((run.bytesLeft -= bytes) < 0) {
    throw new MustacheError('too_large', `The rendered body has over ${BYTES_MAX / 1024 / 1024} MB.`)
  }
  if ((run.budget.bytes -= bytes) < 0) {
    throw new MustacheError(
      'too_large',
      `The rendered bodies of one request have over ${BUDGET_BYTES / 1024 / 1024} MB in all.`
    )
  }
  run.out += text
}

/** A line at a time where each is indented: what is too large in all is then never made. */
function writeText (run: Run, { text, opens }: Extract<Node, { kind: 'text' }>, indent: string): void {
  if (opens) write(run, indent)
  if (indent === '') return write(run, text)
  for (let from = 0; from < text.length;) {
    const end = text.indexOf('\n', from) + 1 || text.length
    if (from > 0) write(run, indent)
    write(run, text.slice(from, end))
    from = end
  }
}

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

function writeValue (run: Run, node: Extract<Node, { kind: 'value' }>, frame: Frame): void {
  const { name, raw } = node
  const value = lookUp(run, name, frame)
  if (value === undefined) run.onMiss(name.join('.') || '.', node)
  else if (frame.around !== null) run.onFind(node)
  if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean') return
  const text = String(value)
  // What is too large as it is need not be escaped first.
  const plain = raw || run.escape === 'none' || text.length > Math.min(run.bytesLeft, run.budget.bytes)
  write(run, plain ? text : text.replaceAll(/[&<>"']/g, char => ENTITIES[char]!))
}

function walkSection (
  run: Run,
  { name, inverted, body }: Extract<Node, { kind: 'section' }>,
  frame: Frame,
  indent: string,
  depth: number
): void {
  const value = lookUp(run, name, frame)
  const values = Array.isArray(value) ? value as unknown[] : value ? [value] : []
  if (inverted && values.length === 0) return walk(run, body, frame, indent, depth + 1)
  if (inverted) return
  for (const item of values) {
    step(run)
    walk(run, body, { value: item, around: frame }, indent, depth + 1)
  }
}

/** A partial that is not there is empty, as a name is. */
function walkPartial (
  run: Run,
  node: Extract<Node, { kind: 'partial' }>,
  frame: Frame,
  indent: string,
  depth: number
): void {
  const { name, indent: own } = node
  const partial = run.partials.get(name)
  if (partial === undefined) return run.onMiss(`>${name}`, node)
  walk(run, partial, frame, own === null ? '' : indent + own, depth + 1)
}

/** The first part is searched from the innermost value outward, the others only in what it names; undefined when it is
 *  in none. */
function lookUp (run: Run, [first, ...rest]: Name, frame: Frame): unknown {
  if (first === undefined) return frame.value
  let holder: Frame | null = frame
  while (holder !== null && !has(holder.value, first)) {
    step(run)
    holder = holder.around
  }
  let value = holder === null ? undefined : (holder.value as Record<string, unknown>)[first]
  for (const part of rest) {
    step(run)
    value = has(value, part) ? (value as Record<string, unknown>)[part] : undefined
  }
  return value
}

function has (value: unknown, name: string): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && Object.hasOwn(value, name)
}
