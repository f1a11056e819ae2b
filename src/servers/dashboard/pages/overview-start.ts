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

/** What a new account does, in order. */
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
      name: 'Make a key for your application',
      text: html`One that may do no more than it needs to: <code>emails:send</code> is enough to send.`,
      done: own(now.keys).some(key => mayDo(key, 'emails:send') && !key.scopes.includes('full')),
      to: '/dashboard/keys/new',
      link: 'Make a key'
    },
    {
      name: 'Send the first email',
      text: html`From <code>${SANDBOX_DOMAIN}</code>, which every account may send from${
        !hasMail && ': the lines are below'
      }.`,
      done: hasMail,
      to: '/dashboard/emails',
      link: null
    },
    {
      name: 'Add the domain you send from',
      text: html`Jetpost tells which DNS records to publish, and sees for itself when they are there.`,
      done: domains.some(({ status }) => status === 'verified'),
      to: '/dashboard/domains',
      link: domains.length === 0 ? 'Add a domain' : 'See its DNS records'
    },
    {
      name: 'Hear what becomes of mail',
      text:
        html`Signed webhooks tell your application of deliveries, bounces, opens, clicks, complaints and unsubscribes.`,
      done: own(now.webhooks).length > 0,
      to: '/dashboard/webhooks',
      link: 'Add an endpoint'
    }
  ]
}

/** The way to the first email; it is gone once there is mail and a domain to send it from. */
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
    hasMail ? 'Next steps' : 'From nothing to the first email'
  }</h2><ol class="concerns">${lines}</ol></section>
${
    !hasMail && html`<section class="card"><h2>Send it from the command line</h2>
<p class="hint">With a key in <code>JETPOST_API_KEY</code>. This page shows what became of it as soon as it is accepted.</p>
${codeBlock(curlFor(context.publicUrl, '/api/emails', FIRST_EMAIL), 'The first email as a command')}</section>`
  }`
}
