import type { FieldFault } from '#streams/define.ts'
import type { TemplateBody } from '#streams/template/decide.ts'
import { MustacheError, newRenderBudget, parse, render, type RenderOptions, type ParsedTemplate } from './mustache.ts'

/** The parts that are templates. */
export const PARTS = ['subject', 'html', 'text'] as const

type Parts<T> = Record<typeof PARTS[number], T>

/** A template of mail, read; null where it has no such part. */
export interface MailTemplate extends Parts<ParsedTemplate | null> {
  variables: TemplateBody['variables']
}

/** Longest subject a mail may have, in characters. */
const SUBJECT_LENGTH_MAX = 998

/** Reads a version. Throws MustacheError. */
export function readMail (
  { subject, html, text, variables }: Pick<TemplateBody, 'subject' | 'html' | 'text' | 'variables'>
): MailTemplate {
  const read = (source: string | null) => (source === null ? null : parse(source))
  return { subject: read(subject), html: read(html), text: read(text), variables }
}

/** What cannot be read of a template's parts. */
export function syntaxFaults (body: Partial<Parts<string | null>>): FieldFault[] {
  return PARTS.flatMap(field => {
    try {
      parse(body[field] ?? '')
      return []
    } catch (error) {
      if (!(error instanceof MustacheError)) throw error
      return [{
        field,
        code: error.code === 'syntax' ? 'invalid_syntax' : error.code,
        message: `${field} must be valid Mustache. ${error.message}`
      }]
    }
  })
}

/** Whether a template may be others' layout: it has none itself, and others can be put into it. */
export function mayBeLayout (body: TemplateBody): boolean {
  return body.layout === null && syntaxFaults(body).length === 0 && isLayout(readMail(body))
}

/** The layout a template names, as it was found. Throws MustacheError when it is gone, or is no longer one. */
export function layoutOf (named: string | null, found: MailTemplate | null): MailTemplate | null {
  if (named === null) return null
  if (found === null || !isLayout(found)) {
    throw new MustacheError('no_layout', `The layout ${named} does not exist, or does not contain {{{content}}}.`)
  }
  return found
}

/** Whether others can be put into it: each body it has holds `{{{content}}}`. */
export function isLayout ({ html, text }: Pick<MailTemplate, 'html' | 'text'>): boolean {
  const bodies = [html, text].filter(body => body !== null)
  return bodies.length > 0 && bodies.every(holdsContent)
}

function holdsContent (template: ParsedTemplate): boolean {
  return template.some(node =>
    (node.kind === 'value' && node.raw && node.name.join('.') === 'content') ||
    (node.kind === 'section' && holdsContent(node.body))
  )
}

/** The parts of a mail. A body that the layout has not stands alone; the subject is the template's. Throws
 *  MustacheError. */
export function renderMail (
  template: MailTemplate,
  layout: MailTemplate | null,
  variables: Record<string, unknown>,
  { budget = newRenderBudget(), ...watch }: Pick<RenderOptions, 'onMiss' | 'onFind' | 'budget'> = {}
): Parts<string | null> {
  const body = (part: 'html' | 'text', escape: 'html' | 'none') => {
    if (template[part] === null) return null
    const content = render(template[part], variables, { ...watch, escape, budget })
    const around = layout?.[part] ?? null
    // Readers of mail choke on NUL, and no variable can be relied on to have none.
    return (around === null ? content : render(around, { ...variables, content }, { ...watch, escape, budget }))
      .replaceAll('\0', '\uFFFD')
  }
  const subject = template.subject === null
    ? null
    : oneLine(render(template.subject, variables, { ...watch, escape: 'none', budget }))
  return { subject, html: body('html', 'html'), text: body('text', 'none') }
}

/** What a variable brings of line breaks and other control characters ends as one space: it can neither start a header
 *  nor fail a mail. */
function oneLine (text: string): string {
  const line = text.replaceAll(/[\p{Cc}\u2028\u2029]+/gu, ' ').trim().toWellFormed()
  if (line.length > SUBJECT_LENGTH_MAX) {
    throw new MustacheError('too_large', `The rendered subject has over ${SUBJECT_LENGTH_MAX} characters.`)
  }
  return line
}
