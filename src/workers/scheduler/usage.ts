import { sql } from '#projections/define.ts'
import { stats } from '#projections/stats/project.ts'
import { countsOfMonth } from '#projections/stats/queries.ts'
import { settledMonths } from '#streams/usage/months.ts'
import type { Services } from '#src/actions/services.ts'
import { closeMonth } from '#src/actions/usage.ts'
import { sleep } from '#src/base/backoff.ts'
import { timestamp } from '#src/base/clock.ts'
import type { Log } from '#src/base/log.ts'
import type { Role } from '#src/base/role.ts'
import type { Checkpoints } from '#src/postgres/checkpoint.ts'
import { ageMsMax } from '#src/nats/status.ts'
import type { Pool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'
import { liveSet, qualified } from '#src/postgres/table-sets.ts'

export interface UsageOptions {
  services: Pick<Services, 'appenders' | 'directory'>
  pool: Pool
  checkpoints: Checkpoints
  log: Log
  /** Between two rounds. */
  everyMs?: number
}

const EVERY_MS = 3_600_000
/** PostgreSQL may be away, or the view be made anew, for a while without anybody missing a closed month. */
const AGAIN_MS = 60_000
const PATIENCE_MS = 4 * EVERY_MS
const VIEW_MS = 30_000
/** As many as the fact holds. */
const DOMAINS_MAX = 10_000

/** Closes the months of every account once they are settled, while the counts of all of their days are still there.
 *  Several processes may do so: the log takes a month once. */
export function startUsage ({ services, pool, checkpoints, log, everyMs = EVERY_MS }: UsageOptions): Role {
  const stopping = new AbortController()
  const { appenders: { bus, clock } } = services
  /** Account and month of those that need no look any more. */
  let done = new Set<string>()
  let lastDoneMs = Date.now()

  async function run (): Promise<void> {
    while (!stopping.signal.aborted) {
      const complete = await round().catch((error: Error) => {
        log.warn({ err: error }, 'months not closed')
        return false
      })
      if (complete) lastDoneMs = Date.now()
      await sleep(complete ? everyMs : Math.min(everyMs, AGAIN_MS), stopping.signal)
    }
  }

  /** False when the view is too far behind to tell, or lacks something. */
  async function round (): Promise<boolean> {
    const horizonMs = clock.nowMs() - await ageMsMax(bus, 'EMAILS')
    const settled = [...services.directory.now.accounts.values()].flatMap(({ id, createdAt }) =>
      settledMonths({ nowMs: clock.nowMs(), horizonMs, bornMs: Date.parse(createdAt) }).map(month => ({
        account: id,
        month,
        name: `${id} ${month}`
      }))
    )
    done = new Set(settled.map(({ name }) => name).filter(name => done.has(name)))
    const open = settled.filter(({ name }) => !done.has(name))
    if (open.length === 0) return true
    if (!await checkpoints.caughtUp(stats, VIEW_MS) || await hasDeadLetters()) return false
    for (const { account, month, name } of open) {
      if (stopping.signal.aborted) return false
      await close(account, month)
      done.add(name)
    }
    return true
  }

  /** What is closed is closed for ever: not without facts that the view may still take. */
  async function hasDeadLetters (): Promise<boolean> {
    return await ask(pool, {
      sql: sql`select exists (select from ${qualified(liveSet(stats), 'dead_letters')}) as dead_letters`,
      read: ([row]) => row!.dead_letters as boolean
    })
  }

  async function close (account: string, month: string): Promise<void> {
    const domains = await ask(pool, countsOfMonth({ account, month, limit: DOMAINS_MAX }))
    if (domains.length > 0 && await closeMonth(services.appenders, account, { month, domains })) {
      log.info({ account, month }, 'month closed')
    }
  }

  const running = run()
  return {
    name: 'usage',
    unhealthyReason: () =>
      Date.now() - lastDoneMs < PATIENCE_MS ? null : `months have not been closed since ${timestamp(lastDoneMs)}`,
    async stop () {
      stopping.abort()
      await running
    }
  }
}
