import { html, type Html } from '#src/base/html.ts'
import { codeBlock, copyable, heading } from '../parts.ts'

/** Verifies a request by the header of spec 6.3; runs in Node as it is. */
const VERIFIER = `import { createHmac, timingSafeEqual } from 'node:crypto'

// body: the raw bytes of the request, before any parsing. secret: all of whsec_…
export function isFromJetpost (body, headers, secret) {
  const expected = Buffer.from('sha256=' + createHmac('sha256', secret).update(body).digest('hex'))
  const given = Buffer.from(headers['x-service-signature'] ?? '')
  return given.length === expected.length && timingSafeEqual(given, expected)
}
`

/** The only page that shows a signing secret. */
export function secretPage (
  { id, title, secret, note }: { id: string, title: string, secret: string, note: string }
): Html {
  return html`${heading(title, null, html`<a href="/dashboard/webhooks">Webhooks</a>`)}
<div class="box secret"><h2>Signing secret</h2><p>${copyable(secret, 'Copy the secret')}</p>
<p><strong>Copy the secret now. It is not shown again.</strong> ${note}</p></div>
<section class="card"><h2>Verify requests</h2>
${codeBlock(VERIFIER, 'How to verify a signature')}
<p class="hint">Requests also have the headers <code>webhook-id</code>, <code>webhook-timestamp</code> and
<code>webhook-signature</code>: any Standard Webhooks library verifies them with the same secret, and checks the age of
the request. Answer with a 2xx status within 15 seconds. The same event can arrive twice, always with the same
<code>id</code>.</p></section>
<p><a class="button primary" href="/dashboard/webhooks/${id}">Go to the endpoint</a></p>`
}
