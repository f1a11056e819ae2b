import { isDeeperThan } from '#streams/json.ts'
import type { CreateTemplateRequest, Template, UpdateTemplateRequest } from '#src/client/types.ts'
import { JetpostError } from '#src/client/client.ts'
import { faultsIn, type Faults } from '../parts.ts'

type VariableType = Template['variables'][number]['type']
export const VARIABLE_TYPES: VariableType[] = ['string', 'number', 'boolean', 'object', 'list']

/** A declared variable in the form: its fallback as text, for other types than string as JSON. */
export interface VariableRow {
  name: string
  type: VariableType
  required: boolean
  fallback: string
}

/** The fields of a template; '' = none. */
export interface TemplateForm {
  name: string
  subject: string
  html: string
  text: string
  layout: string
  rows: VariableRow[]
  /** Variables for the preview and the test as JSON; not part of the template. */
  samples: string
  images: boolean
  /** The newest version when the form was opened; null = a new template. */
  version: number | null
}

export const NEW_TEMPLATE: TemplateForm = {
  name: '',
  subject: '',
  html: '',
  text: '',
  layout: '',
  rows: [],
  samples: '{}',
  images: false,
  version: null
}

/** Declared variables of a template, and the empty rows below them. */
const ROWS_MAX = 110

/** The posted form. Browsers send line ends as CRLF, whatever they were. */
export function templateFormIn (form: URLSearchParams): TemplateForm {
  const line = (name: string) => form.get(name)?.trim() ?? ''
  const body = (name: string) => plainLines(form.get(name) ?? '')
  const rows = Array.from({ length: ROWS_MAX }, (_, i): VariableRow => ({
    name: line(`variables.${i}.name`),
    type: VARIABLE_TYPES.find(type => type === form.get(`variables.${i}.type`)) ?? 'string',
    required: form.has(`variables.${i}.required`),
    fallback: body(`variables.${i}.fallback`)
  }))
  return {
    name: line('name'),
    subject: form.get('subject') ?? '',
    html: body('html'),
    text: body('text'),
    layout: line('layout_id'),
    rows: rows.filter(({ name, fallback }) => name !== '' || fallback !== ''),
    samples: body('samples'),
    images: form.has('images'),
    version: /^[1-9]\d{0,8}$/.test(line('version')) ? Number(line('version')) : null
  }
}

/** The form of a stored version. */
export function templateFormOf (
  { name, subject, html, text, layout_id: layout, variables, version }: Template
): TemplateForm {
  const rows = variables.map(({ name, type, required, fallback }) => ({
    name,
    type,
    required,
    fallback: plainLines(typedFallback(type, fallback))
  }))
  return {
    ...NEW_TEMPLATE,
    name,
    subject: subject ?? '',
    html: plainLines(html ?? ''),
    text: plainLines(text ?? ''),
    layout: layout ?? '',
    rows,
    version
  }
}

function plainLines (text: string): string {
  return text.replaceAll(/\r\n?/g, '\n')
}

/** An empty string is shown as "": an empty field is no fallback. */
function typedFallback (type: VariableType, fallback: unknown): string {
  if (fallback === null || fallback === undefined) return ''
  return type === 'string' && fallback !== '' ? String(fallback) : JSON.stringify(fallback)
}

/** The form as the API takes it. Throws JetpostError for fallbacks that are not JSON. */
export function requestOf (typed: TemplateForm): CreateTemplateRequest {
  const { name, subject, html, text, rows, layout } = typed
  return {
    name,
    subject: subject || null,
    html: html || null,
    text: text || null,
    variables: variablesOf(rows),
    layout_id: layout || null
  }
}

/** Only what differs from the stored version, so that what a form cannot show, such as line ends, stays. Throws like
 *  requestOf. */
export function changesOf (typed: TemplateForm, stored: Template): UpdateTemplateRequest {
  const shown = templateFormOf(stored)
  const { name, subject, html, text, variables, layout_id: layout } = requestOf(typed)
  return {
    ...(typed.name === shown.name ? {} : { name }),
    ...(typed.subject === shown.subject ? {} : { subject }),
    ...(typed.html === shown.html ? {} : { html }),
    ...(typed.text === shown.text ? {} : { text }),
    ...(JSON.stringify(typed.rows) === JSON.stringify(shown.rows) ? {} : { variables }),
    ...(typed.layout === shown.layout ? {} : { layout_id: layout })
  }
}

interface Detail {
  field: string
  code: string
  message: string
}

function variablesOf (rows: VariableRow[]): Template['variables'] {
  const details: Detail[] = []
  const variables = rows.map(({ name, type, required, fallback }, i) => {
    const value = fallbackOf(type, fallback)
    if (value === undefined) {
      details.push({
        field: `variables[${i}].fallback`,
        code: 'invalid_json',
        message: `The fallback of ${name || `row ${i + 1}`} must be JSON of its type.`
      })
    }
    return { name, type, required, fallback: value ?? null }
  })
  if (details.length > 0) {
    throw new JetpostError('Validation failed', { code: 'validation_failed', status: 422, details })
  }
  return variables
}

/** undefined = not JSON. */
function fallbackOf (type: VariableType, text: string): unknown {
  if (text.trim() === '') return null
  return type === 'string' && text !== '""' ? text : jsonIn(text)
}

/** As deep as the API reads: deeper values would be serialised by deep recursion. */
const DEPTH_MAX = 64

/** undefined = not JSON, or nested deeper than the API reads. */
export function jsonIn (text: string): unknown {
  try {
    const value: unknown = JSON.parse(text)
    return isDeeperThan(value, DEPTH_MAX) ? undefined : value
  } catch {
    return undefined
  }
}

/** The variables of the preview and the test; a sentence where they are not a JSON object. */
export function samplesOf ({ samples }: Pick<TemplateForm, 'samples'>): Record<string, unknown> | string {
  if (samples.trim() === '') return {}
  const value = jsonIn(samples)
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? value as Record<string, unknown>
    : 'Sample variables must be a JSON object, such as {"name": "Ada"}.'
}

/** The declared variables that can be read: a preview leaves out unfinished ones. */
export function readableVariables (rows: VariableRow[]): Template['variables'] {
  return rows.filter(({ name }) => name !== '').map(({ name, type, required, fallback }) => ({
    name,
    type,
    required,
    fallback: fallbackOf(type, fallback) ?? null
  }))
}

/** A fault of a field that the API does not check. */
export function faultOf (field: string, message: string): Faults {
  return faultsIn(
    new JetpostError(message, {
      code: 'validation_failed',
      status: 422,
      details: [{ field, code: 'invalid_value', message }]
    })
  )
}
