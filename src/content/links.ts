import {
  defaultTreeAdapter,
  type DefaultTreeAdapterTypes as Tree,
  html as words,
  parse,
  type Token,
  type TreeAdapter
} from 'parse5'
import { remembered } from './memo.ts'

type Element = Tree.Element
type Document = Tree.Document

/** In characters. The links of hostile html of 2 MB took over a second to find, in which nothing else was done; no
 *  newsletter is so long. */
const LENGTH_MAX = 512 * 1024
/** As deep as browsers go. */
const DEPTH_MAX = 512
/** Ten times what the longest newsletters have. Unclosed formatting is repeated in each paragraph, so a small source
 *  could fill the memory; 500 kB of elements take a tenth of a second up to here, in which nothing else is done. */
const ELEMENTS_MAX = 25_000
/** Nodes that had to be stepped over to put another in its place. */
const STEPS_MAX = 50_000_000

class TooMuch extends Error {}

/** The tree of an html document as a browser without scripts has it, with the places in the source; null for one that
 *  is made to be too much work. Source: html.spec.whatwg.org, 13.2.6. */
function readTree (html: string): Document | null {
  if (html.length > LENGTH_MAX) return null
  try {
    return parse(html, { sourceCodeLocationInfo: true, scriptingEnabled: false, treeAdapter: boundedAdapter() })
  } catch (error) {
    if (error instanceof TooMuch) return null
    throw error
  }
}

function boundedAdapter (): TreeAdapter<Tree.DefaultTreeAdapterMap> {
  let [depth, elements, steps] = [0, 0, 0]
  const step = (count: number): void => {
    steps += count
    if (steps > STEPS_MAX) throw new TooMuch()
  }
  return {
    ...defaultTreeAdapter,
    createElement (tagName, namespace, attributes) {
      if (++elements > ELEMENTS_MAX) throw new TooMuch()
      return defaultTreeAdapter.createElement(tagName, namespace, attributes)
    },
    onItemPush () {
      if (++depth > DEPTH_MAX) throw new TooMuch()
    },
    onItemPop () {
      depth--
    },
    insertBefore (parent, node, reference) {
      if (parent.childNodes.at(-1) !== reference) step(parent.childNodes.length)
      defaultTreeAdapter.insertBefore(parent, node, reference)
    },
    insertTextBefore (parent, text, reference) {
      if (parent.childNodes.at(-1) !== reference) step(parent.childNodes.length)
      defaultTreeAdapter.insertTextBefore(parent, text, reference)
    },
    detachNode (node) {
      if (node.parentNode !== null && node.parentNode.childNodes.at(-1) !== node) {
        step(node.parentNode.childNodes.length)
      }
      defaultTreeAdapter.detachNode(node)
    },
    setNodeSourceCodeLocation (node, location) {
      // A body that is only implied has no place, and nowhere to write down where its end tag stands.
      const isImpliedBody = location === null && node.nodeName === 'body'
      defaultTreeAdapter.setNodeSourceCodeLocation(node, isImpliedBody ? nowhere() : location)
    }
  }
}

function nowhere (): Token.ElementLocation {
  return { startLine: 0, startCol: 0, startOffset: 0, endLine: 0, endCol: 0, endOffset: 0 }
}

/** All elements, a parent before its children; those in templates are none. Without recursion, however deep. */
function elementsOf (document: Document): Element[] {
  const found: Element[] = []
  const waiting: Tree.ParentNode[] = [document]
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    for (const child of node.childNodes) {
      if (!('tagName' in child)) continue
      found.push(child)
      waiting.push(child)
    }
  }
  return found
}

function isHtml (element: Element): boolean {
  return element.namespaceURI === words.NS.HTML
}

/** The first of these attributes, in the order of the source. */
function attribute (element: Element, name: string): string | null {
  return element.attrs.find(attr => attr.name === name)?.value ?? null
}

/** A link that can be followed through us. `start` and `end` are the place of its value in the html, without quotes, in
 *  UTF-16 units. */
interface TrackableLink {
  url: string
  start: number
  end: number
  quote: '"' | "'" | ''
}

