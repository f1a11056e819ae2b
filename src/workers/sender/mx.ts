import { isIP } from 'node:net'
import { timestamp } from '#src/base/clock.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import { Memory } from '#src/base/memory.ts'
import { isPublic } from '#src/dns/guard.ts'
import type { MxRecord } from '#src/dns/resolve.ts'
import { HostFailure } from './errors.ts'
import { forUnproven, openSession, type SmtpSession, type SmtpTimeouts } from './session.ts'
import type { TrafficShape } from './shaping.ts'
import type { Dial } from './site.ts'
import { namesHost, type StsPolicy } from './mta-sts.ts'
import type { Target } from './target.ts'

/** A domain's MX hosts, best first, and the conditions for connecting to them. */
export interface MxRoute {
  domain: string
  hosts: readonly MxRecord[]
  shape: TrafficShape
  policy: StsPolicy | null
}

/** A host that breaks the MTA-STS policy of a domain: skipped under `enforce`, used all the same under `testing`. */
export interface PolicyFault {
  domain: string
  host: string
  mode: 'enforce' | 'testing'
  fault: 'name' | 'tls'
}

export interface MxOptions {
  /** Addresses of a host, IPv4 first; throws when DNS does not answer. */
  addressesOf: (host: string) => Promise<string[]>
  port: number
  /** Our address to connect from; null = whichever the system takes. */
  source: string | null
  allowPrivate: boolean
  hostname: string
  timeouts: SmtpTimeouts
  nowMs: () => number
  /** Once aborted no further host is tried. */
  stopping: AbortSignal
  random: () => number
  log: Log
  onPolicyFault: (fault: PolicyFault) => void
  /** PEM of the authority to trust: for tests. */
  ca?: string
}

/** The bounds on addresses tried and sessions begun for one mail. Source: Postfix's smtp_mx_address_limit and
 *  smtp_mx_session_limit. */
const ADDRESSES_MAX = 5
const SESSIONS_MAX = 2
/** A host whose TLS failed twice, this far apart at least and at most, gets plaintext for PLAINTEXT_MS. One failure may
 *  be an accident, or an attacker on the line for a moment. */
const APART_MS = { least: 5 * 60_000, most: 60 * 60_000 }
const PLAINTEXT_MS = 3 * 86_400_000
const TLS_FAILURES_MAX = 10_000

/** TLS of a host since it first failed; `plaintextUntilMs` 0 = TLS is tried with every session. */
interface TlsFailure {
  sinceMs: number
  plaintextUntilMs: number
}

/** Opens sessions with MX hosts. */
export class MxConnector {
  private readonly options: MxOptions
  private readonly tlsFailures = new Memory<TlsFailure>(TLS_FAILURES_MAX)

  constructor (options: MxOptions) {
    this.options = options
  }

  /** Throws HostFailure when no host accepts us, or what `dial` throws. */
  async open (route: MxRoute, dial: Dial): Promise<SmtpSession> {
    const { random, stopping } = this.options
    const tries = new Tries()
    for (const host of byPreference(route.hosts, random)) {
      for (const address of await this.addressesFor(route, host, tries)) {
        const session = await this.openAt(route, this.targetOf(route, host, address), dial).catch(asError)
        if (!(session instanceof Error)) return session
        if (!(session instanceof HostFailure)) throw session
        if (tries.isOver(session) || stopping.aborted) throw tries.failure()
      }
    }
    throw tries.failure()
  }

  /** The addresses that mail may go to; why there is none goes to `tries`. */
  private async addressesFor (route: MxRoute, host: string, tries: Tries): Promise<string[]> {
    if (this.isBarred(route, host)) {
      const message = `the MTA-STS policy of ${route.domain} does not name ${host}`
      tries.failed(new HostFailure(message, 'connect', null, { host, class: 'failedstarttls' }))
      return []
    }
    const found = await this.options.addressesOf(host).catch(asError)
    if (found instanceof Error) {
      tries.failed(new HostFailure(`${host}: ${found.message}`, 'connect', null, { host }))
      return []
    }
    const { allowPrivate, source } = this.options
    const fitting = source === null ? found : found.filter(address => isIP(address) === isIP(source))
    const allowed = allowPrivate ? fitting : fitting.filter(isPublic)
    const reason = found.length === 0
      ? 'has no address'
      : fitting.length === 0
      ? `has no address that ${source} reaches`
      : 'has no public address'
    if (allowed.length === 0) tries.failed(new HostFailure(`${host} ${reason}`, 'connect', null, { host }))
    return allowed
  }

