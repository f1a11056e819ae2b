import { auditPages } from './pages/audit.ts'
import { domainsPages } from './pages/domains.ts'
import { emailsPages } from './pages/emails.ts'
import { erasuresPages } from './pages/erasures.ts'
import { keysPages } from './pages/keys.ts'
import { mailboxPages } from './pages/mailbox.ts'
import { palettePages } from './pages/palette.ts'
import { peoplePages } from './pages/people.ts'
import { operationsPages } from './pages/operations.ts'
import { overviewPages } from './pages/overview.ts'
import { sessionsPages } from './pages/sessions.ts'
import { suppressionsPages } from './pages/suppressions.ts'
import { templatesPages } from './pages/templates.ts'
import { webhooksPages } from './pages/webhooks.ts'

/** All pages, in the order of the menu. */
export const ALL_PAGES = [
  overviewPages,
  emailsPages,
  webhooksPages,
  templatesPages,
  domainsPages,
  keysPages,
  suppressionsPages,
  erasuresPages,
  peoplePages,
  auditPages,
  operationsPages,
  mailboxPages,
  sessionsPages,
  palettePages
]
