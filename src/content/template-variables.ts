import { fillVariables, type TemplateBody, type VariableFault } from '#streams/template/decide.ts'
import type { Variable } from '#streams/template/facts.ts'
import { nearest } from '#src/base/suggest.ts'
import { isLayout, PARTS, readMail, syntaxFaults, type MailTemplate } from './mustache-mail.ts'
import type { Node, ParsedTemplate, RenderOptions } from './mustache.ts'

/** Names that are told at once, at most. */
const NAMES_MAX = 100
const NAME_LENGTH_SHOWN = 100

/** What a template and its layout are filled with. `content` is not the layout's to ask for: it is the template. */
export function fillMail (
  template: MailTemplate,
  layout: MailTemplate | null,
  given: Record<string, unknown>
): { variables: Record<string, unknown>, faults: VariableFault[] } {
  const own = fillVariables(template.variables, given)
  const named = new Set(own.faults.map(({ name }) => name))
  const both = fillVariables(layout?.variables.filter(({ name }) => name !== 'content') ?? [], own.variables)
  return { variables: both.variables, faults: [...own.faults, ...both.faults.filter(({ name }) => !named.has(name))] }
}

/** What was given and is no variable: neither declared nor used anywhere, in the template or its layout. */
export function unknownFaults (
  template: MailTemplate,
  layout: MailTemplate | null,
  given: Record<string, unknown>
): VariableFault[] {
  const known = new Set([...declaredIn(template, layout).keys(), ...usedNames(template), ...usedNames(layout)])
  return Object.keys(given).filter(name => !known.has(name)).slice(0, NAMES_MAX).map(long => {
    const name = long.slice(0, NAME_LENGTH_SHOWN).toWellFormed()
    const meant = meantOf(name, [...known], 'variables.')
    return { name, code: 'unknown_variable', message: `variables.${name} must be a variable of the template${meant}.` }
  })
}

/** Which values a render looked for in vain. A value in a section is rendered for each of its items: it is missing when
 *  no item has it. */
export interface MissWatch extends Required<Pick<RenderOptions, 'onMiss' | 'onFind'>> {
  /** Values that are used, and are neither declared nor given. Declaring a variable allows mail without it, and objects
   *  and items in it may have what names they like. */
  faults(): VariableFault[]
}

export function watchMisses (
  template: MailTemplate,
  layout: MailTemplate | null,
  given: Record<string, unknown>
): MissWatch {
  const declared = declaredIn(template, layout)
  const missed = new Map<Node, string>()
  const found = new Set<Node>()
  const isShut = (section: SectionNode) => declared.has(section.name[0] ?? '.') && !isPlain(section, declared)
  return {
    onMiss (name, node) {
      if (node.kind === 'value' && !declared.has(node.name[0] ?? '.')) missed.set(node, name)
    },
    onFind (node) {
      found.add(node)
    },
    faults () {
      const names = new Set<string>()
      // Most mail misses nothing.
      const sources = missed.size === 0 ? [] : [template, layout]
      for (const node of sources.flatMap(source => PARTS.flatMap(part => openNodes(source?.[part] ?? [], isShut)))) {
        if (missed.has(node) && !found.has(node)) names.add(missed.get(node)!)
      }
      const others = Object.keys(given).filter(name => !declared.has(name))
      return [...names].slice(0, NAMES_MAX).map(name => ({
        name,
        code: 'undeclared_variable',
        message: `variables.${name} is used by the template, and must be given or declared${meantOf(name, others)}.`
      }))
    }
  }
}

export const WARNING_CODES = ['undeclared_variable', 'unused_variable', 'no_partials'] as const

/** What looks like a mistake in a template that can be stored. */
export interface TemplateWarning {
  /** `subject`, `html`, `text`, `variables[0]`. */
  field: string
  code: typeof WARNING_CODES[number]
  message: string
}

type Body = Pick<TemplateBody, 'subject' | 'html' | 'text' | 'variables'>

/** What is likely to be a mistake, at most 100 of it. Names in a section may be its items' own, so they are not looked
 *  at. `layout` = the template's, null where it has none. Parts with syntax faults are skipped. */
