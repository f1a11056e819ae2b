import { isIPv6 } from 'node:net'
import { Client } from 'undici'
import { asError } from '#src/base/errors.ts'
import { KeyedSemaphore } from '#src/base/keyed-semaphore.ts'
import type { Log } from '#src/base/log.ts'
import { Memory } from '#src/base/memory.ts'
import { readAtMost } from '#src/base/read.ts'
import { createConnector } from '#src/dns/guard.ts'
import { DnsUnavailable, type Dns } from '#src/dns/resolve.ts'
import { isUnanswered } from '#src/nats/errors.ts'
import { RetryLater } from './errors.ts'

/** What a domain requires of senders. Source: RFC 8461 3.2. */
export interface StsPolicy {
  mode: 'enforce' | 'testing' | 'none'
  /** Names of its MX hosts, lower case; `*.` stands for one label. */
  mx: string[]
  maxAgeS: number
}

const MAX_AGE_S_MAX = 31_557_600
const HOSTS_MAX = 1000
const LINES_MAX = 2000
const LINE_LENGTH_MAX = 1000

/** The `id` of the one TXT record at `_mta-sts.` that is meant; null when there is none, or more than one, or it cannot
 *  be read: then the domain has no policy. Source: RFC 8461 3.1. Pure. */
export function policyId (records: readonly string[]): string | null {
  const meant = records.filter(record => /^v=STSv1\s*;/.test(record))
  if (meant.length !== 1) return null
  return /;\s*id=([A-Za-z0-9]{1,32})\s*(?:;|$)/.exec(meant[0]!)?.[1] ?? null
}

/** Reads a policy file; null when it is none, or longer in lines or in one line than any policy has reason to be. Of
 *  keys that may stand once the first counts, unknown ones do not. Pure, in linear time: anybody may have written the
 *  text. */
export function parsePolicy (text: string): StsPolicy | null {
  const lines = text.split('\n', LINES_MAX + 1)
  if (lines.length > LINES_MAX || lines.some(line => line.length > LINE_LENGTH_MAX)) return null
  const fields = lines.map(fieldOf)
  const first = (key: string) => fields.find(field => field.key === key)?.value
  const mode = first('mode')
  const maxAge = first('max_age') ?? ''
  if (first('version') !== 'STSv1' || !isMode(mode) || !/^\d{1,10}$/.test(maxAge)) return null
  const mx = fields.filter(({ key }) => key === 'mx').map(({ value }) => value.toLowerCase().replace(/\.$/, ''))
  if (mx.length > HOSTS_MAX || (mx.length === 0 && mode !== 'none')) return null
  return { mode, mx, maxAgeS: Math.min(Number(maxAge), MAX_AGE_S_MAX) }
}

/** A line without a colon has no known key. */
function fieldOf (line: string): { key: string, value: string } {
  const colon = line.indexOf(':')
  return { key: line.slice(0, Math.max(0, colon)).trim(), value: line.slice(colon + 1).trim() }
}

function isMode (mode: string | undefined): mode is StsPolicy['mode'] {
  return mode === 'enforce' || mode === 'testing' || mode === 'none'
}

/** Whether the policy names the host. Source: RFC 8461 4.1. Pure. */
export function namesHost (policy: StsPolicy, host: string): boolean {
  const parent = host.slice(host.indexOf('.') + 1)
  return policy.mx.some(
    pattern => (pattern.startsWith('*.') ? host.includes('.') && pattern.slice(2) === parent : pattern === host)
  )
}

export interface PolicyOptions {
  dns: Dns
  store: PolicyStore
  allowPrivate: boolean
  nowMs: () => number
  /** Once aborted nothing is fetched any more; nothing may be sent then either, or it would go without its policy. */
  stopping: AbortSignal
  log: Log
  /** PEM of the authority to trust, and the port of policy hosts: for tests. */
  ca?: string
  port?: number
  /** How long an answer, policy or none, holds before DNS is queried again. */
  refreshMs?: number
  /** How long a fetch may take, and how long it may wait for its turn. */
  fetchMs?: number
}

