import { getDelivery, listDeliveries } from '#projections/deliveries/queries.ts'
import { timestamp } from '#src/base/clock.ts'
import { idTimeMs } from '#src/base/id.ts'
import { JetpostError } from '#src/client/client.ts'
import type { DashboardContext } from './dashboard-context.ts'
import { readDeliveries } from './pages/webhook-queries.ts'
import type { Visit } from './visit.ts'

const ID = /^(em|ev|whd|tpl)_[0-9a-z]{1,64}$/
const DELIVERIES = '/dashboard/webhooks/deliveries'
/** Pages of the feed; each has 100 events. */
const PAGES_MAX = 10

/** The page of the thing that somebody has searched by its id; null = it is no such id, or nothing has it. */
export async function pageById (visit: Visit, context: DashboardContext, text: string): Promise<string | null> {
  const [, kind] = ID.exec(text) ?? []
  switch (kind) {
    case 'em':
      return await unlessMissing(visit.api.emails.get(text)) === null ? null : `/dashboard/emails/${text}`
    case 'tpl':
      return await unlessMissing(visit.api.templates.get(text)) === null ? null : `/dashboard/templates/${text}`
    case 'whd':
      return await hasDelivery(visit, context, text) ? `${DELIVERIES}/${text}` : null
    case 'ev':
      return await pageOfEvent(visit, context, text)
    default:
      return null
  }
}

async function unlessMissing<T> (found: Promise<T>): Promise<T | null> {
  return await found.catch(error => {
    if (error instanceof JetpostError && error.status !== null && [403, 404].includes(error.status)) return null
    throw error
  })
}

async function hasDelivery (visit: Visit, context: DashboardContext, id: string): Promise<boolean> {
  return await readDeliveries(context, visit.account.id, getDelivery({ account: visit.account.id, id })) !== null
}

/** Its email, whose timeline has it. A test event has none: then its deliveries. */
async function pageOfEvent (visit: Visit, context: DashboardContext, id: string): Promise<string | null> {
  const email = await emailOfEvent(visit, id)
  if (email !== null) return `/dashboard/emails/${email}`
  const found = await readDeliveries(
    context,
    visit.account.id,
    listDeliveries({ account: visit.account.id, filters: { event: id }, limit: 1, cursor: null })
  )
  return found === null || found.data.length === 0 ? null : `${DELIVERIES}?event=${id}`
}

/** The id says in which millisecond the event happened. */
async function emailOfEvent ({ api }: Visit, id: string): Promise<string | null> {
  const atMs = idTimeMs(id)
  if (atMs === null) return null
  const within = { created_after: timestamp(atMs), created_before: timestamp(atMs + 1), limit: 100 }
  let after: string | undefined
  for (let pages = 0; pages < PAGES_MAX; pages++) {
    const page = await unlessMissing(api.events.page({ ...within, after }))
    const event = page?.data.find(one => one.id === id)
    if (event !== undefined) return event.data.email_id
    if (page?.has_more !== true) return null
    after = page.next_cursor
  }
  return null
}
