import { Refusal } from '#streams/define.ts'
import { isConfirmed } from '#streams/session/decide.ts'
import { SEEN_MS } from '#src/actions/directory.ts'
import { confirmSession } from '#src/actions/session.ts'
import { html, type Html } from '#src/base/html.ts'
import type { DashboardContext } from './dashboard-context.ts'
import { form, hiddenField, field, type FormField } from './parts.ts'
import type { Handler, PageResult, Pages, Visit } from './visit.ts'

const SECRET = 'confirm_key'

const KEY: FormField = {
  name: SECRET,
  label: 'API key',
  type: 'password',
  required: true,
  autocomplete: 'current-password',
  placeholder: 'jp_live_…'
}

/** Forms for what cannot be taken back, or what gives lasting access: they ask for the key again when it was last
 *  shown an hour ago, and then do what they were sent for. */
export function confirmed (pages: Pages, { services }: DashboardContext): Pick<Pages, 'post'> {
  const asking = (handler: Handler): Handler => async visit => {
    const { form, session, key, asker, nowMs } = visit
    const secret = form.get(SECRET)
    form.delete(SECRET)
    if (isConfirmed(session, nowMs)) return await handler(visit)
    if (secret === null) return askAgain(visit, null)
    const seq = await confirmSession(services, asker, session, key, secret.trim())
    if (seq instanceof Refusal) return askAgain(visit, seq.message)
    await services.directory.reached(seq, SEEN_MS)
    return await handler(visit)
  }
  return { post: (path, handler) => pages.post(path, asking(handler)) }
}

/** What was sent goes along, and is done once the key is shown. */
function askAgain (visit: Visit, fault: string | null): PageResult {
  return { title: 'Confirm', section: null, status: 403, page: confirmPage(visit, fault) }
}

function confirmPage (visit: Visit, fault: string | null): Html {
  const sent = [...visit.form].filter(([name]) => name !== 'csrf').map(([name, value]) => hiddenField(name, value))
  return html`<h1>Enter the key again</h1>
${fault !== null && html`<p class="box bad" role="alert">${fault}</p>`}
<p>This cannot be taken back, or gives lasting access, and you last showed the key
<strong>${visit.key.name}</strong> more than an hour ago. Nothing has happened yet.</p>
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