  /** A host that the domain's own policy does not name must not be used under `enforce`. */
  private isBarred ({ domain, policy }: MxRoute, host: string): boolean {
    if (policy === null || policy.mode === 'none' || namesHost(policy, host)) return false
    this.report({ domain, host, mode: policy.mode, fault: 'name' })
    return policy.mode === 'enforce'
  }

  private targetOf ({ shape, policy }: MxRoute, host: string, address: string): Target {
    const { nowMs, port, source, ca } = this.options
    const enforced = policy?.mode === 'enforce'
    const isPlaintext = nowMs() < (this.tlsFailures.get(host)?.plaintextUntilMs ?? 0)
    const tls = enforced ? 'required' : shape.tlsRequired ? 'unverified' : isPlaintext ? 'off' : 'opportunistic'
    return { host, address, port, source, secure: false, tls, verify: enforced, ca, auth: null }
  }

  private async openAt ({ domain, policy }: MxRoute, target: Target, dial: Dial): Promise<SmtpSession> {
    const { host } = target
    try {
      const session = await this.connect(target, dial)
      if (session.tls !== null) this.tlsFailures.delete(host)
      if (policy?.mode === 'testing' && session.tls?.verified !== true) {
        this.report({ domain, host, mode: 'testing', fault: 'tls' })
      }
      return session
    } catch (error) {
      if (target.verify && error instanceof HostFailure && (error.inTls || error.noTls)) {
        this.report({ domain, host, mode: 'enforce', fault: 'tls' })
      }
      if (target.tls !== 'opportunistic' || !(error instanceof HostFailure && error.inTls)) throw error
      return await this.openPlaintext(target, dial, error)
    }
  }

  private connect (target: Target, dial: Dial): Promise<SmtpSession> {
    const { hostname, timeouts } = this.options
    dial.at(target.address!)
    return openSession(target, hostname, dial.unproven ? forUnproven(timeouts) : timeouts)
  }

  /** On a new connection. That the host answers at all without TLS shows that TLS failed, and not the network. */
  private async openPlaintext (target: Target, dial: Dial, { message }: HostFailure): Promise<SmtpSession> {
    const { host } = target
    const session = await this.connect({ ...target, tls: 'off' }, dial)
    const untilMs = this.tlsFailed(host, this.options.nowMs())
    const plaintextUntil = untilMs === 0 ? null : timestamp(untilMs)
    this.options.log.warn({ host, fault: message, plaintextUntil }, 'TLS failed; falling back to plaintext')
    return session
  }

  /** Until when the host gets plaintext; 0 = this time only. */
  private tlsFailed (host: string, nowMs: number): number {
    const before = this.tlsFailures.get(host)
    const agoMs = before === undefined ? Infinity : nowMs - before.sinceMs
    if (agoMs < APART_MS.least) return 0
    const plaintextUntilMs = agoMs <= APART_MS.most ? nowMs + PLAINTEXT_MS : 0
    this.tlsFailures.set(host, { sinceMs: nowMs, plaintextUntilMs })
    return plaintextUntilMs
  }

  private report (fault: PolicyFault): void {
    this.options.log.warn(fault, 'the host breaks the MTA-STS policy of the domain')
    this.options.onPolicyFault(fault)
  }
}

/** What was tried so far for one mail. */
class Tries {
  private addresses = 0
  private sessions = 0
  private worst: HostFailure | null = null

  failed (failure: HostFailure): void {
    // A host's own words say more than that another is down.
    if (this.worst === null || this.worst.reply === null) this.worst = failure
  }

  /** One more address has failed; whether that is enough. */
  isOver (failure: HostFailure): boolean {
    this.failed(failure)
    this.addresses++
    if (failure.reply !== null || failure.stage !== 'connect') this.sessions++
    return this.addresses >= ADDRESSES_MAX || this.sessions >= SESSIONS_MAX
  }

  failure (): HostFailure {
    return this.worst ?? new HostFailure('there is no MX host', 'connect', null)
  }
}

/** Names by preference, in random order among equals. Source: RFC 5321 5.1. */
function byPreference (hosts: readonly MxRecord[], random: () => number): string[] {
  return hosts
    .map(host => ({ ...host, chance: random() }))
    .sort((one, other) => one.preference - other.preference || one.chance - other.chance)
    .map(({ exchange }) => exchange)
}
