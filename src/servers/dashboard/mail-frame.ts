import type { Attachment } from 'postal-mime'
import { html, type Html } from '#src/base/html.ts'
import { withQuery } from './parts.ts'
import type { PageResult, Visit } from './visit.ts'

/** Links open in a new window, nothing can reach the page around the frame, and nothing runs. Set twice: on the frame,
 *  and on the response for those who open its URL. */
const SANDBOX = 'allow-popups allow-popups-to-escape-sandbox'

/** No policy keeps a browser from connecting to where a link element points. The text `<link` is changed as well, which
 *  nobody sees. */
const LINK = /<link\b/gi

interface FramedOptions {
  /** Loads remote images, which tells the sender that the mail is being read. */
  images: boolean
  status?: number
}

/** HTML of others as the content of a frame: without scripts, and without remote content. */
export function framed (body: string, { images, status = 200 }: FramedOptions): Extract<PageResult, { send: unknown }> {
  const policy = [
    `sandbox ${SANDBOX}`,
    "default-src 'none'",
    "style-src 'unsafe-inline'",
    `img-src ${images ? 'data: https: http:' : 'data:'}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'self'"
  ].join('; ')
  return {
    send: reply =>
      reply.code(status).type('text/html; charset=utf-8')
        // Opened by itself, it would be an error: a sandbox and a policy about openers exclude each other.
        .headers({
          'content-security-policy': policy,
          'referrer-policy': 'no-referrer',
          'x-dns-prefetch-control': 'off',
          'cross-origin-opener-policy': 'unsafe-none'
        })
        .send(`<!doctype html><base target="_blank">${body.replaceAll(LINK, '<x-link')}`)
  }
}

/** What is needed of a file to show it. */
type InlineFile = Pick<Attachment, 'contentId' | 'mimeType' | 'content'>

/** Of the inline images of one preview, in base64. */
const PICTURES_CHARS_MAX = 20_000_000

const PICTURE = /\bcid:([^"'\s<>)]+)/gi

/** The Content-IDs of inline images that the HTML names. Source: RFC 2392. */
export function namedPictures (body: string): Set<string> {
  return new Set(Array.from(body.matchAll(PICTURE), ([, id]) => id!))
}

/** Puts inline images into the HTML: a frame without an origin can request none. */
export function withPictures (body: string, attachments: InlineFile[]): string {
  const named = namedPictures(body)
  const images = attachments.filter(file => named.has(idOf(file)) && /^image\/[a-z0-9.+-]+$/i.test(file.mimeType))
  const pictures = new Map(
    images.map(
      file => [
        idOf(file),
        `data:${file.mimeType};base64,${Buffer.from(file.content as ArrayBuffer).toString('base64')}`
      ]
    )
  )
  // One image in a thousand places would take a thousand times its size.
  let left = PICTURES_CHARS_MAX
  return body.replaceAll(PICTURE, (whole, id: string) => {
    const picture = pictures.get(id)
    left -= picture?.length ?? 0
    return picture === undefined || left < 0 ? whole : picture
  })
}

function idOf ({ contentId = '' }: InlineFile): string {
  return contentId.replaceAll(/^<|>$/g, '')
}

/** A frame that shows what `framed` answers at `src`. */
export function mailFrame (src: string, title: string, id = 'mail'): Html {
  return html`<iframe id="${id}" class="frame" title="${title}" src="${src}"
 sandbox="${SANDBOX}" referrerpolicy="no-referrer"></iframe>`
}

/** That remote images are blocked, and the way to load them. */
export function imagesNote (visit: Visit): Html {
  const isOpen = visit.query.get('images') === '1'
  const toggle = withQuery(visit, { images: isOpen ? null : '1' })
  return isOpen
    ? html`Remote images are loaded. <a href="${toggle}">Block images</a>`
    : html`Remote images blocked to protect privacy. <a href="${toggle}">Load images</a>`
}
