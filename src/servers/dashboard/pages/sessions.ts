import { endMs, isOver } from '#streams/session/decide.ts'
import { html } from '#src/base/html.ts'
import { SEEN_MS } from '#src/actions/directory.ts'
import { endSessions, sessionsOf } from '#src/actions/session.ts'
import { actionButton, badge, heading, table, time } from '../parts.ts'
import type { DashboardContext } from '../dashboard-context.ts'
import type { Pages, Visit } from '../visit.ts'

/** The sessions of the visitor's key, and signing out everywhere. */
export function sessionsPages (pages: Pages, { services }: DashboardContext): void {
  pages.get('/sessions', async visit => ({
    title: 'Sessions',
    section: null,
    page: html`${
      heading(
        'Sessions',
        actionButton(visit, 'Sign out everywhere', {
          action: '/dashboard/sessions/end',
          confirm: 'Every browser signed in with this key is signed out, including this one.',
          confirmLabel: 'Sign out everywhere',
          danger: true
        })
      )
    }
<p class="hint">You are signed in with the key <strong>${visit.key.name}</strong>. A session ends after 14 days, after
about a day without use, and when its key or the secret it was opened with ends.</p>
${
      table('Sessions of this key', [
        {
          name: 'Session',
          kind: 'wide',
          cell: ({ id }) => html`<code>${id}</code> ${id === visit.session.id && badge('this browser', 'good')}`
        },
        { name: 'Signed in', cell: ({ createdAt }) => time(createdAt, visit.nowMs) },
        { name: 'Ends', cell: session => time(new Date(endMs(session, visit.key)), visit.nowMs) }
      ], own(visit).filter(session => !isOver(session, visit.key, visit.nowMs)))
    }`
  }))

  pages.post('/sessions/end', async visit => {
    await services.directory.reached(await endSessions(services, visit.asker, own(visit)), SEEN_MS)
    return { to: '/dashboard/sign-in' }
  })

  function own (visit: Visit) {
    return sessionsOf(services, visit.key.id).toSorted((a, b) => b.createdAt.localeCompare(a.createdAt))
  }
}
