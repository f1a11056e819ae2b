import { html } from '#src/base/html.ts'
import type { DashboardRooms } from '../rooms.ts'
import { heading } from '../parts.ts'
import type { Pages } from '../visit.ts'

export function templatesPages (pages: Pages, _rooms: DashboardRooms): void {
  pages.get('/templates', async () => ({ title: 'Templates', section: 'templates', page: html`${heading('Templates')}` }))
}
