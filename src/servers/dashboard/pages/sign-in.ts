import { html, type Html, type Value } from '#src/base/html.ts'
import { plainPage } from '../layout.ts'
import { field, hiddenField, type FormField } from '../parts.ts'

const KEY: FormField = {
  name: 'key',
  label: 'API key',
  type: 'password',
  required: true,
  autocomplete: 'current-password',
  placeholder: 'jp_live_…',
  hint: 'A key with the scope full or dashboard.'
}

/** `to` = the requested page. */
export function signInPage ({ to, fault = null }: { to: string, fault?: Value }): Html {
  return plainPage(
    'Sign in',
    html`<h1>Sign in</h1>
${fault !== null && html`<p class="box bad" role="alert">${fault}</p>`}
<form method="post" action="/dashboard/sign-in">
${hiddenField('to', to)}
${field(KEY)}
<button class="primary">Sign in</button>
</form>
<p class="hint">No key? On the machine that runs Jetpost, <code>jetpost dashboard</code> prints a sign-in link.</p>`
  )
}

/** Link scanners follow links before people do, so signing in takes a click. */
export function linkPage (token: string): Html {
  return plainPage(
    'Sign in',
    html`<h1>Sign in</h1>
<form method="post" action="/dashboard/link">${hiddenField('token', token)}
<button class="primary" autofocus>Open the dashboard</button></form>
<p class="hint">This link works once.</p>`
  )
}
