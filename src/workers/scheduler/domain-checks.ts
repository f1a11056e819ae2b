import { Refusal } from '#streams/define.ts'
import type { DomainEntry } from '#streams/directory.ts'
import { nextLookMs, type Watch } from '#streams/domain/decide.ts'
import { checkDomain, type DomainServices } from '#src/actions/domain.ts'
import { sleep } from '#src/base/backoff.ts'
import { timestamp } from '#src/base/clock.ts'
import type { Log } from '#src/base/log.ts'
import type { Role } from '#src/base/role.ts'
import { DnsUnavailable } from '#src/dns/resolve.ts'

export interface DomainCheckOptions {
  services: DomainServices
  log: Log
  /** Between two runs. */
  everyMs?: number
}

const EVERY_MS = 10_000
const CONCURRENCY = 16
/** Domains in one run, those that have waited longest first; the others follow in the next one. */
const RUN_MAX = 200
const PATIENCE_MS = 600_000

/** Checks every domain's DNS at its intervals. Several processes may do so: each checks for itself, and a result that
 *  another has recorded is nothing new. When a domain was checked is in memory only: after a start, the checks of
 *  settled domains are spread over their interval. */
export function startDomainChecks (options: DomainCheckOptions): Role {
  return new DomainChecker(options)
}

class DomainChecker implements Role {
  readonly name = 'domain checks'
  private readonly options: DomainCheckOptions
  private readonly stopping = new AbortController()
  private readonly running: Promise<void>
  private watches = new Map<string, Watch>()
  private lastDoneMs = Date.now()

  constructor (options: DomainCheckOptions) {
    this.options = options
    this.running = this.run()
  }

  unhealthyReason (): string | null {
    if (Date.now() - this.lastDoneMs < PATIENCE_MS) return null
    return `domains have not been checked since ${timestamp(this.lastDoneMs)}`
  }

  async stop (): Promise<void> {
    this.stopping.abort()
    await this.running
  }

  private async run (): Promise<void> {
    const { services, everyMs = EVERY_MS } = this.options
    const { signal } = this.stopping
    while (!signal.aborted) {
      const due = this.dueDomains(services.factLog.clock.nowMs())
      for (let i = 0; i < due.length && !signal.aborted; i += CONCURRENCY) {
        await Promise.all(due.slice(i, i + CONCURRENCY).map(domain => this.check(domain)))
      }
      this.lastDoneMs = Date.now()
      await sleep(everyMs, signal)
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
      const checked = await checkDomain(services, { account, correlation: 'domain-checks' }, domain)
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
