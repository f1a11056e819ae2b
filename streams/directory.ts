import type { AnyFact } from './catalog.ts'
import type { Recorded } from './define.ts'
import type { DomainStatus, RecordState } from './domain/facts.ts'
import { firstKeys, turned, withNext, type DomainKeys } from './domain/keys.ts'
import { NO_DEFAULTS, type SendDefaults } from './email/defaults.ts'
import type { LimitClass, Scope } from './key/facts.ts'
import type { EventType } from './webhook/facts.ts'

export interface Account {
  id: string
  name: string
  createdAt: string
}

export interface Key {
  id: string
  account: string
  name: string
  hash: string
  hint: string
  /** The secret before the last rotation, while it still works; Unix ms. */
  previous: { hash: string, untilMs: number } | null
  test: boolean
  scopes: Scope[]
  domains: string[]
  /** Unix ms, or null for never. */
  expiresMs: number | null
  defaults: SendDefaults
  limits: Partial<Record<LimitClass, number>>
  createdAt: string
}

export interface Domain {
  id: string
  account: string
  name: string
  dkim: DomainKeys
  defaults: SendDefaults
  status: DomainStatus
  /** As DNS showed them when they last changed; empty before the first look. */
  records: RecordState[]
  failingSince: string | null
  /** When DNS last said something new; null before the first look. */
  checkedAt: string | null
  createdAt: string
}

