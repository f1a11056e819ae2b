import { Refusal } from '#streams/define.ts'
import type { DomainEntry } from '#streams/directory.ts'
import { nextLookMs, type Watch } from '#streams/domain/decide.ts'
import { checkDomain, type DomainServices } from '#src/actions/domain.ts'
import { roleActor } from '#src/actions/fact-log.ts'
import { timestamp } from '#src/base/clock.ts'
import type { Log } from '#src/base/log.ts'
import { repeat } from '#src/base/repeat.ts'
import type { Role } from '#src/base/role.ts'
import { DnsUnavailable } from '#src/dns/resolve.ts'

export interface DomainCheckOptions {
  services: DomainServices
  log: Log
  /** Between two runs. */
  everyMs?: number
}

const CHECKER = { correlation: 'domain-checks', actor: roleActor('scheduler') }
const EVERY_MS = 10_000
const CONCURRENCY = 16
/** Domains in one run, those that have waited longest first; the others follow in the next one. */
const RUN_MAX = 200
/** Each look has a deadline of its own: a run of 200 takes about a minute while DNS does not answer. */
const ROUND_MS_MAX = 600_000
const PATIENCE_MS = 600_000

/** Checks every domain's DNS at its intervals. Several processes may do so: each checks for itself, and a result that
 *  another has recorded is nothing new. When a domain was checked is in memory only: after a start, the checks of
 *  settled domains are spread over their interval. */
export function startDomainChecks (options: DomainCheckOptions): Role {
  const { everyMs = EVERY_MS, log } = options
  const checker = new DomainChecker(options)
  return repeat({
    name: 'domain checks',
    async round (signal) {
      await checker.checkDue(signal)
      return everyMs
    },
    againMs: everyMs,
    roundMsMax: ROUND_MS_MAX,
    onError: error => log.warn({ err: error }, 'domain checks interrupted; retrying'),
    unhealthyReason: ({ doneMs }) =>
      Date.now() - doneMs < PATIENCE_MS ? null : `domains have not been checked since ${timestamp(doneMs)}`
  })
}

class DomainChecker {
  private readonly options: DomainCheckOptions
  private watches = new Map<string, Watch>()

  constructor (options: DomainCheckOptions) {
    this.options = options
  }

  /** Throws nothing: a domain that could not be checked is due again. */
  async checkDue (signal: AbortSignal): Promise<void> {
    const due = this.dueDomains(this.options.services.factLog.clock.nowMs())
    for (let i = 0; i < due.length && !signal.aborted; i += CONCURRENCY) {
      await Promise.all(due.slice(i, i + CONCURRENCY).map(domain => this.check(domain)))
    }
  }

  private dueDomains (nowMs: number): DomainEntry[] {
    const domains = [...this.options.services.directory.now.domains.values()]
    const newWatch = (): Watch => ({ lookedMs: null, told: true, sinceMs: nowMs, luck: Math.random() })
    this.watches = new Map(domains.map(({ id }) => [id, this.watches.get(id) ?? newWatch()]))
    return domains.map(domain => ({ domain, atMs: nextLookMs(domain, this.watches.get(domain.id)!) }))
      .filter(({ atMs }) => atMs <= nowMs)
      .sort((a, b) => a.atMs - b.atMs)
      .slice(0, RUN_MAX)
      .map(({ domain }) => domain)
  }

  private async check (domain: DomainEntry): Promise<void> {
    const { services, log } = this.options
    const { id, account, name, status: before, dkim } = domain
    const signedWith = dkim.active[0]!.selector
    const watch = this.watches.get(id)!
    watch.lookedMs = services.factLog.clock.nowMs()
    try {
      const checked = await checkDomain(services, { account, ...CHECKER }, domain)
      watch.told = true
      if (checked instanceof Refusal) return
      const { status, dkim: { active: [key] } } = checked.domain
      if (status !== before) log.info({ domain: id, name, before, status }, 'domain status changes')
      const { selector } = key!
      if (selector !== signedWith) {
        log.info({ domain: id, name, before: signedWith, selector }, 'domain signs with another DKIM key')
      }
    } catch (error) {
      watch.told = false
      const level = error instanceof DnsUnavailable ? 'debug' : 'warn'
      log[level]({ domain: id, name, err: error }, 'domain could not be checked; retrying')
    }
  }
}
