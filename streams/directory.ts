import type { SuspensionReason } from './account/facts.ts'
import type { AnyFact, FactNamed, FactOn } from './catalog.ts'
import type { Recorded } from './define.ts'
import type { DomainStatus, RecordState, SpfState } from './domain/facts.ts'
import { firstKeys, resealed, turned, withNext, type DomainKeys } from './domain/keys.ts'
import { NO_DEFAULTS, type SendDefaults } from './email/defaults.ts'
import { evolveFeedbackSources, isOfFeedbackSource, type FeedbackSourceEntry } from './feedback-source/state.ts'
import { evolveKeys, type KeyEntry, type KeyMaps } from './key/state.ts'
import type { LimitClass } from './key/facts.ts'
import { evolveUsers, type UserEntry } from './user/state.ts'
import { evolveRoutes, type RouteEntry } from './route/state.ts'
import { evolveSessions, type LinkEntry, type SessionEntry } from './session/state.ts'
import type { BounceChoice, EventType, WebhookFormat, WebhookMode } from './webhook/facts.ts'
import { type Pause, pausesAfter } from './webhook/pauses.ts'

export type { KeyEntry, Principal } from './key/state.ts'

export interface AccountEntry {
  id: string
  name: string
  /** Requests a minute of all its keys together, as an operator has set them. */
  limits: Partial<Record<LimitClass, number>>
  /** null = any number. */
  recipientsPerDay: number | null
  /** Why nothing of it goes out, or null; `automatic` = Jetpost did it by itself. */
  suspended: { reason: SuspensionReason, note: string | null, since: string, automatic: boolean } | null
  /** When it was resumed the last time. */
  resumedAt: string | null
  createdAt: string
}

export interface DomainEntry {
  id: string
  account: string
  name: string
  dkim: DomainKeys
  defaults: SendDefaults
  status: DomainStatus
  /** As DNS showed them when they last changed; empty before the first look. */
  records: RecordState[]
  /** The same of SPF; null where it was not looked up. */
  spf: SpfState | null
  failingSince: string | null
  /** When DNS last said something new; null before the first look. */
  checkedAt: string | null
  createdAt: string
}

export interface WebhookEntry {
  id: string
  account: string
  url: string
  events: EventType[]
  paused: boolean
  /** Its latest pauses, oldest first, Unix ms: those that may still stop the clock of a delivery. `toMs` null = it
   *  lasts. */
  pauses: Pause[]
  /** Requests at once; null = the dispatcher's choice. */
  concurrency: number | null
  /** Several events in one request; null = one event a request. */
  batch: { maxEvents: number, maxWaitMs: number } | null
  everyDeferral: boolean
  bounces: BounceChoice
  mode: WebhookMode
  format: WebhookFormat
  sealedSecret: string
  /** The secret before the last rotation, while it still signs; Unix ms. */
  previous: { sealedSecret: string, untilMs: number } | null
  startAt: string
  createdAt: string
  /** Since when it has done nothing but fail, once that is said; null = it works, or nobody knows. */
  failingSince: string | null
  /** When it last worked after it was said to be failing. */
  workedAt: string | null
  /** Why nothing is sent to it, or null when it is live. */
  disabled: string | null
}

/** What the stream CONTROL says now, folded into memory: who holds which key, owns which domain, listens where. */
export interface Directory extends KeyMaps {
  accounts: Map<string, AccountEntry>
  /** By account and name, as `domainKey` has it: any account may claim a name, and DNS proves whose it is. */
  domains: Map<string, DomainEntry>
  /** The claims of each name. */
  domainsByName: Map<string, DomainEntry[]>
  webhooks: Map<string, WebhookEntry>
  /** Of the installation. */
  routes: Map<string, RouteEntry>
  feedbackSources: Map<string, FeedbackSourceEntry>
  users: Map<string, UserEntry>
  /** By id; those that are over leave when the next one is opened. */
  sessions: Map<string, SessionEntry>
  /** By the id of their session; those that are long over leave when the next one is made. */
  links: Map<string, LinkEntry>
  /** Last sequence of every subject seen, for the next append there: entity id or domain name → sequence. */
  versions: Map<string, number>
}

export function emptyDirectory (): Directory {
  return {
    accounts: new Map(),
    keysByHash: new Map(),
    keys: new Map(),
    keyOrigins: new Map(),
    domains: new Map(),
    domainsByName: new Map(),
    webhooks: new Map(),
    routes: new Map(),
    feedbackSources: new Map(),
    users: new Map(),
    formerUsers: new Set(),
    sessions: new Map(),
    links: new Map(),
    versions: new Map()
  }
}

