import { html, type Html } from '#src/base/html.ts'
import type { Email } from '#src/client/types.ts'
import { empty, live } from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import type { Visit } from '../visit.ts'
import { deliveryList } from './webhook-deliveries.ts'

const NONE = empty(
  'No webhook deliveries',
  html`Jetpost sends the events of an email to the <a href="/dashboard/webhooks">endpoints</a> that subscribe to them.
The deliveries appear here.`
)

/** The webhook deliveries of the email's events. */
export async function webhooksTab (visit: Visit, context: DashboardContext, { id }: Email): Promise<Html> {
  const { rows } = await deliveryList(visit, context, { email: id }, NONE)
  return html`<section aria-labelledby="webhooks-title"><h2 id="webhooks-title">Webhook deliveries</h2>
<div ${live(visit, 'deliveries', 'deliveries')}>${rows}</div></section>`
}
