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
  /** Between two rounds. */
  everyMs?: number
}

const EVERY_MS = 10_000
const AT_ONCE = 16
/** The rest has its turn in the next round, those that have waited longest first. */
const ROUND_MAX = 200
const PATIENCE_MS = 600_000

/** Looks at every domain's DNS again and again. Several processes may do so: each looks for itself, and what one has
 *  recorded is nothing new to the next. What was looked at is remembered in memory only; after a start, domains that
 *  are settled are spread over their gap. */
export function startDomainChecks ({ services, log, everyMs = EVERY_MS }: DomainCheckOptions): Role {
  const stopping = new AbortController()
  let watches = new Map<string, Watch>()
  let lastDoneMs = Date.now()

  async function run (): Promise<void> {
    while (!stopping.signal.aborted) {
      const due = dueDomains(services.appenders.clock.nowMs())
      for (let i = 0; i < due.length && !stopping.signal.aborted; i += AT_ONCE) {
        await Promise.all(due.slice(i, i + AT_ONCE).map(check))
      }
      lastDoneMs = Date.now()
      await sleep(everyMs, stopping.signal)
    }
  }

  function dueDomains (nowMs: number): DomainEntry[] {
    const domains = [...services.directory.now.domains.values()]
    watches = new Map(
      domains.map((
        { id }
      ) => [id, watches.get(id) ?? { lookedMs: null, told: true, sinceMs: nowMs, luck: Math.random() }])
    )
    return domains.map(domain => ({ domain, atMs: nextLookMs(domain, watches.get(domain.id)!) }))
      .filter(({ atMs }) => atMs <= nowMs)
      .sort((a, b) => a.atMs - b.atMs)
      .slice(0, ROUND_MAX)
      .map(({ domain }) => domain)
  }

  async function check (domain: DomainEntry): Promise<void> {
    const { id, account, name, status, dkim } = domain
    const signsWith = dkim.active[0]!.selector
    const watch = watches.get(id)!
    watch.lookedMs = services.appenders.clock.nowMs()
    try {
      const checked = await checkDomain(services, { account, correlation: 'domain-checks' }, domain)
      watch.told = true
      if (checked instanceof Refusal) return
      const { status: now, dkim: { active: [key] } } = checked.domain
      if (now !== status) log.info({ domain: id, name, before: status, status: now }, 'domain has another status')
      if (key!.selector !== signsWith) {
        log.info({ domain: id, name, before: signsWith, selector: key!.selector }, 'domain signs with other keys')
      }
    } catch (error) {
      watch.told = false
      const level = error instanceof DnsUnavailable ? 'debug' : 'warn'
      log[level]({ domain: id, name, err: error }, 'domain not checked')
    }
  }

  const running = run()
  return {
    name: 'domain checks',
    unhealthyReason: () =>
      Date.now() - lastDoneMs < PATIENCE_MS ? null : `domains have not been looked at since ${timestamp(lastDoneMs)}`,
    async stop () {
      stopping.abort()
      await running
    }
  }
}
