import { Refusal } from '#streams/define.ts'
import { isConfirmed, isUser } from '#streams/session/decide.ts'
import { SEEN_MS } from '#src/actions/directory.ts'
import { confirmSession, secretFault } from '#src/actions/session.ts'
import { confirmUser } from '#src/actions/user-session.ts'
import { Conflict } from '#src/nats/errors.ts'
import { html, type Html, type Value } from '#src/base/html.ts'
import type { DashboardContext } from './dashboard-context.ts'
import { passkeyForm } from './passkey-form.ts'
import { form, hiddenField, field, type FormField } from './parts.ts'
import type { Handler, PageResult, Pages, Visit } from './visit.ts'

const SECRET = 'confirm_key'
/** What proves who sits there: never a field of the form itself. */
const PROOFS = [SECRET, 'confirm_ceremony', 'confirm_credential', 'confirming']

const KEY: FormField = {
  name: SECRET,
  label: 'API key',
  type: 'password',
  required: true,
  autocomplete: 'current-password',
  placeholder: 'jp_live_…'
}

/** Forms for what cannot be taken back, or what gives lasting access: they ask again who sits there when that was last
 *  shown an hour ago, and then do what they were sent for. */
export function confirmed (pages: Pages, context: DashboardContext): Pick<Pages, 'post'> {
  const asking = (handler: Handler): Handler => async visit => {
    const { form, session, nowMs } = visit
    const isAsked = PROOFS.some(name => form.has(name))
    const proof = Object.fromEntries(PROOFS.map(name => [name, form.get(name) ?? '']))
    for (const name of PROOFS) form.delete(name)
    if (isConfirmed(session, nowMs)) return await handler(visit)
    if (!isAsked) return askAgain(visit, context, null)
    const seq = await confirm(visit, context, proof)
    if (seq instanceof Refusal) return askAgain(visit, context, seq.message)
    await context.services.directory.reached(seq, SEEN_MS)
    return await handler(visit)
  }
  return { post: (path, scope, handler) => pages.post(path, scope, asking(handler)) }
}

/** Takes the proof; resolves to the sequence after which nodes know it. */
async function confirm (
  { session, asker, principal }: Visit,
  { services, ways: { passkeys } }: DashboardContext,
  proof: Record<string, string>
): Promise<number | Refusal> {
  if (!isUser(principal)) {
    return secretFault(services, session, proof[SECRET]!.trim()) ?? await confirmSession(services, asker, session)
  }
  const user = services.directory.now.users.get(principal.id)
  if (passkeys === null || user === undefined || proof.confirm_credential === '') {
    return new Refusal('not_confirmed', 'You have not signed in again yet.')
  }
  const decided = await passkeys.finishConfirm(proof.confirm_ceremony!, proof.confirm_credential!, session.id, user)
  if (decided instanceof Refusal) return decided
  try {
    return await confirmUser(services, asker, session, decided)
  } catch (error) {
    if (error instanceof Conflict) return new Refusal('not_confirmed', 'The passkey was used elsewhere. Try again.')
    throw error
  }
}

/** What was sent goes along, and is done once it is shown. */
function askAgain (visit: Visit, context: DashboardContext, fault: string | null): PageResult {
  const sent = [...visit.form].filter(([name]) => name !== 'csrf').map(([name, value]) => hiddenField(name, value))
  const [title, ask] = isUser(visit.principal)
    ? ['Confirm that it is you', askUser] as const
    : ['Enter the key again', askKey] as const
  return {
    title: 'Confirm',
    section: null,
    status: 403,
    page: html`<h1>${title}</h1>
${fault !== null && html`<p class="box bad" role="alert">${fault}</p>`}
${ask(visit, context, html`${hiddenField('confirming', '1')}${sent}`)}`,
    assets: ['passkey.js']
  }
}

const WHY = 'This cannot be taken back, or gives lasting access, and you last'

function askKey (visit: Visit, _context: DashboardContext, sent: Value): Html {
  return html`<p>${WHY} showed the key <strong>${visit.principal.name}</strong> more than an hour ago. Nothing has
happened yet.</p>
${
    form(
      visit,
      { action: visit.url, class: 'card fields' },
      html`${sent}${field(KEY)}<button class="primary">Continue</button>`
    )
  }
<p class="hint">No key at hand? On the machine that runs Jetpost, <code>jetpost dashboard</code> prints a sign-in link.
Sign in with it, and send the form again.</p>`
}

/** By a passkey in the same step; at the issuer in a tab of its own, so that nothing of the form is lost. */
function askUser (visit: Visit, { services, ways: { oidc, passkeys } }: DashboardContext, sent: Value): Html {
  const user = services.directory.now.users.get(visit.principal.id)
  const own = html`${hiddenField('csrf', visit.csrf)}${sent}`
  const passkey = passkeys !== null && user !== undefined && user.passkeys.length > 0 &&
    passkeyForm({ action: visit.url, options: '/dashboard/passkey/confirm', prefix: 'confirm_' }, own, 'Use a passkey')
  const elsewhere = oidc !== null && user !== undefined && user.identity !== null && html`
<p><a class="button" href="/dashboard/oidc/confirm" target="_blank" rel="noopener">Sign in again with
${oidc.host}</a></p>
${form(visit, { action: visit.url, class: 'inline' }, html`${sent}<button class="primary">Continue</button>`)}`
  const none = passkey === false && elsewhere === false
  return html`<p>${WHY} signed in more than an hour ago. Nothing has happened yet.</p>
<section class="card">${passkey}${elsewhere}${
    none && html`<p>You have neither a passkey nor a sign-in elsewhere: sign in again with a new link, and send the form
again. An owner of the account makes one under People.</p>`
  }</section>`
}
