import { sql } from '#projections/define.ts'
import { stats } from '#projections/stats/project.ts'
import { countsOfMonth } from '#projections/stats/queries.ts'
import { settledMonths } from '#streams/usage/facts.ts'
import type { Services } from '#src/actions/services.ts'
import { closeMonth } from '#src/actions/usage.ts'
import { timestamp } from '#src/base/clock.ts'
import type { Log } from '#src/base/log.ts'
import { repeat } from '#src/base/repeat.ts'
import type { Role } from '#src/base/role.ts'
import type { Checkpoints } from '#src/postgres/checkpoint.ts'
import { ageMsMax } from '#src/nats/status.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'
import { liveSet, qualified } from '#src/postgres/table-sets.ts'

export interface MonthCloserOptions {
  services: Pick<Services, 'factLog' | 'directory'>
  pool: Pool
  checkpoints: Checkpoints
  log: Log
  /** Between two runs. */
  everyMs?: number
}

/** An account's month, with a name for both. */
interface AccountMonth {
  account: string
  month: string
  name: string
}

const EVERY_MS = 3_600_000
const RETRY_MS = 60_000
/** The next round goes on where this one ended. */
const ROUND_MS_MAX = 1_800_000
/** PostgreSQL may be away, or a projection rebuilt, for so long before this counts as unhealthy. */
const PATIENCE_MS = 4 * EVERY_MS
const VIEW_MS = 30_000
/** As many as the fact holds. */
const DOMAINS_MAX = 10_000

/** Closes the months of every account once they are settled, while the counts of all of their days still exist. Several
 *  processes may do so: the log takes a month once. */
export function startUsage (options: MonthCloserOptions): Role {
  const { log, everyMs = EVERY_MS } = options
  const closer = new MonthCloser(options)
  return repeat({
    name: 'usage',
    round: async signal => (await closer.closeSettled(signal) ? everyMs : null),
    againMs: Math.min(everyMs, RETRY_MS),
    roundMsMax: ROUND_MS_MAX,
    onError: error => log.warn({ err: error }, 'months could not be closed; retrying'),
    unhealthyReason: ({ doneMs }) =>
      Date.now() - doneMs < PATIENCE_MS ? null : `months have not been closed since ${timestamp(doneMs)}`
  })
}

class MonthCloser {
  private readonly options: MonthCloserOptions
  /** The names of the months that are closed. */
  private closed = new Set<string>()

  constructor (options: MonthCloserOptions) {
    this.options = options
  }

  /** False when the projection is too far behind, or lacks facts, and when `signal` is aborted. Throws when NATS or
   *  PostgreSQL does not answer. */
  async closeSettled (signal: AbortSignal): Promise<boolean> {
    const settled = await this.findSettled()
    this.closed = new Set(settled.map(({ name }) => name).filter(name => this.closed.has(name)))
    const open = settled.filter(({ name }) => !this.closed.has(name))
    if (open.length === 0) return true
    if (!await this.options.checkpoints.caughtUp(stats, VIEW_MS) || await this.hasDeadLetters()) return false
    for (const { account, month, name } of open) {
      if (signal.aborted) return false
      await this.close(account, month)
      this.closed.add(name)
    }
    return true
  }

  private async findSettled (): Promise<AccountMonth[]> {
    const { factLog: { bus, clock }, directory } = this.options.services
    const nowMs = clock.nowMs()
    const horizonMs = nowMs - await ageMsMax(bus, 'EMAILS')
    return [...directory.now.accounts.values()].flatMap(({ id: account, createdAt }) =>
      settledMonths({ nowMs, horizonMs, bornMs: Date.parse(createdAt) })
        .map(month => ({ account, month, name: `${account} ${month}` }))
    )
  }

  /** A closed month stays as it is: so not while facts are missing that the projection may still take. */
  private async hasDeadLetters (): Promise<boolean> {
    return await ask(this.options.pool, {
      sql: sql`select exists (select from ${qualified(liveSet(stats), 'dead_letters')}) as dead_letters`,
      read: ([row]) => row!.dead_letters as boolean
    })
  }

  private async close (account: string, month: string): Promise<void> {
    const { pool, services, log } = this.options
    const domains = await ask(pool, countsOfMonth({ account, month, limit: DOMAINS_MAX }))
    if (domains.length > 0 && await closeMonth(services.factLog, account, { month, domains })) {
      log.info({ account, month }, 'month closed')
    }
  }
}
