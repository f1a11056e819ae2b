import { createHash } from 'node:crypto'
import type { FastifyReply } from 'fastify'
import { Html, html } from '#src/base/html.ts'

/** Recipient and sender of the mail: the recipient's masked address, and the sender's domain ('' when it is no longer
 *  known). */
export interface Parties {
  to: string
  from: string
}

/** Distinguishes our form from a mail program's button. */
export const FORM_FIELD = { name: 'by', value: 'page' }

const STYLE = `
:root { color-scheme: light dark }
body { font: 17px/1.5 system-ui, sans-serif; overflow-wrap: anywhere }
body { max-width: 34rem; margin: 15vh auto 4rem; padding: 0 1.25rem }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 1rem }
button { font: inherit; font-weight: 600; padding: .7rem 1.5rem; border: 0; border-radius: 8px; cursor: pointer }
button { color: #fff; background: #1d4ed8 }
button:hover { background: #1e40af }
button:focus-visible { outline: 3px solid CanvasText; outline-offset: 3px }
`
const STYLE_HASH = createHash('sha256').update(STYLE).digest('base64')
const POLICY =
  `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`

/** What the reader of a mail sees when a link fails. */
const ERRORS: Record<number, { title: string, text: string }> = {
  404: {
    title: 'This link is not valid',
    text: 'A part of it may be missing. Please use the link exactly as it is in the mail.'
  },
  405: { title: 'This link only opens in a browser', text: 'It does not support this kind of request.' },
  410: {
    title: 'This mail is no longer on record',
    text: 'We no longer know to whom it was sent. Please use the link in a newer mail from the same sender.'
  },
  413: { title: 'The request is too large', text: 'This page accepts only a short form.' }
}
const MALFORMED = { title: 'This request is malformed', text: 'Please use the link exactly as it is in the mail.' }

/** The form posts to the page's own URL: it needs neither a script nor a cookie. */
export function formPage (reply: FastifyReply, { to, from }: Parties): FastifyReply {
  return page(
    reply,
    'Unsubscribe',
    html`<h1>Unsubscribe?</h1>
<p><strong>${to}</strong> will get no more mail of this kind${sender(from)}.</p>
<form method="post"><input type="hidden" name="${FORM_FIELD.name}" value="${FORM_FIELD.value}">
<button type="submit">Unsubscribe</button></form>`
  )
}

export function donePage (reply: FastifyReply, { to, from }: Parties): FastifyReply {
  return page(
    reply,
    'Unsubscribed',
    html`<h1>You are unsubscribed</h1>
<p><strong>${to}</strong> will get no more mail of this kind${sender(from)}.</p>`
  )
}

export function errorPage (reply: FastifyReply, status: number): FastifyReply {
  const { title, text } = ERRORS[status] ?? MALFORMED
  return page(reply.code(status), title, html`<h1>${title}</h1><p>${text}</p>`)
}

export function unavailablePage (reply: FastifyReply, retryAfterS: number): FastifyReply {
  const title = 'Please try again in a moment'
  return page(
    reply.code(503).header('retry-after', String(retryAfterS)),
    title,
    html`<h1>${title}</h1><p>This could not be done now. You can safely try again.</p>`
  )
}

function sender (domain: string): Html {
  return domain === '' ? html`` : html` from the sender behind <strong>${domain}</strong>`
}

function page (reply: FastifyReply, title: string, body: Html): FastifyReply {
  const text = html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${title}</title><style>${new Html(STYLE)}</style></head>
<body><main>${body}</main></body></html>
`.text
  return reply.header('content-security-policy', POLICY).type('text/html; charset=utf-8').send(text)
}
