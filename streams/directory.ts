import type { AnyFact } from './catalog.ts'
import type { Recorded } from './define.ts'
import type { LimitClass, Scope } from './key/facts.ts'
import type { EventType } from './webhook/facts.ts'

export interface Account { id: string, name: string, createdAt: string }

export interface Key {
  id: string
  account: string
  name: string
  hash: string
  hint: string
  test: boolean
  scopes: Scope[]
  domains: string[]
  /** Unix ms, or null for never. */
  expiresMs: number | null
  limits: Partial<Record<LimitClass, number>>
  createdAt: string
}

export interface Domain { id: string, account: string, name: string, createdAt: string }

export interface Webhook {
  id: string
  account: string
  url: string
  events: EventType[]
  sealedSecret: string
  startAt: string
  createdAt: string
  /** Why nothing is sent to it, or null when it is live. */
  disabled: string | null
}

/** What the stream CONTROL says now, folded into memory: who holds which key, owns which domain, listens where. */
export interface Directory {
  accounts: Map<string, Account>
  /** By the SHA-256 of the secret. */
  keysByHash: Map<string, Key>
  keys: Map<string, Key>
  /** By name. */
  domains: Map<string, Domain>
  webhooks: Map<string, Webhook>
  /** Last sequence of every subject seen, for the next append there: entity id or domain name → sequence. */
  versions: Map<string, number>
}

export function emptyDirectory (): Directory {
  return { accounts: new Map(), keysByHash: new Map(), keys: new Map(), domains: new Map(), webhooks: new Map(), versions: new Map() }
}

/** Folds one fact of CONTROL into the directory, in place: it is as large as the installation. */
export function evolveDirectory (directory: Directory, { fact, seq, subject }: Recorded<AnyFact>): void {
  directory.versions.set(subject, seq)
  switch (fact.type) {
    case 'account.created':
      directory.accounts.set(fact.account, { id: fact.account, name: fact.data.name, createdAt: fact.time })
      break
    case 'key.created':
      addKey(directory, {
        ...fact.data,
        id: fact.data.key,
        account: fact.account,
        expiresMs: fact.data.expiresAt === null ? null : Date.parse(fact.data.expiresAt),
        limits: {},
        createdAt: fact.time
      })
      break
    case 'key.limits_changed': {
      const key = directory.keys.get(fact.data.key)
      if (key !== undefined) key.limits = fact.data.limits
      break
    }
    case 'key.revoked':
      directory.keysByHash.delete(directory.keys.get(fact.data.key)?.hash ?? '')
      directory.keys.delete(fact.data.key)
      break
    case 'domain.added':
      directory.domains.set(fact.data.name, { id: fact.data.domain, account: fact.account, name: fact.data.name, createdAt: fact.time })
      break
    case 'domain.removed':
      directory.domains.delete(fact.data.name)
      break
    case 'webhook.created':
      directory.webhooks.set(fact.data.webhook, { ...fact.data, id: fact.data.webhook, account: fact.account, createdAt: fact.time, disabled: null })
      break
    case 'webhook.disabled': {
      const webhook = directory.webhooks.get(fact.data.webhook)
      if (webhook !== undefined) webhook.disabled = fact.data.reason
      break
    }
    case 'webhook.deleted':
      directory.webhooks.delete(fact.data.webhook)
      break
    default:
      throw new Error(`${fact.type} does not belong on CONTROL`)
  }
}

function addKey (directory: Directory, { id, account, name, hash, hint, test, scopes, domains, expiresMs, limits, createdAt }: Key): void {
  const key = { id, account, name, hash, hint, test, scopes, domains, expiresMs, limits, createdAt }
  directory.keys.set(id, key)
  directory.keysByHash.set(hash, key)
}
