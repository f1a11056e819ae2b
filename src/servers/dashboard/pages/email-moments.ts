import { knownAt } from '#projections/emails/as-of.ts'
import { factsOf } from '#src/actions/email-past.ts'
import { timestamp } from '#src/base/clock.ts'
import { html, type Html } from '#src/base/html.ts'
import type { Email } from '#src/client/types.ts'
import { exact, hiddenField, withQuery } from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import type { Visit } from '../visit.ts'

/** When Jetpost learnt something about an email: the times its facts were stored, a little after they happened. */
export interface Moments {
  /** RFC 3339, oldest first; the first is the request. */
  all: string[]
  /** By the fact's id. */
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
  // Never before the request, whatever another machine's clock says.
  const atOf = (storedMs: number) => timestamp(Math.max(storedMs, Date.parse(createdAt)))
  const of = new Map(facts.map(({ fact, storedMs }) => [fact.id, atOf(storedMs)]))
  return { all: [...new Set([createdAt, ...of.values()])].sort(), of }
}

/** Where a step of the slider leads: the email at that time. The slider's last step means now, whatever has happened
 *  since. The slider keeps the focus. */
export function stepUrl (visit: Visit, { all }: Moments): string | null {
  if (!visit.query.has('step')) return null
  const step = Number(visit.query.get('step'))
  const last = Number(visit.query.get('last') ?? NaN)
  return `${withQuery(visit, { step: null, last: null, as_of: step >= last ? null : all[step - 1] ?? null })}#step`
}

/** Parameters of the page that stay when the slider moves. */
const KEPT_PARAMETERS = ['recipient', 'all']

/** A slider over the moments. It submits itself when it moves; without scripts there is a button. */
export function timeSlider (visit: Visit, email: Email, { all }: Moments): Html | null {
  if (all.length < 2) return null
  const asOf = visit.query.get('as_of')
  const now = all.length
  const step = asOf === null ? now : Math.max(1, all.filter(at => Date.parse(at) <= Date.parse(asOf)).length)
  const text = asOf === null ? 'now' : `at ${exact(asOf)}`
  const link = (to: number, label: string) =>
    html`<a class="button" href="${withQuery(visit, { as_of: to === now ? null : all[to - 1]! })}#step">${label}</a>`
  const kept = KEPT_PARAMETERS.flatMap(name => {
    const value = visit.query.get(name)
    return value === null ? [] : [hiddenField(name, value)]
  })
  const marks = html`min="1" max="${now}" value="${step}" aria-valuetext="${text}" autocomplete="off" data-submit`
  return html`<form method="get" action="/dashboard/emails/${email.id}" class="slider">
<label for="step">State <span class="at">${text}</span></label>
${kept}
<div>${step > 1 && link(step - 1, 'Earlier')}<input type="range" id="step" name="step" ${marks}>
${hiddenField('last', now)}${
    step < now && link(step + 1, 'Later')
  }<noscript><button>Show</button></noscript></div></form>`
}

/** Above a page of the past. */
export function pastBanner (visit: Visit, asOf: string): Html {
  return html`<p class="box warn" role="note">You see this email as of <strong>${exact(asOf)}</strong>.
<a href="${withQuery(visit, { as_of: null })}">Back to now</a></p>`
}
