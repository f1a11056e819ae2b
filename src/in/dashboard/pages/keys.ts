import { html } from '#src/base/html.ts'
import type { DashboardRooms } from '../rooms.ts'
import { heading } from '../parts.ts'
import type { Pages } from '../visit.ts'

export function keysPages (pages: Pages, _rooms: DashboardRooms): void {
  pages.get('/keys', async () => ({ title: 'Keys', section: 'keys', page: html`${heading('Keys')}` }))
}
