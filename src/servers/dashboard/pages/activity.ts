import type { EmailStatus } from '#projections/emails/status.ts'
import { html, type Html } from '#src/base/html.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { pageById } from '../find-by-id.ts'
import { icon } from '../icons.ts'
import { buttonTo, exact, faultBox, faultsIn, live, number, withQuery, type Faults } from '../parts.ts'
import type { PageResult, Pages, Visit } from '../visit.ts'
import { asOfIn, COUNT_MAX, countsOf, maySee, readPage, readPastPage, type ActivityPage } from './activity-past.ts'
import { activityList } from './activity-list.ts'
import { selectedEmail } from './activity-selected.ts'
import { timeTrack } from './activity-track.ts'
import { idIn } from './webhook-format.ts'
import {
  chips,
  filterForm,
  readFilters,
  STATUS_GROUPS,
  withoutBlanks,
  type EmailListFilters
} from './emails-filters.ts'

/** Activity, where visitors begin: a stream of emails, the selected one beside it, and the time track. */
export function activityPages (pages: Pages, context: DashboardContext): void {
  pages.get(
    '/',
    'emails:list',
    async ({ query }) => ({ to: `/dashboard/emails${query.size === 0 ? '' : `?${query}`}` })
  )

  pages.get('/emails', 'emails:list', async visit => {
    const tidy = withoutBlanks(visit.url, visit.query)
    if (tidy !== null) return { to: tidy }
    const byId = await pageById(visit, context, visit.query.get('q')?.trim() ?? '')
    return byId === null ? await activityPage(visit, context) : { to: byId }
  })
}

async function activityPage (visit: Visit, context: DashboardContext): Promise<PageResult> {
  const [filters, atMs] = [readFilters(visit.query), asOfIn(visit)]
  const [{ found, faults }, counts] = await Promise.all([
    find(visit, context, filters, atMs),
    atMs === null ? countsOf(visit, context) : null
  ])
  const sendLink = buttonTo(visit, '/dashboard/emails/new', html`${icon('send')}Send an email`, { primary: true })
  const page = html`<div class="head"><h1>Activity</h1>${filterForm(filters, faults)}${sendLink}</div>${
    faultBox(faults)
  }
${found !== null && await screen(visit, context, { found, filters, atMs, counts })}`
  return {
    title: 'Activity',
    section: 'emails',
    status: found === null ? 422 : 200,
    page,
    assets: ['activity.css', 'activity.js'],
    isWide: true
  }
}

/** What is on the page, or what is wrong with the filters. `track` = the page as it is now: scrubbing leaves the track
 *  where it is. */
interface Found {
  shown: ActivityPage
  track: ActivityPage
}

async function find (
  visit: Visit,
  context: DashboardContext,
  { query, faults }: EmailListFilters,
  atMs: number | null
): Promise<{ found: Found | null, faults: Faults }> {
  if (faults.summary !== null) return { found: null, faults }
  try {
    const now = readPage(visit, context, query)
    const past = atMs === null ? now : readPastPage(visit, context, query, atMs)
    const [track, shown] = await Promise.all([now, past])
    return { found: { shown, track }, faults }
  } catch (error) {
    return { found: null, faults: faultsIn(error) }
  }
}

interface Screen {
  found: Found
  filters: EmailListFilters
  atMs: number | null
  counts: Map<EmailStatus, number> | null
}

/** What changes as mail goes out, and as time is gone back in. */
async function screen (
  visit: Visit,
  context: DashboardContext,
  { found: { shown, track }, filters, atMs, counts }: Screen
): Promise<Html> {
  const { id: chosen, html: selected } = await selection(visit, context, shown, atMs)
  // It refreshes with the email that it shows, whatever comes above it.
  const url = withQuery(visit, { email: chosen })
  const marks = atMs === null ? live({ ...visit, url }, 'emails', 'activity') : html`id="activity"`
  return html`<div ${marks} class="activity ${selected !== null && 'split'}">
${atMs !== null && pastBanner(visit, atMs)}${statusTabs(visit, counts)}${chips(visit, filters)}
<div class="panes">${activityList(visit, context, { page: shown, filters, atMs, selected: chosen })}
${selected}</div>
${maySee(visit, 'emails') && timeTrack(visit, context, track, atMs)}</div>`
}

/** The email that the URL names; where there is none, or none yet, the first of the list. */
async function selection (
  visit: Visit,
  context: DashboardContext,
  { rows }: ActivityPage,
  atMs: number | null
): Promise<{ id: string | null, html: Html | null }> {
  const ids = maySee(visit, 'emails') ? [idIn('em', visit.query.get('email') ?? ''), rows[0]?.id ?? null] : []
  for (const id of new Set(ids)) {
    const shown = id === null ? null : await selectedEmail(visit, context, id, atMs)
    if (shown !== null) return { id, html: shown }
  }
  return { id: null, html: null }
}

function pastBanner (visit: Visit, atMs: number): Html {
  return html`<p class="box warn past" role="note">${icon('clock')} You see the account as of
<strong>${exact(new Date(atMs).toISOString())}</strong>. <a href="${
    withQuery(visit, { as_of: null })
  }">Back to now</a></p>`
}

/** All emails, and those in each group of statuses. */
function statusTabs (visit: Visit, counts: Map<EmailStatus, number> | null): Html {
  const chosen = visit.query.get('status')
  const tab = (name: string | null, text: string, statuses: readonly EmailStatus[]) => {
    const found = statuses.map(status => counts?.get(status) ?? 0)
    const sum = found.reduce((all, one) => all + one, 0)
    const count = counts !== null && statuses.length > 0 &&
      html` <span class="count">${number(sum)}${found.includes(COUNT_MAX) && '+'}</span>`
    return html`<li><a href="${withQuery(visit, { status: name, cursor: null, email: null })}"${
      name === chosen && html` aria-current="page"`
    }>${text}${count}</a></li>`
  }
  return html`<nav aria-label="Status"><ul class="tabs pills">${tab(null, 'All', [])}${
    Object.entries(STATUS_GROUPS).map(([name, { text, statuses }]) => tab(name, text, statuses))
  }</ul></nav>`
}
