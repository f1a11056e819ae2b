import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { SyntaxKind, type Node, type SourceFile } from 'typescript/unstable/ast'
import { createScanner, skipTrivia } from 'typescript/unstable/ast/scanner'
import { API } from 'typescript/unstable/sync'
import type { Say } from './bench.ts'
import { print } from './report.ts'

const SMALL_LINES = 40
const WIDE_COLUMNS = 120
const FUNCTIONS_SHOWN = 12
const GENERATED = /^src\/client\/(types|operations)\.ts$/
const GENERATED_ROOM = 'src/client, generated'
const PHRASES_ROOM = 'src/feedback/phrases, words'

interface FunctionSize {
  name: string
  path: string
  line: number
  lines: number
}

/** Of one file. */
interface FileSize {
  room: string
  tokens: number
  lines: number
  wideLines: number
  functions: FunctionSize[]
}

/** Prints how big the code below `root` is, by module, and its longest functions. A token is what TypeScript's scanner
 *  makes of the source; comments and white space are none. */
export function printSize (say: Say, root: string): void {
  const code = codeSizes(root)
  const apart = [...code.filter(({ room }) => room === GENERATED_ROOM), ...phraseSizes(root)]
  const rest = code.filter(({ room }) => room !== GENERATED_ROOM)
  const rowsOf = (files: FileSize[]) =>
    [...new Set(files.map(({ room }) => room))].sort().map(room =>
      rowOf(room, files.filter(file => file.room === room))
    )
  print(say, 'Size of the code by module', [
    ['', 'tokens', 'lines', 'files', `under ${SMALL_LINES} lines`, `lines over ${WIDE_COLUMNS}`],
    ...rowsOf(rest),
    rowOf('all', rest),
    ...rowsOf(apart)
  ])
  printLongest(say, 'Longest functions', rest.filter(({ room }) => room !== 'test'))
  printLongest(say, 'Longest functions of the tests', rest.filter(({ room }) => room === 'test'))
}

function printLongest (say: Say, heading: string, files: FileSize[]): void {
  const longest = files.flatMap(({ functions }) => functions).toSorted((a, b) => b.lines - a.lines)
  print(say, heading, [
    ['', 'lines', 'where'],
    ...longest.slice(0, FUNCTIONS_SHOWN).map(({ name, path, line, lines }) => [name, `${lines}`, `${path}:${line}`])
  ])
}

function rowOf (name: string, files: FileSize[]): string[] {
  const sum = (pick: (file: FileSize) => number) => files.reduce((total, file) => total + pick(file), 0)
  const counts = [
    sum(({ tokens }) => tokens),
    sum(({ lines }) => lines),
    files.length,
    sum(({ lines }) => Number(lines < SMALL_LINES)),
    sum(({ wideLines }) => wideLines)
  ]
  return [name, ...counts.map(count => count.toLocaleString('en'))]
}

/** Files that stand in src itself are counted together. */
function roomOf (path: string): string {
  if (GENERATED.test(path)) return GENERATED_ROOM
  const [top = '', ...parts] = path.split('/').slice(0, -1)
  if (top !== 'src' || parts.length === 0) return top
  return [top, ...parts.slice(0, parts[0] === 'servers' || parts[0] === 'workers' ? 2 : 1)].join('/')
}

function codeSizes (root: string): FileSize[] {
  const paths = globSync('{src,streams,projections,test}/**/*.{ts,js}', { cwd: root }).sort()
  const api = new API({ cwd: root })
  try {
    const snapshot = api.updateSnapshot({ openFiles: paths.map(path => join(root, path)) })
    return paths.map(path => {
      const name = join(root, path)
      const source = snapshot.getDefaultProjectForFile(name)?.program.getSourceFile(name)
      if (source === undefined) throw new Error(`TypeScript does not read ${path}`)
      return codeSize(source, path)
    })
  } finally {
    api.close()
  }
}

function codeSize (source: SourceFile, path: string): FileSize {
  const functions: FunctionSize[] = []
  const rescans = new Map<number, Rescan>()
  const startOf = (node: Node) => skipTrivia(source.text, node.pos)
  const lineAt = (position: number) => linesIn(source.text.slice(0, position))
  const walk = (node: Node, name: string | null): void => {
    const rescan = RESCANS.get(node.kind)
    if (rescan !== undefined) rescans.set(startOf(node), rescan)
    const own = nameOf(node) ?? name
    if (FUNCTIONS.has(node.kind) && own !== null) {
      const line = lineAt(startOf(node))
      functions.push({ name: own, path, line, lines: lineAt(node.end) - line + 1 })
    }
    const passed = NAMING.has(node.kind) ? own : null
    node.forEachChild(child => walk(child, passed))
  }
  walk(source, null)
  return { room: roomOf(path), tokens: countTokens(source.text, rescans), functions, ...textSize(source.text) }
}

const FUNCTIONS = new Set([
  SyntaxKind.FunctionDeclaration,
  SyntaxKind.FunctionExpression,
  SyntaxKind.ArrowFunction,
  SyntaxKind.MethodDeclaration,
  SyntaxKind.Constructor,
  SyntaxKind.GetAccessor,
  SyntaxKind.SetAccessor
])

/** They give their name to the function that is their value. */
const NAMING = new Set([
  SyntaxKind.VariableDeclaration,
  SyntaxKind.PropertyAssignment,
  SyntaxKind.PropertyDeclaration
])

function nameOf (node: Node): string | null {
  if (node.kind === SyntaxKind.Constructor) return 'constructor'
  if (!FUNCTIONS.has(node.kind) && !NAMING.has(node.kind)) return null
  return (node as Node & { name?: Node }).name?.getText() ?? null
}

type Rescan = 'reScanSlashToken' | 'reScanTemplateToken' | 'reScanGreaterToken'

/** What the scanner takes for something else until the parser tells it. */
const RESCANS = new Map<SyntaxKind, Rescan>([
  [SyntaxKind.RegularExpressionLiteral, 'reScanSlashToken'],
  [SyntaxKind.TemplateMiddle, 'reScanTemplateToken'],
  [SyntaxKind.TemplateTail, 'reScanTemplateToken'],
  [SyntaxKind.GreaterThanEqualsToken, 'reScanGreaterToken'],
  [SyntaxKind.GreaterThanGreaterThanToken, 'reScanGreaterToken'],
  [SyntaxKind.GreaterThanGreaterThanGreaterThanToken, 'reScanGreaterToken']
])

function countTokens (text: string, rescans: Map<number, Rescan>): number {
  const scanner = createScanner(true, undefined, text)
  let count = 0
  while (scanner.scan() !== SyntaxKind.EndOfFile) {
    count++
    const rescan = rescans.get(scanner.getTokenStart())
    if (rescan !== undefined) scanner[rescan](false)
  }
  return count
}

/** Words of the phrases by which replies and returned mail are told apart: data, so no tokens. */
function phraseSizes (root: string): FileSize[] {
  return globSync('src/feedback/phrases/**/*.txt', { cwd: root }).map(path => {
    const text = readFileSync(join(root, path), 'utf8')
    return { room: PHRASES_ROOM, tokens: text.match(/\S+/g)?.length ?? 0, functions: [], ...textSize(text) }
  })
}

function textSize (text: string): Pick<FileSize, 'lines' | 'wideLines'> {
  const wideLines = text.split('\n').filter(line => line.length > WIDE_COLUMNS).length
  return { lines: linesIn(text.replace(/\n$/, '')), wideLines }
}

const linesIn = (text: string): number => text.split('\n').length
