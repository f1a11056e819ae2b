import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { suppressionOf, type SuppressionFact } from '#streams/suppression/state.ts'
import { json, sql, type Projection, type Sql } from '../define.ts'
import { fold } from '../fold.ts'

/** Who gets no mail: the rows behind GET /api/suppressions. */
export const suppressions: Projection = {
  name: 'suppressions',
  version: 1,
  streams: [{ stream: 'CONTROL', filter: 'suppression.>' }],
  project
}

type Row = ReturnType<typeof rowOf>

function project (facts: readonly Recorded<AnyFact>[]): Sql[] {
  const rows = fold(
    facts.filter(isSuppression).map(rowOf),
    row => `${row.account} ${row.hash}`,
    (before, row) => (row.seq > before.seq ? row : before)
  )
  return rows.length === 0 ? [] : [upsert(rows)]
}

function isSuppression (recorded: Recorded<AnyFact>): recorded is Recorded<SuppressionFact> {
  return recorded.fact.type.startsWith('suppression.')
}

/** A fact tells the whole row. Where nothing stands any more it keeps no address: only that facts from before are over.
 */
function rowOf ({ fact, seq }: Recorded<SuppressionFact>) {
  const { address, standing } = suppressionOf(fact)
  return { account: fact.account, hash: fact.data.hash, seq, address, standing, created_at: standing[0]?.since ?? null }
}

function upsert (rows: Row[]): Sql {
  return sql`
    insert into suppressions as old (account, hash, seq, address, standing, created_at)
    select account, hash, seq, address, standing, created_at
    from json_populate_recordset(null::suppressions, ${json(rows)}::json)
    order by account, hash
    on conflict (account, hash) do update set
      seq = excluded.seq, address = excluded.address, standing = excluded.standing, created_at = excluded.created_at
    where excluded.seq > old.seq`
}
