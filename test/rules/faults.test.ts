import { Type, type TSchema } from '@sinclair/typebox'
import t from 'tap'
import { compileValidator, QUERY_MEMBER } from '#src/servers/api/faults.ts'

/** Field, code and message of each fault. */
function faults (schema: TSchema, value: unknown): string[][] {
  const checked = compileValidator(schema)(value)
  return 'error' in checked ? checked.error.faults.map(({ field, code, message }) => [field, code, message]) : []
}

t.test('a message says what the keyword of a schema asks for, or what the schema says it must', async t => {
  const table: Array<[TSchema, unknown, string]> = [
    [Type.String(), 7, 'x must be a string.'],
    [Type.String({ minLength: 2, maxLength: 5 }), 'abcdef', 'x must have at most 5 characters.'],
    [Type.Integer({ minimum: 1, maximum: 9 }), 0, 'x must be a whole number from 1 to 9.'],
    [Type.Number(), '1', 'x must be a number.'],
    [Type.Boolean(), null, 'x must be true or false.'],
    [Type.Null(), 1, 'x must be null.'],
    [Type.Array(Type.String(), { maxItems: 1 }), ['a', 'b'], 'x must have at most 1 item.'],
    [Type.Object({}), [], 'x must be an object.'],
    [Type.Literal('a'), 'b', 'x must be a.'],
    [Type.Union([Type.Literal('a'), Type.Literal('b')]), 'c', 'x must be a or b.'],
    [Type.Union([Type.String(), Type.Null()]), 1, 'x must be a string or null.'],
    [Type.Never(), 1, 'x must be left out.'],
    [Type.String({ minLength: 2 }), 'a', 'x must have at least 2 characters.'],
    [Type.String({ minLength: 1 }), '', 'x must not be empty.'],
    [Type.Array(Type.String(), { minItems: 1, noun: 'address' }), [], 'x must have at least 1 address.'],
    [Type.Array(Type.String(), { minItems: 2, noun: 'address' }), [], 'x must have at least 2 addresses.'],
    [Type.Array(Type.String(), { uniqueItems: true }), ['a', 'a'], 'x must not contain duplicates.'],
    [Type.Integer({ minimum: 1 }), 0, 'x must be a whole number of at least 1.'],
    [Type.Integer({ maximum: 9 }), 10, 'x must be a whole number of at most 9.'],
    [Type.String({ description: 'What it is.' }), 7, 'x must be a string.'],
    [Type.String({ must: 'be a color', maxLength: 9 }), 7, 'x must be a color.'],
    [Type.String({ must: 'be a color', maxLength: 1 }), 'ab', 'x must be a color.']
  ]
  for (const [schema, value, message] of table) {
    t.strictSame(faults(Type.Object({ x: schema }), { x: value }).map(fault => fault[2]), [message])
  }
})

t.test('an object or nothing names its faults where they are', async t => {
  const schema = Type.Union([Type.Object({ a: Type.Integer() }, { additionalProperties: false }), Type.Null()])
  t.strictSame(faults(schema, null), [])
  t.strictSame(faults(schema, { a: 'x', b: 1 }).map(([field, code]) => [field, code]).sort(), [['a', 'invalid_value'], [
    'b',
    'unknown_field'
  ]])
  t.strictSame(faults(schema, []), [['body', 'invalid_value', 'body must be an object or null.']])
})

t.test('a value of the type of one option has the faults of that option', async t => {
  const list = Type.Array(Type.String(), { minItems: 1, maxItems: 2, noun: 'recipient' })
  const schema = Type.Object({ to: Type.Union([Type.String({ minLength: 1 }), list]) })
  t.strictSame(faults(schema, { to: [] }), [['to', 'too_few', 'to must have at least 1 recipient.']])
  t.strictSame(faults(schema, { to: ['a', 7] }), [['to[1]', 'invalid_value', 'to[1] must be a string.']])
  t.strictSame(faults(schema, { to: '' }), [['to', 'too_short', 'to must not be empty.']])
  t.strictSame(faults(schema, { to: 7 }), [['to', 'invalid_value', 'to must be a string or a list.']])
})

t.test('a parameter that is given twice must be given once, and an unknown one is called a parameter', async t => {
  const check = compileValidator(Type.Object({ q: Type.String() }, { additionalProperties: false }), QUERY_MEMBER)
  const checked = check({ q: ['a', 'b'], x: '1' })
  t.strictSame('error' in checked ? checked.error.faults.map(({ message }) => message).sort() : [], [
    'Unknown query parameter `x`.',
    'q must be given once.'
  ])
})
