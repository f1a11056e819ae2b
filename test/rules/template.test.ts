import t from 'tap'
import {
  countFault,
  emptyFaults,
  fieldFaults,
  fillVariables,
  TEMPLATES_MAX,
  versionFault,
  VERSIONS_MAX,
  type TemplateBody
} from '#streams/template/decide.ts'
import type { Variable } from '#streams/template/facts.ts'
import { compile } from '#src/actions/template-cache.ts'
import { layoutOf, mayBeLayout, readMail, renderMail, syntaxFaults } from '#src/content/mustache-mail.ts'
import { fillMail } from '#src/content/template-variables.ts'

const body = (given: Partial<TemplateBody>): TemplateBody => ({
  name: 'n',
  subject: null,
  html: null,
  text: null,
  variables: [],
  layout: null,
  ...given
})
const variable = (name: string, type: Variable['type'] = 'string', given: Partial<Variable> = {}): Variable => ({
  name,
  type,
  required: false,
  fallback: null,
  ...given
})
const named = (faults: Array<{ field: string, code: string }>) => faults.map(({ field, code }) => `${field} ${code}`)

t.test('fields are looked at each by itself, and all faults are told', async t => {
  t.strictSame(fieldFaults(body({ subject: 'Hello {{name}}', html: '<p>\r\n\t{{name}}</p>', text: 'é' })), [])
  t.strictSame(fieldFaults({}), [])
  t.strictSame(named(fieldFaults({ name: ' ', subject: 'a\r\nBcc: b', html: 'a\0', text: '\ud800' })), [
    'name invalid_characters',
    'subject invalid_characters',
    'html invalid_characters',
    'text invalid_characters'
  ])
  for (const code of [0x85, 0x2028, 0xd800]) {
    t.strictSame(
      named(fieldFaults({ subject: String.fromCharCode(code) })),
      ['subject invalid_characters'],
      code.toString(16)
    )
  }
  t.strictSame(named(emptyFaults(body({ subject: 's' }))), ['html required'])
  t.strictSame(emptyFaults(body({ text: 't' })), [])
})

t.test('bodies have a size, in bytes', async t => {
  t.strictSame(fieldFaults({ html: 'x'.repeat(256 * 1024), text: 'x'.repeat(128 * 1024) }), [])
  t.strictSame(named(fieldFaults({ html: 'é'.repeat(128 * 1024 + 1), text: 'x'.repeat(128 * 1024 + 1) })), [
    'html too_long',
    'text too_long'
  ])
})

t.test('declared variables: no name twice, fallbacks of the type, together at most 64 kB', async t => {
  const deep = JSON.parse(`${'['.repeat(100_000)}${']'.repeat(100_000)}`)
  const faults = fieldFaults({
    variables: [
      variable('a', 'string', { fallback: 1 }),
      variable('b', 'number', { fallback: '1' }),
      variable('c', 'boolean', { fallback: 0 }),
      variable('d', 'object', { fallback: [] }),
      variable('e', 'list', { fallback: {} }),
      variable('a'),
      variable('f', 'list', { fallback: deep })
    ]
  })
  t.strictSame(named(faults), [
    'variables[0].fallback invalid_type',
    'variables[1].fallback invalid_type',
    'variables[2].fallback invalid_type',
    'variables[3].fallback invalid_type',
    'variables[4].fallback invalid_type',
    'variables[5].name not_unique',
    'variables[6].fallback too_deep'
  ])
  const fine = [
    variable('a', 'string', { fallback: '' }),
    variable('b', 'number', { fallback: 0 }),
    variable('c', 'boolean', { fallback: false }),
    variable('d', 'object', { fallback: { a: 1 } }),
    variable('e', 'list', { fallback: [1] })
  ]
  t.strictSame(fieldFaults({ variables: fine }), [])
  t.strictSame(named(fieldFaults({ variables: [variable('a', 'string', { fallback: 'x'.repeat(65_536) })] })), [
    'variables too_long'
  ])
})

t.test('what does not parse is told with its field and line', async t => {
  t.strictSame(syntaxFaults(body({ subject: '{{a', html: '<p>\n{{#b}}', text: '{{c}}' })), [
    {
      field: 'subject',
      code: 'invalid_syntax',
      message: 'subject must be valid Mustache. Line 1: the tag {{ has no }}.'
    },
    { field: 'html', code: 'invalid_syntax', message: 'html must be valid Mustache. Line 2: {{#b}} is never closed.' }
  ])
})

t.test('there is a bound to templates and versions', async t => {
  t.equal(countFault(TEMPLATES_MAX - 1), null)
  t.match(countFault(TEMPLATES_MAX), { code: 'too_many_templates' })
  t.equal(versionFault(VERSIONS_MAX), null)
  t.match(versionFault(VERSIONS_MAX + 1), { code: 'too_many_versions' })
})

t.test('fallbacks stand in, what is required must be there, and types must fit', async t => {
  const declared = [
    variable('a', 'string', { required: true }),
    variable('b', 'number', { required: true }),
    variable('c', 'list', { required: true, fallback: [1] }),
    variable('d', 'boolean', { fallback: false }),
    variable('e', 'object'),
    variable('f', 'list'),
    variable('__proto__', 'string', { required: true })
  ]
  t.strictSame(fillVariables(declared, { a: 'x', b: 0, e: {}, f: [], g: { any: 'thing' }, ['__proto__']: 'y' }), {
    variables: { a: 'x', b: 0, e: {}, f: [], g: { any: 'thing' }, ['__proto__']: 'y', c: [1], d: false },
    faults: []
  })
  const { faults } = fillVariables(declared, { a: null, b: '1', c: {}, d: 'true', e: [], f: 'x' })
  t.strictSame(faults.map(({ name, code }) => `${name} ${code}`), [
    'a missing_variable',
    'b invalid_type',
    'c invalid_type',
    'd invalid_type',
    'e invalid_type',
    'f invalid_type',
    '__proto__ missing_variable'
  ])
  t.strictSame(
    fillVariables([variable('a', 'string', { fallback: 'x' })], { a: null }).variables,
    { a: 'x' },
    'null is not given'
  )
  t.strictSame(
    fillVariables([variable('toString', 'string', { required: true })], {}).faults.length,
    1,
    'nor is what every object has'
  )
})

