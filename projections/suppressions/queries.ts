import { Type, type Static } from '@sinclair/typebox'
import { Nullable } from '#streams/define.ts'
import { REASONS, type SuppressionReason } from '#streams/suppression/facts.ts'
import type { SuppressionState } from '#streams/suppression/decide.ts'
import { all, sql, type Query, type Sql } from '../define.ts'

/** A suppression as the API shows it. */
export const SuppressionRecord = Type.Object({
  address: Nullable(Type.String({ description: 'As it was first given; null when it has been erased.' })),
  reasons: Type.Array(
    Type.Object({
      reason: Type.Union(REASONS.map(reason => Type.Literal(reason))),
      email_id: Nullable(Type.String({ description: 'The email that told.' })),
      since: Type.String()
    }),
    { description: 'Oldest first. An `unsubscribe` alone holds back only mail sent with `unsubscribe: true`.' }
  ),
  created_at: Type.String()
}, {
  examples: [{
    address: 'ada@example.com',
    reasons: [{ reason: 'bounce', email_id: 'em_01m7ysevjmwmdcr41jq5rymhkp', since: '2026-11-21T12:00:00.310Z' }],
    created_at: '2026-11-21T12:00:00.310Z'
  }]
})
export type SuppressionRecord = Static<typeof SuppressionRecord>

export const SuppressionPage = Type.Object({
  data: Type.Array(SuppressionRecord),
  has_more: Type.Boolean(),
  next_cursor: Nullable(Type.String())
}, {
  examples: [{ data: SuppressionRecord.examples, has_more: false, next_cursor: null }]
})
export type SuppressionPage = Static<typeof SuppressionPage>

/** `standing` has at least one entry; the oldest is when it began. */
export function recordOf ({ address, standing }: SuppressionState): SuppressionRecord {
  return {
    address,
    reasons: standing.map(({ reason, email, since }) => ({ reason, email_id: email, since })),
    created_at: standing[0]!.since
  }
}

/** The place in the list after which a page begins. */
export interface Cursor {
  /** Unix ms. */
  createdMs: number
  hash: string
}

/** The cursor of an earlier answer, or null when the text is none of ours. */
export function parseCursor (text: string): Cursor | null {
  const [, createdMs, hash] = /^(\d{1,15}) ([0-9a-f]{64})$/.exec(Buffer.from(text, 'base64url').toString('latin1')) ??
    []
  return createdMs === undefined || hash === undefined ? null : { createdMs: Number(createdMs), hash }
}

export interface SuppressionListOptions {
  account: string
  reason: SuppressionReason | null
  /** Of one address. */
  hash: string | null
  /** Unix ms: at or after. */
  afterMs: number | null
  /** Unix ms: before. */
  beforeMs: number | null
  /** Rows a page, from 1. */
  limit: number
  cursor: Cursor | null
}

/** A page of an account's suppressions, newest first. Stable: a new row comes before the first page, never into a later
 *  one. */
export function listSuppressions (
  { account, reason, hash, afterMs, beforeMs, limit, cursor }: SuppressionListOptions
): Query<SuppressionPage> {
  const conditions = [
    sql`account = ${account} and created_at is not null`,
    ...(reason === null ? [] : [WITH_REASON[reason]]),
    ...(hash === null ? [] : [sql`hash = ${hash}`]),
    ...(afterMs === null ? [] : [sql`created_at >= ${time(afterMs)}`]),
    ...(beforeMs === null ? [] : [sql`created_at < ${time(beforeMs)}`]),
    ...(cursor === null ? [] : [sql`(created_at, hash) < (${time(cursor.createdMs)}, ${cursor.hash})`])
  ]
  return {
    sql: sql`select hash, address, standing, created_at from suppressions where ${
      all(conditions)
    } order by created_at desc, hash desc limit ${limit + 1}`,
    read: rows => {
      const page = (rows as unknown as Row[]).slice(0, limit)
      const more = rows.length > limit
      return { data: page.map(recordOf), has_more: more, next_cursor: more ? cursorText(page.at(-1)!) : null }
    }
  }
}

interface Row extends SuppressionState {
  hash: string
  created_at: Date
}

function cursorText ({ hash, created_at }: Row): string {
  return Buffer.from(`${created_at.getTime()} ${hash}`).toString('base64url')
}

/** Literals, not parameters: only so can the partial indexes serve. */
const WITH_REASON: Record<SuppressionReason, Sql> = {
  bounce: sql`standing @> '[{"reason": "bounce"}]'`,
  complaint: sql`standing @> '[{"reason": "complaint"}]'`,
  unsubscribe: sql`standing @> '[{"reason": "unsubscribe"}]'`,
  manual: sql`standing @> '[{"reason": "manual"}]'`
}

/** By number: as text Postgres would refuse the year 0, which RFC 3339 has. */
function time (ms: number): Sql {
  return sql`to_timestamp(${ms}::float8 / 1000)`
}