/** The key of an account's claim of a name. */
export function domainKey (account: string, name: string): string {
  return `${account} ${name}`
}

/** What commands change, by kind: a domain by its `domainKey`, the others by their id. */
export interface Entities {
  account: AccountEntry
  key: KeyEntry
  domain: DomainEntry
  webhook: WebhookEntry
  route: RouteEntry
  feedbackSource: FeedbackSourceEntry
  user: UserEntry
}

export function entitiesOf<Kind extends keyof Entities> (
  directory: Directory,
  kind: Kind
): Map<string, Entities[Kind]> {
  return directory[`${kind}s`] as Map<string, Entities[Kind]>
}

/** An entity after facts of its own, by the same fold as the directory; undefined when there was none or they end it.
 */
export function evolveEntity<Kind extends keyof Entities> (
  kind: Kind,
  id: string,
  before: Entities[Kind] | undefined,
  facts: readonly AnyFact[]
): Entities[Kind] | undefined {
  const directory = emptyDirectory()
  const entities = entitiesOf(directory, kind)
  if (before !== undefined) entities.set(id, { ...before })
  for (const fact of facts) evolveDirectory(directory, { fact, seq: 0, subject: '' })
  return entities.get(id)
}

/** Folds one fact of CONTROL into the directory, in place: it is as large as the installation. */
export function evolveDirectory (directory: Directory, { fact, seq, subject }: Recorded<AnyFact>): void {
  directory.versions.set(subject, seq)
  if (isOfFeedbackSource(fact)) return evolveFeedbackSources(directory.feedbackSources, fact)
  switch (fact.type) {
    case 'account.created':
    case 'account.limits_changed':
    case 'account.quota_changed':
    case 'account.suspended':
    case 'account.resumed':
      evolveAccounts(directory, fact)
      break
    case 'key.created':
    case 'key.changed':
    case 'key.rotated':
    case 'key.limits_changed':
    case 'key.revoked':
      evolveKeys(directory, fact)
      break
    case 'domain.added':
    case 'domain.changed':
    case 'domain.checked':
    case 'domain.rotation_started':
    case 'domain.keys_switched':
    case 'domain.keys_resealed':
    case 'domain.keys_retired':
    case 'domain.removed':
      evolveDomains(directory, fact)
      break
    case 'webhook.created':
    case 'webhook.changed':
    case 'webhook.secret_rotated':
    case 'webhook.secret_resealed':
    case 'webhook.rotation_finished':
    case 'webhook.enabled':
    case 'webhook.failing':
    case 'webhook.recovered':
    case 'webhook.disabled':
    case 'webhook.deleted':
      evolveWebhooks(directory, fact)
      break
    default:
      evolveOthers(directory, fact)
  }
}

function evolveOthers (directory: Directory, fact: AnyFact): void {
  switch (fact.type) {
    case 'route.created':
    case 'route.changed':
    case 'route.resealed':
    case 'route.deleted':
      evolveRoutes(directory.routes, fact)
      break
    case 'user.created':
    case 'user.changed':
    case 'user.removed':
    case 'user.linked':
    case 'user.passkey_added':
    case 'user.passkey_used':
    case 'user.passkey_removed':
      evolveUsers(directory, fact)
      break
    case 'session.link_made':
    case 'session.opened':
    case 'session.rotated':
    case 'session.confirmed':
    case 'session.ended':
      evolveSessions(directory, fact, id => directory.keys.get(id)?.hash)
      break
    default:
      throw new Error(`${fact.type} does not belong on CONTROL`)
  }
}

function evolveAccounts ({ accounts }: Directory, fact: FactOn<'account'>): void {
  const { account: id, time } = fact
  if (fact.type === 'account.created') {
    accounts.set(id, accountAfter(fact))
    return
  }
  const account = accounts.get(id)
  if (account === undefined) return
  switch (fact.type) {
    case 'account.limits_changed':
      account.limits = fact.data.limits
      break
    case 'account.quota_changed':
      account.recipientsPerDay = fact.data.recipientsPerDay
      break
    case 'account.suspended': {
      const { reason, note } = fact.data
      account.suspended = { reason, note, since: time, automatic: fact.actor?.kind === 'role' }
      break
    }
    case 'account.resumed':
      account.suspended = null
      account.resumedAt = time
  }
}

function accountAfter ({ account: id, data: { name }, time }: FactNamed<'account.created'>): AccountEntry {
  return { id, name, limits: {}, recipientsPerDay: null, suspended: null, resumedAt: null, createdAt: time }
}

