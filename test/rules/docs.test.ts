import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import type { TObject } from '@sinclair/typebox'
import GithubSlugger from 'github-slugger'
import { lexer, walkTokens, type Token } from 'marked'
import t from 'tap'
import { AnyEvent } from '#src/servers/api/openapi-webhooks.ts'
import { PAGE, settingsPage } from '../support/settings-page.ts'

const root = join(import.meta.dirname, '..', '..')
const WIDTH_MAX = 120
/** A row of a table, an address, the body of a curl to paste. */
const UNBREAKABLE = /^\s*\||https?:\/\/|-d '\{/
/** A path of the repository in a code span; patterns and placeholders are none. */
const REPOSITORY_PATH = /^(?:src|streams|projections|test|docs|\.ci)\/[\w./-]+$/
/** A file beside the page that names it, or below. */
const FILE_NAME = /^[\w./-]+\.(?:ts|js|sql)$/

interface Page {
  path: string
  text: string
  /** Of links and pictures. */
  targets: string[]
  /** Paths and files of the repository that it names. */
  paths: string[]
  /** What `#…` may name: the headings as GitHub's anchors. */
  anchors: Set<string>
}

const files = globSync(['*.md', '{docs,projections,src,streams,test}/**/*.*'], { cwd: root })
const pages = new Map(files.filter(path => path.endsWith('.md')).map(path => [path, readPage(path)] as const))

function readPage (path: string): Page {
  const text = readFileSync(join(root, path), 'utf8')
  const page: Page = { path, text, targets: [], paths: [], anchors: new Set() }
  const slugger = new GithubSlugger()
  walkTokens(lexer(text), (token: Token) => {
    if (token.type === 'link' || token.type === 'image') page.targets.push(token.href as string)
    if (token.type === 'heading') page.anchors.add(slugger.slug(plainText(token)))
    if (token.type === 'codespan') page.paths.push(...pathsIn(token.text as string))
  })
  return page
}

function pathsIn (code: string): string[] {
  return REPOSITORY_PATH.test(code) || FILE_NAME.test(code) ? [code] : []
}

/** From the root, from the page's folder, or somewhere below that. */
function isThere (page: string, named: string): boolean {
  const folder = dirname(page)
  if (existsSync(join(root, named)) || existsSync(join(root, folder, named))) return true
  return FILE_NAME.test(named) && files.some(file => file.startsWith(`${folder}/`) && file.endsWith(`/${named}`))
}

/** What a reader sees of a heading, without its marks. */
function plainText (token: Token): string {
  const inner = (token as { tokens?: Token[] }).tokens
  return inner === undefined ? (token as { text: string }).text : inner.map(plainText).join('')
}

/** Why a link leads nowhere, or null. What is elsewhere on the web is not looked at. */
function linkFault (from: string, target: string): string | null {
  if (/^(https?|mailto):/.test(target)) return null
  const [path = '', anchor] = target.split('#')
  const file = path === '' ? from : normalize(join(dirname(from), decodeURIComponent(path)))
  if (file.startsWith('..') || !existsSync(join(root, file))) return `${from}: ${target} is not there`
  if (anchor === undefined || pages.get(file)?.anchors.has(anchor) === true) return null
  return `${from}: ${target} names no heading`
}

t.test('every link leads to a file, and to a heading of it', async t => {
  t.ok(pages.size > 20, 'the pages are found')
  t.strictSame(
    [...pages.values()].flatMap(({ path, targets }) => targets.flatMap(target => linkFault(path, target) ?? [])),
    []
  )
})

t.test('every file that a page names is there', async t => {
  const lost = [...pages.values()].flatMap(({ path, paths }) =>
    paths.filter(named => !isThere(path, named)).map(named => `${path}: ${named}`)
  )
  t.strictSame(lost, [])
})

t.test('every page is linked to from README.md, or from a page that is', async t => {
  const seen = new Set<string>(['README.md'])
  for (const path of seen) {
    const targets = pages.get(path)?.targets ?? []
    for (const target of targets) seen.add(normalize(join(dirname(path), target.split('#')[0]!)))
  }
  t.strictSame([...pages.keys()].filter(path => !seen.has(path)), [])
})

t.test('lines are not too long', async t => {
  t.strictSame([...pages.values()].flatMap(wideLines), [])
})

function wideLines ({ path, text }: Page): string[] {
  const wide = (line: string) => line.length > WIDTH_MAX && !UNBREAKABLE.test(line)
  return text.split('\n').flatMap((line, i) => (wide(line) ? [`${path}:${i + 1} has ${line.length} characters`] : []))
}

t.test('docs/settings.md has the settings as they are', async t => {
  t.equal(readFileSync(PAGE, 'utf8'), settingsPage(), '`npm run docs` writes it')
})

t.test('docs/webhooks.md has every key of an event', async t => {
  const keysOf = ({ properties }: TObject, within = ''): string[] =>
    Object.entries(properties).flatMap(([name, schema]) =>
      schema.type === 'object' && schema.properties !== undefined
        ? keysOf(schema as TObject, `${name}.`)
        : [within + name]
    )
  const keys = new Set(AnyEvent.anyOf.flatMap(({ properties: { data } }) => keysOf(data)))
  t.ok(keys.has('bounce.reason') && keys.has('complaint.type') && keys.has('test'), [...keys].join())
  const { text } = pages.get('docs/webhooks.md')!
  t.strictSame([...keys].filter(key => !text.includes(`\`${key}\``)), [])
})

t.test('every row of what if names the test that did it', async t => {
  const { text } = pages.get('docs/handbook.md')!
  const rows = text.split('\n## What if\n')[1]!.split('\n## ')[0]!.split('\n').filter(line => line.startsWith('| '))
    .slice(1)
  t.ok(rows.length > 15, `${rows.length} rows`)
  t.strictSame(rows.filter(row => !/`test\/[\w/-]+\.test\.ts` \|$/.test(row)), [])
})

t.test('docs/operating.md has every metric', async t => {
  const sources = globSync('src/servers/**/*.ts', { cwd: root }).map(path => readFileSync(join(root, path), 'utf8'))
  const metrics = sources.flatMap(text => [...text.matchAll(/'(jetpost_[a-z_]+)'/g)].map(([, name]) => name!))
  t.ok(metrics.length > 10, 'the metrics are found')
  const { text } = pages.get('docs/operating.md')!
  t.strictSame(metrics.filter(name => !text.includes(`\`${name}\``)), [])
})

t.test('each step of the ways through the code is declared in its file', async t => {
  const ways = pages.get('docs/architecture.md')!.text.split('## The ways, file by file')[1]!.split('\n## ')[0]!
  const steps = [...ways.matchAll(/^\| `([^`]+)` \| `(\w+)` \|/gm)].map(([, file, name]) => ({ file, name }))
  t.ok(steps.length > 30, `${steps.length} steps`)
  for (const { file, name } of steps) {
    const declaration = new RegExp(`(?:function\\*?|class|async|private|const) ${name}\\b|^  ${name} ?\\(`, 'm')
    t.match(readFileSync(join(root, file!), 'utf8'), declaration, `${file}: ${name}`)
  }
})
