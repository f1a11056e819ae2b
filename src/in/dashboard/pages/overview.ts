import { html } from '#src/base/html.ts'
import type { DashboardRooms } from '../rooms.ts'
import { heading } from '../parts.ts'
import type { Pages } from '../visit.ts'

export function overviewPages (pages: Pages, _rooms: DashboardRooms): void {
  pages.get('/', async () => ({ title: 'Overview', section: 'overview', page: html`${heading('Overview')}` }))
}