function addDomain (
  directory: Directory,
  { data: { domain: id, name, dkim }, account, time }: FactNamed<'domain.added'>
): void {
  const unseen = { status: 'pending' as const, records: [], spf: null, failingSince: null, checkedAt: null }
  const domain = { id, account, name, dkim: firstKeys(dkim), defaults: NO_DEFAULTS, ...unseen, createdAt: time }
  removeDomain(directory, domain)
  directory.domains.set(domainKey(account, name), domain)
  directory.domainsByName.set(name, [...directory.domainsByName.get(name) ?? [], domain])
}

function removeDomain (
  { domains, domainsByName }: Directory,
  { account, name }: Pick<DomainEntry, 'account' | 'name'>
): void {
  domains.delete(domainKey(account, name))
  const others = domainsByName.get(name)?.filter(domain => domain.account !== account) ?? []
  if (others.length === 0) domainsByName.delete(name)
  else domainsByName.set(name, others)
}

function evolveDomains (directory: Directory, fact: FactOn<'domain'>): void {
  if (fact.type === 'domain.added') return addDomain(directory, fact)
  const domain = directory.domains.get(domainKey(fact.account, fact.data.name))
  if (domain === undefined) return
  switch (fact.type) {
    case 'domain.changed':
      domain.defaults = fact.data.defaults
      break
    case 'domain.checked': {
      const { status, records, spf = null, failingSince } = fact.data
      Object.assign(domain, { status, records, spf, failingSince, checkedAt: fact.time })
      break
    }
    case 'domain.rotation_started':
      domain.dkim = withNext(domain.dkim, fact.data.dkim, fact.time)
      break
    case 'domain.keys_switched':
      domain.dkim = turned(domain.dkim, { name: 'switched', previousUntil: fact.data.previousUntil })
      break
    case 'domain.keys_resealed':
      domain.dkim = resealed(domain.dkim, fact.data.keys)
      break
    case 'domain.keys_retired':
      domain.dkim = turned(domain.dkim, { name: 'retired' })
      break
    case 'domain.removed':
      removeDomain(directory, domain)
  }
}

function addWebhook (directory: Directory, { data, account, time }: FactNamed<'webhook.created'>): void {
  const { webhook: id, ...rest } = data
  directory.webhooks.set(id, {
    ...rest,
    bounces: rest.bounces ?? 'all',
    format: rest.format ?? 'jetpost',
    id,
    account,
    previous: null,
    pauses: rest.paused ? [{ fromMs: Date.parse(time), toMs: null }] : [],
    createdAt: time,
    failingSince: null,
    workedAt: null,
    disabled: null
  })
}

function evolveWebhooks (directory: Directory, fact: FactOn<'webhook'>): void {
  if (fact.type === 'webhook.created') return addWebhook(directory, fact)
  const webhook = directory.webhooks.get(fact.data.webhook)
  if (webhook === undefined) return
  switch (fact.type) {
    case 'webhook.changed': {
      const { webhook: _id, ...settings } = fact.data
      // What failed was another address, or what its owner has mended meanwhile.
      if (settings.url !== webhook.url || (webhook.paused && !settings.paused)) webhook.failingSince = null
      webhook.pauses = pausesAfter(webhook, settings.paused, Date.parse(fact.time))
      Object.assign(webhook, { ...settings, bounces: settings.bounces ?? 'all' })
      break
    }
    case 'webhook.secret_rotated':
      webhook.previous = { sealedSecret: webhook.sealedSecret, untilMs: Date.parse(fact.data.previousUntil) }
      webhook.sealedSecret = fact.data.sealedSecret
      break
    case 'webhook.secret_resealed': {
      const { sealedSecret, previousSealedSecret: previous } = fact.data
      webhook.sealedSecret = sealedSecret
      if (previous !== null) webhook.previous &&= { ...webhook.previous, sealedSecret: previous }
      break
    }
    case 'webhook.rotation_finished':
      webhook.previous = null
      break
    case 'webhook.enabled':
      webhook.disabled = null
      webhook.failingSince = null
      break
    case 'webhook.failing':
      webhook.failingSince = fact.data.since
      break
    case 'webhook.recovered':
      webhook.failingSince = null
      webhook.workedAt = fact.time
      break
    case 'webhook.disabled':
      webhook.disabled = fact.data.reason
      break
    case 'webhook.deleted':
      directory.webhooks.delete(webhook.id)
  }
}