/** A link as explained: its target as a browser reads it, and whether it is followed through us. */
export interface SeenLink {
  url: string
  tracked: boolean
}

/** What there is to follow in an html, for {@link trackHtml} alone. */
export interface TrackingPlan {
  links: readonly TrackableLink[]
  seen: readonly SeenLink[]
  /** Where an image changes nothing else, in UTF-16 units; null = nowhere. */
  pixelAt: number | null
}

export interface TrackingWish {
  /** The new absolute URL of a link, or the same one to leave it alone, to the byte. `index` counts links that can be
   *  tracked, in the order of the source. Null = no clicks. */
  click: ((url: string, index: number) => string) | null
  /** Absolute URL of an image. Null = no opens. */
  pixel: string | null
}

const NOTHING: TrackingPlan = { links: [], seen: [], pixelAt: null }
/** In characters, or what weighs like one. */
const PLANS_MAX = 16 * 1024 * 1024
const PLACE_SIZE = 100

/** The links of an html and the place for a pixel. Html that is too much work to read has neither. */
export const planOf: (html: string) => TrackingPlan = remembered(makePlan, sizeOfPlan, PLANS_MAX)

/** The html with what is wished for. No character changes outside the values of the links' href, but for the pixel:
 *  before the end tag of the body, or at the end, in an html that is read as one. Throws nothing but what `click`
 *  throws. */
export function trackHtml (html: string, { click, pixel }: TrackingWish): string {
  const { links, pixelAt } = planOf(html)
  const edits = click === null
    ? []
    : links.map((link, i) => editOf(link, click(link.url, i))).filter(edit => edit !== null)
  if (pixel !== null && pixelAt !== null) edits.push({ start: pixelAt, end: pixelAt, text: pixelTag(pixel) })
  return splice(html, edits.sort((a, b) => a.start - b.start))
}

/** Every <a> and <area> with a target, in the order of the source. */
export function linksIn (html: string): SeenLink[] {
  return planOf(html).seen.map(link => ({ ...link }))
}

interface Edit {
  start: number
  end: number
  text: string
}

function editOf ({ url, start, end, quote }: TrackableLink, tracked: string): Edit | null {
  return tracked === url ? null : { start, end, text: escaped(tracked, quote) }
}

function splice (html: string, edits: Edit[]): string {
  let out = ''
  let at = 0
  for (const { start, end, text } of edits) {
    out += html.slice(at, start) + text
    at = end
  }
  return out + html.slice(at)
}

