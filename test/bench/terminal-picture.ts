import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { html, Html } from '#src/base/html.ts'
import { jetpostOnTerminal } from '../support/terminal.ts'

const COLUMNS = 96
/** Colours of the terminal by their number in ECMA-48 8.3.117. */
const COLORS: Record<string, string> = {
  31: '#ff7b72',
  32: '#7ee787',
  33: '#e3b341',
  35: '#d2a8ff',
  36: '#79c0ff'
}

/** A picture of a first `npm start` on a terminal, and of five mails to the sandbox's addresses. */
export async function takeTerminalPicture (path: string): Promise<void> {
  const ends: Array<() => unknown> = []
  const scope = { teardown: (end: () => unknown) => void ends.push(end) }
  const dataDir = mkdtempSync(join(tmpdir(), 'jetpost-picture-'))
  ends.push(() => rmSync(dataDir, { recursive: true }))
  try {
    const raw = (await firstStart(scope, dataDir)).replaceAll(dataDir, './data')
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, svgOf(pictured(raw)))
    console.log(path)
  } finally {
    for (const end of ends.reverse()) await end()
  }
}

/** All that it writes until each of the mails has its line. */
async function firstStart (scope: { teardown(end: () => unknown): void }, dataDir: string): Promise<string> {
  const terminal = jetpostOnTerminal(scope, ['start'], {
    columns: COLUMNS,
    env: {
      HOME: process.env.HOME ?? '',
      JETPOST_DATA_DIR: dataDir,
      PORT: '0'
    }
  })
  const text = await terminal.shows(/Ctrl-C stops/)
  const [, url] = /API +(http\S+)/.exec(text)!
  const [, key] = /(jp_live_[\w-]+)/.exec(text)!
  const mails: Array<[to: string, subject: string, shown: RegExp]> = [
    ['ada@example.com', 'It works', /✓ delivered ada/],
    ['grace@example.org', 'Your order #1042 is on its way', /✓ delivered grace/],
    ['softbounced@sandbox.jetpost.test', 'Invoice 2026-11', /deferred {2}softbounced/],
    ['bounced@sandbox.jetpost.test', 'Welcome', /bounced {3}bounced/],
    ['suppressed@sandbox.jetpost.test', 'News', /suppressed suppressed/]
  ]
  for (const [to, subject, shown] of mails) {
    await fetch(`${url}/emails`, {
      method: 'POST',
      headers: { 'authorization': `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ from: 'Shop <hello@sandbox.jetpost.test>', to, subject, html: `<p>${subject}</p>` })
    })
    await terminal.shows(shown)
  }
  const raw = terminal.raw()
  terminal.type('q')
  await terminal.ended
  return raw
}

/** As on everybody's machine: the usual port, and no secret whole. */
function pictured (raw: string): string {
  return raw.replaceAll(/http:\/\/127\.0\.0\.1:\d+/g, 'http://127.0.0.1:8080')
    .replaceAll(/(jp_live_\w{6})[\w-]+/g, '$1…')
    .replaceAll(/(link\?token=\w{12})[\w-]+/g, '$1…')
    .trimEnd()
}

const ESC = '\u001b'
const LINK = new RegExp(`${ESC}\\]8;;.*?${ESC}\\\\`, 'g')
const STYLE = new RegExp(`${ESC}\\[(\\d+)m`)

const FONT_PX = 13
const LINE_PX = 19
/** Of a monospaced letter. */
const LETTER_PX = 0.61 * FONT_PX
const MARGIN_PX = 20
const FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"

function svgOf (raw: string): string {
  const lines = linesOf(raw)
  const width = Math.ceil(COLUMNS * LETTER_PX + 2 * MARGIN_PX)
  const height = lines.length * LINE_PX + 2 * MARGIN_PX
  const texts = lines.map((line, i) =>
    html`<text x="${MARGIN_PX}" y="${MARGIN_PX + (i + 0.75) * LINE_PX}">${line}</text>\n`
  )
  const style = `text { font: ${FONT_PX}px ${FONTS}; fill: #e6edf3; white-space: pre }`
  return html`<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" role="img">
<title>npm start on a terminal: addresses, the API key, a curl command, and a line for each mail</title>
<style>${new Html(style)}</style>
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
${texts}</svg>
`.text
}

/** Each line as pieces in their colours, bold and dim; links are only their text. */
function linesOf (raw: string): Html[][] {
  const [first, ...rest] = raw.replaceAll('\r\n', '\n').replaceAll(LINK, '').split(STYLE)
  const lines: Html[][] = [[]]
  const on = new Set<string>()
  const write = (text: string) => {
    for (const [i, part] of text.split('\n').entries()) {
      if (i > 0) lines.push([])
      if (part !== '') lines.at(-1)!.push(html`<tspan${new Html(attributesOf(on))}>${part}</tspan>`)
    }
  }
  write(first!)
  for (let i = 0; i < rest.length; i += 2) {
    const [code, text] = [rest[i]!, rest[i + 1]!]
    if (code === '39') { for (const color of Object.keys(COLORS)) on.delete(color) }
    else if (code === '22') { for (const weight of ['1', '2']) on.delete(weight) }
    else on.add(code)
    write(text)
  }
  return lines
}

function attributesOf (codes: ReadonlySet<string>): string {
  const color = [...codes].find(code => COLORS[code] !== undefined)
  return [
    ...(color === undefined ? [] : [` fill="${COLORS[color]!}"`]),
    ...(codes.has('1') ? [' font-weight="bold"'] : []),
    ...(codes.has('2') ? [' opacity=".6"'] : [])
  ].join('')
}
