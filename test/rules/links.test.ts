import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { defaultTreeAdapter, parse, type DefaultTreeAdapterTypes as Tree } from 'parse5'
import { linksIn, planOf, trackHtml } from '#src/content/links.ts'

const PIXEL = 'https://track.example/o/abc.gif?a=1&b=2'
const PIXEL_TAG = '<img src="https://track.example/o/abc.gif?a=1&amp;b=2" width="1" height="1" alt="" style="border:0">'
const click = (url: string, index: number) =>
  `https://track.example/c/${index}/${encodeURIComponent(url.toWellFormed())}?a=1&b='"<>`
const clicked = /^https:\/\/track\.example\/c\/(\d+)\/(.*)\?a=1&b='"<>$/
const SEED = { seed: 20261121 }

/** As the test reads the rules of the app, apart from the code's own reading. */
const targetOf = (value: string) =>
  value.replace(/^[\0- ]*/, '').split('').reverse().join('').replace(/^[\0- ]*/, '').split('').reverse().join('')
    .replaceAll(/[\t\n\r]/g, '')
const isTracked = (node: Tree.Element, url: string) =>
  /^https?:[/\\][/\\]/i.test(url) && URL.canParse(url) && !node.attrs.some(({ name }) => name === 'data-no-track') &&
  node.namespaceURI === 'http://www.w3.org/1999/xhtml'

/** One line a node; links that can be tracked as what they lead to, by any redirect. Without the pixel, and
 *  texts around it are one. */
function treeOf (html: string): { lines: string[], pixels: number } {
  const [lines, waiting]: [string[], Array<{ node: Tree.Node, depth: number }>] = [[], [{
    node: parse(html, { scriptingEnabled: false }),
    depth: 0
  }]]
  let pixels = 0
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { node, depth } = next
    if (defaultTreeAdapter.isElementNode(node) && node.tagName === 'img' && node.attrs[0]?.value === PIXEL) {
      pixels++
      continue
    }
    const line = `${depth} ${lineOf(node)}`
    const [last, isText] = [lines.at(-1), node.nodeName === '#text']
    if (isText && last?.startsWith(`${depth} "`)) lines[lines.length - 1] = last + line.slice(`${depth} "`.length)
    else lines.push(line)
    const children = 'content' in node ? node.content.childNodes : 'childNodes' in node ? node.childNodes : []
    waiting.push(...[...children].reverse().map(child => ({ node: child, depth: depth + 1 })))
  }
  return { lines, pixels }
}

function lineOf (node: Tree.Node): string {
  if (defaultTreeAdapter.isTextNode(node)) return `"${node.value}`
  if (!defaultTreeAdapter.isElementNode(node)) return `${node.nodeName} ${'data' in node ? node.data : ''}`
  const isLink = node.tagName === 'a' || node.tagName === 'area'
  return `<${node.tagName} ${node.namespaceURI} ${
    node.attrs.map(({ name, value }) => `${name}=${isLink && name === 'href' ? leadsTo(node, value) : value}`).join(' ')
  }`
}

function leadsTo (node: Tree.Element, value: string): string {
  const [, , through] = clicked.exec(value) ?? []
  const url = targetOf(value)
  return through === undefined ? (isTracked(node, url) ? url.toWellFormed() : value) : decodeURIComponent(through)
}

/** Puts back what stood in the html for each link given to `click`, by their urls; what is left must be the html
 *  itself. */
