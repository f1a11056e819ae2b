import { html } from '#src/base/html.ts'
import type { DashboardRooms } from '../rooms.ts'
import { heading } from '../parts.ts'
import type { Pages } from '../visit.ts'

export function mailboxPages (pages: Pages, _rooms: DashboardRooms): void {
  pages.get('/mailbox', async () => ({ title: 'Mailbox', section: 'mailbox', page: html`${heading('Mailbox')}` }))
}
