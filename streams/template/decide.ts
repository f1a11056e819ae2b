import { Refusal, type FieldFault } from '../define.ts'
import { jsonFault } from '../json.ts'
import type { TemplateVersioned, Variable } from './facts.ts'

/** Templates an account may have at a time. */
export const TEMPLATES_MAX = 10_000
/** Versions a template may come to. */
export const VERSIONS_MAX = 10_000

/** A version must fit one message of 1 MB: JSON makes at most two bytes of each of these. */
const HTML_BYTES_MAX = 256 * 1024
const TEXT_BYTES_MAX = 128 * 1024
/** All declared variables, as JSON. */
const VARIABLES_BYTES_MAX = 64 * 1024

/** What a version says, beside which version of what it is. */
export type TemplateBody = Omit<TemplateVersioned['data'], 'template' | 'version'>

/** A no to a template that names all its faults. */
export class InvalidTemplate extends Refusal {
  readonly faults: FieldFault[]
  constructor (faults: FieldFault[]) {
    super('invalid_template', faults.map(fault => fault.message).join(' '))
    this.faults = faults
  }
}

/** Faults of the fields that are there, each by itself. Whether bodies parse is not asked here. */
export function fieldFaults ({ name, subject, html, text, variables }: Partial<TemplateBody>): FieldFault[] {
  const invalid = (field: string, message: string) => ({ field, code: 'invalid_characters', message })
  return [
    ...(name === undefined || (name.trim() !== '' && isOneLine(name))
      ? []
      : [invalid('name', 'name must be one line, and not only spaces.')]),
    ...(subject == null || isOneLine(subject)
      ? []
      : [invalid('subject', 'subject must be one line without control characters.')]),
    ...bodyFaults('html', html ?? '', HTML_BYTES_MAX),
    ...bodyFaults('text', text ?? '', TEXT_BYTES_MAX),
    ...(variables === undefined ? [] : variablesFaults(variables))
  ]
}

/** A template without anything to send. */
export function emptyFaults ({ html, text }: Pick<TemplateBody, 'html' | 'text'>): FieldFault[] {
  return html === null && text === null
    ? [{ field: 'html', code: 'required', message: 'html or text is required.' }]
    : []
}

function isOneLine (text: string): boolean {
  return !/[\p{Cc}\u2028\u2029]/u.test(text) && text.isWellFormed()
}

function bodyFaults (field: string, body: string, bytesMax: number): FieldFault[] {
  if (Buffer.byteLength(body) > bytesMax) {
    return [{ field, code: 'too_long', message: `${field} must be at most ${bytesMax / 1024} kB.` }]
  }
  // Tabs and line ends are all that a body needs of them; the others would be six bytes each in the log.
  const plain = !/[^\P{Cc}\t\n\r]/u.test(body) && body.isWellFormed()
  return plain
    ? []
    : [{
      field,
      code: 'invalid_characters',
      message: `${field} must not contain control characters or unpaired surrogates.`
    }]
}

function variablesFaults (variables: readonly Variable[]): FieldFault[] {
  const names = new Set<string>()
  const faults = variables.flatMap(({ name, type, fallback }, i) => {
    const twice = names.has(name)
    names.add(name)
    return [
      ...(twice
        ? [{ field: `variables[${i}].name`, code: 'not_unique', message: 'name must be unique among variables.' }]
        : []),
      ...fallbackFaults(`variables[${i}].fallback`, type, fallback)
    ]
  })
  // What is nested deeper than our stack has been found by now.
  if (faults.length > 0 || Buffer.byteLength(JSON.stringify(variables)) <= VARIABLES_BYTES_MAX) return faults
  return [{ field: 'variables', code: 'too_long', message: 'variables must be at most 64 kB as JSON.' }]
}

function fallbackFaults (field: string, type: Variable['type'], fallback: unknown): FieldFault[] {
  if (fallback === null) return []
  if (!fits(type, fallback)) return [{ field, code: 'invalid_type', message: `fallback must be ${WORDS[type]}.` }]
  const fault = jsonFault('fallback', fallback)
  return fault === null ? [] : [{ field, code: fault.code, message: fault.message }]
}

const WORDS: Record<Variable['type'], string> = {
  string: 'a string',
  number: 'a number',
  boolean: 'true or false',
  object: 'an object',
  list: 'a list'
}

function fits (type: Variable['type'], value: unknown): boolean {
  if (type === 'list') return Array.isArray(value)
  return type === typeof value && !Array.isArray(value)
}

/** `count` = the templates the account already has. */
export function countFault (count: number): Refusal | null {
  return count < TEMPLATES_MAX
    ? null
    : new Refusal('too_many_templates', `An account can have at most ${TEMPLATES_MAX} templates: delete one first.`)
}

/** `version` = the one that would come next. */
export function versionFault (version: number): Refusal | null {
  return version <= VERSIONS_MAX
    ? null
    : new Refusal('too_many_versions', `A template can have at most ${VERSIONS_MAX} versions: create another template.`)
}

/** What is wrong with a variable: declared, and not given or not as declared; used, and neither declared nor given;
 *  given, and not the template's. */
export interface VariableFault {
  name: string
  code: 'missing_variable' | 'invalid_type' | 'undeclared_variable' | 'unknown_variable'
  message: string
}

/** What was given, with fallbacks where a declared variable was not, or was null; and all that is wrong with it. What
 *  is not declared stays as it is. */
export function fillVariables (
  declared: readonly Variable[],
  given: Record<string, unknown>
): { variables: Record<string, unknown>, faults: VariableFault[] } {
  const fallbacks: Array<[string, unknown]> = []
  const faults = declared.flatMap(({ name, type, required, fallback }): VariableFault[] => {
    const value = Object.hasOwn(given, name) ? given[name] : null
    if (value !== null) {
      return fits(type, value)
        ? []
        : [{ name, code: 'invalid_type', message: `variables.${name} must be ${WORDS[type]}.` }]
    }
    if (fallback !== null) fallbacks.push([name, fallback])
    return fallback === null && required
      ? [{ name, code: 'missing_variable', message: `variables.${name} is required.` }]
      : []
  })
  return { variables: Object.fromEntries([...Object.entries(given), ...fallbacks]), faults }
}
