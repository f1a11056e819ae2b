import { html, type Html, type Value } from '#src/base/html.ts'
import type { SignInWays } from '../dashboard-context.ts'
import { plainPage } from '../layout.ts'
import { field, hiddenField, type FormField } from '../parts.ts'
import { passkeyForm } from '../passkey-form.ts'

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
export function signInPage (
  { oidc, passkeys }: SignInWays,
  { to, fault = null }: { to: string, fault?: Value }
): Html {
  const elsewhere = oidc !== null &&
    html`<p><a class="button primary" href="/dashboard/oidc?to=${
      encodeURIComponent(to)
    }">Sign in with ${oidc.host}</a></p>`
  const passkey = passkeys !== null && passkeyForm(
    { action: '/dashboard/passkey', options: '/dashboard/passkey/options' },
    hiddenField('to', to),
    'Use a passkey'
  )
  return plainPage(
    'Sign in',
    html`<h1>Sign in</h1>
${fault !== null && html`<p class="box bad" role="alert">${fault}</p>`}
${elsewhere}${passkey}
<form method="post" action="/dashboard/sign-in">
${hiddenField('to', to)}
${field(KEY)}
<button class="${oidc === null && 'primary'}">Sign in</button>
</form>
<p class="hint">No key? On the machine that runs Jetpost, <code>jetpost dashboard</code> prints a sign-in link.</p>`,
    passkeys === null ? [] : ['passkey.js']
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

/** Somebody may be a user of several accounts. `choice` = who that is, sealed. */
export function choicePage (
  users: Array<{ id: string, account: string, role: string }>,
  choice: string
): Html {
  const buttons = users.map(({ id, account, role }) =>
    html`<p><button name="user" value="${id}">${account} (${role})</button></p>`
  )
  return plainPage(
    'Choose an account',
    html`<h1>Choose an account</h1>
<form method="post" action="/dashboard/oidc/choose">${hiddenField('choice', choice)}${buttons}</form>`
  )
}
