import { html } from '#src/base/html.ts'
import type { DashboardRooms } from '../rooms.ts'
import { heading } from '../parts.ts'
import type { Pages } from '../visit.ts'

export function operationsPages (pages: Pages, _rooms: DashboardRooms): void {
  pages.get('/operations', async () => ({ title: 'Operations', section: 'operations', page: html`${heading('Operations')}` }))
}
