import { JetpostError } from '#src/client/client.ts'
import { html, type Html } from '#src/base/html.ts'
import type { Email } from '#src/client/types.ts'
import { badge, copyable, detailList, heading, live, tabs, time, withQuery } from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { PageNotFound, type Pages, type Visit } from '../visit.ts'
import { actionsFor, type SuppressionsByAddress } from './email-actions.ts'
import { previewTab, sourceTab } from './email-content.ts'
import { detailsTab } from './email-details.ts'
import { momentsOf, pastBanner, timeSlider, stepUrl, type Moments } from './email-moments.ts'
import { recipientsTable } from './email-recipients.ts'
import { timeline } from './email-timeline.ts'
import { webhooksTab } from './email-webhooks.ts'
import { named, shownAddress, titleOf } from './email-format.ts'

type EmailTab = 'timeline' | 'preview' | 'source' | 'details' | 'webhooks'

const TABS: Array<[tab: EmailTab, text: string]> = [
  ['timeline', 'Timeline'],
  ['preview', 'Preview'],
  ['source', 'Source'],
  ['details', 'Details'],
  ['webhooks', 'Webhooks']
]

/** The tabs that do not change with the email's state. */
const STILL: Record<
  Exclude<EmailTab, 'timeline'>,
  (visit: Visit, context: DashboardContext, email: Email) => Promise<Html>
> = {
  preview: previewTab,
  source: sourceTab,
  details: async (_visit, _context, email) => detailsTab(email),
  webhooks: webhooksTab
}

/** One email: its status and everything known about it. */
export function emailPage (pages: Pages, context: DashboardContext): void {
  pages.get('/emails/:id', async visit => {
    const tab = TABS.find(([name]) => name === visit.query.get('tab'))?.[0] ?? 'timeline'
    const email = await emailOf(visit)
    const moments = tab === 'timeline' || visit.query.has('step')
      ? await momentsOf(context, visit, email.id, email.created_at)
      : null
    const to = moments === null ? null : stepUrl(visit, moments)
    if (to !== null) return { to }
    const isPast = visit.query.has('as_of')
    const still = tab === 'timeline' ? null : await STILL[tab](visit, context, email)
    const suppressions = tab !== 'timeline' || isPast ? null : await suppressionsOf(visit, context, email)
    const page = html`<div ${isPast ? html`id="email"` : live(visit, 'emails', 'email')}>${
      headOf(visit, context, email)
    }${tabsOf(visit, tab)}
${moments !== null && timelineTab(visit, email, moments, suppressions)}</div>${still}`
    return { title: titleOf(email), section: 'emails', page }
  })
}

async function emailOf ({ api, params, query }: Visit): Promise<Email> {
  const asOf = query.get('as_of')
  try {
    return await (asOf === null ? api.emails.get(params.id!) : api.emails.getAsOf(params.id!, asOf))
  } catch (error) {
    if (!(error instanceof JetpostError) || error.status !== 404) throw error
    throw new PageNotFound(
      asOf === null
        ? 'This email does not exist in this account.'
        : 'This email does not exist in this account, or did not exist at that time.'
    )
  }
}

function headOf (
  visit: Visit,
  { services: { settings: { contentRetentionMs } } }: DashboardContext,
  email: Email
): Html {
  const { id, from, to, cc, bcc, status, scheduled_at: at, created_at: createdAt, test } = email
  const asOf = visit.query.get('as_of')
  const state = html`${badge(status)}${test && html` ${badge('test')}`}${
    status === 'scheduled' && html` ${time(at, visit.nowMs)}`
  }`
  const above = html`<a href="/dashboard/emails">Emails</a> / ${copyable(id, 'Copy the id')}`
  return html`${heading(titleOf(email), asOf === null ? actionsFor(visit, email, contentRetentionMs) : null, above)}
${asOf !== null && pastBanner(visit, asOf)}
<section class="card" aria-label="The email">${
    detailList([
      ['Status', state],
      ['From', shownAddress(from)],
      ['To', named(to)],
      cc.length === 0 ? null : ['Cc', named(cc)],
      bcc.length === 0 ? null : ['Bcc', named(bcc)],
      ['Accepted', time(createdAt, visit.nowMs)]
    ])
  }</section>`
}

function tabsOf (visit: Visit, current: EmailTab): Html {
  const base = `/dashboard/emails/${encodeURIComponent(visit.params.id!)}`
  // The other tabs are the same at any time.
  return tabs(
    'Parts of the email',
    TABS.map(([name, text]) => ({
      text,
      isCurrent: name === current,
      href: name === current ? visit.url : name === 'timeline' ? base : `${base}?tab=${name}`
    }))
  )
}

async function suppressionsOf (
  { account }: Visit,
  { services }: DashboardContext,
  { recipients }: Email
): Promise<SuppressionsByAddress> {
  const found = await services.suppressions.standing(account.id, recipients.map(({ address }) => address))
  return new Map(recipients.map(({ address }, i) => [address, found[i]!]))
}

/** The state of each recipient and the timeline, now or at the time of the slider. */
function timelineTab (visit: Visit, email: Email, moments: Moments, suppressions: SuppressionsByAddress | null): Html {
  const number = Number(visit.query.get('recipient') ?? NaN)
  const chosen = email.recipients.find(({ n }) => n === number)
  const only = chosen === undefined ? null : html`<p class="hint">Only ${shownAddress(chosen.address)}.
<a href="${withQuery(visit, { recipient: null, until: null })}">Show all</a></p>`
  return html`${timeSlider(visit, email, moments)}${recipientsTable(visit, email, suppressions)}
<section class="card" aria-labelledby="timeline-title"><h2 id="timeline-title">Timeline</h2>${only}
${timeline(visit, { email, n: chosen?.n ?? null, momentOf: id => moments.of.get(id) })}</section>`
}
