import { Type, type Static } from '@sinclair/typebox'
import { factType, Id, Name, Nullable, type FactOf } from '../define.ts'

/** Variables that a template may declare. */
export const VARIABLES_MAX = 100
export const VARIABLE_NAME_LENGTH_MAX = 100

/** A value a template wants: without a fallback (null) and `required`, a send that lacks it is refused. */
export const Variable = Type.Object({
  name: Type.String({ minLength: 1, maxLength: VARIABLE_NAME_LENGTH_MAX }),
  type: Type.Union((['string', 'number', 'boolean', 'object', 'list'] as const).map(name => Type.Literal(name))),
  required: Type.Boolean(),
  fallback: Type.Unknown()
})
export type Variable = Static<typeof Variable>

/** One version of a template, never changed afterwards; the first has version 1. `layout` = the template whose
 *  `{{{content}}}` it fills. */
export const TemplateVersioned = factType(
  'template.versioned',
  1,
  Type.Object({
    template: Id('tpl'),
    version: Type.Integer({ minimum: 1 }),
    name: Name,
    subject: Nullable(Type.String()),
    html: Nullable(Type.String()),
    text: Nullable(Type.String()),
    variables: Type.Array(Variable, { maxItems: VARIABLES_MAX }),
    layout: Nullable(Id('tpl'))
  })
)

export const TemplateDeleted = factType('template.deleted', 1, Type.Object({ template: Id('tpl') }))

export const templateFacts = [TemplateVersioned, TemplateDeleted] as const

export type TemplateVersioned = FactOf<typeof TemplateVersioned>
export type TemplateDeleted = FactOf<typeof TemplateDeleted>
