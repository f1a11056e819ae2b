import { html, type Html } from '#src/base/html.ts'
import { codeBlock, copyable, heading } from '../parts.ts'

/** How a receiver tells our requests from others', by the header of spec 6.3; runs as it stands in Node. */
const VERIFIER = `import { createHmac, timingSafeEqual } from 'node:crypto'

// body: the raw bytes of the request, before any parsing. secret: whsec_… as it was shown, as a whole.
export function isFromJetpost (body, headers, secret) {
  const expected = Buffer.from('sha256=' + createHmac('sha256', secret).update(body).digest('hex'))
  const given = Buffer.from(headers['x-service-signature'] ?? '')
  return given.length === expected.length && timingSafeEqual(given, expected)
}
`

/** The only page that ever shows it. */
export function secretPage (
  { id, title, secret, about }: { id: string, title: string, secret: string, about: string }
): Html {
  return html`${heading(title, null, html`<a href="/dashboard/webhooks">Webhooks</a>`)}
<div class="box secret"><h2>Its signing secret</h2><p>${copyable(secret, 'Copy the secret')}</p>
<p>Shown now and never again: put it where the receiver finds it. ${about}</p></div>
<section class="card"><h2>Check that a request is from Jetpost</h2>
${codeBlock(VERIFIER, 'How to check a signature')}
<p class="hint">Each request also carries <code>webhook-id</code>, <code>webhook-timestamp</code> and <code>webhook-signature</code>: any library for Standard
Webhooks checks those with the same secret, and with them how old a request is. Answer 2xx within 15 seconds; the same event may come twice, always with the same
<code>id</code>.</p></section>
<p><a class="button primary" href="/dashboard/webhooks/${id}">Go to the endpoint</a></p>`
}
