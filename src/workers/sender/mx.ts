import { timestamp } from '#src/base/clock.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import { isPublic } from '#src/dns/guard.ts'
import type { MxRecord } from '#src/dns/resolve.ts'
import { Memory } from '#src/base/memory.ts'
import { forStranger, HostTrouble, openSession, type Session, type SmtpTimeouts } from './session.ts'
import type { Shape } from './shaping.ts'
import type { Dial } from './site.ts'
import { namesHost, type StsPolicy } from './sts-policy.ts'
import type { Target } from './target.ts'

/** A way to a domain: its MX hosts, best first, and what holds for speaking to them. */
export interface MxWay {
  domain: string
  hosts: readonly MxRecord[]
  shape: Shape
  policy: StsPolicy | null
}

/** A host that does not keep to the MTA-STS policy of a domain: skipped under `enforce`, used all the same under
 *  `testing`. */
export interface PolicyFault {
  domain: string
  host: string
  mode: 'enforce' | 'testing'
  fault: 'name' | 'tls'
}

export interface MxOptions {
  /** Addresses of a host, IPv4 first; throws when DNS does not say. */
  addressesOf: (host: string) => Promise<string[]>
  port: number
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

/** Opens a session with one of a domain's MX hosts; throws HostTrouble when none would have us, or what `dial` throws.
 */
export type OpenMx = (way: MxWay, dial: Dial) => Promise<Session>

/** Of all addresses, so many are tried, and so many sessions begun, before it is called a failure. Source: Postfix's
 *  smtp_mx_address_limit and smtp_mx_session_limit. */
const ADDRESSES_MAX = 5
const SESSIONS_MAX = 2
/** A host whose TLS was found broken twice, so far apart at least and at most, is spoken to in plain for so long. One
 *  break may be an accident, or somebody on the line for a moment. */
const APART_MS = { least: 5 * 60_000, most: 60 * 60_000 }
const PLAIN_MS = 3 * 86_400_000
const BROKEN_HOSTS_MAX = 10_000

/** TLS of a host, since it was first found broken; `plainUntilMs` 0 = it is tried again with every session. */
interface Broken {
  sinceMs: number
  plainUntilMs: number
}

export function createOpenMx (options: MxOptions): OpenMx {
  const broken = new Memory<Broken>(BROKEN_HOSTS_MAX)

  return async (way, dial) => {
    const tries = new Tries()
    for (const host of inTurn(way.hosts, options.random)) {
      if (isBarred(way, host)) tries.failed(policyTrouble(way, host))
      else {for (const address of await reachable(host, tries)) {
          const session = await openAt(way, targetAt(way, host, address), dial).catch(asError)
          if (!(session instanceof Error)) return session
          if (!(session instanceof HostTrouble)) throw session
          if (tries.over(session) || options.stopping.aborted) throw tries.unhealthyReason()
        }}
    }
    throw tries.unhealthyReason()
  }

  /** Counts against the domain's own policy, and under `enforce` the host is none of its. */
  function isBarred ({ domain, policy }: MxWay, host: string): boolean {
    if (policy === null || policy.mode === 'none' || namesHost(policy, host)) return false
    tell({ domain, host, mode: policy.mode, fault: 'name' })
    return policy.mode === 'enforce'
  }

  async function reachable (host: string, tries: Tries): Promise<string[]> {
    const found = await options.addressesOf(host).catch(asError)
    if (found instanceof Error) {
      tries.failed(new HostTrouble(`${host}: ${found.message}`, 'connect', null, { host }))
      return []
    }
    const allowed = options.allowPrivate ? found : found.filter(isPublic)
    const why = found.length === 0 ? 'has no address' : 'has no public address'
    if (allowed.length === 0) tries.failed(new HostTrouble(`${host} ${why}`, 'connect', null, { host }))
    return allowed
  }

  async function openAt (way: MxWay, target: Target, dial: Dial): Promise<Session> {
    const { host } = target
    try {
      const session = await open(target, dial)
      if (session.tls !== null) broken.delete(host)
      if (way.policy?.mode === 'testing' && session.tls?.verified !== true) {
        tell({ domain: way.domain, host, mode: 'testing', fault: 'tls' })
      }
      return session
    } catch (error) {
      if (target.verify && error instanceof HostTrouble && (error.inTls || error.noTls)) {
        tell({ domain: way.domain, host, mode: 'enforce', fault: 'tls' })
      }
      if (target.tls !== 'opportunistic' || !(error instanceof HostTrouble && error.inTls)) throw error
      return await openPlain(target, dial, error)
    }
  }

  function targetAt ({ shape, policy }: MxWay, host: string, address: string): Target {
    const strict = policy?.mode === 'enforce'
    const plain = options.nowMs() < (broken.get(host)?.plainUntilMs ?? 0)
    const tls = strict ? 'required' : shape.tlsRequired ? 'unverified' : plain ? 'off' : 'opportunistic'
    return { host, address, port: options.port, secure: false, tls, verify: strict, ca: options.ca, auth: null }
  }

  function open (target: Target, dial: Dial): Promise<Session> {
    dial.at(target.address!)
    return openSession(target, options.hostname, dial.stranger ? forStranger(options.timeouts) : options.timeouts)
  }

  /** On a new connection. That the host speaks at all without TLS shows that TLS was the matter, and not the way there.
   */
  async function openPlain (target: Target, dial: Dial, { message }: HostTrouble): Promise<Session> {
    const session = await open({ ...target, tls: 'off' }, dial)
    const plainUntilMs = foundBroken(target.host, options.nowMs())
    options.log.warn({
      host: target.host,
      fault: message,
      plainUntil: plainUntilMs === 0 ? null : timestamp(plainUntilMs)
    }, 'TLS is broken there: in plain')
    return session
  }

  /** Until when the host is spoken to in plain; 0 = this time only. */
  function foundBroken (host: string, nowMs: number): number {
    const known = broken.get(host)
    const agoMs = known === undefined ? Infinity : nowMs - known.sinceMs
    if (agoMs < APART_MS.least) return 0
    const again = agoMs <= APART_MS.most
    const plainUntilMs = again ? nowMs + PLAIN_MS : 0
    broken.set(host, { sinceMs: nowMs, plainUntilMs })
    return plainUntilMs
  }

  function tell (fault: PolicyFault): void {
    options.log.warn(fault, 'not as the MTA-STS policy says')
    options.onPolicyFault(fault)
  }
}

/** What was tried so far. */
class Tries {
  private addresses = 0
  private sessions = 0
  private told: HostTrouble | null = null

  failed (trouble: HostTrouble): void {
    // A host's own words tell more than that another is away.
    if (this.told === null || this.told.reply === null) this.told = trouble
  }

  /** One more has failed; whether that is enough. */
  over (trouble: HostTrouble): boolean {
    this.failed(trouble)
    this.addresses++
    if (trouble.reply !== null || trouble.stage !== 'connect') this.sessions++
    return this.addresses >= ADDRESSES_MAX || this.sessions >= SESSIONS_MAX
  }

  unhealthyReason (): HostTrouble {
    return this.told ?? new HostTrouble('there is no MX host', 'connect', null)
  }
}

function policyTrouble ({ domain }: MxWay, host: string): HostTrouble {
  return new HostTrouble(`the MTA-STS policy of ${domain} does not name ${host}`, 'connect', null, {
    host,
    class: 'failedstarttls'
  })
}

/** Names by preference, by chance among equals. Source: RFC 5321 5.1. */
function inTurn (hosts: readonly MxRecord[], random: () => number): string[] {
  return hosts
    .map(host => ({ ...host, chance: random() }))
    .sort((one, other) => one.preference - other.preference || one.chance - other.chance)
    .map(({ exchange }) => exchange)
}
