import { suspensionFor, type SuspensionRates } from '#streams/account/decide.ts'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { Refusal } from '#streams/define.ts'
import { accountFares } from '#projections/stats/queries.ts'
import { suspendByRates } from '#src/actions/account.ts'
import { roleActor } from '#src/actions/fact-log.ts'
import type { Services } from '#src/actions/services.ts'
import { timestamp } from '#src/base/clock.ts'
import type { Log } from '#src/base/log.ts'
import { repeat } from '#src/base/repeat.ts'
import type { Role } from '#src/base/role.ts'
import { isMissing, type Pool } from '#src/postgres/pool.ts'
import { ask } from '#src/postgres/query.ts'

export interface SuspensionOptions {
  services: Pick<Services, 'factLog' | 'directory'>
  pool: Pool
  rates: SuspensionRates
  log: Log
  /** Between two rounds. */
  everyMs?: number
}

const NAME = 'suspensions'
const EVERY_MS = 30_000
const ROUND_MS_MAX = 60_000
/** PostgreSQL may be away, or a projection rebuilt, for so long before this counts as unhealthy. */
const PATIENCE_MS = 3_600_000
const HOUR_MS = 3_600_000
const WINDOW_HOURS = 24

/** Suspends accounts whose mail bounces, or is complained about, too often: it harms all who send from here. The
 *  operator's own is left alone. Several processes may do so: what is suspended is suspended once. */
export function startSuspensions (options: SuspensionOptions): Role {
  const { log, everyMs = EVERY_MS } = options
  return repeat({
    name: NAME,
    async round (signal) {
      await suspendAll(options, signal)
      return everyMs
    },
    againMs: everyMs,
    roundMsMax: ROUND_MS_MAX,
    onError (error) {
      if (isMissing(error)) log.info('suspensions wait until their projection is built')
      else log.warn({ err: error }, 'rates of accounts could not be looked at; retrying')
    },
    unhealthyReason: ({ doneMs }) =>
      Date.now() - doneMs < PATIENCE_MS ? null : `nobody has looked at the rates of accounts since ${timestamp(doneMs)}`
  })
}

/** Throws when PostgreSQL or NATS does not answer. */
async function suspendAll ({ services, pool, rates, log }: SuspensionOptions, signal: AbortSignal): Promise<void> {
  const { factLog: { clock }, directory } = services
  const fromMs = (Math.floor(clock.nowMs() / HOUR_MS) - WINDOW_HOURS + 1) * HOUR_MS
  // As they are now: who resumes an account while this is read must not be overruled by what was before.
  const resumed = new Map([...directory.now.accounts.values()].map(({ id, resumedAt }) => [id, resumedAt]))
  // Who resumed an account knew what had been: it is judged by what came after.
  const laterMs = new Map(
    [...resumed].flatMap(([id, at]) => (at === null ? [] : [[id, Math.ceil(Date.parse(at) / HOUR_MS) * HOUR_MS]]))
  )
  for (const { account, counts } of await ask(pool, accountFares({ fromMs, laterMs }))) {
    if (signal.aborted) return
    const due = suspensionFor(counts, rates)
    const resumedAt = resumed.get(account)
    if (due === null || account === FIRST_ACCOUNT || resumedAt === undefined) continue
    const by = { correlation: NAME, actor: roleActor(NAME) }
    const result = await suspendByRates(services, by, account, { ...due, resumedAt })
    if (!(result instanceof Refusal) && result.seq > 0) log.warn({ account, ...due }, 'account suspended')
  }
}
