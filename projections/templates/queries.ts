import { Type, type Static } from '@sinclair/typebox'
import { Variable } from '#streams/template/facts.ts'
import { all, sql, type Query, type Sql } from '../define.ts'

const Text = Type.String()
const TextOrNull = Type.Union([Type.String(), Type.Null()])
const pageOf = <T extends Parameters<typeof Type.Array>[0]>(entry: T) =>
  Type.Object({ data: Type.Array(entry), has_more: Type.Boolean(), next_cursor: TextOrNull }, {
    examples: [{ data: entry.examples, has_more: false, next_cursor: null }]
  })

const summary = {
  id: Text,
  /** The newest, or the one that was asked for. */
  version: Type.Integer(),
  name: Text,
  subject: TextOrNull,
  layout_id: TextOrNull,
  created_at: Text,
  /** When the version was made. */
  updated_at: Text
}

const SUMMARY = {
  id: 'tpl_01m7ysc4n8r2v6x0z3b7d1f5hk',
  version: 2,
  name: 'Receipt',
  subject: 'Your order {{order}}',
  layout_id: null,
  created_at: '2026-11-20T09:30:00.000Z',
  updated_at: '2026-11-21T12:00:00.000Z'
}

/** A template in a list. */
export const TemplateSummary = Type.Object(summary, { examples: [SUMMARY] })
export const TemplatePage = pageOf(TemplateSummary)
export type TemplatePage = Static<typeof TemplatePage>

/** One version of a template. */
export const TemplateRecord = Type.Object({
  ...summary,
  html: TextOrNull,
  text: TextOrNull,
  variables: Type.Array(Variable)
}, {
  examples: [{
    ...SUMMARY,
    html: '<p>Thank you for order {{order}}.</p>',
    text: null,
    variables: [{ name: 'order', type: 'string', required: true, fallback: null }]
  }]
})
export type TemplateRecord = Static<typeof TemplateRecord>

export const VersionSummary = Type.Object({
  version: Type.Integer(),
  name: Text,
  subject: TextOrNull,
  created_at: Text
}, {
  examples: [{ version: SUMMARY.version, name: SUMMARY.name, subject: SUMMARY.subject, created_at: SUMMARY.updated_at }]
})
export const VersionPage = pageOf(VersionSummary)
export type VersionPage = Static<typeof VersionPage>

interface Page<Place> {
  account: string
  /** Rows a page, from 1. */
  limit: number
  /** The last of the page before; null = begin with the newest. */
  before: Place | null
}

const COLUMNS = sql`templates.id, shown.version, shown.name, shown.subject, shown.layout as layout_id,
  (select created_at from template_versions where template = templates.id
    and version = 1) as created_at, shown.created_at as updated_at`

/** A page of an account's templates, newest first. */
export function listTemplates ({ account, limit, before }: Page<string>): Query<TemplatePage> {
  const conditions = [
    sql`templates.account = ${account} and templates.version is not null`,
    ...(before === null ? [] : [sql`templates.id < ${before}`])
  ]
  return {
    sql: sql`select ${COLUMNS} from templates join template_versions shown on shown.template = templates.id
        and shown.version = templates.version
      where ${all(conditions)} order by templates.id desc limit ${limit + 1}`,
    read: rows => readPage(rows.map(withTimes) as TemplatePage['data'], limit, ({ id }) => id)
  }
}

/** A page of a template's versions, newest first; null when the account has no such template. */
export function listVersions (
  { account, id, limit, before }: Page<number> & { id: string }
): Query<VersionPage | null> {
  return {
    sql: sql`select shown.version, shown.name, shown.subject, shown.created_at
      from templates left join template_versions shown on shown.template = templates.id ${
      before === null ? sql`` : sql`and shown.version < ${before}`
    }
      where ${liveTemplate(account, id)} order by shown.version desc limit ${limit + 1}`,
    read: rows => {
      // The template alone, when no version lies before.
      const versions = rows.filter(row => row.version !== null).map(withTimes) as VersionPage['data']
      return rows.length === 0 ? null : readPage(versions, limit, ({ version }) => String(version))
    }
  }
}

/** One version of a template, the newest when `version` is null; null when the account has none of it. */
export function getTemplate (
  { account, id, version }: { account: string, id: string, version: number | null }
): Query<TemplateRecord | null> {
  return {
    sql: sql`select ${COLUMNS}, shown.html, shown.text, shown.variables
      from templates join template_versions shown on shown.template = templates.id and shown.version = ${
      version === null ? sql`templates.version` : version
    }
      where ${liveTemplate(account, id)}`,
    read: ([row]) => (row === undefined ? null : withTimes(row) as TemplateRecord)
  }
}

/** Names of the variables that some of an account's templates declare, by the template's id. */
export function declaredNames ({ account, ids }: { account: string, ids: string[] }): Query<Map<string, string[]>> {
  return {
    sql: sql`select templates.id, jsonb_path_query_array(shown.variables, '$[*].name') as names
      from templates join template_versions shown on shown.template = templates.id and shown.version = templates.version
      where templates.account = ${account} and templates.id = any(${ids}::text[])`,
    read: rows => new Map(rows.map(({ id, names }) => [id as string, names as string[]]))
  }
}

/** How many templates an account has. */
export function countTemplates (account: string): Query<number> {
  return {
    sql: sql`select count(*) as count from templates where account = ${account} and version is not null`,
    read: ([row]) => row!.count as number
  }
}

/** Whether some template has this one for its layout. */
export function isLayoutInUse (id: string): Query<boolean> {
  return {
    sql: sql`select exists (select from templates where layout = ${id}) as used`,
    read: ([row]) => row!.used as boolean
  }
}

/** The place an earlier answer's cursor names, or null when the text is none of ours. */
export function parseTemplateCursor (text: string): string | null {
  const id = Buffer.from(text, 'base64url').toString('latin1')
  return /^tpl_[0-9a-z]{1,64}$/.test(id) ? id : null
}

export function parseVersionCursor (text: string): number | null {
  const version = Buffer.from(text, 'base64url').toString('latin1')
  return /^[1-9][0-9]{0,8}$/.test(version) ? Number(version) : null
}

function liveTemplate (account: string, id: string): Sql {
  return sql`templates.account = ${account} and templates.id = ${id} and templates.version is not null`
}

function readPage<T> (
  rows: T[],
  limit: number,
  placeOf: (row: T) => string
): { data: T[], has_more: boolean, next_cursor: string | null } {
  const data = rows.slice(0, limit)
  const more = rows.length > limit
  return { data, has_more: more, next_cursor: more ? Buffer.from(placeOf(data.at(-1)!)).toString('base64url') : null }
}

/** A row as the API tells it: times in its one form. */
function withTimes (row: Record<string, unknown>): unknown {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name, value instanceof Date ? value.toISOString() : value])
  )
}
