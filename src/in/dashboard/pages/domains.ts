import { html } from '#src/base/html.ts'
import type { DashboardRooms } from '../rooms.ts'
import { heading } from '../parts.ts'
import type { Pages } from '../visit.ts'

export function domainsPages (pages: Pages, _rooms: DashboardRooms): void {
  pages.get('/domains', async () => ({ title: 'Domains', section: 'domains', page: html`${heading('Domains')}` }))
}
