import { Type, type Static, type TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { emptyFaults, type TemplateBody } from '#streams/template/decide.ts'
import { Variable } from '#streams/template/facts.ts'
import type { Fault } from './errors.ts'

const orNull = <T extends TSchema>(schema: T, description: string) =>
  Type.Optional(Type.Union([schema, Type.Null()], { description }))

const VariableField = Type.Object({
  name: Type.String({
    pattern: '^[A-Za-z_][A-Za-z0-9_-]{0,99}$',
    description: 'The name of a variable is 1 to 100 letters, digits, _ and -, the first a letter or _.'
  }),
  type: Type.Union(Variable.properties.type.anyOf, { description: 'type is string, number, boolean, object or list.' }),
  required: Type.Optional(Type.Boolean({ description: 'required is true, or false as when left out.' })),
  fallback: Type.Optional(
    Type.Unknown({
      description: 'What stands in for the variable where it is not given or null; of its type. null = nothing.'
    })
  )
}, { additionalProperties: false, description: 'A variable is an object with name and type.' })

const fields = {
  subject: orNull(Type.String({ minLength: 1, maxLength: 998 }), 'subject has 1 to 998 characters.'),
  html: orNull(Type.String({ minLength: 1 }), 'html is Mustache, at most 256 kB.'),
  text: orNull(Type.String({ minLength: 1 }), 'text is Mustache, at most 128 kB.'),
  variables: Type.Optional(
    Type.Array(VariableField, { maxItems: 100, description: 'variables is a list of at most 100 declarations.' })
  ),
  layout_id: orNull(Type.String(), 'layout_id is the id of a template whose bodies hold {{{content}}}.')
}
const name = Type.String({ minLength: 1, maxLength: 200, description: 'name has 1 to 200 characters.' })

export const CreateRequest = Type.Object({ name, ...fields }, {
  additionalProperties: false,
  description: 'The body is a JSON object. One of html and text is required.',
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
  additionalProperties: false,
  description:
    'The body is a JSON object. What it leaves out stays as it is; null takes a subject, a body or the layout away.',
  examples: [{ subject: 'Order {{order}} is on its way' }, { layout_id: null }]
})
type ChangeRequest = Static<typeof ChangeRequest>

/** What the fields of a request say, those that are there. */
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

/** Those fields of a faulty request that fit their schemas: what they mean is looked at all the same. */
export function soundFields (request: unknown): ChangeRequest {
  if (typeof request !== 'object' || request === null) return {}
  const sound = Object.entries(ChangeRequest.properties).filter(([field, schema]) =>
    Object.hasOwn(request, field) &&
    Value.Check(schema, (request as Record<string, unknown>)[field])
  )
  return Object.fromEntries(sound.map(([field]) => [field, (request as Record<string, unknown>)[field]]))
}

/** For a new template whose request is faulty: neither body is there, in whatever shape. */
export function missingBody (request: unknown): Fault[] {
  if (typeof request !== 'object' || request === null || Array.isArray(request)) return []
  const { html = null, text = null } = request as TemplateBody
  return emptyFaults({ html, text })
}
