import type { AnyFact } from '#streams/catalog.ts'
import { principalBehind, type Actor, type Recorded } from '#streams/define.ts'
import type { ErasureFact } from '#streams/erasure/facts.ts'
import type { Projection, Sql } from '../define.ts'
import { laws, table } from '../table.ts'
import { isAudited, TELLS, type AuditAction, type Told } from './actions.ts'

/** Who commanded what: the rows behind GET /api/audit. */
export const audit: Projection = {
  name: 'audit',
  version: 2,
  streams: [{ stream: 'CONTROL', filter: '>' }],
  project
}

function project (facts: readonly Recorded<AnyFact>[]): Sql[] {
  return auditTable.upsert(facts.flatMap(changesOf))
}

interface AuditChange {
  id: string
  account: string
  gone: boolean
  at: string | null
  action: AuditAction | null
  subject: string | null
  name: string | null
  detail: Told['detail'] | null
  actor_kind: Actor['kind'] | null
  actor_id: string | null
  actor_principal: string | null
  actor_session: string | null
  ip: string | null
}

function changesOf ({ fact, seq }: Recorded<AnyFact>): AuditChange[] {
  switch (fact.type) {
    case 'erasure.requested':
    case 'erasure.advanced':
    case 'erasure.completed':
      return [erasureOf(fact), ...forgottenBy(fact)]
    case 'operation.requested': {
      const { operation, subject } = fact.data
      return [rowOf(idOf(seq), fact, operation, { subject, name: null, detail: {} })]
    }
    case 'suppression.added':
    case 'suppression.removed':
      // The others follow from mail, and there may be millions.
      if (fact.actor === undefined) return []
  }
  if (!isAudited(fact.type)) return []
  const tell = TELLS[fact.type] as (data: AnyFact['data']) => Told
  return [rowOf(idOf(seq), fact, fact.type, tell(fact.data))]
}

/** By its place in CONTROL: so the announcement of its deletion finds it. */
function idOf (seq: number): string {
  return `aud_${String(seq).padStart(16, '0')}`
}

function rowOf (id: string, { account, time, actor }: AnyFact, action: AuditAction, told: Told): AuditChange {
  return {
    id,
    account,
    gone: false,
    at: time,
    action,
    ...told,
    actor_kind: actor?.kind ?? null,
    actor_id: actor?.id ?? null,
    actor_principal: principalBehind(actor),
    actor_session: actor?.kind === 'session' ? actor.id : actor?.session ?? null,
    ip: actor?.ip ?? null
  }
}

/** Every fact of an erasure says who requested it and when: the first one is itself deleted in the end. */
function erasureOf (fact: ErasureFact): AuditChange {
  const { erasure } = fact.data
  const time = fact.type === 'erasure.requested' ? fact.time : fact.data.requestedAt
  const told = { subject: erasure, name: null, detail: {} }
  return rowOf(`aud_${erasure.slice('era_'.length)}`, { ...fact, time }, 'erasure.requested', told)
}

/** The rows of facts that an erasure deletes: what named the address goes with them. */
function forgottenBy (fact: ErasureFact): AuditChange[] {
  if (fact.type !== 'erasure.advanced') return []
  const seqs = fact.data.deletes.flatMap(({ stream, seqs }) => (stream === 'CONTROL' ? seqs : []))
  return seqs.map(seq => ({
    id: idOf(seq),
    account: fact.account,
    gone: true,
    at: null,
    action: null,
    subject: null,
    name: null,
    detail: null,
    actor_kind: null,
    actor_id: null,
    actor_principal: null,
    actor_session: null,
    ip: null
  }))
}

const { blank, first, max } = laws<AuditChange>()
const kept = blank('gone', first)

export const auditTable = table<AuditChange>('audit', ['id'], {
  id: null,
  account: null,
  gone: max,
  at: kept,
  action: kept,
  subject: kept,
  name: kept,
  detail: kept,
  actor_kind: kept,
  actor_id: kept,
  actor_principal: kept,
  actor_session: kept,
  ip: kept
}, { where: 'excluded.gone and not old.gone' })
