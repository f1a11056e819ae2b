import { endMs, isOver } from '#streams/session/decide.ts'
import type { SessionEntry } from '#streams/session/state.ts'
import { html, type Html } from '#src/base/html.ts'
import { SEEN_MS } from '#src/actions/directory.ts'
import { endSessions, sessionsOf } from '#src/actions/session.ts'
import { actionButton, badge, heading, table, time, type Column } from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import { PageNotFound, type Pages, type Visit } from '../visit.ts'

/** The sessions of the visitor's key: signing out one by one, and everywhere. */
export function sessionsPages (pages: Pages, { services }: DashboardContext): void {
  pages.get('/sessions', null, async visit => ({ title: 'Sessions', section: null, page: listPage(visit, own(visit)) }))

  pages.post('/sessions/end', null, async visit => {
    await end(visit, own(visit))
    return { to: SIGN_IN }
  })

  pages.post('/sessions/:id/end', null, async visit => {
    const session = own(visit).find(({ id }) => id === visit.params.id)
    if (session === undefined) throw new PageNotFound('This session does not exist, or has ended.')
    await end(visit, [session])
    return session.id === visit.session.id ? { to: SIGN_IN } : { to: PATH, notice: 'That browser is signed out.' }
  })

  async function end (visit: Visit, sessions: SessionEntry[]): Promise<void> {
    await services.directory.reached(await endSessions(services, visit.asker, sessions), SEEN_MS)
  }

  /** The latest first. */
  function own (visit: Visit): SessionEntry[] {
    return sessionsOf(services, visit.principal.id).filter(session => !isOver(session, visit.principal, visit.nowMs))
      .toSorted((a, b) => b.createdAt.localeCompare(a.createdAt))
  }
}

const PATH = '/dashboard/sessions'
const SIGN_IN = '/dashboard/sign-in'

function listPage (visit: Visit, sessions: SessionEntry[]): Html {
  const everywhere = actionButton(visit, 'Sign out everywhere', {
    action: `${PATH}/end`,
    confirm: 'Every browser signed in with this key is signed out, including this one.',
    confirmLabel: 'Sign out everywhere',
    danger: true
  })
  return html`${heading('Sessions', everywhere)}
<p class="hint">You are signed in with the key <strong>${visit.principal.name}</strong>. A session ends after 14 days,
after
about a day without use, and when its key or the secret it was opened with ends.</p>
${table('Sessions of this key', columnsFor(visit), sessions)}`
}

function columnsFor (visit: Visit): Array<Column<SessionEntry>> {
  return [
    {
      name: 'Browser',
      kind: 'wide',
      cell: ({ id, browser }) =>
        html`${browser ?? 'Unknown'} ${id === visit.session.id && badge('this browser', 'good')}<br>
<code>${id}</code>`
    },
    { name: 'Address', cell: ({ ip }) => ip ?? 'unknown' },
    { name: 'Signed in', cell: ({ createdAt }) => time(createdAt, visit.nowMs) },
    { name: 'Ends', cell: session => time(new Date(endMs(session, visit.principal)), visit.nowMs) },
    { name: 'Action', cell: ({ id }) => actionButton(visit, 'Sign out', { action: `${PATH}/${id}/end` }) }
  ]
}
