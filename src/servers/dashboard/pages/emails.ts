import type { DashboardContext } from '../dashboard-context.ts'
import type { Pages } from '../visit.ts'
import { activityPages } from './activity.ts'
import { emailActions } from './email-actions.ts'
import { emailContentPages } from './email-content.ts'
import { newEmailPages } from './email-new.ts'
import { emailPage } from './email-page.ts'

/** Emails: the stream of them, a single one, and a new one. */
export function emailsPages (pages: Pages, context: DashboardContext): void {
  activityPages(pages, context)
  newEmailPages(pages)
  emailPage(pages, context)
  emailContentPages(pages)
  emailActions(pages)
}
