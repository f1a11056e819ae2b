/** Why a template cannot be read or rendered; nothing else is thrown. `line` counts from 1, where there is one. */
export class MustacheError extends Error {
  override name = 'MustacheError'
  readonly code: 'syntax' | 'too_deep' | 'too_many_steps' | 'too_large' | 'no_layout'
  readonly line: number | null
  constructor (code: MustacheError['code'], message: string, line: number | null = null) {
    super(line === null ? message : `Line ${line}: ${message}`)
    this.code = code
    this.line = line
  }
}

/** The parts of a dotted name; none = `.`, the value at hand. */
export type Name = readonly string[]

/** A piece of a template. `opens` = the text begins a line, as it does after each line break in it: there an indented
 *  partial puts its indentation. A partial's `indent` is null where it does not stand alone on its line. */
export type Node =
  | { kind: 'text', text: string, opens: boolean }
  | { kind: 'value', name: Name, raw: boolean }
  | { kind: 'section', name: Name, inverted: boolean, body: Node[] }
  | { kind: 'partial', name: string, indent: string | null }

/** A template that has been read. */
export type ParsedTemplate = readonly Node[]

/** What a node, and a part of its name, take of memory, in bytes. */
const NODE_BYTES = 200
const PART_BYTES = 40

/** About how much memory a template takes beside its source, in bytes; not less than it does. */
export function weightOf (template: ParsedTemplate): number {
  return template.reduce((sum, node) => {
    const parts = node.kind === 'value' || node.kind === 'section' ? node.name.length : 0
    return sum + NODE_BYTES + parts * PART_BYTES + (node.kind === 'section' ? weightOf(node.body) : 0)
  }, 0)
}

/** Sections in sections, and partials in partials. */
export const DEPTH_MAX = 200
const NAME_LENGTH_MAX = 255
/** A search for a long delimiter takes as many steps as it has characters. */
const DELIMITER_LENGTH_MAX = 20

type Sigil = '' | '#' | '^' | '/' | '>' | '!' | '=' | '&' | '{'

interface Tag {
  sigil: Sigil
  /** Without the whitespace around it. */
  content: string
  /** Where it begins and ends in the source. */
  at: number
  end: number
}

interface Section {
  tag: Tag
  body: Node[]
}

interface Scan {
  source: string
  /** Up to where the source is read. */
  pos: number
  /** Where the present line begins, while nothing of it is read but text; else -1. */
  lineStart: number
  open: string
  close: string
  /** Where nodes go; below it the sections around it. */
  body: Node[]
  sections: Section[]
}

/** Reads a template in time linear in its length. Throws MustacheError with the line. Source: mustache(5),
 *  github.com/mustache/spec 1.4, the core modules. */
export function parse (source: string): ParsedTemplate {
  const root: Node[] = []
  const scan: Scan = { source, pos: 0, lineStart: 0, open: '{{', close: '}}', body: root, sections: [] }
  for (let at = source.indexOf('{{'); at !== -1; at = source.indexOf(scan.open, scan.pos)) readTag(scan, at)
  readText(scan, source.length)
  const left = scan.sections.at(-1)
  if (left !== undefined) throw syntax(source, left.tag.at, `{{${left.tag.sigil}${left.tag.content}}} is never closed`)
  return root
}

function syntax (source: string, at: number, message: string): MustacheError {
  return new MustacheError('syntax', `${message}.`, lineAt(source, at))
}

function lineAt (source: string, at: number): number {
  return source.slice(0, at).split('\n').length
}

function readTag (scan: Scan, at: number): void {
  const tag = tagAt(scan, at)
  const line = standaloneLine(scan, tag)
  readText(scan, line === null ? at : line.start)
  if (line === null) openLine(scan)
  apply(scan, tag, line === null ? null : scan.source.slice(line.start, at))
  scan.pos = line === null ? tag.end : line.end
  scan.lineStart = line === null ? -1 : line.end
}

const SIGILS: ReadonlySet<string> = new Set(['#', '^', '/', '>', '!', '=', '&', '{'])

function tagAt ({ source, open, close }: Scan, at: number): Tag {
  let inside = at + open.length
  while (/\s/.test(source.charAt(inside))) inside++
  const sigil = (SIGILS.has(source.charAt(inside)) ? source.charAt(inside) : '') as Sigil
  const ending = (sigil === '{' ? '}' : sigil === '=' ? '=' : '') + close
  const start = inside + sigil.length
  const stop = source.indexOf(ending, start)
  if (stop === -1) throw syntax(source, at, `the tag ${open}${sigil} has no ${ending}`)
  return { sigil, content: source.slice(start, stop).trim(), at, end: stop + ending.length }
}