export function templateWarnings (body: Body, layout: Body | null): TemplateWarning[] {
  const mail = readMail(withoutFaulty(body))
  const around = layout === null ? null : readMail(withoutFaulty(layout))
  const declared = declaredIn(mail, around)
  const isShut = (section: SectionNode) => !isPlain(section, declared)
  const used = PARTS.flatMap(part =>
    openNodes(mail[part] ?? [], isShut).flatMap(node =>
      isLayout(mail) && 'name' in node && node.name[0] === 'content' ? [] : nodeWarnings(part, node, declared)
    )
  )
  const all = [...used, ...unusedWarnings(mail, around)]
  return [...new Map(all.map(warning => [warning.message, warning])).values()].slice(0, NAMES_MAX)
}

function withoutFaulty (body: Body): Body {
  const faulty = new Set(syntaxFaults(body).map(({ field }) => field))
  const sound = (part: typeof PARTS[number]) => (faulty.has(part) ? null : body[part])
  return { subject: sound('subject'), html: sound('html'), text: sound('text'), variables: body.variables }
}

function nodeWarnings (field: string, node: Node, declared: Declared): TemplateWarning[] {
  if (node.kind === 'partial') {
    const message = `${field} uses {{>${node.name}}}: templates have no partials, so it is left empty.`
    return [{ field, code: 'no_partials', message }]
  }
  if (node.kind === 'text' || node.name.length === 0 || declared.has(node.name[0]!)) return []
  const sigil = node.kind === 'value' ? '' : node.inverted ? '^' : '#'
  const effect = node.kind === 'value'
    ? 'an email that does not give it is refused'
    : 'it counts as false where an email does not give it'
  const what = `${field} uses {{${sigil}${node.name.join('.')}}}, which is not declared`
  const meant = meantOf(node.name[0]!, [...declared.keys()])
  return [{ field, code: 'undeclared_variable', message: `${what}: ${effect}${meant}.` }]
}

/** A layout's variables may be used by the templates in it. */
function unusedWarnings (mail: MailTemplate, layout: MailTemplate | null): TemplateWarning[] {
  if (isLayout(mail)) return []
  const used = new Set([...usedNames(mail), ...usedNames(layout)])
  return mail.variables.flatMap(({ name }, i): TemplateWarning[] => {
    if (used.has(name)) return []
    const message = `variables declares ${name}, which nothing uses.`
    return [{ field: `variables[${i}]`, code: 'unused_variable', message }]
  })
}

type Declared = ReadonlyMap<string, Variable>

function declaredIn (template: MailTemplate, layout: MailTemplate | null): Declared {
  return new Map([...layout?.variables ?? [], ...template.variables].map(variable => [variable.name, variable]))
}

type SectionNode = Extract<Node, { kind: 'section' }>

/** Whether a section brings no names of its own: it is there or not. */
function isPlain ({ inverted, name: [first, ...rest] }: SectionNode, declared: Declared): boolean {
  const type = rest.length === 0 ? declared.get(first ?? '.')?.type : undefined
  return inverted || type === 'string' || type === 'number' || type === 'boolean'
}

/** The nodes of a template but for those in sections that `isShut` names. */
function openNodes (nodes: ParsedTemplate, isShut: (section: SectionNode) => boolean): Node[] {
  return nodes.flatMap(node =>
    node.kind === 'section' && !isShut(node) ? [node, ...openNodes(node.body, isShut)] : [node]
  )
}

/** The first parts of all names in a template. */
function usedNames (template: MailTemplate | null): Set<string> {
  const names = new Set<string>()
  for (const part of PARTS) collect(template?.[part] ?? [], names)
  return names
}

function collect (nodes: ParsedTemplate, names: Set<string>): void {
  for (const node of nodes) {
    if ((node.kind === 'value' || node.kind === 'section') && node.name[0] !== undefined) names.add(node.name[0])
    if (node.kind === 'section') collect(node.body, names)
  }
}

/** What was probably meant, before the end of a sentence; else nothing. */
function meantOf (name: string, names: readonly string[], prefix = ''): string {
  const other = nearest(name, names)
  return other === null ? '' : ` (did you mean \`${prefix}${other}\`?)`
}
