import { html, type Html } from '#src/base/html.ts'
import type { Answer } from '../visit.ts'

/** Links open in a window of their own; neither they nor the mail can reach the page around the frame, and nothing runs. Said twice: by the frame for
 *  what is in it, and by the answer for whoever opens its address. */
const SANDBOX = 'allow-popups allow-popups-to-escape-sandbox'

interface FramedOptions {
  /** Pictures may come from wherever the mail says: who sent it then learns that it is being read. */
  images: boolean
  status?: number
}

/** HTML that a stranger may have written, as what a frame shows: without script, and without anything that is fetched from elsewhere. */
export function framed (body: string, { images, status = 200 }: FramedOptions): Answer {
  const pictures = images ? 'data: https: http:' : 'data:'
  const policy = `sandbox ${SANDBOX}; default-src 'none'; style-src 'unsafe-inline'; img-src ${pictures}; base-uri 'none'; form-action 'none'; frame-ancestors 'self'`
  return {
    send: reply => reply.code(status).type('text/html; charset=utf-8')
      // Whoever opens its address by itself would be shown an error: a sandbox and a policy about openers exclude each other.
      .headers({ 'content-security-policy': policy, 'referrer-policy': 'no-referrer', 'x-dns-prefetch-control': 'off', 'cross-origin-opener-policy': 'unsafe-none' })
      .send(`<!doctype html><base target="_blank">${body}`)
  }
}

/** A frame for what `framed` answers at `src`. */
export function mailFrame (src: string, title: string, id = 'mail'): Html {
  return html`<iframe id="${id}" class="frame" title="${title}" src="${src}" sandbox="${SANDBOX}" referrerpolicy="no-referrer"></iframe>`
}
