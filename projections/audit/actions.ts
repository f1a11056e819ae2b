import type { AnyFact, FactNamed } from '#streams/catalog.ts'
import type { OperatorAction } from '#streams/operation/facts.ts'

/** What a command was about: plain values, and never a secret. */
export interface Told {
  /** Its id; null where it is an address. */
  subject: string | null
  /** What people call it, where the fact says so. */
  name: string | null
  /** What else the summary tells, by its word there. */
  detail: Record<string, string>
}

type Tells = { [Type in AnyFact['type']]?: (data: FactNamed<Type>['data']) => Told }

function told (subject: string | null, name: string | null = null, detail: Told['detail'] = {}): Told {
  return { subject, name, detail }
}

const ofKey = ({ key }: { key: string }) => told(key)
const ofDomain = ({ domain, name }: { domain: string, name: string }) => told(domain, name)
const ofWebhook = ({ webhook }: { webhook: string }) => told(webhook)
const ofRoute = ({ route, name }: { route: string, name: string }) => told(route, name)
const ofSession = ({ session }: { session: string }) => told(session)

function principalIn (id: string): Told['detail'] {
  return id.startsWith('usr_') ? { user: id } : { key: id }
}

function powers ({ key, name, scopes, domains, expiresAt }: FactNamed<'key.changed'>['data']): Told {
  return told(key, name, { scopes: listed(scopes), domains: listed(domains), expires: expiresAt ?? 'never' })
}

/** A URL may hold a secret: its host is enough to know it by. */
function endpoint ({ webhook, url, events, paused }: FactNamed<'webhook.changed'>['data']): Told {
  const name = URL.canParse(url) ? new URL(url).host : null
  return told(webhook, name, { events: listed(events), paused: paused ? 'yes' : 'no' })
}

/** Where mail goes now: the URL of a route stands there without its user and password. */
function relay ({ route, name, url, position }: FactNamed<'route.changed'>['data']): Told {
  return told(route, name, { url, position: String(position) })
}

function limits ({ limits }: { limits: Record<string, number | undefined> }): Told['detail'] {
  return { limits: listed(Object.entries(limits).map(([name, limit]) => `${name} ${limit}`)) }
}

const LISTED_MAX = 20

function listed (words: readonly string[]): string {
  const more = words.length - LISTED_MAX
  return words.slice(0, LISTED_MAX).join(', ') + (more > 0 ? ` and ${more} more` : '')
}

/** What each audited fact tells. Suppressions only where somebody commanded them: others follow from mail. */
export const TELLS = {
  'account.created': ({ account, name }) => told(account, name),
  'account.limits_changed': data => told(data.account, null, limits(data)),
  'account.quota_changed': ({ account, recipientsPerDay }) =>
    told(account, null, { 'recipients a day': String(recipientsPerDay ?? 'any number') }),
  'account.suspended': ({ account, reason }) => told(account, null, { reason }),
  'account.resumed': ({ account }) => told(account),
  'key.created': powers,
  'key.changed': powers,
  'key.rotated': ({ key, previousUntil }) => told(key, null, { 'previous secret until': previousUntil }),
  'key.limits_changed': data => told(data.key, null, limits(data)),
  'key.revoked': ofKey,
  'domain.added': ofDomain,
  'domain.changed': ofDomain,
  'domain.checked': ({ domain, name, status }) => told(domain, name, { status }),
  'domain.rotation_started': ofDomain,
  'domain.keys_switched': ofDomain,
  'domain.keys_retired': ofDomain,
  'domain.removed': ofDomain,
  'domain.keys_resealed': ofDomain,
  'webhook.created': endpoint,
  'webhook.changed': endpoint,
  'webhook.secret_rotated': ofWebhook,
  'webhook.rotation_finished': ofWebhook,
  'webhook.secret_resealed': ofWebhook,
  'webhook.enabled': ofWebhook,
  'webhook.failing': ({ webhook, since }) => told(webhook, null, { since }),
  'webhook.recovered': ofWebhook,
  'webhook.disabled': ({ webhook, reason }) => told(webhook, null, { reason }),
  'webhook.deleted': ofWebhook,
  'route.created': relay,
  'route.changed': relay,
  'route.resealed': ofRoute,
  'route.deleted': ofRoute,
  'feedback_source.created': ({ source, name, provider, onlyAccount }) =>
    told(source, name, { provider, ...(onlyAccount === null ? {} : { 'only account': onlyAccount }) }),
  'feedback_source.changed': ({ source, name }) => told(source, name),
  'feedback_source.secret_rotated': ({ source, previousUntil }) =>
    told(source, null, { 'previous URL until': previousUntil }),
  'feedback_source.key_resealed': ({ source }) => told(source),
  'feedback_source.deleted': ({ source }) => told(source),
  'template.versioned': ({ template, name, version }) => told(template, name, { version: String(version) }),
  'template.deleted': ({ template }) => told(template),
  'suppression.added': ({ address, reason }) => told(null, address, { reason }),
  'suppression.removed': ({ address }) => told(null, address),
  'user.created': ({ user, name, address, role }) => told(user, name, { address, role }),
  'user.changed': ({ user, name, role }) => told(user, name, { role }),
  'user.removed': ({ user }) => told(user),
  'user.linked': ({ user, issuer }) => told(user, null, { issuer }),
  'user.passkey_added': ({ user, name }) => told(user, null, { passkey: name }),
  'user.passkey_removed': ({ user }) => told(user),
  'session.link_made': ({ session, principal }) => told(session, null, principalIn(principal)),
  'session.opened': ({ session, principal, browser }) =>
    told(session, null, { ...principalIn(principal), ...(browser === undefined ? {} : { browser }) }),
  'session.confirmed': ofSession,
  'session.ended': ofSession
} satisfies Tells

