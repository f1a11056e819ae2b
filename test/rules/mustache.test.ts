import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import t from 'tap'
import { MustacheError, newRenderBudget, parse, render, weightOf, type RenderOptions } from '#src/content/mustache.ts'

const html = (template: string, data: unknown, partials: Record<string, string> = {}) =>
  made(template, data, partials, { escape: 'html' })
const plain = (template: string, data: unknown, partials: Record<string, string> = {}) =>
  made(template, data, partials, { escape: 'none' })

function made (template: string, data: unknown, partials: Record<string, string>, options: RenderOptions): string {
  const parsed = new Map(Object.entries(partials).map(([name, text]) => [name, parse(text)]))
  return render(parse(template), data, { ...options, partials: parsed })
}

/** Name of the rule, template, data, what comes out, partials. */
type Case = [string, string, unknown, string, Record<string, string>?]

const cases: Record<string, Case[]> = {
  values: [
    ['text stays as it is', 'a {b} }} c\r\n', {}, 'a {b} }} c\r\n'],
    ['a value is put in', 'Dear {{name}},', { name: 'Ada' }, 'Dear Ada,'],
    ['and not read again', '{{a}}', { a: '{{b}}', b: 'x' }, '{{b}}'],
    [
      'escaped',
      '{{a}}',
      { a: '<b class="x">Tom & Jerry\'s</b>' },
      '&lt;b class=&quot;x&quot;&gt;Tom &amp; Jerry&#39;s&lt;/b&gt;'
    ],
    ['or not: three braces', '{{{a}}}', { a: '<&"\'>' }, '<&"\'>'],
    ['or not: an ampersand', '{{&a}}{{& a }}', { a: '<' }, '<<'],
    ['numbers', '{{a}} {{b}} {{{c}}}', { a: 7, b: 1.10, c: -0.5 }, '7 1.1 -0.5'],
    ['booleans', '{{a}} {{b}}', { a: true, b: false }, 'true false'],
    ['null is nothing', '({{a}}{{{a}}}{{&a}})', { a: null }, '()'],
    ['what is missing is nothing', '({{a}}{{{a.b}}}{{&c}})', {}, '()'],
    ['objects and lists are nothing', '({{a}}{{b}})', { a: { b: 1 }, b: [1, 2] }, '()'],
    ['blanks in a tag do not count', '{{ a }}{{{ a }}}{{\n\ta\n}}{{ & a }}', { a: 1 }, '1111'],
    ['blanks around a tag stay', '  {{a}}  \n', { a: 1 }, '  1  \n'],
    ['a line with nothing but a value stays', ' {{a}}\n {{{a}}}\n {{&a}}\n', { a: '' }, ' \n \n \n']
  ],
  names: [
    ['dots go inward', '{{a.b.c}}', { a: { b: { c: 'x' } } }, 'x'],
    ['a chain that breaks is nothing', '({{a.b.c}}{{a.x.y}})', { a: { b: {} } }, '()'],
    ['only the first part is looked for outside', '{{#a}}({{b.c}}){{/a}}', { a: { b: {} }, b: { c: 'x' } }, '()'],
    ['the first part that is found counts', '{{#a}}{{b.c}}{{/a}}', { a: { b: { c: 1 } }, b: { c: 2 } }, '1'],
    ['a name with a dot is no key', '({{a.b}})', { 'a.b': 'x' }, '()'],
    ['nor hides it a chain', '{{a.b}}', { 'a.b': 'x', a: { b: 'y' } }, 'y'],
    ['a dot alone is the value at hand', '{{.}} {{{.}}} {{&.}}', '<', '&lt; < <'],
    ['a null hides what is outside', '{{#a}}({{b}}){{/a}}', { a: { b: null }, b: 'x' }, '()']
  ],
  sections: [
    ['true, once', '({{#a}}x{{/a}})', { a: true }, '(x)'],
    [
      'false, null, zero, the empty string, the empty list and nothing: not',
      '({{#a}}1{{/a}}{{#b}}2{{/b}}{{#c}}3{{/c}}{{#d}}4{{/d}}{{#e}}5{{/e}}{{#f}}6{{/f}})',
      { a: false, b: null, c: [], e: 0, f: '' },
      '()'
    ],
    ['an object is looked into', '{{#a}}{{b}}{{c}}{{/a}}', { a: { b: 1 }, c: 2 }, '12'],
    ['a string is one value', '{{#a}}({{.}}){{/a}}', { a: 'xyz' }, '(xyz)'],
    ['a list, each', '{{#a}}<{{b}}>{{/a}}', { a: [{ b: 1 }, { b: 2 }] }, '<1><2>'],
    ['of values', '{{#a}}{{.}},{{/a}}', { a: ['<', 1, 2.50, true] }, '&lt;,1,2.5,true,'],
    ['of lists', '{{#a}}({{#.}}{{.}}{{/.}}){{/a}}', { a: [[1, 2], [], ['x']] }, '(12)()(x)'],
    ['the data themselves', '{{#.}}{{a}}{{/.}}', [{ a: 1 }, { a: 2 }], '12'],
    ['sections in sections see all that is around', '{{#a}}{{#b}}{{x}}{{y}}{{z}}{{/b}}{{/a}}', {
      x: 1,
      a: { y: 2, b: { z: 3 } }
    }, '123'],
    ['of the same name', '{{#a}}1{{#a}}2{{/a}}3{{/a}}', { a: true }, '123'],
    ['dotted', '{{#a.b}}x{{/a.b}}{{#a.c}}y{{/a.c}}', { a: { b: 1 } }, 'x'],
    ['inverted: when there is none', '{{^a}}1{{/a}}{{^b}}2{{/b}}{{^c}}3{{/c}}{{^d.e}}4{{/d.e}}', {
      a: false,
      b: [],
      d: {}
    }, '1234'],
    ['inverted: not when there is one', '{{^a}}1{{/a}}{{^b}}2{{/b}}{{^c}}3{{/c}}', { a: true, b: [0], c: {} }, ''],
    ['blanks in tags', '{{# a }}x{{/ a }}{{^ b\n}}y{{/\tb }}', { a: 1 }, 'xy']
  ],
  comments: [
    ['are not there', 'a{{! b }}c', { '! b ': 'x' }, 'ac'],
    ['over lines', 'a{{!\n b\n}}c\n', {}, 'ac\n'],
    ['beside text leave its blanks', ' a {{! b }} c\n', {}, ' a  c\n']
  ],
  delimiters: [
    ['change', '{{=<% %>=}}<%a%> {{a}}', { a: 1 }, '1 {{a}}'],
    ['to anything', '({{=| |=}}|a|)({{=[ ]=}})', { a: 1 }, '(1)({{=[ ]=}})'],
    ['with blanks', '{{= @   @ =}}@a@', { a: 1 }, '1'],
    ['and back', '{{=| |=}}|a||={{ }}=|{{a}}', { a: 1 }, '11'],
    ['three braces keep theirs', '{{=<% %>=}}<%{a}%><%&a%>', { a: '<' }, '<<'],
    ['in a section go on after it', '{{#a}}{{=| |=}}|b|{{/a}}|/a||b|', { a: 1, b: 2 }, '2{{/a}}2'],
    ["are not a partial's", '{{=| |=}}|>p||a|', { a: 1 }, '11', { p: '{{a}}' }],
    ["and a partial's stay there", '{{>p}}{{a}}|a|', { a: 1 }, '11|a|', { p: '{{=| |=}}|a|' }]
  ],
  'lines of their own': [
    ['sections', 'a\n{{#x}}\nb\n{{/x}}\nc\n', { x: 1 }, 'a\nb\nc\n'],
    ['inverted', 'a\n  {{^x}}\nb\n\t{{/x}}\nc\n', {}, 'a\nb\nc\n'],
    ['comments', 'a\n {{! b\n c }} \nd', {}, 'a\nd'],
    ['delimiters', 'a\n {{=| |=}}\t\nb', {}, 'a\nb'],
    ['with CRLF', 'a\r\n{{#x}}\r\n{{/x}}\r\nb', { x: 1 }, 'a\r\nb'],
    ['the first line', '  {{#x}}\na{{/x}}\nb', { x: 1 }, 'a\nb'],
    ['the last line', 'a{{#x}}\nb\n  {{/x}}', { x: 1 }, 'a\nb\n'],
    ['all there is', '  {{! a }}  ', {}, ''],
    ['not with text', 'a {{#x}}\nb {{/x}}\n', { x: 1 }, 'a \nb \n'],
    ['not two on a line', '{{#x}}{{/x}}\n{{! a }}{{! b }}\n', { x: 1 }, '\n\n'],
    ['not after a tag that ends there', '{{!\n}} {{! a }}\nb', {}, ' \nb'],
    ['not with a bare CR', '{{! a }}\rb', {}, '\rb'],
    ['one after the other', '{{#x}}\n{{#y}}\na\n{{/y}}\n{{/x}}\n', { x: 1, y: [1, 2] }, 'a\na\n']
  ],
  partials: [
    ['are put in', 'a{{>p}}c', {}, 'abc', { p: 'b' }],
    ['what is missing is nothing', '({{>p}})', {}, '()'],
    ['see what is around', '{{#a}}{{>p}}{{/a}}', { a: [{ b: 1 }, { b: 2 }], c: 3 }, '1323', { p: '{{b}}{{c}}' }],
    ['names are whole', '{{>a.b/c}}', {}, 'x', { 'a.b/c': 'x' }],
    ['in partials', '{{>p}}', { a: 1 }, '(1)', { p: '({{>q}})', q: '{{a}}' }],
    ['in themselves', '{{>p}}', { a: 1, b: [{ a: 2, b: [] }, { a: 3, b: [] }] }, '1<2<>3<>>', {
      p: '{{a}}<{{#b}}{{>p}}{{/b}}>'
    }],
    ['in a line keep its blanks', ' a {{>p}} b\n', {}, ' a x\ny b\n', { p: 'x\ny' }],
    ['alone on a line take its end', 'a\r\n{{>p}}\r\nb', {}, 'a\r\nxb', { p: 'x' }],
    ['and its indentation, on each line', 'a\n  {{>p}}\nb\n', {}, 'a\n  x\n  y\nb\n', { p: 'x\ny\n' }],
    ['but not in what is put in', '  {{>p}}\n', { a: 'x\ny' }, '  (\n  x\ny\n  )\n', { p: '(\n{{{a}}}\n)\n' }],
    ['nor after the last line', ' {{>p}}\n>', {}, ' x\n y>', { p: 'x\ny' }],
    ['indentations add up', ' {{>p}}\n', {}, ' a\n   b\n   c\n d\n', { p: 'a\n  {{>q}}\nd\n', q: 'b\nc\n' }],
    ['within sections', '  {{>p}}\n', { a: [1, 2] }, '  1\n  2\n  z\n', { p: '{{#a}}\n{{.}}\n{{/a}}\nz\n' }],
    ['a partial in a line of an indented one is not', ' {{>p}}\n', {}, ' a x\ny\n', { p: 'a {{>q}}\n', q: 'x\ny' }],
    ['lines that begin with a tag', '  {{>p}}\n', { a: 1 }, '  1 x\n  1\n', {
      p: '{{! c }}{{a}} x\n{{#a}}{{.}}{{/a}}\n'
    }]
  ]
}

