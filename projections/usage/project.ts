import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import type { Projection, Sql } from '../define.ts'
import { table } from '../table.ts'

/** What closed months come to: outlives the facts it was counted from, and so do its rows. */
export const usage: Projection = {
  name: 'usage',
  version: 1,
  streams: [{ stream: 'CONTROL', filter: 'usage.>' }],
  project
}

function project (facts: readonly Recorded<AnyFact>[]): Sql[] {
  return usageTable.upsert(facts.flatMap(rowsOf))
}

function rowsOf ({ fact }: Recorded<AnyFact>) {
  if (fact.type !== 'usage.closed') return []
  const { account, data: { month, domains } } = fact
  return domains.map(({ domain, counts }) => ({ account, month, domain, ...counts }))
}

/** A month is closed once: every report of it is the same. */
const usageTable = table<ReturnType<typeof rowsOf>[number]>('usage', ['account', 'month', 'domain'], {
  account: null,
  month: null,
  domain: null,
  accepted: null,
  suppressed: null,
  canceled: null,
  delivered: null,
  deferred: null,
  bounced: null,
  failed: null,
  opened: null,
  clicked: null,
  complained: null,
  unsubscribed: null
})