const mail = (given: Partial<TemplateBody>) => readMail(body(given))

t.test('each part is rendered in its own way', async t => {
  const parts = renderMail(mail({ subject: '{{a}}', html: '<p>{{a}}</p>', text: '{{a}}' }), null, { a: '<&>' })
  t.strictSame(parts, { subject: '<&>', html: '<p>&lt;&amp;&gt;</p>', text: '<&>' })
  t.strictSame(renderMail(mail({ text: 'x' }), null, {}), { subject: null, html: null, text: 'x' })
})

t.test('the parts of a mail share a budget', async t => {
  const budget = { steps: 100, bytes: 100 }
  renderMail(mail({ subject: 's', html: '{{{a}}}', text: '{{a}}' }), mail({ html: '-{{{content}}}-' }), { a: 'xx' }, {
    budget
  })
  t.strictSame(budget, { steps: 92, bytes: 91 })
  t.throws(() => renderMail(mail({ text: '{{a}}' }), null, { a: 'x'.repeat(92) }, { budget }), { code: 'too_large' })
})

t.test('what is kept of a version is counted: its source, its tags, its fallbacks', async t => {
  const bytes = (given: Partial<TemplateBody>) => compile({ template: 'tpl_a', version: 1, ...body(given) }).bytes
  t.ok(bytes({ html: 'x\n'.repeat(1000) }) < 10_000, 'lines cost nothing beside their characters')
  t.ok(bytes({ html: '{{a}}'.repeat(1000) }) > 200_000, 'tags do')
  t.ok(
    bytes({ html: 'x', variables: [variable('a', 'list', { fallback: Array.from({ length: 1000 }, () => []) })] }) >
      40_000
  )
})

t.test('nothing but one line comes out of a subject', async t => {
  const subject = (a: string) => renderMail(mail({ subject: 'Re: {{a}}{{b}}', text: 't' }), null, { a }).subject
  t.equal(subject('x\r\nBcc: eve@example.com'), 'Re: x Bcc: eve@example.com')
  t.equal(subject('a\0b\tc\u0085d\u2028e\u001b\u007ff\n'), 'Re: a b c d e f')
  t.equal(subject('\ud83d'), 'Re: \uFFFD')
  t.equal(subject('x'.repeat(994)), `Re: ${'x'.repeat(994)}`)
  t.throws(() => subject('x'.repeat(995)), { name: 'MustacheError', code: 'too_large' })
})

t.test('no NUL comes out of a body', async t => {
  t.match(renderMail(mail({ html: '{{a}}', text: '{{a}}' }), null, { a: 'a\0b' }), {
    html: 'a\uFFFDb',
    text: 'a\uFFFDb'
  })
})

t.test('a layout surrounds the bodies it has', async t => {
  const layout = mail({
    subject: 'not this',
    html: '<html>{{{content}}}{{foot}}</html>',
    variables: [variable('foot', 'string', { fallback: '<3' }), variable('content', 'number', { required: true })]
  })
  const template = mail({ subject: 's', html: '<p>{{a}} {{content}}</p>', text: 'plain {{a}}' })
  const { variables, faults } = fillMail(template, layout, { a: '<', content: 'own' })
  t.strictSame(faults, [])
  t.strictSame(renderMail(template, layout, variables), {
    subject: 's',
    html: '<html><p>&lt; own</p>&lt;3</html>',
    text: 'plain <'
  })
})

t.test('what template and layout want is asked for together, each name once', async t => {
  const layout = mail({
    html: '{{{content}}}',
    variables: [
      variable('a', 'string', { required: true }),
      variable('b', 'string', { required: true }),
      variable('c', 'string', { required: true })
    ]
  })
  const template = mail({
    html: 'x',
    variables: [variable('a', 'string', { required: true }), variable('c', 'string', { fallback: 'x' })]
  })
  t.strictSame(fillMail(template, layout, {}).faults.map(({ name }) => name), ['a', 'b'])
})

t.test('a layout has none itself and holds {{{content}}} in each of its bodies', async t => {
  t.ok(mayBeLayout(body({ html: '{{{content}}}' })))
  t.ok(mayBeLayout(body({ html: '{{#a}}{{& content }}{{/a}}', text: '{{{content}}}' })))
  t.notOk(mayBeLayout(body({ html: '{{content}}' })), 'escaped')
  t.notOk(mayBeLayout(body({ html: '{{{content}}}', text: 'x' })), 'in one only')
  t.notOk(mayBeLayout(body({ html: '{{{content}}}', layout: 'tpl_a' })), 'in another')
  t.notOk(mayBeLayout(body({ html: '{{{content}}}{{#a}}' })), 'unreadable')
  t.equal(layoutOf(null, null), null)
  t.throws(() => layoutOf('tpl_a', null), { code: 'no_layout' })
  t.throws(() => layoutOf('tpl_a', mail({ html: 'x' })), { code: 'no_layout' })
})
