import { mayDo, SANDBOX_DOMAIN } from '#streams/key/decide.ts'
import { html, type Html } from '#src/base/html.ts'
import { curlFor, FIRST_EMAIL } from '../curl.ts'
import { badge, codeBlock } from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import type { Visit } from '../visit.ts'

interface StartStep {
  name: string
  text: Html
  done: boolean
  to: string
  link: string | null
}

/** The first steps of a new account, in order. */
function stepsOf (
  { account: { id } }: Visit,
  { services: { directory: { now } } }: DashboardContext,
  hasMail: boolean
): StartStep[] {
  const own = <T extends { account: string }>(things: Map<string, T>): T[] =>
    [...things.values()].filter(({ account }) => account === id)
  const domains = own(now.domains)
  return [
    {
      name: 'Create a key for your application',
      text: html`To send emails, the scope <code>emails:send</code> is enough.`,
      done: own(now.keys).some(key => mayDo(key, 'emails:send') && !key.scopes.includes('full')),
      to: '/dashboard/keys/new',
      link: 'Create a key'
    },
    {
      name: 'Send your first email',
      text: html`Every account can send from <code>${SANDBOX_DOMAIN}</code>.${!hasMail && ' The command is below.'}`,
      done: hasMail,
      to: '/dashboard/emails',
      link: null
    },
    {
      name: 'Add your domain',
      text: html`Publish its DNS records. Jetpost checks them and verifies the domain.`,
      done: domains.some(({ status }) => status === 'verified'),
      to: '/dashboard/domains',
      link: domains.length === 0 ? 'Add a domain' : 'Open DNS records'
    },
    {
      name: 'Add a webhook endpoint',
      text: html`Your application gets signed events: delivered, bounced, opened, clicked, complained, unsubscribed.`,
      done: own(now.webhooks).length > 0,
      to: '/dashboard/webhooks',
      link: 'Add an endpoint'
    }
  ]
}

/** The first steps; null once the account has sent emails and has a verified domain. */
export function startCard (visit: Visit, context: DashboardContext, hasMail: boolean): Html | null {
  const steps = stepsOf(visit, context, hasMail)
  if (hasMail && steps[2]!.done) return null
  const lines = steps.map(({ name, text, done, to, link }) =>
    html`<li class="${done ? 'good' : 'busy'}"><div><strong>${name}</strong> ${
      done && badge('done')
    }<p>${text}</p></div>
${!done && link !== null && html`<a class="button" href="${to}">${link}</a>`}</li>`
  )
  return html`<section class="card"><h2>${
    hasMail ? 'Next steps' : 'Get started'
  }</h2><ol class="concerns">${lines}</ol></section>
${
    !hasMail && html`<section class="card"><h2>Send it from the command line</h2>
<p class="hint">With a key in <code>JETPOST_API_KEY</code>. The email appears on this page.</p>
${codeBlock(curlFor(context.publicUrl, '/api/emails', FIRST_EMAIL), 'The first email as a command')}</section>`
  }`
}
