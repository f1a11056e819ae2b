import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import type { ErasureAdvanced, ErasureFact } from '#streams/erasure/facts.ts'
import { json, sql, type Projection, type Sql } from '../define.ts'
import { fold } from '../fold.ts'

/** Erasures and how far they are: the rows behind GET /api/erasures, and what the scheduler has to do. */
export const erasures: Projection = {
  name: 'erasures',
  version: 1,
  streams: [{ stream: 'CONTROL', filter: 'erasure.>' }],
  project
}

function project (facts: readonly Recorded<AnyFact>[]): Sql[] {
  const told = facts.filter(isErasure)
  const steps = told.filter(isStep)
  return [
    ...(told.length === 0
      ? []
      : [upsertErasures(fold(
        told.map(({ fact }) => rowOf(fact)),
        ({ id }) => id,
        (a, b) => (b.completed_at === null ? a : b)
      ))]),
    ...(steps.length === 0 ? [] : [insertSteps(steps)])
  ]
}

function isErasure (recorded: Recorded<AnyFact>): recorded is Recorded<ErasureFact> {
  return recorded.fact.type.startsWith('erasure.')
}

function isStep (recorded: Recorded<ErasureFact>): recorded is Recorded<ErasureAdvanced> {
  return recorded.fact.type === 'erasure.advanced'
}

/** Every fact says as much: the first one is itself deleted in the end. */
function rowOf (fact: ErasureFact) {
  const { account, time, data: { erasure: id, hash } } = fact
  const requested_at = fact.type === 'erasure.requested' ? time : fact.data.requestedAt
  const done = fact.type === 'erasure.completed'
    ? { completed_at: time, counts: fact.data.counts }
    : { completed_at: null, counts: null }
  return { id, account, hash, requested_at, ...done }
}

function upsertErasures (rows: ReturnType<typeof rowOf>[]): Sql {
  return sql`
    insert into erasures (id, account, hash, requested_at, completed_at, counts)
    select id, account, hash, requested_at, completed_at, counts from json_populate_recordset(null::erasures, ${
    json(rows)
  }::json)
    order by id
    on conflict (id) do update set completed_at = excluded.completed_at, counts = excluded.counts
      where excluded.completed_at is not null`
}

function insertSteps (steps: Recorded<ErasureAdvanced>[]): Sql {
  const rows = steps.map(({ fact: { data }, seq }) => ({ erasure: data.erasure, seq, counts: data.counts }))
  return sql`
    insert into erasure_steps (erasure, seq, counts)
    select erasure, seq, counts from json_populate_recordset(null::erasure_steps, ${
    json(fold(rows, ({ seq }) => String(seq), before => before))
  }::json)
    order by erasure, seq
    on conflict do nothing`
}
