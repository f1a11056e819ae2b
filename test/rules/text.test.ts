import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { textFromHtml } from '#src/content/text.ts'

const SEED = { seed: 20261121 }

t.test('a mail reads like one', t => {
  const html = `<!doctype html><html><head><title>Order 7</title><style>p{color:red}</style></head><body>
    <div style="display:none;max-height:0">Preheader &zwnj;&nbsp;&zwnj;&nbsp;</div>
    <table role="presentation"><tr><td><img src="logo.png" alt="ACME"></td><td><a
      href="https://acme.example/view">View online</a></td></tr>
    <tr><td colspan="2"><h1>Thank you, Zoë</h1><p>Your order is on its way, and since this line is longer than
      one should be it goes on in the <a href="https://acme.example/t?a=1&amp;b=2">next</a> one.</p>
    <table><tr><th>Item</th><th>Qty</th><th>Price</th></tr>
    <tr><td>Widget</td><td>2</td><td>&euro;10.00</td></tr>
    <tr><td>Gadget&nbsp;blue</td><td>1</td><td></td></tr></table>
    <ul><li>One</li><li>Two <b>bold</b></li></ul><ol><li>first</li><li>second</li></ol><blockquote>As said</blockquote>
    <p><a href="mailto:help@acme.example?subject=x">help@acme.example</a>, <a
      href="https://acme.example">https://acme.example</a>, <a href="#top">top</a></p></td></tr></table>
    <img src="https://acme.example/o.gif" width="1" height="1"><script>alert(1)</script><!-- note
    --><!--[if mso]><p>Outlook</p><![endif]--></body></html>`
  t.equal(
    textFromHtml(html),
    [
      'ACME | View online [https://acme.example/view]',
      '',
      'Thank you, Zoë',
      '',
      'Your order is on its way, and since this line is longer than one should be it',
      'goes on in the next [https://acme.example/t?a=1&b=2] one.',
      '',
      'Item | Qty | Price',
      'Widget | 2 | €10.00',
      'Gadget blue | 1',
      '',
      ' * One',
      ' * Two bold',
      '',
      ' 1. first',
      ' 2. second',
      '',
      '> As said',
      '',
      'help@acme.example, https://acme.example, top'
    ].join('\n')
  )
  t.end()
})

t.test('what says something is in it, and what says nothing is not', t => {
  const cases: Array<[string, string]> = [
    ['', ''],
    ['<p> &nbsp; </p><img src="x">', ''],
    ['<style>a{}</style><script>1</script><template>x</template><title>x</title><svg><text>x</text></svg>', ''],
    ['<p hidden>x</p><p style="color:red;DISPLAY: none">y</p>z', 'z'],
    ['a &lt; b &amp; c < d', 'a < b & c < d'],
    ['<p>one<p>two<br>three', 'one\n\ntwo\nthree'],
    ['<a href="https://a.example"><img alt="Logo" src="x"></a>', 'Logo [https://a.example]'],
    ['<a href="https://a.example"><img src="x"></a>', 'https://a.example'],
    ['<a href=" https://a.\nexample/ ">x</a>', 'x [https://a.example/]'],
    ['<a href="javascript:x()">x</a> <a href="data:,x">y</a> <a href="tel:+123">z</a> <a>w</a>', 'x y z [+123] w'],
    [`<p><a href="https://a.example/${'x'.repeat(300)}">long</a></p>`, `long\n[https://a.example/${'x'.repeat(300)}]`],
    ['<table><tr><td><p>left</p></td><td><p>right</p></td></tr></table>', 'left\n\nright'],
    [
      `<table><tr><td>${'left '.repeat(25)}</td><td>right</td></tr></table>`,
      `${'left '.repeat(16).trim()}\n${'left '.repeat(9).trim()}\nright`
    ],
    ['so\u00adft \ufeffand \u00a0 wide \u200c\u200c x', 'soft and   wide  x'],
    ['👨‍👩‍👧 نمی\u200cخواهم', '👨‍👩‍👧 نمی\u200cخواهم'],
    ['\ud800', '\ufffd'],
    ['<h2>Größe</h2>', 'Größe'],
    ['<constructor>said</constructor> <style>p{}</style><!-- no --><b>so</b>', 'said so']
  ]
  for (const [html, text] of cases) t.equal(textFromHtml(html), text, html.slice(0, 60))
  t.end()
})

const PIECES = [
  '<p>',
  '</p>',
  '<div>',
  '</div>',
  '<table>',
  '<tr>',
  '<td>',
  '</td>',
  '</table>',
  '<ul>',
  '<ol type="I" start="-5">',
  '<li>',
  '</ul>',
  '<a href="https://a.example/">',
  '</a>',
  '<img alt="x">',
  '<blockquote>',
  '<pre>',
  '<h1>',
  '</h1>',
  '<style>',
  '<script>',
  '<!--',
  '-->',
  '<![CDATA[',
  '<title>',
  '<svg>',
  '&amp;',
  '&#0;',
  '&#x110000;',
  '<',
  '</',
  '"',
  '\r\n',
  '\0',
  '\u00a0',
  'word',
  ' ',
  '👋🏽',
  '\ud83d',
  '<constructor>',
  '<p style="display:none',
  '<__proto__>',
  '<hr>',
  '<th colspan="1e9">'
]

t.test('any html makes a text, the same one each time, in lines without spaces at their ends', async () => {
  fc.assert(
    fc.property(
      fc.array(fc.oneof(fc.constantFrom(...PIECES), fc.string({ unit: 'binary', maxLength: 8 })), { maxLength: 40 }),
      pieces => {
        const html = pieces.join('')
        const text = textFromHtml(html)
        assert.equal(text, text.trim())
        assert.ok(text.isWellFormed() && !/[ \t]$/m.test(text) && !/\n\n\n/.test(text))
        // The cache stands between: another key, the same text.
        assert.equal(textFromHtml(`<!-- again -->${html}`), text)
      }
    ),
    { ...SEED, numRuns: 1000 }
  )
})

t.test('html that is made to be too much work makes a text all the same, and no longer than a body may be', t => {
  const size = 2_000_000
  const filled = (piece: string) => piece.repeat(size / piece.length)
  const much = [
    filled('<div>x'),
    filled('<div>') + filled('</b>'),
    filled('<table><tr><td>'),
    `${'<blockquote>'.repeat(60)}${filled('word ')}`,
    filled('<a href=x>y'),
    `<pre>${filled(' ')}x`,
    filled('&'),
    filled('<'),
    filled('<!--'),
    `<a ${filled('a ')}`,
    filled('<constructor>'),
    filled('<style>')
  ]
  for (const html of much) t.ok(textFromHtml(html).length <= 2 * 1024 * 1024, html.slice(0, 20))
  t.equal(textFromHtml(`begun${'</p>'.repeat(20_000)}ended`), 'begun', 'tags that close count, too')
  t.end()
})
