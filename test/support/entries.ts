import type { FeedbackSourceEntry } from '#streams/feedback-source/state.ts'
import type { AccountEntry, KeyEntry, WebhookEntry } from '#streams/directory.ts'
import { NO_DEFAULTS } from '#streams/email/defaults.ts'
import type { UserEntry } from '#streams/user/state.ts'

export function accountEntry (id: string, suspended: AccountEntry['suspended']): AccountEntry {
  return { id, name: 'Shop', limits: {}, recipientsPerDay: null, suspended, resumedAt: null, createdAt: '' }
}

/** A full key of the directory, but for what is given. */
export function keyEntry (given: Partial<KeyEntry> = {}): KeyEntry {
  return {
    id: 'key_one',
    account: 'acc_one',
    name: 'One',
    hash: 'a',
    hint: '',
    previous: null,
    test: false,
    scopes: ['full'],
    domains: ['*'],
    expiresMs: null,
    defaults: NO_DEFAULTS,
    limits: {},
    madeBy: null,
    createdAt: '',
    ...given
  }
}

/** A viewer of the directory, but for what is given. */
export function userEntry (given: Partial<UserEntry> = {}): UserEntry {
  return {
    id: 'usr_one',
    account: 'acc_one',
    address: 'ada@example.com',
    name: 'Ada',
    role: 'viewer',
    identity: null,
    passkeys: [],
    createdAt: '',
    ...given
  }
}

/** An endpoint of the directory that works, but for what is given. */
export function webhookEntry (given: Partial<WebhookEntry> = {}): WebhookEntry {
  return {
    id: 'wh_1',
    account: 'acc_1',
    url: 'https://example.com/',
    events: ['email.delivered'],
    paused: false,
    concurrency: null,
    batch: null,
    everyDeferral: false,
    bounces: 'all',
    mode: 'both',
    format: 'jetpost',
    sealedSecret: '',
    previous: null,
    startAt: '2026-01-01T00:00:00.000Z',
    createdAt: '2026-01-01T00:00:00.000Z',
    pauses: [],
    failingSince: null,
    workedAt: null,
    disabled: null,
    ...given
  }
}

/** A source of Postmark that the secret with this hash opens. */
export function feedbackSourceEntry (fields: Partial<FeedbackSourceEntry> = {}): FeedbackSourceEntry {
  return {
    id: 'fs_1',
    provider: 'postmark',
    name: 'A relay',
    hash: 'a'.repeat(64),
    previous: null,
    sealedKey: null,
    topicArn: null,
    mapping: null,
    onlyAccount: null,
    createdAt: '2026-11-24T12:00:00.000Z',
    ...fields
  }
}
