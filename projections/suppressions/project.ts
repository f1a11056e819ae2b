import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { suppressionOf, type SuppressionFact } from '#streams/suppression/decide.ts'
import type { Projection, Sql } from '../define.ts'
import { laws, table } from '../table.ts'

/** Who gets no mail: the rows behind GET /api/suppressions. */
export const suppressions: Projection = {
  name: 'suppressions',
  version: 1,
  streams: [{ stream: 'CONTROL', filter: 'suppression.>' }],
  project
}

function project (facts: readonly Recorded<AnyFact>[]): Sql[] {
  return suppressionTable.upsert(facts.filter(isSuppression).map(rowOf))
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

type SuppressionChange = ReturnType<typeof rowOf>

const { by, max } = laws<SuppressionChange>()
const latest = by('seq')

export const suppressionTable = table<SuppressionChange>('suppressions', ['account', 'hash'], {
  account: null,
  hash: null,
  seq: max,
  address: latest,
  standing: latest,
  created_at: latest
}, { where: 'excluded.seq > old.seq' })
