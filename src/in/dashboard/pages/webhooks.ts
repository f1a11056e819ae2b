import { html } from '#src/base/html.ts'
import type { DashboardRooms } from '../rooms.ts'
import { heading } from '../parts.ts'
import type { Pages } from '../visit.ts'

export function webhooksPages (pages: Pages, _rooms: DashboardRooms): void {
  pages.get('/webhooks', async () => ({ title: 'Webhooks', section: 'webhooks', page: html`${heading('Webhooks')}` }))
}