type AuditedType = keyof typeof TELLS

export type AuditAction = AuditedType | OperatorAction | 'erasure.requested'

/** What was done, and what it was done to, in words: `Created the key Shop`. */
const WORDS: Record<AuditAction, string> = {
  'account.created': 'Created the account #',
  'account.limits_changed': 'Set the rate limits of the account #',
  'account.quota_changed': 'Set the quota of the account #',
  'account.suspended': 'Suspended the account #',
  'account.resumed': 'Resumed the account #',
  'key.created': 'Created the key #',
  'key.changed': 'Changed the key #',
  'key.rotated': 'Rotated the secret of the key #',
  'key.limits_changed': 'Set the rate limits of the key #',
  'key.revoked': 'Revoked the key #',
  'domain.added': 'Added the domain #',
  'domain.changed': 'Changed the domain #',
  'domain.checked': 'Checked the DNS of the domain #',
  'domain.rotation_started': 'Created new DKIM keys for the domain #',
  'domain.keys_switched': 'Switched to the new DKIM keys of the domain #',
  'domain.keys_retired': 'Retired the old DKIM keys of the domain #',
  'domain.removed': 'Removed the domain #',
  'domain.keys_resealed': 'Sealed the DKIM keys of the domain # again',
  'webhook.created': 'Created the webhook #',
  'webhook.changed': 'Changed the webhook #',
  'webhook.secret_rotated': 'Rotated the secret of the webhook #',
  'webhook.rotation_finished': 'Ended the previous secret of the webhook #',
  'webhook.secret_resealed': 'Sealed the secret of the webhook # again',
  'webhook.enabled': 'Enabled the webhook #',
  'webhook.failing': 'Marked the webhook # as failing',
  'webhook.recovered': 'Marked the webhook # as working',
  'webhook.disabled': 'Disabled the webhook #',
  'webhook.deleted': 'Deleted the webhook #',
  'route.created': 'Created the route #',
  'route.changed': 'Changed the route #',
  'route.resealed': 'Sealed the URL of the route # again',
  'route.deleted': 'Deleted the route #',
  'feedback_source.created': 'Created the feedback source #',
  'feedback_source.changed': 'Changed the feedback source #',
  'feedback_source.secret_rotated': 'Rotated the URL of the feedback source #',
  'feedback_source.key_resealed': 'Sealed the key of the feedback source # again',
  'feedback_source.deleted': 'Deleted the feedback source #',
  'template.versioned': 'Saved the template #',
  'template.deleted': 'Deleted the template #',
  'suppression.added': 'Suppressed the address #',
  'suppression.removed': 'Removed the suppression of the address #',
  'user.created': 'Added the user #',
  'user.changed': 'Changed the user #',
  'user.removed': 'Removed the user #',
  'user.linked': 'Linked the user # to an identity',
  'user.passkey_added': 'Added a passkey of the user #',
  'user.passkey_removed': 'Removed a passkey of the user #',
  'session.link_made': 'Created a sign-in link for the dashboard',
  'session.opened': 'Signed in to the dashboard',
  'session.confirmed': 'Signed in to the dashboard again to confirm',
  'session.ended': 'Ended the dashboard session #',
  'erasure.requested': 'Requested the erasure #',
  'rebuild.requested': 'Started a rebuild of the projection #',
  'rebuild.stopped': 'Stopped the rebuild of the projection #',
  'dead_letters.retried': 'Retried the dead-lettered facts of the projection #',
  'replay.requested': 'Requested a replay for the webhook #',
  'replay.canceled': 'Canceled the replay #',
  'delivery.replayed': 'Replayed the delivery #'
}

export const AUDIT_ACTIONS = Object.keys(WORDS) as AuditAction[]

export function isAudited (type: string): type is AuditedType {
  return type in TELLS
}

/** A sentence without a subject, for people: `Revoked the key Shop.` */
export function summaryOf (action: AuditAction, { subject, name, detail }: Told): string {
  const more = Object.entries(detail).map(([word, value]) => `${word}: ${value}`).join('; ')
  const what = WORDS[action].replace('#', () => name ?? subject ?? '(erased)')
  return more === '' ? `${what}.` : `${what} (${more}).`
}
