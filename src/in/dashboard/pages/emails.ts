import { html } from '#src/base/html.ts'
import type { DashboardRooms } from '../rooms.ts'
import { heading } from '../parts.ts'
import type { Pages } from '../visit.ts'

export function emailsPages (pages: Pages, _rooms: DashboardRooms): void {
  pages.get('/emails', async () => ({ title: 'Emails', section: 'emails', page: html`${heading('Emails')}` }))
}
