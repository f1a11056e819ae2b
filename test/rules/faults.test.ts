import { Type, type TSchema } from '@sinclair/typebox'
import t from 'tap'
import { compileValidator } from '#src/servers/api/faults.ts'

/** Field, code and message of each fault. */
function faults (schema: TSchema, value: unknown): string[][] {
  const checked = compileValidator(schema)(value)
  return 'error' in checked ? checked.error.faults.map(({ field, code, message }) => [field, code, message]) : []
}

t.test('a schema without words of its own is told in ours', async t => {
  const table: Array<[TSchema, unknown, string]> = [
    [Type.String(), 7, 'x is a string.'],
    [Type.String({ minLength: 2, maxLength: 5 }), 'abcdef', 'x is a string, not shorter than 2, not longer than 5.'],
    [Type.Integer({ minimum: 1, maximum: 9 }), 0, 'x is a whole number, at least 1, at most 9.'],
    [Type.Number(), '1', 'x is a number.'],
    [Type.Boolean(), null, 'x is true or false.'],
    [Type.Null(), 1, 'x is null.'],
    [Type.Array(Type.String(), { maxItems: 1 }), ['a', 'b'], 'x is a list, not longer than 1.'],
    [Type.Object({}), [], 'x is an object.'],
    [Type.Literal('a'), 'b', 'x is "a".'],
    [Type.Union([Type.Literal('a'), Type.Literal('b')]), 'c', 'x is "a" or "b".'],
    [Type.Union([Type.String(), Type.Null()]), 1, 'x is a string or null.'],
    [Type.Never(), 1, 'x is something else.'],
    [Type.String({ description: 'Its own.' }), 7, 'Its own.']
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
  t.strictSame(faults(schema, []), [['body', 'invalid_value', 'body is an object.']])
})
