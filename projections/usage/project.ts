import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { COLUMNS } from '../counts.ts'
import { json, sql, type Projection, type Sql } from '../define.ts'
import { fold } from '../fold.ts'

/** What closed months come to: outlives the facts it was counted from, and so do its rows. */
export const usage: Projection = {
  name: 'usage',
  version: 1,
  streams: [{ stream: 'CONTROL', filter: 'usage.>' }],
  project
}

/** A month is closed once: every report of it is the same. */
function project (facts: readonly Recorded<AnyFact>[]): Sql[] {
  const rows = fold(
    facts.flatMap(rowsOf),
    ({ account, month, domain }) => `${account} ${month} ${domain}`,
    before => before
  )
  return rows.length === 0
    ? []
    : [sql`
      insert into usage (account, month, domain, ${COLUMNS})
      select account, month, domain, ${COLUMNS} from json_populate_recordset(null::usage, ${json(rows)}::json)
      order by account, month, domain
      on conflict do nothing`]
}

function rowsOf ({ fact }: Recorded<AnyFact>) {
  if (fact.type !== 'usage.closed') return []
  const { account, data: { month, domains } } = fact
  return domains.map(({ domain, counts }) => ({ account, month, domain, ...counts }))
}
