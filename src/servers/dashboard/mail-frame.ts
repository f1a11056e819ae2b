import type { Attachment } from 'postal-mime'
import { html, type Html } from '#src/base/html.ts'
import type { PageResult } from './visit.ts'

/** Links open in a window of their own; neither they nor the mail can reach the page around the frame, and nothing
 *  runs. Said twice: by the frame for what is in it, and by the answer for whoever opens its address. */
const SANDBOX = 'allow-popups allow-popups-to-escape-sandbox'

/** No policy keeps a browser from preparing a line to where a link element says. What is no tag is changed as well,
 *  which nobody sees. */
const LINK = /<link\b/gi

interface FramedOptions {
  /** Pictures may come from wherever the mail says: who sent it then learns that it is being read. */
  images: boolean
  status?: number
}

/** HTML that a stranger may have written, as what a frame shows: without script, and without anything that is fetched
 *  from elsewhere. */
export function framed (body: string, { images, status = 200 }: FramedOptions): Extract<PageResult, { send: unknown }> {
  const pictures = images ? 'data: https: http:' : 'data:'
  const policy =
    `sandbox ${SANDBOX}; default-src 'none'; style-src 'unsafe-inline'; img-src ${pictures}; base-uri 'none'; form-action 'none'; frame-ancestors 'self'`
  return {
    send: reply =>
      reply.code(status).type('text/html; charset=utf-8')
        // Whoever opens its address by itself would be shown an error: a sandbox and a policy about openers exclude
        // each other.
        .headers({
          'content-security-policy': policy,
          'referrer-policy': 'no-referrer',
          'x-dns-prefetch-control': 'off',
          'cross-origin-opener-policy': 'unsafe-none'
        })
        .send(`<!doctype html><base target="_blank">${body.replaceAll(LINK, '<x-link')}`)
  }
}

/** Of pictures that came along in one preview, in base64. */
const PICTURES_CHARS_MAX = 20_000_000

const PICTURE = /\bcid:([^"'\s<>)]+)/gi

/** What the HTML names of the pictures that came along (RFC 2392). */
export function namedPictures (body: string): Set<string> {
  return new Set(Array.from(body.matchAll(PICTURE), ([, id]) => id!))
}

/** Pictures that came along stand in the HTML themselves: a frame without an origin can ask for none. */
export function withPictures (body: string, attachments: Attachment[]): string {
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
  // One picture in a thousand places would be a thousand times as much.
  let left = PICTURES_CHARS_MAX
  return body.replaceAll(PICTURE, (whole, id: string) => {
    const picture = pictures.get(id)
    left -= picture?.length ?? 0
    return picture === undefined || left < 0 ? whole : picture
  })
}

function idOf ({ contentId = '' }: Attachment): string {
  return contentId.replaceAll(/^<|>$/g, '')
}

/** A frame for what `framed` answers at `src`. */
export function mailFrame (src: string, title: string, id = 'mail'): Html {
  return html`<iframe id="${id}" class="frame" title="${title}" src="${src}" sandbox="${SANDBOX}" referrerpolicy="no-referrer"></iframe>`
}
