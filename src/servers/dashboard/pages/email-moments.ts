import { knownAt } from '#projections/emails/as-of.ts'
import { factsOf } from '#src/actions/email-past.ts'
import { timestamp } from '#src/base/clock.ts'
import { html, type Html } from '#src/base/html.ts'
import type { Email } from '#src/client/types.ts'
import { exact, withQuery } from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import type { Visit } from '../visit.ts'

/** The moments at which something became known of an email, as the log has them: a fact is stored a little after it
 *  happened. */
export interface Moments {
  /** RFC 3339, oldest first; the first is the request. */
  all: string[]
  /** When the fact with this id became known. */
  of: Map<string, string>
}

/** Throws when NATS does not answer. */
export async function momentsOf (
  { services }: DashboardContext,
  visit: Visit,
  id: string,
  createdAt: string
): Promise<Moments> {
  const facts = knownAt(await factsOf(services.appenders.bus, { account: visit.account.id, id }), Infinity)
  // Nothing is known before the request is, whatever another machine's clock says.
  const atOf = (storedMs: number) => timestamp(Math.max(storedMs, Date.parse(createdAt)))
  const of = new Map(facts.map(({ fact, storedMs }) => [fact.id, atOf(storedMs)]))
  return { all: [...new Set([createdAt, ...of.values()])].sort(), of }
}

/** Where a step of the slider leads: the email as it was known then. The last step that the slider had is now, whatever
 *  has happened since. Focus comes back to it. */
export function stepUrl (visit: Visit, { all }: Moments): string | null {
  if (!visit.query.has('step')) return null
  const step = Number(visit.query.get('step'))
  const last = Number(visit.query.get('last') ?? NaN)
  return `${withQuery(visit, { step: null, last: null, as_of: step >= last ? null : all[step - 1] ?? null })}#step`
}

/** What else the page is asked, and goes on being asked when the slider moves. */
const KEPT_PARAMETERS = ['recipient', 'all']

/** A slider over the moments. It submits itself when it is moved; without a script a button does. */
export function timeSlider (visit: Visit, email: Email, { all }: Moments): Html | null {
  if (all.length < 2) return null
  const asOf = visit.query.get('as_of')
  const now = all.length
  const step = asOf === null ? now : Math.max(1, all.filter(at => Date.parse(at) <= Date.parse(asOf)).length)
  const text = asOf === null ? 'now' : `at ${exact(asOf)}`
  const link = (to: number, words: string) =>
    html`<a class="button" href="${withQuery(visit, { as_of: to === now ? null : all[to - 1]! })}#step">${words}</a>`
  return html`<form method="get" action="/dashboard/emails/${email.id}" class="slider"><label for="step">As known <span class="at">${text}</span></label>
${
    KEPT_PARAMETERS.flatMap(name => {
      const value = visit.query.get(name)
      return value === null ? [] : [html`<input type="hidden" name="${name}" value="${value}">`]
    })
  }
<div>${
    step > 1 && link(step - 1, 'Earlier')
  }<input type="range" id="step" name="step" min="1" max="${now}" value="${step}" aria-valuetext="${text}" autocomplete="off" data-submit>
<input type="hidden" name="last" value="${now}">${
    step < now && link(step + 1, 'Later')
  }<noscript><button>Show</button></noscript></div></form>`
}

/** Said above all when the page is of the past. */
export function pastBanner (visit: Visit, asOf: string): Html {
  return html`<p class="box warn" role="note">As it was known at <strong>${
    exact(asOf)
  }</strong>: what came later is left out.
<a href="${withQuery(visit, { as_of: null })}">Back to now</a></p>`
}
