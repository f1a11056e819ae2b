import { html } from '#src/base/html.ts'
import type { DashboardRooms } from '../rooms.ts'
import { heading } from '../parts.ts'
import type { Pages } from '../visit.ts'

export function suppressionsPages (pages: Pages, _rooms: DashboardRooms): void {
  pages.get('/suppressions', async () => ({ title: 'Suppressions', section: 'suppressions', page: html`${heading('Suppressions')}` }))
}