function onlyValuesChanged (html: string, out: string, urls: string[]): void {
  const pieces = out.split(/https:\/\/track\.example\/c\/\d+\/[^?]*\?a=1&amp;b=&#39;&#34;&#60;&#62;/)
  assert.equal(pieces.length, urls.length + 1)
  let at = 0
  for (const [i, piece] of pieces.entries()) {
    assert.equal(html.slice(at, at + piece.length), piece)
    at += piece.length
    if (i === urls.length) break
    let end = at
    while (
      end <= html.length &&
      !(targetOf(attributeValue(html.slice(at, end))) === urls[i] && html.startsWith(pieces[i + 1]!, end))
    ) end++
    assert.ok(end <= html.length, `what stands for ${urls[i]} is not its value`)
    at = end
  }
  assert.equal(at, html.length)
}

function attributeValue (source: string): string {
  const quote = source.includes('"') ? "'" : '"'
  const { childNodes } = parse(`<p title=${quote}${source}${quote}>`).childNodes[0] as Tree.Element
  const paragraph = (childNodes[1] as Tree.Element).childNodes[0] as Tree.Element | undefined
  return paragraph?.attrs?.find(({ name }) => name === 'title')?.value ?? ''
}

function check (html: string): void {
  const urls: string[] = []
  const note = (url: string, index: number) => {
    assert.equal(index, urls.length)
    urls.push(url)
    return click(url, index)
  }
  const out = trackHtml(html, { click: note, pixel: null })
  assert.deepEqual(treeOf(out).lines, treeOf(html).lines)
  onlyValuesChanged(html, out, urls)
  assert.deepEqual(linksIn(html).filter(({ tracked }) => tracked).map(({ url }) => url), urls)
  assert.equal(trackHtml(html, { click: url => url, pixel: null }), html)
  assert.equal(trackHtml(html, { click: null, pixel: null }), html)
}

/** Whether it has a place. Then the image is there once, and but for formatting that goes on around it the tree is what
 *  it was. */
function checkPixel (html: string): 'clean' | 'wrapped' | 'none' {
  const out = trackHtml(html, { click: null, pixel: PIXEL })
  if (out === html) return 'none'
  assert.equal(out.replace(PIXEL_TAG, ''), html)
  const [before, after] = [treeOf(html), treeOf(out)]
  assert.equal(after.pixels, 1)
  if (after.lines.length > before.lines.length) return 'wrapped'
  assert.deepEqual(after.lines, before.lines)
  return 'clean'
}

const LINKS = [
  '<a href="https://example.com/">x</a>',
  "<A HREF='http://example.com/?a=1&amp;b=2'>x</A>",
  '<a href=https://example.com/un?q=quoted&amp;x=y>x</a>',
  '<a href=https://example.com/>x</a>',
  '<a\r\n  class="b" HREF = " https://example.com/sp ace\n" >x</a>',
  '<a href="mailto:a@b.example">m</a>',
  '<a href="tel:+1">t</a>',
  '<a href="#x">h</a>',
  '<a href="/rel">r</a>',
  '<a href="//example.com/p">p</a>',
  '<a href="">e</a>',
  '<a href>e</a>',
  '<a name="x">n</a>',
  '<a href="https://[bad">b</a>',
  '<a href="https:example.com">b</a>',
  '<a href="https://example.com/1" href="https://example.com/2">x</a>',
  '<a data-no-track href="https://example.com/left">x</a>',
  '<area href="HTTPS://Example.com/area">',
  '<a href="&#104;ttps://example.com/e&#x301;&copy=1&not;&notit;&quot;">x</a>',
  '<a href="https://example.com/👋🏽/ü?q=日本">x</a>',
  '<a href=\'https://example.com/"double"\'>x</a>',
  '<a href="https://example.com/\'single\'">x</a>',
  '<a title="<a href=\'https://example.com/in\'>" href="https://example.com/out">x</a>',
  '<a href="ht\ntps://exa\tmple.com/nl">x</a>',
  '<a href="\0https://example.com/nul">x</a>'
]
const REST = [
  '<table>',
  '<tr>',
  '<td>',
  '</td>',
  '</tr>',
  '</table>',
  '<TABLE role="presentation"><TBODY>',
  '<div>',
  '</div>',
  '<p>',
  '</p>',
  '<b>',
  '</b>',
  '<font color=red>',
  '</font>',
  '<ul><li>',
  '</ul>',
  '<a href="https://example.com/open">',
  '</a>',
  '<center>',
  '<h1>T</h1>',
  '<br>',
  '<img src="x" alt="y">',
  '<!--[if mso]><v:roundrect href="https://example.com/vml"><a href="https://example.com/mso">x</a>' +
  '</v:roundrect><![endif]-->',
  '<![if !mso]>',
  '<![endif]>',
  '<!--',
  '-->',
  '<!-- > -->',
  '<script>"<a href=\'https://example.com/js\'>"</script>',
  '<style>a{}</style>',
  '<textarea><a href="https://example.com/ta">x</a></textarea>',
  '<title><a href="https://example.com/ti">x</a></title>',
  '<template><a href="https://example.com/te">x</a></template>',
  '<noscript><a href="https://example.com/ns">x</a></noscript>',
  '<svg><a href="https://example.com/svg" xlink:href="https://example.com/xl"><text>x</text></a></svg>',
  '<svg><foreignObject><a href="https://example.com/fo">x</a></foreignObject></svg>',
  '<math><a href="https://example.com/ma">x</a></math>',
  '<select><option><a href="https://example.com/se">x</a></select>',
  '<map name=m>',
  '</map>',
  '<base href="https://example.org/b/">',
  '<html>',
  '<head>',
  '</head>',
  '<body class="x">',
  '</body>',
  '</html>',
  '<frameset>',
  '<form>',
  '<button>',
  '<nobr>',
  '<xmp>',
  '<iframe>',
  '\r\n',
  '\r',
  '\n',
  '\0',
  '\ufeff',
  '👋🏽',
  'text &amp; more &lt;',
  '\ud83d',
  ' < ',
  '</',
  '<a',
  '"',
  '<p class="',
  '&',
  '&#',
  '<!DOCTYPE html>',
  '<pre>\n',
  '<col>',
  '<caption>',
  '</p>',
  '</br>',
  '<plaintext>',
  '<svg><p>',
  '<i><b><p></i>'
]
const anyPiece = fc.oneof({ weight: 3, arbitrary: fc.constantFrom(...LINKS) }, {
  weight: 6,
  arbitrary: fc.constantFrom(...REST)
}, { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 6 }) })
const anySoup = fc.array(anyPiece, { maxLength: 30 }).map(pieces => pieces.join(''))
/** Like a mail: tables in tables, with or without the frame of a document. */
const anyMail = fc.record({
  rows: fc.array(fc.array(fc.constantFrom(...LINKS, ...REST.slice(30, 34), 'text', '<b>bold</b>'), { maxLength: 4 }), {
    maxLength: 6
  }),
  depth: fc.integer({ min: 0, max: 12 }),
  frame: fc.boolean(),
  end: fc.constantFrom('\r\n', '\r', '\n')
})
  .map(({ rows, depth, frame, end }) => {
    const inner = rows.map(cells => `<tr>${cells.map(cell => `<td align="center">${cell}</td>`).join(end)}</tr>`).join(
      end
    )
    const body = `${'<table><tr><td>'.repeat(depth)}<table>${end}${inner}</table>${'</td></tr></table>'.repeat(depth)}`
    return frame
      ? `<!doctype html>${end}<html><head><title>x</title></head>${end}<body>${body}${end}</body>${end}</html>${end}`
      : body
  })

