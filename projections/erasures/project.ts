import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import type { ErasureAdvanced, ErasureFact } from '#streams/erasure/facts.ts'
import type { Projection, Sql } from '../define.ts'
import { laws, table } from '../table.ts'

/** Erasures and how far they are: the rows behind GET /api/erasures, and what the scheduler has to do. */
export const erasures: Projection = {
  name: 'erasures',
  version: 1,
  streams: [{ stream: 'CONTROL', filter: 'erasure.>' }],
  project
}

function project (facts: readonly Recorded<AnyFact>[]): Sql[] {
  const told = facts.filter(isErasure)
  return [...erasureTable.upsert(told.map(rowOf)), ...stepTable.upsert(told.filter(isStep).map(stepOf))]
}

function isErasure (recorded: Recorded<AnyFact>): recorded is Recorded<ErasureFact> {
  return recorded.fact.type.startsWith('erasure.')
}

function isStep (recorded: Recorded<ErasureFact>): recorded is Recorded<ErasureAdvanced> {
  return recorded.fact.type === 'erasure.advanced'
}

/** Every fact says as much: the first one is itself deleted in the end. */
function rowOf ({ fact }: Recorded<ErasureFact>) {
  const { account, time, data: { erasure: id, hash } } = fact
  const requested_at = fact.type === 'erasure.requested' ? time : fact.data.requestedAt
  const done = fact.type === 'erasure.completed'
    ? { completed_at: time, counts: fact.data.counts }
    : { completed_at: null, counts: null }
  return { id, account, hash, requested_at, ...done }
}

type ErasureChange = ReturnType<typeof rowOf>

const { last } = laws<ErasureChange>()

export const erasureTable = table<ErasureChange>('erasures', ['id'], {
  id: null,
  account: null,
  hash: null,
  requested_at: null,
  completed_at: last,
  counts: last
}, { where: 'excluded.completed_at is not null' })

function stepOf ({ fact: { data }, seq }: Recorded<ErasureAdvanced>) {
  return { erasure: data.erasure, seq, counts: data.counts }
}

const stepTable = table<ReturnType<typeof stepOf>>('erasure_steps', ['erasure', 'seq'], {
  erasure: null,
  seq: null,
  counts: null
})
