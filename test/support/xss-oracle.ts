import { parse } from 'parse5'

interface Node {
  tagName?: string
  attrs?: Array<{ name: string, value: string }>
  childNodes?: Node[]
  content?: Node
}

const NEVER = new Set([
  'style',
  'base',
  'object',
  'embed',
  'applet',
  'frame',
  'frameset',
  'portal',
  'marquee',
  'bgsound',
  'math',
  'foreignobject',
  'plaintext',
  'xmp',
  'noembed',
  'listing',
  'x-pwned',
  'track',
  'audio',
  'video'
])
const LINKS = new Set([
  'href',
  'src',
  'action',
  'formaction',
  'hx-get',
  'hx-post',
  'xlink:href',
  'data',
  'poster',
  'ping',
  'srcset',
  'background'
])

/** What is in a page of the dashboard that can only be there because something was taken for markup that is not. */
export function intrusions (html: string): string[] {
  const found: string[] = []
  const walk = (node: Node): void => {
    const name = node.tagName?.toLowerCase()
    const own = Object.fromEntries((node.attrs ?? []).map(attr => [attr.name.toLowerCase(), attr.value]))
    if (name !== undefined && NEVER.has(name)) found.push(`<${name}>`)
    if (name === 'script' && !(own.src ?? '').startsWith('/dashboard/assets/')) found.push('<script> of none of ours')
    if (
      name === 'iframe' &&
      (own.sandbox === undefined || /allow-(scripts|same-origin|top-navigation|forms)/.test(own.sandbox))
    ) found.push('<iframe> without a sandbox')
    if (name === 'meta' && own['http-equiv'] !== undefined) found.push(`<meta http-equiv=${own['http-equiv']}>`)
    if (name === 'link' && !(own.href ?? '').startsWith('/dashboard/assets/')) found.push(`<link href=${own.href}>`)
    for (const [attr, value] of Object.entries(own)) {
      if (/^on|^style$|^srcdoc$|^(data-)?hx-(on|vals|headers|vars)|pwned/.test(attr)) {
        found.push(`${name} ${attr}="${value}"`)
      }
      if (/^(id|class|form|for|name)$/.test(attr) && value.includes('pwned')) found.push(`${name} ${attr}="${value}"`)
      if (LINKS.has(attr) && !isOurs(name!, value)) found.push(`${name} ${attr}="${value}"`)
    }
    for (const child of node.childNodes ?? []) walk(child)
    if (node.content !== undefined) walk(node.content)
  }
  walk(parse(html) as Node)
  return found
}

/** Within the dashboard; pictures may be data, and links lead to other sites that we name. */
function isOurs (name: string, value: string): boolean {
  if (/^(#|\?|\/dashboard(\/|\?|#|$)|\/docs|\/openapi\.json)/.test(value) || value === '') return true
  if (name === 'img' && value.startsWith('data:image/')) return true
  return name === 'a' && /^(https:\/\/|mailto:|http:\/\/(localhost|127\.0\.0\.1)[:/])/.test(value) &&
    !value.includes('pwned')
}