/** `untilMs` = it is kept for this long even when nothing newer can be fetched. */
export interface CachedPolicy {
  policy: StsPolicy
  id: string
  fetchedMs: number
  untilMs: number
}

/** Keeps MTA-STS policies over restarts: who holds back a domain's TXT record or its policy host while we start would
 *  else get its mail in plaintext. Source: RFC 8461 10.2. */
export interface PolicyStore {
  /** Null when there is none. Throws what `isUnanswered` knows. */
  read(domain: string): Promise<CachedPolicy | null>
  /** Never waits: one that is lost is written again when it is renewed, within a day. */
  write(domain: string, policy: CachedPolicy): void
}

interface PolicyEntry {
  cached: CachedPolicy | null
  /** What an earlier process has stored is in `cached`. */
  isRead: boolean
  refreshAtMs: number
  refreshing: Promise<void> | null
}

const REFRESH_MS = 300_000
/** A policy is fetched again when it is a day old, or half through its time. */
const RENEW_MS = 86_400_000
/** Anybody can run a policy host: a slow one costs its own domains a policy, and the others nothing. */
const FETCH_MS = 10_000
const FETCHES = { max: 32, maxPerKey: 2, waitingMax: 1000, waitingMaxPerKey: 20 }
/** A domain whose fetch got no turn is refreshed sooner than one that was fetched; by then its mail has come back. */
const NO_TURN_REFRESH_MS = 30_000
/** A mail waits this long for a policy in its place in the queue; then it leaves and comes back. */
const PATIENCE_MS = 2000
const POLICY_BYTES_MAX = 65_536
const DOMAINS_MAX = 10_000
const RETRY_MS = 6000

/** The MTA-STS policies of domains (RFC 8461), kept for as long as they say, also over a restart. A domain without the
 *  TXT record costs one DNS query, and one look into the store after a restart. While nothing newer can be fetched, a
 *  cached policy that has not expired stays in force; where none is cached, a policy that cannot be fetched in time
 *  counts as none (RFC 8461 5). */
export class PolicyCache {
  private readonly options: PolicyOptions
  private readonly nowMs: () => number
  private readonly refreshMs: number
  private readonly fetchMs: number
  private readonly connect: ReturnType<typeof createConnector>
  private readonly entries = new Memory<PolicyEntry>(DOMAINS_MAX)
  private readonly fetches: KeyedSemaphore

  constructor (options: PolicyOptions) {
    const { allowPrivate, ca, nowMs, refreshMs = REFRESH_MS, fetchMs = FETCH_MS } = options
    this.options = options
    this.nowMs = nowMs
    this.refreshMs = refreshMs
    this.fetchMs = fetchMs
    this.connect = createConnector(allowPrivate, { ca, resolve: host => this.addressesOf(host) })
    this.fetches = new KeyedSemaphore({ ...FETCHES, waitMs: fetchMs })
  }

  /** The policy in force, or null; while it is refreshed, the cached one. Throws RetryLater when none is cached and the
   *  fetch takes long: the mail comes back, and holds no place in the queue meanwhile. */
  async of (domain: string): Promise<StsPolicy | null> {
    const entry = this.entries.get(domain) ?? { cached: null, isRead: false, refreshAtMs: 0, refreshing: null }
    if (entry.refreshing === null && this.nowMs() < entry.refreshAtMs) return this.inForce(entry)
    this.entries.set(domain, entry)
    entry.refreshing ??= this.refresh(domain, entry).finally(() => {
      entry.refreshing = null
    })
    const isDone = await within(PATIENCE_MS, entry.refreshing)
    if (!isDone && this.unexpired(entry) === null) throw new RetryLater(RETRY_MS)
    return this.inForce(entry)
  }

  private async addressesOf (host: string): Promise<Array<{ address: string, family: 4 | 6 }>> {
    const found = await this.options.dns.addresses(host)
    return (found?.addresses ?? []).map(address => ({ address, family: isIPv6(address) ? 6 : 4 }))
  }

  private unexpired ({ cached }: PolicyEntry): CachedPolicy | null {
    return cached !== null && this.nowMs() < cached.untilMs ? cached : null
  }

