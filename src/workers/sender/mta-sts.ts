import { isIPv6 } from 'node:net'
import { Client } from 'undici'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import { createConnector } from '#src/dns/guard.ts'
import { DnsUnavailable, type Dns } from '#src/dns/resolve.ts'
import { Memory } from '#src/base/memory.ts'
import { readAtMost } from '#src/base/read.ts'
import { Crowded } from './pool.ts'
import { parsePolicy, policyId, type StsPolicy } from './sts-policy.ts'
import { Turns } from './turns.ts'

/** The MTA-STS policies of domains. Source: RFC 8461. */
export interface Policies {
  /** The policy in force, or null. While it is being looked for, the one that is known; throws Crowded when none is:
   *  whoever asks comes back, and holds nothing meanwhile. */
  of(domain: string): Promise<StsPolicy | null>
}

export interface PoliciesOptions {
  dns: Dns
  allowPrivate: boolean
  nowMs: () => number
  /** Once aborted nothing is fetched any more; nothing may be sent then either, or it would go without its policy. */
  stopping: AbortSignal
  log: Log
  /** PEM of the authority to trust, and where policy hosts listen: for tests. */
  ca?: string
  port?: number
  /** How long an answer, policy or none, stands before DNS is asked again; how long a fetch may take, and a turn to
   *  fetch may be waited for. */
  lookAgainMs?: number
  fetchMs?: number
}

/** `untilMs` = for so long it is kept even when nothing newer can be had. */
interface Known {
  policy: StsPolicy
  id: string
  fetchedMs: number
  untilMs: number
}
interface Entry {
  known: Known | null
  lookAtMs: number
  looking: Promise<void> | null
}

const LOOK_AGAIN_MS = 300_000
/** A policy is fetched anew when it is a day old, or half through its time. */
const RENEW_MS = 86_400_000
/** Policy hosts are strangers: a slow one costs its own domains a policy, and the others nothing. */
const FETCH_MS = 10_000
const FETCHES_MAX = 32
const FETCHES_PER_PARENT = 2
const WAITING = { waitingMax: 1000, waitingEachMax: 20 }
/** Whose turn did not come is looked at again sooner than who was asked; by then its mail has come back. */
const TURN_MISSED_MS = 30_000
/** So long a mail waits for a policy on its place in the queue; then it gives the place away and comes back. */
const PATIENCE_MS = 2000
const POLICY_BYTES_MAX = 65_536
const DOMAINS_MAX = 10_000
const CROWDED_MS = 6000

/** Keeps policies in memory for as long as they say. A domain without the TXT record costs one question to DNS. While
 *  nothing newer can be had, what is known and has not run out stays in force; where nothing is known, a policy that
 *  cannot be had in time is none (RFC 8461 5). */
export function createPolicies (options: PoliciesOptions): Policies {
  const { dns, allowPrivate, nowMs, stopping, log, ca, port = 443, lookAgainMs = LOOK_AGAIN_MS, fetchMs = FETCH_MS } =
    options
  const entries = new Memory<Entry>(DOMAINS_MAX)
  const connect = createConnector(allowPrivate, { ca, resolve })
  const turns = new Turns({ max: FETCHES_MAX, eachMax: FETCHES_PER_PARENT, waitMs: fetchMs, ...WAITING })

  async function resolve (host: string) {
    const found = await dns.addresses(host)
    return (found?.addresses ?? []).map(address => ({ address, family: isIPv6(address) ? 6 : 4 }))
  }

  async function of (domain: string): Promise<StsPolicy | null> {
    const entry = entries.get(domain) ?? { known: null, lookAtMs: 0, looking: null }
    if (entry.looking === null && nowMs() < entry.lookAtMs) return inForce(entry)
    entries.set(domain, entry)
    entry.looking ??= look(domain, entry).finally(() => {
      entry.looking = null
    })
    const done = await within(PATIENCE_MS, entry.looking)
    if (!done && live(entry) === null) throw new Crowded(CROWDED_MS)
    return inForce(entry)
  }

  function live ({ known }: Entry): Known | null {
    return known !== null && nowMs() < known.untilMs ? known : null
  }

  function inForce (entry: Entry): StsPolicy | null {
    const policy = live(entry)?.policy ?? null
    return policy?.mode === 'none' ? null : policy
  }

  async function look (domain: string, entry: Entry): Promise<void> {
    const id = await announced(domain)
    const asked = id === null || !isStale(entry, id) || await renewInTurn(domain, entry, id)
    entry.lookAtMs = nowMs() + (asked ? lookAgainMs : TURN_MISSED_MS)
  }

  /** False when its turn did not come. */
  async function renewInTurn (domain: string, entry: Entry, id: string): Promise<boolean> {
    const parent = domain.split('.').slice(-2).join('.')
    if (turns.isFull(parent) && live(entry) === null) throw new Crowded(CROWDED_MS)
    if (!await turns.enter(parent)) return false
    await renew(domain, entry, id)
    turns.leave(parent)
    return true
  }

  async function renew (domain: string, entry: Entry, id: string): Promise<void> {
    const policy = await fetchPolicy(domain).catch(asError)
    if (policy instanceof Error) {
      log.warn({ domain, err: policy, kept: live(entry) !== null }, 'MTA-STS policy cannot be fetched')
    } // One mail at least is sent under a policy that lives for no time.
    else {entry.known = {
        policy,
        id,
        fetchedMs: nowMs(),
        untilMs: nowMs() + Math.max(policy.maxAgeS * 1000, lookAgainMs)
      }}
  }

  function isStale (entry: Entry, id: string): boolean {
    const known = live(entry)
    return known === null || known.id !== id ||
      nowMs() - known.fetchedMs > Math.min(RENEW_MS, known.policy.maxAgeS * 500)
  }

  async function announced (domain: string): Promise<string | null> {
    try {
      return policyId(await dns.txt(`_mta-sts.${domain}`))
    } catch (error) {
      if (error instanceof DnsUnavailable) return null
      throw error
    }
  }

  /** Throws for whatever is not a policy served as RFC 8461 3.3 wants it: no redirect, a good certificate, plain text.
   */
  async function fetchPolicy (domain: string): Promise<StsPolicy> {
    const host = `mta-sts.${domain}`
    const client = new Client(`https://${host}${port === 443 ? '' : `:${port}`}`, { connect, maxHeaderSize: 16_384 })
    try {
      const signal = AbortSignal.any([AbortSignal.timeout(fetchMs), stopping])
      const answer = await client.request({ method: 'GET', path: '/.well-known/mta-sts.txt', signal })
      const text = (await readAtMost(answer.body, POLICY_BYTES_MAX, 'the policy is too large')).toString('utf8')
      const type = String(answer.headers['content-type'] ?? '')
      if (answer.statusCode !== 200 || !/^text\/plain\s*(;|$)/i.test(type)) {
        throw new Error(`${host} answers ${answer.statusCode} with ${type.slice(0, 60)}`)
      }
      const policy = parsePolicy(text)
      if (policy === null) throw new Error(`${host} serves no policy`)
      return policy
    } finally {
      void client.destroy().catch(() => {})
    }
  }

  return { of }
}

/** Whether it ended within so many ms; throws what it throws by then. */
async function within (ms: number, work: Promise<unknown>): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<false>()
  const timer = setTimeout(() => resolve(false), ms).unref()
  return await Promise.race([work.then(() => true), promise]).finally(() => clearTimeout(timer))
}
