import { Type, type Static, type TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { NAME_LENGTH_MAX, type FieldFault } from '#streams/define.ts'
import { emptyFaults, type TemplateBody } from '#streams/template/decide.ts'
import { Variable, VARIABLE_NAME_LENGTH_MAX, VARIABLES_MAX } from '#streams/template/facts.ts'
import { MUST_BE_OBJECT } from './params.ts'

const orNull = <T extends TSchema>(schema: T, description: string) =>
  Type.Optional(Type.Union([schema, Type.Null()], { description }))

const VariableField = Type.Object({
  name: Type.String({
    pattern: `^[A-Za-z_][A-Za-z0-9_-]{0,${VARIABLE_NAME_LENGTH_MAX - 1}}$`,
    must: `have 1 to ${VARIABLE_NAME_LENGTH_MAX} letters, digits, _ or -, and begin with a letter or _`,
    description:
      `Name of the variable: 1 to ${VARIABLE_NAME_LENGTH_MAX} letters, digits, \`_\` and \`-\`, the first a ` +
      'letter or `_`.'
  }),
  type: Type.Union(Variable.properties.type.anyOf, { description: 'Type of its values.' }),
  required: Type.Optional(
    Type.Boolean({ description: 'Whether a mail without it is refused. False when left out.' })
  ),
  fallback: Type.Optional(
    Type.Unknown({ description: 'The value where none is given, or null. Of the declared type; null = nothing.' })
  )
}, { additionalProperties: false })

const fields = {
  subject: orNull(Type.String({ minLength: 1, maxLength: 998 }), 'The subject line, in Mustache.'),
  html: orNull(Type.String({ minLength: 1 }), 'The HTML body, in Mustache. At most 256 kB.'),
  text: orNull(Type.String({ minLength: 1 }), 'The plain-text body, in Mustache. At most 128 kB.'),
  variables: Type.Optional(
    Type.Array(VariableField, {
      maxItems: VARIABLES_MAX,
      noun: 'declaration',
      description: `Declared variables. At most ${VARIABLES_MAX}, 64 kB of JSON.`
    })
  ),
  layout_id: orNull(Type.String(), 'A template whose bodies contain `{{{content}}}`, to put this one into.')
}
const name = Type.String({ minLength: 1, maxLength: NAME_LENGTH_MAX, description: 'A name for people.' })

export const CreateRequest = Type.Object({ name, ...fields }, {
  must: MUST_BE_OBJECT,
  additionalProperties: false,
  description: 'A template. `html` or `text` is required.',
  examples: [{
    name: 'Receipt',
    subject: 'Your order {{order}}',
    html: '<p>Hello {{name}},</p><ul>{{#items}}<li>{{title}}: {{price}}</li>{{/items}}</ul>',
    variables: [
      { name: 'order', type: 'string', required: true },
      { name: 'name', type: 'string', fallback: 'there' },
      { name: 'items', type: 'list' }
    ]
  }]
})

export const ChangeRequest = Type.Object({ name: Type.Optional(name), ...fields }, {
  must: MUST_BE_OBJECT,
  additionalProperties: false,
  description: 'What to change. What is left out stays; null removes a subject, a body or the layout.',
  examples: [{ subject: 'Order {{order}} is on its way' }, { layout_id: null }]
})
type ChangeRequest = Static<typeof ChangeRequest>

/** The given fields of a request. */
export function bodyOf (
  { name, subject, html, text, variables, layout_id: layout }: ChangeRequest
): Partial<TemplateBody> {
  const declared = variables?.map(({ name, type, required = false, fallback = null }) => ({
    name,
    type,
    required,
    fallback
  }))
  const given = { name, subject, html, text, variables: declared, layout }
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
}

/** A new template: what the request leaves out is not there. */
export function newBodyOf (request: Static<typeof CreateRequest>): TemplateBody {
  return { name: request.name, subject: null, html: null, text: null, variables: [], layout: null, ...bodyOf(request) }
}

/** The fields of a faulty request that fit their schemas: their meaning is checked all the same. */
export function soundFields (request: unknown): ChangeRequest {
  if (typeof request !== 'object' || request === null) return {}
  const sound = Object.entries(ChangeRequest.properties).filter(([field, schema]) =>
    Object.hasOwn(request, field) &&
    Value.Check(schema, (request as Record<string, unknown>)[field])
  )
  return Object.fromEntries(sound.map(([field]) => [field, (request as Record<string, unknown>)[field]]))
}

/** For a new template whose request is faulty: neither body is there, in whatever shape. */
export function missingBody (request: unknown): FieldFault[] {
  if (typeof request !== 'object' || request === null || Array.isArray(request)) return []
  const { html = null, text = null } = request as TemplateBody
  return emptyFaults({ html, text })
}