for (const [rule, table] of Object.entries(cases)) {
  t.test(rule, async t => {
    for (const [what, template, data, expected, partials] of table) {
      t.equal(html(template, data, partials), expected, what)
    }
  })
}

t.test('text and subjects are not escaped', async t => {
  t.equal(plain('{{a}} {{{a}}} {{>p}}', { a: '<&>' }, { p: '{{a}}' }), '<&> <&> <&>')
})

t.test('what cannot be read names its line', async t => {
  const faulty: Array<[string, number, RegExp]> = [
    ['a\n{{b', 2, /has no }}/],
    ['{{{b}}', 1, /has no }}}/],
    ['{{=| |}}', 1, /has no =}}/],
    ['\n\n{{#a}}\n{{#b}}\n{{/b}}', 3, /{{#a}} is never closed/],
    ['a\n{{^a}}', 2, /{{\^a}} is never closed/],
    ['{{#a}}\n{{/b}}', 2, /{{#a}} is closed by {{\/b}}/],
    ['{{#a}}{{#b}}{{/a}}{{/b}}', 1, /{{#b}} is closed by {{\/a}}/],
    ['\r\n{{/a}}', 2, /closes nothing/],
    ['{{ }}', 1, /must have a name/],
    ['\n{{#if a}}', 2, /must not contain spaces: "if a"/],
    ['{{a..b}}', 1, /before or after a dot/],
    ['{{.a}}', 1, /before or after a dot/],
    [`{{${'a'.repeat(256)}}}`, 1, /at most 255/],
    ['{{=|=}}', 1, /delimiters must be two/],
    ['{{=| | |=}}', 1, /delimiters must be two/],
    [`{{=| ${'x'.repeat(21)}=}}`, 1, /delimiters must be two/]
  ]
  for (const [template, line, message] of faulty) {
    t.throws(
      () => parse(template),
      { name: 'MustacheError', code: 'syntax', line, message },
      JSON.stringify(template.slice(0, 30))
    )
  }
})

t.test('only own properties of objects have names', async t => {
  const names = [
    'constructor',
    '__proto__',
    'toString',
    'hasOwnProperty',
    'valueOf',
    'length',
    '0',
    'constructor.name',
    'a.length',
    'a.0',
    'a.constructor',
    'b.length',
    'b.0',
    'b.map',
    'c.toFixed',
    '__proto__.x'
  ]
  const data = { a: 'text', b: ['x'], c: 1 }
  for (const name of names) {
    t.equal(html(`({{${name}}}{{#${name}}}x{{/${name}}})`, data), '()', name)
    t.equal(html(`{{#b}}({{${name}}}){{/b}}{{#a}}({{${name}}}){{/a}}`, data), '()()', `${name}, in sections`)
  }
  t.equal(
    html('{{constructor}} {{__proto__.x}}', JSON.parse('{"constructor": 1, "__proto__": {"x": 2}}')),
    '1 2',
    'unless they are given'
  )
  const called = () => {
    throw new Error('called')
  }
  t.equal(
    html('({{f}}{{#f}}{{.}}{{/f}}{{o}})', { f: called, o: { toString: called, valueOf: called, toJSON: called } }),
    '()',
    'nothing is called'
  )
})

t.test('what is put in and was not given is told', async t => {
  const missed: string[] = []
  const template = parse('{{a}}{{b.c}}{{{d}}}{{#e}}{{f}}{{/e}}{{^e}}{{g}}{{/e}}{{h}}{{>p}}')
  render(template, { a: 1, b: {}, h: null }, { escape: 'none', onMiss: name => missed.push(name) })
  t.strictSame(missed, ['b.c', 'd', 'g', '>p'])
})

t.test('budgets hold', async t => {
  const list = Array.from({ length: 1000 }, (_, i) => i)
  const over = (code: string, make: () => void, what: string) => t.throws(make, { name: 'MustacheError', code }, what)
  over('too_many_steps', () => html('{{#a}}{{#a}}{{#a}}{{/a}}{{/a}}{{/a}}', { a: list }), 'lists in lists')
  over(
    'too_many_steps',
    () => html('{{>p}}', {}, { p: '{{>q}}{{>q}}', q: '{{>r}}{{>r}}', ...chain(20) }),
    'partials that double'
  )
  over('too_large', () => html('{{#a}}{{b}}{{/a}}', { a: list, b: 'x'.repeat(3000) }), 'a large value a thousand times')
  over('too_large', () => html('{{b}}', { b: 'é'.repeat(1024 * 1024 + 1) }), 'counted in bytes')
  over('too_large', () => html('{{b}}', { b: '"'.repeat(500_000) }), 'after escaping')
  over('too_deep', () => html('{{>p}}', {}, { p: '{{>p}}' }), 'a partial in itself')
  over('too_deep', () => html('{{>p}}', { a: 1 }, { p: ' {{#a}}\n {{>p}}\n{{/a}}' }), 'through a section')
  over('too_deep', () => parse('{{#a}}'.repeat(201)), 'sections')
  t.equal(html('{{#a}}'.repeat(200) + 'x' + '{{/a}}'.repeat(200), { a: 1 }), 'x', 'as deep as may be')
  t.equal(plain('{{{a}}}', { a: 'x'.repeat(2 * 1024 * 1024) }).length, 2 * 1024 * 1024, 'as large as may be')
  const deep = JSON.parse(`${'{"a":'.repeat(5000)}1${'}'.repeat(5000)}`)
  t.equal(html('({{a.a.a.b}})', deep), '()', 'data may be as deep as they like')
})

t.test('renders share a budget, and what is over ends with a sentence', async t => {
  const list = Array.from({ length: 400_000 }, () => 1)
  const steps = newRenderBudget()
  const walk = () => render(parse('{{#a}}{{/a}}'), { a: list }, { escape: 'none', budget: steps })
  for (let i = 0; i < 4; i++) walk()
  t.ok(steps.steps > 0 && steps.steps < 400_000, 'each takes of it')
  t.throws(walk, {
    name: 'MustacheError',
    code: 'too_many_steps',
    message: 'Rendering the templates of one request takes over 2000000 steps.'
  })
  t.throws(
    () => render(parse('x'), {}, { escape: 'none', budget: steps }),
    { code: 'too_many_steps' },
    'and nothing is left'
  )
  const bytes = newRenderBudget()
  const write = () => render(parse('{{{a}}}'), { a: 'x'.repeat(2 * 1024 * 1024) }, { escape: 'none', budget: bytes })
  for (let i = 0; i < 10; i++) write()
  t.equal(bytes.bytes, 0)
  t.throws(write, {
    name: 'MustacheError',
    code: 'too_large',
    message: 'The rendered bodies of one request have over 20 MB in all.'
  })
  t.equal(html('{{a}}', { a: 1 }), '1', 'another request has its own')
})

t.test('text is one node however many lines it has', async t => {
  t.equal(parse('a\n\n\r\nb\n'.repeat(1000)).length, 1)
  t.equal(
    html(' {{>p}}\n', { a: 1 }, { p: 'a\n\n{{a}}b\nc\n' }),
    ' a\n \n 1b\n c\n',
    'and a partial indents each of them'
  )
  const indent = ' '.repeat(10_000)
  t.throws(() => html(`${indent}{{>p}}\n`, {}, { p: '\n'.repeat(100_000) }), { code: 'too_large' })
})

t.test('a template takes no more memory than is counted for it', async t => {
  setFlagsFromString('--expose-gc')
  const gc = runInNewContext('gc') as () => void
  const usedBytes = () => {
    gc()
    return process.memoryUsage().heapUsed
  }
  for (
    const shape of [
      '\n',
      '\n{{a}}',
      '{{a}}',
      '{{#a}}{{/a}}',
      '{{a.b.c}}',
      `${'{{#a}}\n'.repeat(50)}${'{{/a}}\n'.repeat(50)}`
    ]
  ) {
    const source = shape.repeat(262_144 / shape.length)
    parse(source)
    const before = usedBytes()
    const kept = Array.from({ length: 4 }, () => parse(source))
    const taken = usedBytes() - before
    const counted = kept.reduce((sum, template) => sum + weightOf(template) + 2 * source.length, 0)
    t.ok(taken <= counted, `${JSON.stringify(shape.slice(0, 20))}: ${taken} of ${counted}`)
  }
})

/** r → s → … each twice the next. */
function chain (length: number): Record<string, string> {
  const names = Array.from({ length: length + 1 }, (_, i) => (i === 0 ? 'r' : `r${i}`))
  return Object.fromEntries(names.slice(0, -1).map((name, i) => [name, `{{>${names[i + 1]}}}{{>${names[i + 1]}}}`]))
}

t.test('a megabyte of whatever shape is read in a breath', async t => {
  // A reader that looks back or ahead over all of it for each tag would take minutes.
  for (
    const shape of [
      '{{a}}',
      '{{',
      '  {{! }} ',
      ' \t',
      '{{#a}}{{/a}}',
      '{{{a}}}\n',
      '{{=| |=}}|={{ }}=|',
      '{{>p}}\r\n',
      '{',
      'x'
    ]
  ) {
    const beginMs = performance.now()
    try {
      parse(shape.repeat(1024 * 1024 / shape.length))
    } catch (error) {
      if (!(error instanceof MustacheError)) throw error
    }
    t.ok(performance.now() - beginMs < 20_000, JSON.stringify(shape))
  }
})

const pieces = fc.constantFrom(
  '{{',
  '}}',
  '{{{',
  '}}}',
  '{{#a}}',
  '{{/a}}',
  '{{^b}}',
  '{{/b}}',
  '{{>p}}',
  '{{a.b}}',
  '{{.}}',
  '{{!',
  '{{=| |=}}',
  '|a|',
  '|={{ }}=|',
  '\n',
  '\r\n',
  ' ',
  '\t',
  'x',
  '<',
  '__proto__',
  '{{constructor}}'
)
const templates = fc.oneof(fc.array(pieces, { maxLength: 40 }).map(list => list.join('')), fc.string({ maxLength: 60 }))
const data = fc.oneof(
  fc.jsonValue({ maxDepth: 5 }),
  fc.record({ a: fc.jsonValue({ maxDepth: 3 }), b: fc.jsonValue({ maxDepth: 2 }) })
) as fc.Arbitrary<unknown>

t.test('whatever comes in: a text, or an error of its own', async t => {
  let rendered = 0
  fc.assert(
    fc.property(templates, templates, data, (template, partial, given) => {
      try {
        const text = render(parse(template), given, { escape: 'html', partials: new Map([['p', parse(partial)]]) })
        rendered++
        return typeof text === 'string' && Buffer.byteLength(text) <= 2 * 1024 * 1024
      } catch (error) {
        return error instanceof MustacheError
      }
    }),
    { numRuns: 3000 }
  )
  t.ok(rendered > 300, `${rendered} of 3000 could be read`)
})

t.test('no value brings markup of its own into html, and all of it is there', async t => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 100 }), value => {
      const text = html('{{a}}', { a: value })
      const back = text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&quot;', '"').replaceAll(
        '&#39;',
        "'"
      ).replaceAll('&amp;', '&')
      return !/[<>"']/.test(text) && !/&(?!(amp|lt|gt|quot|#39);)/.test(text) && back === value
    }),
    { numRuns: 300 }
  )
  t.pass()
})

t.test('text without tags comes out as it went in', async t => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 200 }), text => text.includes('{{') || html(text, {}) === text),
    { numRuns: 1000 }
  )
  t.pass()
})
