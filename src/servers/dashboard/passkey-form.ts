import { html, type Html, type Value } from '#src/base/html.ts'

/** A form that `passkey.js` sends with what a passkey answers; hidden where the browser has none. `options` = where the
 *  script asks what to ask the browser; `prefix` = of the two fields that it
 *  fills in. */
export function passkeyForm (
  { action, options, prefix = '' }: { action: string, options: string, prefix?: string },
  fields: Value,
  label: string
): Html {
  return html`<form method="post" action="${action}" class="fields" data-passkey="${options}" hidden>${fields}
<input type="hidden" name="${prefix}ceremony" value="" data-ceremony>
<input type="hidden" name="${prefix}credential" value="" data-credential>
<p class="box bad" role="alert" data-fault hidden></p><div><button>${label}</button></div></form>`
}