  private inForce (entry: PolicyEntry): StsPolicy | null {
    const policy = this.unexpired(entry)?.policy ?? null
    return policy?.mode === 'none' ? null : policy
  }

  private async refresh (domain: string, entry: PolicyEntry): Promise<void> {
    if (!entry.isRead) entry.cached = await this.stored(domain)
    entry.isRead = true
    const id = await this.publishedId(domain)
    const isAnswered = id === null || !this.isStale(entry, id) || await this.renewInTurn(domain, entry, id)
    entry.refreshAtMs = this.nowMs() + (isAnswered ? this.refreshMs : NO_TURN_REFRESH_MS)
  }

  /** Throws RetryLater when nobody knows. */
  private async stored (domain: string): Promise<CachedPolicy | null> {
    try {
      return await this.options.store.read(domain)
    } catch (error) {
      throw isUnanswered(error) ? new RetryLater(RETRY_MS) : error
    }
  }

  private async publishedId (domain: string): Promise<string | null> {
    try {
      return policyId(await this.options.dns.txt(`_mta-sts.${domain}`))
    } catch (error) {
      if (error instanceof DnsUnavailable) return null
      throw error
    }
  }

  private isStale (entry: PolicyEntry, id: string): boolean {
    const cached = this.unexpired(entry)
    return cached === null || cached.id !== id ||
      this.nowMs() - cached.fetchedMs > Math.min(RENEW_MS, cached.policy.maxAgeS * 500)
  }

  /** False when it got no turn. */
  private async renewInTurn (domain: string, entry: PolicyEntry, id: string): Promise<boolean> {
    const parent = domain.split('.').slice(-2).join('.')
    if (this.fetches.isFull(parent) && this.unexpired(entry) === null) throw new RetryLater(RETRY_MS)
    if (!await this.fetches.acquire(parent)) return false
    await this.renew(domain, entry, id)
    this.fetches.release(parent)
    return true
  }

  private async renew (domain: string, entry: PolicyEntry, id: string): Promise<void> {
    const policy = await this.fetch(domain).catch(asError)
    if (policy instanceof Error) {
      const inForce = this.unexpired(entry) !== null
      this.options.log.warn({ domain, err: policy, inForce }, 'MTA-STS policy cannot be fetched; retrying later')
      return
    }
    const fetchedMs = this.nowMs()
    // At least one mail is sent under a policy that expires at once.
    const untilMs = fetchedMs + Math.max(policy.maxAgeS * 1000, this.refreshMs)
    entry.cached = { policy, id, fetchedMs, untilMs }
    this.options.store.write(domain, entry.cached)
  }

  /** Throws for anything but a policy served as RFC 8461 3.3 requires: no redirect, a good certificate, plain text. */
  private async fetch (domain: string): Promise<StsPolicy> {
    const { port = 443, stopping } = this.options
    const host = `mta-sts.${domain}`
    const origin = `https://${host}${port === 443 ? '' : `:${port}`}`
    const client = new Client(origin, { connect: this.connect, maxHeaderSize: 16_384 })
    try {
      const signal = AbortSignal.any([AbortSignal.timeout(this.fetchMs), stopping])
      const response = await client.request({ method: 'GET', path: '/.well-known/mta-sts.txt', signal })
      const text = (await readAtMost(response.body, POLICY_BYTES_MAX, 'the policy is too large')).toString('utf8')
      const type = String(response.headers['content-type'] ?? '')
      if (response.statusCode !== 200 || !/^text\/plain\s*(;|$)/i.test(type)) {
        throw new Error(`${host} answers ${response.statusCode} with ${type.slice(0, 60)}`)
      }
      const policy = parsePolicy(text)
      if (policy === null) throw new Error(`${host} serves no policy`)
      return policy
    } finally {
      void client.destroy().catch(() => {})
    }
  }
}

/** Whether it ended within `ms`; throws what it throws by then. */
async function within (ms: number, work: Promise<unknown>): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<false>()
  const timer = setTimeout(() => resolve(false), ms).unref()
  return await Promise.race([work.then(() => true), promise]).finally(() => clearTimeout(timer))
}
