import { FIRST_ACCOUNT } from '../account/facts.ts'
import { SCOPES, type Scope } from '../key/facts.ts'

/** What a person is in an account, from the most powers to the fewest. */
export const USER_ROLES = ['operator', 'owner', 'developer', 'support', 'viewer'] as const
export type UserRole = typeof USER_ROLES[number]

/** What each role may do: the one table. */
const SCOPES_OF: Record<UserRole, readonly Scope[]> = {
  operator: ['full'],
  owner: SCOPES.filter(scope => scope !== 'full' && scope !== 'operator'),
  developer: [
    'emails:send',
    'emails:read',
    'templates:read',
    'templates:write',
    'domains:read',
    'domains:write',
    'keys:read',
    'keys:write',
    'webhooks:read',
    'webhooks:write',
    'suppressions:read',
    'suppressions:write'
  ],
  support: ['emails:metadata', 'templates:read', 'domains:read', 'webhooks:read', 'suppressions:read'],
  viewer: ['emails:list', 'templates:read', 'domains:read']
}

/** The scopes of a role in an account. `full` is all that there is in an account; in the first one that is the whole
 *  installation, which is for operators alone. */
export function scopesOf (role: UserRole, account: string): readonly Scope[] {
  return role === 'owner' && account !== FIRST_ACCOUNT ? ['full'] : SCOPES_OF[role]
}

/** What people read of a role. */
export const ROLE_MEANINGS: Record<UserRole, string> = {
  operator: 'everything, and the whole installation: operations, mailbox, accounts',
  owner: 'everything in this account: keys, people, audit',
  developer: 'send, templates, domains, webhooks, suppressions, and keys no greater than that',
  support: 'read emails and their timelines, deliveries and suppressions, but no content',
  viewer: 'read lists of emails, statistics, templates and domains'
}
