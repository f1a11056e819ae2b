import { html, type Html } from '#src/base/html.ts'
import type { Email } from '#src/client/types.ts'
import { empty, live } from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import type { Visit } from '../visit.ts'
import { deliveryList } from './webhook-deliveries.ts'

const NONE = empty(
  'No webhook delivery',
  html`When something happens to an email, <a href="/dashboard/webhooks">endpoints that subscribe to it</a> are told, and each delivery is listed here.`
)

/** What endpoints were told of the email. */
export async function webhooksTab (visit: Visit, context: DashboardContext, { id }: Email): Promise<Html> {
  const { rows } = await deliveryList(visit, context, { email: id }, NONE)
  return html`<section aria-labelledby="webhooks-title"><h2 id="webhooks-title">Webhook deliveries of its events</h2>
<div ${live(visit, 'deliveries', 'deliveries')}>${rows}</div></section>`
}