t.test('links lead through us, and not a character beside them changes, whatever the html', async () => {
  fc.assert(fc.property(anySoup, check), { ...SEED, numRuns: 1500 })
  fc.assert(fc.property(anyMail, check), { ...SEED, numRuns: 300 })
})

t.test('a pixel changes nothing but that it is there, whatever the html', async t => {
  const found = { clean: 0, wrapped: 0, none: 0 }
  fc.assert(
    fc.property(anySoup, html => {
      found[checkPixel(html)]++
    }),
    { ...SEED, numRuns: 1500 }
  )
  t.ok(found.clean > 1000, `${JSON.stringify(found)}`)
  fc.assert(fc.property(anyMail, html => assert.equal(checkPixel(html), 'clean')), { ...SEED, numRuns: 300 })
})

t.test('only what a reader can follow on the web is followed through us', t => {
  const cases: Array<[string, string[], string[]?]> = [
    ['<a href="https://a.example/">', ['https://a.example/']],
    ['<A HREF=" HTTP://a.example/x y&amp;z\n ">', ['HTTP://a.example/x y&z']],
    ['<a href="https://a.example/?q=&amp;lt;&copy=1">', ['https://a.example/?q=&lt;&copy=1']],
    ['<a href="https://a.example/1" href="https://a.example/2">', ['https://a.example/1']],
    ['<area href=https://a.example/>', ['https://a.example/']],
    [
      '<a href="mailto:x@a.example"><a href="tel:1"><a href="#"><a href="x"><a href="//a.example"><a ' +
      'href="javascript:1"><a href="https://"><a href="ftp://a.example"><a href="https:a.example">',
      [],
      [
        'mailto:x@a.example',
        'tel:1',
        '#',
        'x',
        '//a.example',
        'javascript:1',
        'https://',
        'ftp://a.example',
        'https:a.example'
      ]
    ],
    ['<a href="https://a.example" data-no-track><a DATA-NO-TRACK="" href="https://b.example">', [], [
      'https://a.example',
      'https://b.example'
    ]],
    ['<link href="https://a.example"><base href="https://b.example"><a href="https://c.example">', [
      'https://c.example'
    ]],
    ['<svg><a href="https://a.example"></a></svg><math><a href="https://b.example"></a></math>', [], [
      'https://a.example',
      'https://b.example'
    ]],
    [
      '<!--<a href="https://a.example">--><script><a href="https://b.example"></script><style><a ' +
      'href="https://c.example"></style><template><a href="https://d.example"></template><textarea>' +
      '<a href="https://e.example"></textarea>',
      []
    ],
    ['<title><a href="https://a.example"></title><noscript><a href="https://b.example"></noscript>', [
      'https://b.example'
    ]],
    ['<!--[if mso]><a href="https://a.example"><![endif]--><![if !mso]><a href="https://b.example"><![endif]>', [
      'https://b.example'
    ]],
    ['<a href="https://a.example', []],
    ['<table><a href="https://out.example">1</a><tr><td><a href="https://in.example">2</a></table>', [
      'https://out.example',
      'https://in.example'
    ]],
    ['<p><a href="https://a.example">1<p>2<p>3', ['https://a.example']],
    ['<b><a href="https://a.example"><p>1</b>2</a>', ['https://a.example']],
    ['<a href="https://a.example"><a href="https://b.example">', ['https://a.example', 'https://b.example']],
    ['<body><a href="https://a.example">1</a></body><body><a href="https://b.example">2</a></body>', [
      'https://a.example',
      'https://b.example'
    ]]
  ]
  for (const [html, tracked, left = []] of cases) {
    t.strictSame(linksIn(html), [
      ...tracked.map(url => ({ url, tracked: true })),
      ...left.map(url => ({ url, tracked: false }))
    ], html)
    check(html)
  }
  t.end()
})