export interface Webhook {
  id: string
  account: string
  url: string
  events: EventType[]
  paused: boolean
  /** Requests at once; null = the dispatcher's choice. */
  concurrency: number | null
  /** Several events in one request; null = one event a request. */
  batch: { maxEvents: number, maxWaitMs: number } | null
  everyDeferral: boolean
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

/** Somebody's way into the dashboard. */
export interface Session {
  id: string
  account: string
  /** Id of the key it was opened with: as long as that one opens the dashboard, so does this. */
  key: string
  /** SHA-256 of the key's secret that it was opened with. */
  keyHash: string
  /** SHA-256 of the secret in the cookie. */
  hash: string
  previousHash: string | null
  /** Since when it has this secret, Unix ms. */
  secretMs: number
  /** When it ends, Unix ms. */
  untilMs: number
  createdAt: string
}

/** What the stream CONTROL says now, folded into memory: who holds which key, owns which domain, listens where. */
export interface Directory {
  accounts: Map<string, Account>
  /** By the SHA-256 of the secret; a key in rotation stands under both. */
  keysByHash: Map<string, Key>
  keys: Map<string, Key>
  /** By name. */
  domains: Map<string, Domain>
  webhooks: Map<string, Webhook>
  /** By id; those that are over leave when the next one is opened. */
  sessions: Map<string, Session>
  /** Last sequence of every subject seen, for the next append there: entity id or domain name → sequence. */
  versions: Map<string, number>
}

export function emptyDirectory (): Directory {
  return {
    accounts: new Map(),
    keysByHash: new Map(),
    keys: new Map(),
    domains: new Map(),
    webhooks: new Map(),
    sessions: new Map(),
    versions: new Map()
  }
}

/** Folds one fact of CONTROL into the directory, in place: it is as large as the installation. */
export function evolveDirectory (directory: Directory, { fact, seq, subject }: Recorded<AnyFact>): void {
  directory.versions.set(subject, seq)
  switch (fact.type) {
    case 'account.created':
      directory.accounts.set(fact.account, { id: fact.account, name: fact.data.name, createdAt: fact.time })
      break
    case 'key.created':
      addKey(directory, fact)
      break
    case 'key.changed':
      changeKey(directory, fact.data)
      break
    case 'key.rotated':
      rotateKey(directory, fact.data)
      break
    case 'key.limits_changed': {
      const key = directory.keys.get(fact.data.key)
      if (key !== undefined) key.limits = fact.data.limits
      break
    }
    case 'key.revoked':
      removeKey(directory, fact.data.key)
      break
    case 'domain.added':
      addDomain(directory, fact)
      break
    case 'domain.changed':
    case 'domain.checked':
    case 'domain.rotation_started':
    case 'domain.keys_switched':
    case 'domain.keys_retired':
      changeDomain(directory, fact)
      break
    case 'domain.removed':
      directory.domains.delete(fact.data.name)
      break
    case 'webhook.created':
      addWebhook(directory, fact)
      break
    case 'webhook.changed':
    case 'webhook.secret_rotated':
    case 'webhook.rotation_finished':
    case 'webhook.enabled':
      changeWebhook(directory, fact)
      break
    case 'webhook.failing':
    case 'webhook.recovered':
    case 'webhook.disabled':
      judgeWebhook(directory, fact)
      break
    case 'webhook.deleted':
      directory.webhooks.delete(fact.data.webhook)
      break
    case 'session.opened':
      openSession(directory, fact)
      break
    case 'session.rotated': {
      const session = directory.sessions.get(fact.data.session)
      if (session !== undefined) {
        Object.assign(session, { hash: fact.data.hash, previousHash: session.hash, secretMs: Date.parse(fact.time) })
      }
      break
    }
    case 'session.ended':
      directory.sessions.delete(fact.data.session)
      break
    default:
      throw new Error(`${fact.type} does not belong on CONTROL`)
  }
}

type Named<Name extends AnyFact['type']> = Extract<AnyFact, { type: Name }>

function addKey (directory: Directory, { data, account, time }: Named<'key.created'>): void {
  const { key: id, expiresAt, ...rest } = data
  const key = { ...rest, id, account, previous: null, expiresMs: msOf(expiresAt), limits: {}, createdAt: time }
  directory.keys.set(id, key)
  directory.keysByHash.set(key.hash, key)
}

function changeKey (directory: Directory, { key: id, expiresAt, ...powers }: Named<'key.changed'>['data']): void {
  const key = directory.keys.get(id)
  if (key !== undefined) Object.assign(key, powers, { expiresMs: msOf(expiresAt) })
}

function rotateKey (directory: Directory, { key: id, hash, hint, previousUntil }: Named<'key.rotated'>['data']): void {
  const key = directory.keys.get(id)
  if (key === undefined) return
  if (key.previous !== null) directory.keysByHash.delete(key.previous.hash)
  Object.assign(key, { hash, hint, previous: { hash: key.hash, untilMs: Date.parse(previousUntil) } })
  directory.keysByHash.set(hash, key)
}

function removeKey (directory: Directory, id: string): void {
  const key = directory.keys.get(id)
  if (key === undefined) return
  directory.keysByHash.delete(key.hash)
  if (key.previous !== null) directory.keysByHash.delete(key.previous.hash)
  directory.keys.delete(id)
}

function addDomain (
  directory: Directory,
  { data: { domain: id, name, dkim }, account, time }: Named<'domain.added'>
): void {
  const unseen = { status: 'pending' as const, records: [], failingSince: null, checkedAt: null }
  directory.domains.set(name, {
    id,
    account,
    name,
    dkim: firstKeys(dkim),
    defaults: NO_DEFAULTS,
    ...unseen,
    createdAt: time
  })
}

type DomainChange = Named<
  'domain.changed' | 'domain.checked' | 'domain.rotation_started' | 'domain.keys_switched' | 'domain.keys_retired'
>

function changeDomain (directory: Directory, { type, data, time }: DomainChange): void {
  const domain = directory.domains.get(data.name)
  if (domain === undefined) return
  switch (type) {
    case 'domain.changed':
      domain.defaults = data.defaults
      break
    case 'domain.checked': {
      const { status, records, failingSince } = data
      Object.assign(domain, { status, records, failingSince, checkedAt: time })
      break
    }
    case 'domain.rotation_started':
      domain.dkim = withNext(domain.dkim, data.dkim, time)
      break
    case 'domain.keys_switched':
      domain.dkim = turned(domain.dkim, { name: 'switched', previousUntil: data.previousUntil })
      break
    case 'domain.keys_retired':
      domain.dkim = turned(domain.dkim, { name: 'retired' })
      break
  }
}

function addWebhook (directory: Directory, { data, account, time }: Named<'webhook.created'>): void {
  const { webhook: id, ...rest } = data
  directory.webhooks.set(id, {
    ...rest,
    id,
    account,
    previous: null,
    createdAt: time,
    failingSince: null,
    workedAt: null,
    disabled: null
  })
}

type WebhookChange = Named<
  'webhook.changed' | 'webhook.secret_rotated' | 'webhook.rotation_finished' | 'webhook.enabled'
>

function changeWebhook (directory: Directory, { type, data }: WebhookChange): void {
  const webhook = directory.webhooks.get(data.webhook)
  if (webhook === undefined) return
  switch (type) {
    case 'webhook.changed': {
      const { webhook: _id, ...settings } = data
      // What failed was another address, or what its owner has mended meanwhile.
      if (settings.url !== webhook.url || (webhook.paused && !settings.paused)) webhook.failingSince = null
      Object.assign(webhook, settings)
      break
    }
    case 'webhook.secret_rotated':
      webhook.previous = { sealedSecret: webhook.sealedSecret, untilMs: Date.parse(data.previousUntil) }
      webhook.sealedSecret = data.sealedSecret
      break
    case 'webhook.rotation_finished':
      webhook.previous = null
      break
    case 'webhook.enabled':
      webhook.disabled = null
      webhook.failingSince = null
      break
  }
}

function judgeWebhook (
  directory: Directory,
  { type, data, time }: Named<'webhook.failing' | 'webhook.recovered' | 'webhook.disabled'>
): void {
  const webhook = directory.webhooks.get(data.webhook)
  if (webhook === undefined) return
  switch (type) {
    case 'webhook.failing':
      webhook.failingSince = data.since
      break
    case 'webhook.recovered':
      webhook.failingSince = null
      webhook.workedAt = time
      break
    case 'webhook.disabled':
      webhook.disabled = data.reason
      break
  }
}

function openSession ({ sessions, keys }: Directory, { data, account, time }: Named<'session.opened'>): void {
  const openedMs = Date.parse(time)
  for (const { id, untilMs } of sessions.values()) if (untilMs <= openedMs) sessions.delete(id)
  const { session: id, key, hash, until, secret: keyHash = keys.get(key)?.hash ?? '' } = data
  sessions.set(id, {
    id,
    account,
    key,
    keyHash,
    hash,
    previousHash: null,
    secretMs: openedMs,
    untilMs: Date.parse(until),
    createdAt: time
  })
}

function msOf (time: string | null): number | null {
  return time === null ? null : Date.parse(time)
}
