import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import type { TemplateDeleted, TemplateVersioned } from '#streams/template/facts.ts'
import { json, sql, type Projection, type Sql } from '../define.ts'
import { fold } from '../fold.ts'

/** Templates and all their versions, with their bodies. */
export const templates: Projection = {
  name: 'templates',
  version: 1,
  streams: [{ stream: 'CONTROL', filter: 'template.>' }],
  project
}

/** What one fact, or the last of several, says about a template. */
interface Change {
  id: string
  account: string
  version: number | null
  layout: string | null
  seq: number
}

function project (facts: readonly Recorded<AnyFact>[]): Sql[] {
  const versions = facts.map(({ fact }) => fact).filter(fact => fact.type === 'template.versioned')
  const changes = fold(facts.flatMap(changesOf), change => change.id, (a, b) => (b.seq > a.seq ? b : a))
  return [
    ...(versions.length === 0 ? [] : [insertVersions(versions)]),
    ...(changes.length === 0 ? [] : [upsertTemplates(changes)])
  ]
}

function changesOf ({ fact, seq }: Recorded<AnyFact>): Change[] {
  if (fact.type === 'template.versioned') {
    return [{ ...headOf(fact, seq), version: fact.data.version, layout: fact.data.layout }]
  }
  return fact.type === 'template.deleted' ? [headOf(fact, seq)] : []
}

function headOf ({ account, data }: TemplateVersioned | TemplateDeleted, seq: number): Change {
  return { id: data.template, account, version: null, layout: null, seq }
}

function insertVersions (versions: TemplateVersioned[]): Sql {
  return sql`
    insert into template_versions (template, version, account, created_at, name, subject, html, text, variables, layout)
    select template, version, account, created_at, name, subject, html, text, variables, layout
    from json_populate_recordset(null::template_versions, ${json(versions.map(versionRow))}::json)
    order by template, version
    on conflict (template, version) do nothing`
}

function versionRow ({ account, time, data }: TemplateVersioned): object {
  return { ...data, account, created_at: time }
}

function upsertTemplates (changes: Change[]): Sql {
  return sql`
    insert into templates as old (id, account, version, layout, seq)
    select id, account, version, layout, seq
    from json_populate_recordset(null::templates, ${json(changes)}::json)
    order by id
    on conflict (id) do update set version = excluded.version, layout = excluded.layout, seq = excluded.seq
    where excluded.seq > old.seq`
}
