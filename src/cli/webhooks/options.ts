import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import type { Asker, Services } from '#src/actions/services.ts'
import { Complaint, deadline } from '#src/base/errors.ts'
import { createLog } from '#src/base/log.ts'
import { readServers } from '#src/embedded/kept.ts'
import { createPool, isUnavailable, type Pool } from '#src/postgres/pool.ts'
import type { readArgs } from '../command.ts'
import { withServices, knownAccount } from '../open-services.ts'
import { nothingRuns, readSettings } from '../settings.ts'

const text = { type: 'string' } as const
const flag = { type: 'boolean', default: false } as const
const END_MS = 500

export const webhookOptions = {
  account: { type: 'string', default: FIRST_ACCOUNT },
  type: text,
  state: text,
  event: text,
  email: text,
  error: text,
  since: text,
  until: text,
  limit: { type: 'string', default: '25' },
  cursor: text,
  failed: flag,
  all: flag,
  from: text,
  to: text,
  pace: text,
  'dry-run': flag,
  finish: flag
} as const

export type WebhookValues = ReturnType<typeof readArgs<typeof webhookOptions>>['values']

export interface WebhookVerb {
  /** Besides --account and --json. */
  takes: ReadonlyArray<keyof typeof webhookOptions>
  /** What it does with an id, */
  withId?: (id: string, values: WebhookValues) => Promise<void>
  /** and what without one. One that is missing is no way to use it. */
  withoutId?: (values: WebhookValues) => Promise<void>
}

/** With the services, as the operator of this account. */
export async function withAsker<T> (
  account: string,
  use: (services: Services, asker: Asker) => Promise<T>
): Promise<T> {
  return await withServices(async (services, by) =>
    await use(services, { account: knownAccount(services, account), ...by })
  )
}

/** With the projections: DATABASE_URL, or the PostgreSQL of the Jetpost that runs on the data folder. */
export async function withPostgres<T> (use: (pool: Pool) => Promise<T>): Promise<T> {
  const { config } = await readSettings('DATABASE_URL')
  const url = config.databaseUrl ?? readServers(config.dataDir)?.postgres ?? null
  if (url === null) {
    throw new Complaint(`${nothingRuns(config)}, or set DATABASE_URL.`)
  }
  const pool = createPool(url, createLog('silent'))
  try {
    return await use(pool)
  } catch (error) {
    throw isUnavailable(error) ? new Complaint(`PostgreSQL cannot be reached: ${(error as Error).message}`) : error
  } finally {
    // A silent server has been waited for already.
    await deadline(pool.end(), END_MS, 'PostgreSQL is still busy').catch(() => {})
  }
}
