import { html, type Html, type Value } from '#src/base/html.ts'
import { plainPage } from '../layout.ts'
import { field, type FormField } from '../parts.ts'

const KEY: FormField = {
  name: 'key',
  label: 'API key',
  type: 'password',
  required: true,
  autocomplete: 'current-password',
  placeholder: 'jp_live_…',
  hint: 'One whose scope is full or dashboard.'
}

/** `to` = where they wanted to go. */
export function signInPage ({ to, fault = null }: { to: string, fault?: Value }): Html {
  return plainPage(
    'Sign in',
    html`<h1>Sign in</h1>
${fault !== null && html`<p class="box bad" role="alert">${fault}</p>`}
<form method="post" action="/dashboard/sign-in">
<input type="hidden" name="to" value="${to}">
${field(KEY)}
<button class="primary">Sign in</button>
</form>
<p class="hint">No key at hand? On the machine that runs Jetpost, <code>jetpost dashboard</code> prints a link that signs you in once.</p>`
  )
}

/** A link that signs in is followed by whatever looks at links before people do, so it takes a click. */
export function linkPage (token: string): Html {
  return plainPage(
    'Sign in',
    html`<h1>Sign in</h1>
<form method="post" action="/dashboard/link"><input type="hidden" name="token" value="${token}"><button class="primary" autofocus>Open the dashboard</button></form>
<p class="hint">This link works once.</p>`
  )
}
