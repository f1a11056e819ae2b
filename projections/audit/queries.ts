import { Type, type Static } from '@sinclair/typebox'
import { ACTOR_KINDS, Nullable, type Actor } from '#streams/define.ts'
import { cursorParser, cursorText, type PageCursor } from '../cursor.ts'
import { all, sql, type Query, type Sql } from '../define.ts'
import { AUDIT_ACTIONS, summaryOf, type AuditAction, type Told } from './actions.ts'

/** A command as the API shows it. */
export const AuditRecord = Type.Object({
  id: Type.String(),
  at: Type.String(),
  actor: Nullable(
    Type.Object({
      kind: Type.Union(ACTOR_KINDS.map(kind => Type.Literal(kind)), {
        description: 'A `key` of the API, a `session` of the dashboard that a key has opened, a `user` in the ' +
          'dashboard, an `operator` in the shell, or a `role`: Jetpost itself.'
      }),
      id: Type.String({ description: "The id of the key, session or user; the operator's user name; the role." }),
      key_id: Nullable(Type.String({ description: 'The key that was used, itself or to open the session.' })),
      session_id: Nullable(Type.String({ description: 'The session of the dashboard.' })),
      name: Type.String({ description: 'The name of the key or the user; else as `id`.' }),
      ip: Nullable(Type.String({ description: "The client's address. `null` = it came from the machine itself." }))
    }, { description: 'Who did it. `null` = it was done before this was recorded.' })
  ),
  action: Type.Union(AUDIT_ACTIONS.map(action => Type.Literal(action))),
  subject_id: Nullable(Type.String({ description: 'What was changed. `null` where it is an address.' })),
  summary: Type.String({ description: 'The same for people. It may change: read the other fields in programs.' })
}, {
  examples: [{
    id: 'aud_0000000000000042',
    at: '2026-11-21T12:00:00.310Z',
    actor: {
      kind: 'key',
      id: 'key_01m7yse7ke2esfck840wxx2ekg',
      key_id: 'key_01m7yse7ke2esfck840wxx2ekg',
      session_id: null,
      name: 'Deployment',
      ip: '203.0.113.7'
    },
    action: 'key.created',
    subject_id: 'key_01m7yse7ke2esfck840wxx2ekh',
    summary: 'Created the key Shop (scopes: emails:send; domains: example.com; expires: never).'
  }]
})
export type AuditRecord = Static<typeof AuditRecord>

export const AuditPage = Type.Object({
  data: Type.Array(AuditRecord),
  has_more: Type.Boolean(),
  next_cursor: Nullable(Type.String())
}, {
  examples: [{ data: AuditRecord.examples, has_more: false, next_cursor: null }]
})
export type AuditPage = Static<typeof AuditPage>

/** Null when the text is no cursor of this list. */
export const parseCursor = cursorParser('aud_')

export interface AuditListOptions {
  account: string
  /** Id of a key, with what its sessions did; of a user; of a session; an operator's user name; a role. */
  actor: string | null
  action: AuditAction | null
  /** Unix ms: at or after. */
  fromMs: number | null
  /** Unix ms: before. */
  toMs: number | null
  /** Rows a page, from 1. */
  limit: number
  cursor: PageCursor | null
}

/** A page of an account's commands, newest first. Things that have lost their name since are called by their last one.
 */
export function listAudit (
  { account, actor, action, fromMs, toMs, limit, cursor }: AuditListOptions
): Query<AuditPage> {
  const conditions = [
    sql`account = ${account} and not gone`,
    ...(actor === null ? [] : [byActor(actor)]),
    ...(action === null ? [] : [sql`action = ${action}`]),
    ...(fromMs === null ? [] : [sql`at >= to_timestamp(${fromMs}::float8 / 1000)`]),
    ...(toMs === null ? [] : [sql`at < to_timestamp(${toMs}::float8 / 1000)`]),
    ...(cursor === null ? [] : [sql`(at, id) < (${cursor.at}::timestamptz, ${cursor.id})`])
  ]
  return {
    sql: sql`select id, at, action, subject, coalesce(name, ${NAME_OF_SUBJECT}) as name, detail,
        actor_kind, actor_id, actor_principal, actor_session, ${NAME_OF_ACTOR} as actor_name, ip
      from (select * from audit where ${all(conditions)} order by at desc, id desc limit ${limit + 1}) a
      order by at desc, id desc`,
    read: rows => {
      const page = (rows as unknown as Row[]).slice(0, limit)
      const more = rows.length > limit
      return { data: page.map(recordOf), has_more: more, next_cursor: more ? cursorOf(page.at(-1)!) : null }
    }
  }
}

/** By the id's kind: what a user did in a session is the session's, too. */
function byActor (actor: string): Sql {
  if (/^(key|usr)_/.test(actor)) return sql`actor_principal = ${actor}`
  return actor.startsWith('ses_') ? sql`actor_session = ${actor}` : sql`actor_id = ${actor}`
}

const NAME_OF_SUBJECT = sql`(select n.name from audit n where n.account = a.account and n.subject = a.subject
  and n.name is not null order by n.id desc limit 1)`
const NAME_OF_ACTOR = sql`(select n.name from audit n where n.account = a.account and n.subject = a.actor_principal
  and n.name is not null order by n.id desc limit 1)`

interface Row extends Told {
  id: string
  at: Date
  action: AuditAction
  actor_kind: Actor['kind'] | null
  actor_id: string
  actor_principal: string | null
  actor_session: string | null
  actor_name: string | null
  ip: string | null
}

function cursorOf ({ at, id }: Row): string {
  return cursorText({ at: at.toISOString(), id })
}

function recordOf (row: Row): AuditRecord {
  const { id, at, action, subject, actor_kind: kind, actor_id: by, actor_principal: principal, actor_name, ip } = row
  return {
    id,
    at: at.toISOString(),
    actor: kind === null ? null : {
      kind,
      id: by,
      key_id: kind === 'user' ? null : principal,
      session_id: row.actor_session,
      name: actor_name ?? by,
      ip
    },
    action,
    subject_id: subject,
    summary: summaryOf(action, row)
  }
}