/** The line that a tag has for itself, with its end, or null. Source: specs/sections.yml and others, "Standalone". */
function standaloneLine (
  { source, pos, lineStart }: Scan,
  { sigil, at, end }: Tag
): { start: number, end: number } | null {
  if (sigil === '' || sigil === '&' || sigil === '{') return null
  const breakAt = source.slice(pos, at).lastIndexOf('\n')
  const start = breakAt === -1 ? lineStart : pos + breakAt + 1
  if (start === -1 || skipBlanks(source, start) !== at) return null
  const rest = skipBlanks(source, end)
  if (rest === source.length) return { start, end: rest }
  const newline = source.startsWith('\r\n', rest) ? 2 : source[rest] === '\n' ? 1 : 0
  return newline === 0 ? null : { start, end: rest + newline }
}

function skipBlanks (source: string, from: number): number {
  let at = from
  while (source[at] === ' ' || source[at] === '\t') at++
  return at
}

/** Adds the text up to `end`. */
function readText (scan: Scan, end: number): void {
  const text = scan.source.slice(scan.pos, end)
  if (text === '') return
  scan.body.push({ kind: 'text', text, opens: scan.lineStart === scan.pos })
  const breakAt = text.lastIndexOf('\n')
  if (breakAt !== -1) scan.lineStart = scan.pos + breakAt + 1
  scan.pos = end
}

/** A line that begins with a tag is indented like others. */
function openLine ({ body, pos, lineStart }: Scan): void {
  if (lineStart === pos) body.push({ kind: 'text', text: '', opens: true })
}

/** `indent` = what stands before a tag that has its line for itself. */
function apply (scan: Scan, tag: Tag, indent: string | null): void {
  switch (tag.sigil) {
    case '#':
    case '^':
      return openSection(scan, tag)
    case '/':
      return closeSection(scan, tag)
    case '>':
      scan.body.push({ kind: 'partial', name: nameOf(scan, tag), indent })
      return
    case '=':
      return setDelimiters(scan, tag)
    case '!':
      return
    default:
      scan.body.push({ kind: 'value', name: partsOf(scan, tag), raw: tag.sigil !== '' })
  }
}

function openSection (scan: Scan, tag: Tag): void {
  if (scan.sections.length === DEPTH_MAX) {
    throw new MustacheError(
      'too_deep',
      `sections must be nested at most ${DEPTH_MAX} levels deep.`,
      lineAt(scan.source, tag.at)
    )
  }
  const body: Node[] = []
  scan.body.push({ kind: 'section', name: partsOf(scan, tag), inverted: tag.sigil === '^', body })
  scan.sections.push({ tag, body: scan.body })
  scan.body = body
}

function closeSection (scan: Scan, tag: Tag): void {
  const name = nameOf(scan, tag)
  const section = scan.sections.pop()
  if (section === undefined) throw syntax(scan.source, tag.at, `{{/${name}}} closes nothing`)
  if (section.tag.content !== name) {
    throw syntax(
      scan.source,
      tag.at,
      `{{${section.tag.sigil}${section.tag.content}}} is closed by {{/${name}}}`
    )
  }
  scan.body = section.body
}

function setDelimiters (scan: Scan, { content, at }: Tag): void {
  const pair = content.split(/\s+/)
  const fine = pair.length === 2 &&
    pair.every(text => text !== '' && text.length <= DELIMITER_LENGTH_MAX && !text.includes('='))
  if (!fine) {
    throw syntax(
      scan.source,
      at,
      `delimiters must be two, of at most ${DELIMITER_LENGTH_MAX} characters, with a space between them and without =`
    )
  }
  ;[scan.open, scan.close] = pair as [string, string]
}

function nameOf ({ source }: Scan, { content, at }: Tag): string {
  if (content === '') throw syntax(source, at, 'a tag must have a name')
  if (content.length > NAME_LENGTH_MAX) {
    throw syntax(source, at, `a name must have at most ${NAME_LENGTH_MAX} characters`)
  }
  if (/\s/.test(content)) throw syntax(source, at, `a name must not contain spaces: ${JSON.stringify(content)}`)
  return content
}

function partsOf (scan: Scan, tag: Tag): Name {
  const name = nameOf(scan, tag)
  if (name === '.') return []
  const parts = name.split('.')
  if (parts.includes('')) {
    throw syntax(scan.source, tag.at, `a name must not be empty before or after a dot: ${JSON.stringify(name)}`)
  }
  return parts
}
