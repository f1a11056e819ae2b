import { compile, type DomNode, type FormatCallback } from 'html-to-text'
import { remembered } from './memo.ts'

/** Longest html that is read and longest text, in characters; the API takes no more. */
const LENGTH_MAX = 2 * 1024 * 1024
/** Deeper nesting is left out: every level is a call. */
const DEPTH_MAX = 64
/** Children of one element; the rest is left out. */
const CHILDREN_MAX = 20_000
/** Tags; what comes after them is left out. The reader's stack costs its own length with each of them, and not all are
 *  closed. */
const TAGS_MAX = 20_000
/** Texts kept, in characters. */
const KEPT_MAX = 16 * 1024 * 1024
/** Characters a line should have at most; no word is split for it. */
const LINE_MAX = 80
/** Longest row of a table that stands in one line, in characters. */
const ROW_MAX = 120
/** Nodes of a cell that are read to find out. */
const CELL_NODES_MAX = 40

/** What an html says, for text/plain beside it: links as `text [url]`, images by their alt, rows of short cells in one
 *  line, nothing that is hidden. '' = it says nothing. Line ends are LF. Throws nothing, whatever the html. */
export const textFromHtml: (html: string) => string = remembered(makeText, text => text.length, KEPT_MAX)

function makeText (html: string): string {
  const bounded = html.slice(0, placeOfLast(html))
  try {
    // Each line of a quotation within quotations begins with all their marks: there can be more text than html.
    return tidy(convert(bounded).slice(0, LENGTH_MAX))
  } catch {
    // Whatever trips the reader (an element named as what every object inherits does): the mail goes out all the same.
    return tidy(stripped(bounded))
  }
}

/** What stands between tags, without what is no text. */
function stripped (html: string): string {
  const opening = /<(?:!--|(head|style|script|title|template)(?=[\s/>]))/gi
  let text = ''
  let at = 0
  for (let found = opening.exec(html); found !== null; found = opening.exec(html)) {
    text += html.slice(at, found.index)
    at = opening.lastIndex = endOf(html, found[1], opening.lastIndex)
  }
  text += html.slice(at)
  return text.replaceAll(/<(?=[a-z/!?])[^>]*>?/gi, ' ').replaceAll(/\s+/g, ' ')
}

/** Where a comment ends, or an element of this name. */
function endOf (html: string, name: string | undefined, from: number): number {
  const closing = name === undefined ? /-->/g : new RegExp(`</${name}`, 'gi')
  closing.lastIndex = from
  return closing.test(html) ? closing.lastIndex - (name === undefined ? 0 : name.length + 2) : html.length
}

/** Where there is too much of it. */
function placeOfLast (html: string): number {
  const tag = /<\/?[a-z]/gi
  let count = 0
  while (count < TAGS_MAX && tag.test(html)) count++
  return count < TAGS_MAX ? LENGTH_MAX : Math.min(tag.lastIndex - 2, LENGTH_MAX)
}

/** Without spaces that only hold a layout open, and invisible characters. */
function tidy (text: string): string {
  const shown = text.toWellFormed().replaceAll(/\u00ad|\u034f|\ufeff/g, '').replaceAll(/[\u00a0\u2007\u202f]/g, ' ')
  const lines = shown.replaceAll(/(?<=[ \n]|^)[\u200b-\u200d]+(?=[ \n]|$)/g, '').split('\n')
  return lines.map(line => line.trimEnd()).join('\n').replaceAll(/\n{3,}/g, '\n\n').trim()
}

/** Text in brackets: no reader takes a bracket for a part of the URL, as it might a parenthesis. */
const link: FormatCallback = (element, walk, builder) => {
  const target = targetOf(element.attribs.href ?? '')
  let text = ''
  builder.pushWordTransform(word => {
    text += word
    return word
  })
  walk(element.children, builder)
  builder.popWordTransform()
  if (target === '' || target === text) return
  builder.addInline(text === '' ? ` ${target}` : ` [${target}]`, { noWordTransform: true })
}

/** '' for what leads nowhere outside the html. */
function targetOf (href: string): string {
  const url = href.replaceAll(/\s+/g, '')
  if (/^(mailto|tel|sms):/i.test(url)) return url.replace(/^\w+:/, '').replace(/\?.*/, '')
  return /^(#|javascript:|data:)/i.test(url) ? '' : url
}

const image: FormatCallback = (element, _walk, builder) => {
  builder.addInline(element.attribs.alt ?? '')
}

/** Few programs show plain text in a font of one width, so columns could not be aligned. */
const row: FormatCallback = (element, walk, builder) => {
  const cells = element.children.filter(isCell)
  const widths = cells.map(textWidth)
  const isLine = cells.length > 1 && widths.reduce((sum, width) => sum + width, 0) <= ROW_MAX
  builder.openBlock({ leadingLineBreaks: 1 })
  if (isLine) {
    for (const [i, cell] of cells.filter((_, i) => widths[i]! > 0).entries()) {
      if (i > 0) builder.addInline(' | ')
      walk(cell.children, builder)
    }
  } else {
    walk(element.children, builder)
  }
  builder.closeBlock({ trailingLineBreaks: 1 })
}

const isCell = ({ name }: DomNode): boolean => name === 'td' || name === 'th'

const IN_LINE = new Set([
  'a',
  'abbr',
  'b',
  'big',
  'code',
  'em',
  'font',
  'i',
  'img',
  's',
  'small',
  'span',
  'strike',
  'strong',
  'sub',
  'sup',
  'u'
])

/** Characters of a cell, without bound when it holds more than one line. */
function textWidth (cell: DomNode): number {
  const waiting = [...cell.children]
  let width = 0
  let nodes = 0
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    if (++nodes > CELL_NODES_MAX || (node.type === 'tag' && !IN_LINE.has(node.name ?? ''))) return Infinity
    if (node.type === 'text') width += node.data!.replaceAll(/\s+/g, ' ').trim().length
    if (node.name === 'img') width += node.attribs.alt?.length ?? 0
    if (node.type === 'tag') waiting.push(...node.children)
  }
  return width
}

const BLOCKS = ['td', 'th', 'caption', 'center', 'address', 'dt', 'dd', 'figure', 'figcaption', 'fieldset', 'summary']
const HIDDEN = ['[hidden]', '[style*="display:none"i]', '[style*="display: none"i]']
const NOT_TEXT = [
  'head',
  'title',
  'template',
  'select',
  'textarea',
  'svg',
  'math',
  'audio',
  'video',
  'object',
  'iframe',
  'map',
  ...HIDDEN
]

const convert = compile({
  baseElements: { selectors: [] },
  formatters: { link, image, row },
  limits: { maxInputLength: LENGTH_MAX, maxDepth: DEPTH_MAX, maxChildNodes: CHILDREN_MAX, ellipsis: '' },
  selectors: [
    { selector: 'a', format: 'link' },
    { selector: 'img', format: 'image' },
    ...['h1', 'h2', 'h3', 'h4', 'h5', 'h6'].map(selector => ({
      selector,
      options: { uppercase: false, leadingLineBreaks: 2, trailingLineBreaks: 2 }
    })),
    { selector: 'hr', options: { length: 40 } },
    { selector: 'tr', format: 'row' },
    ...BLOCKS.map(selector => ({
      selector,
      format: 'block',
      options: { leadingLineBreaks: 1, trailingLineBreaks: 1 }
    })),
    ...NOT_TEXT.map(selector => ({ selector, format: 'skip' }))
  ],
  wordwrap: LINE_MAX
})