t.test('a value keeps its quotes, and the new one cannot leave them', t => {
  const made = (html: string, url: string) => trackHtml(html, { click: () => url, pixel: null })
  t.equal(
    made('<a href="http://a.example">', 'https://t.example/?a&b="\'<>'),
    '<a href="https://t.example/?a&amp;b=&#34;&#39;&#60;&#62;">'
  )
  t.equal(made("<a href = 'http://a.example' >", "https://t.example/'x"), "<a href = 'https://t.example/&#39;x' >")
  t.equal(
    made('<a href=http://a.example>x</a>', 'https://t.example/ `"='),
    '<a href=https://t.example/&#32;&#96;&#34;=>x</a>'
  )
  t.equal(made('<a href=http://a.example/ title=x>', 'https://t.example/'), '<a href=https://t.example/ title=x>')
  t.end()
})

t.test('links that the caller leaves alone keep their every character', t => {
  const html = '<a href="https://a.example/?x=1&y">1</a><a href=" https://b.example/?x=1&amp;y ">2</a>'
  t.equal(
    trackHtml(html, { click: (url, i) => i === 0 ? url : 'https://t.example', pixel: null }),
    '<a href="https://a.example/?x=1&y">1</a><a href="https://t.example">2</a>'
  )
  t.end()
})

t.test('the pixel stands where it is seen as an image', t => {
  const cases: Array<[string, string]> = [
    ['', '@'],
    ['<p>x</p>', '<p>x</p>@'],
    ['<body><p>x</p></body></html>\n', '<body><p>x</p>@</body></html>\n'],
    ['<p>x</p></BODY ></html>', '<p>x</p>@</BODY ></html>'],
    ['<body>x</body><!-- </body> -->', '<body>x@</body><!-- </body> -->'],
    ['<body><!-- </body> -->x', '<body><!-- </body> -->x@'],
    ['<body><script>"</body>"</script></body>', '<body><script>"</body>"</script>@</body>'],
    ['<body>1</body>2</body>', '<body>1</body>2@</body>'],
    ['<table><tr><td>x</body>', '<table><tr><td>x</body>@'],
    ['<p><b>x</p></body>', '<p><b>x@</p></body>'],
    ['<p><a href="https://a.example">x</p>', '<p><a href="https://a.example">x@</p>'],
    ['<p>x</p><!-- open', '<p>x@</p><!-- open'],
    ['<p>x</p><textarea>open', '@<p>x</p><textarea>open'],
    ['<p>x</p><a href="open', '<p>x@</p><a href="open'],
    ['<frameset><frame></frameset>', '<frameset><frame></frameset>'],
    ['<plaintext>x', '@<plaintext>x']
  ]
  for (const [html, wanted] of cases) {
    t.equal(trackHtml(html, { click: null, pixel: PIXEL }).replace(PIXEL_TAG, '@'), wanted)
  }
  t.end()
})

t.test('html that is made to be too much work goes out as it is', t => {
  const link = '<a href="https://a.example/">x</a>'
  const much: Record<string, string> = {
    'elements in elements': `${link}${'<div>'.repeat(100_000)}`,
    'formatting that lives on in each paragraph': `${link}<p>` +
      Array.from({ length: 300 }, (_, i) => `<b id=${i}>`).join('') +
      '<p>x'.repeat(20_000),
    'elements without end': link + '<svg></p>'.repeat(50_000),
    'characters without end': link + 'x'.repeat(5_000_000)
  }
  for (const [name, html] of Object.entries(much)) {
    t.ok(trackHtml(html, { click, pixel: PIXEL }) === html, name)
    t.strictSame(linksIn(html), [], name)
  }
  t.match(
    trackHtml(`${'<div>'.repeat(400)}${link}`, { click, pixel: PIXEL }),
    'https://track.example/c/0/',
    'the depth of browsers is not too much'
  )
  t.end()
})

t.test('an html is read once for all whom it goes to', t => {
  const html = '<p><a href="https://a.example/">x</a></p>'
  const plan = planOf(html)
  t.equal(planOf(`${html.slice(0, 10)}${html.slice(10)}`), plan)
  for (let i = 0; i < 40; i++) planOf(`<a href="https://a.example/${String(i).padEnd(500_000, 'x')}">x</a>`)
  t.not(planOf(html), plan, 'what is not asked for makes room')
  t.strictSame(planOf(html), plan)
  t.end()
})
