import {
  defaultTreeAdapter,
  html as words,
  parse,
  type DefaultTreeAdapterTypes as Tree,
  type TreeAdapter,
  type Token
} from 'parse5'

export type Element = Tree.Element
export type Document = Tree.Document

/** In characters. The links of hostile html of 2 MB took over a second to find, in which nothing else was done; no
 *  newsletter is so long. */
const LENGTH_MAX = 512 * 1024
/** As deep as browsers go. */
const DEPTH_MAX = 512
/** Unclosed formatting is repeated in each paragraph: without a bound a small source could fill the memory. */
const ELEMENTS_MAX = 200_000
/** Nodes that had to be stepped over to put another in its place. */
const STEPS_MAX = 50_000_000

class TooMuch extends Error {}

/** The tree of an html document as a browser without scripts has it, with the places in the source; null for one that
 *  is made to be too much work. Source: html.spec.whatwg.org, 13.2.6. */
export function readTree (html: string): Document | null {
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
export function elementsOf (document: Document): Element[] {
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

export function isHtml (element: Element): boolean {
  return element.namespaceURI === words.NS.HTML
}

/** The first of these attributes, in the order of the source. */
export function attribute (element: Element, name: string): string | null {
  return element.attrs.find(attr => attr.name === name)?.value ?? null
}