/** Without quotes nothing may end the value. */
function escaped (value: string, quote: TrackableLink['quote']): string {
  return value.replaceAll(
    quote === '' ? /[&"'<>`\s]/g : /[&"'<>]/g,
    mark => mark === '&' ? '&amp;' : `&#${mark.charCodeAt(0)};`
  )
}

function pixelTag (url: string): string {
  return `<img src="${escaped(url, '"')}" width="1" height="1" alt="" style="border:0">`
}

function sizeOfPlan ({ links, seen }: TrackingPlan): number {
  // The urls of those that can be tracked are among those seen.
  return seen.reduce((sum, { url }) => sum + url.length + PLACE_SIZE, links.length * PLACE_SIZE)
}

function makePlan (html: string): TrackingPlan {
  const document = readTree(html)
  if (document === null) return NOTHING
  const elements = elementsOf(document)
  const found = elements.map(element => linkOf(html, element)).filter(link => link !== null).sort((a, b) => a.at - b.at)
  // The parser makes some elements twice, of one place in the source.
  const once = found.filter(({ at }, i) => found[i - 1]?.at !== at)
  return {
    links: once.map(({ place }) => place).filter(place => place !== null),
    seen: once.map(({ url, place }) => ({ url, tracked: place !== null })),
    pixelAt: pixelPlace(html, elements)
  }
}

/** `at` identifies a link; `place` is null for links that stay as they are. */
function linkOf (html: string, element: Element): { at: number, url: string, place: TrackableLink | null } | null {
  if (element.tagName !== 'a' && element.tagName !== 'area') return null
  const value = attribute(element, 'href')
  const at = element.sourceCodeLocation?.startOffset
  if (value === null || at === undefined) return null
  const url = trimmed(value)
  const isLeft = !isHtml(element) || attribute(element, 'data-no-track') !== null || !isWebUrl(url)
  return { at, url, place: isLeft ? null : placeOf(html, element, url) }
}

const SPACE = 0x20

/** Source: url.spec.whatwg.org 4.4, "basic URL parser", steps 1 to 3. */
function trimmed (value: string): string {
  let [start, end] = [0, value.length]
  // Not by a pattern: looking for an end it would go over a row of spaces again from each of them.
  while (start < end && value.charCodeAt(start) <= SPACE) start++
  while (end > start && value.charCodeAt(end - 1) <= SPACE) end--
  return value.slice(start, end).replaceAll(/[\t\n\r]/g, '')
}

/** Without its slashes it would be relative to a page of the same scheme. */
function isWebUrl (url: string): boolean {
  return /^https?:[/\\]{2}/i.test(url) && URL.canParse(url)
}

const HREF = /href[\t\n\f\r ]*=[\t\n\f\r ]*(["']?)/iy

function placeOf (html: string, element: Element, url: string): TrackableLink | null {
  const { startOffset, endOffset } = element.sourceCodeLocation!.attrs!.href!
  HREF.lastIndex = startOffset
  const quote = HREF.exec(html)?.[1] as TrackableLink['quote'] | undefined
  return quote === undefined ? null : { url, start: HREF.lastIndex, end: endOffset - quote.length, quote }
}

/** Elements that continue in the next paragraph when not closed. Source: html.spec.whatwg.org 13.2.4.2, "Formatting".
 */
const FORMATTING = new Set([
  'a',
  'b',
  'big',
  'code',
  'em',
  'font',
  'i',
  'nobr',
  's',
  'small',
  'strike',
  'strong',
  'tt',
  'u'
])
/** How many places are tried in difficult html; each costs reading it once more. */
const PLACES_MAX = 6

/** Before the body's end tag, or at the end, as long as nothing else changes by it: text may be open there that would
 *  swallow an image, or a link that would grow a second time around it. Then the nearest place inside what stands last,
 *  or before what stands first. */
function pixelPlace (html: string, elements: Element[]): number | null {
  const body = elements.find(element => element.tagName === 'body' && isHtml(element))
  if (body === undefined) return null
  const end = body.sourceCodeLocation?.endTag?.startOffset
  const isUnclosed = elements.some(element =>
    FORMATTING.has(element.tagName) && element.sourceCodeLocation?.endTag === undefined
  )
  if (end !== undefined && !isUnclosed) return end
  let second: number | null = null
  for (const at of [end ?? html.length, ...lastPlaces(body), ...firstPlace(body)].slice(0, PLACES_MAX)) {
    const more = growth(html, at, elements.length)
    if (more === 1) return at
    if (more > 1) second ??= at
  }
  return second
}

function lastPlaces (body: Element): number[] {
  const places: number[] = []
  for (let last = lastChild(body); last !== undefined && places.length < PLACES_MAX - 2; last = lastChild(last)) {
    const end = last.sourceCodeLocation?.endTag?.startOffset
    if (end !== undefined) places.push(end)
  }
  return places
}

function lastChild ({ childNodes }: Element): Element | undefined {
  return childNodes.findLast(child => 'tagName' in child)
}

function firstPlace ({ childNodes }: Element): number[] {
  const place = childNodes[0]?.sourceCodeLocation?.startOffset
  return place === undefined ? [] : [place]
}

/** How many elements more an image makes here; 0 when it makes none of itself. */
function growth (html: string, at: number, before: number): number {
  const document = readTree(html.slice(0, at) + pixelTag('x:') + html.slice(at))
  const elements = document === null ? [] : elementsOf(document)
  const isThere = elements.some(element =>
    element.tagName === 'img' && isHtml(element) && element.sourceCodeLocation?.startOffset === at
  )
  return isThere ? elements.length - before : 0
}
