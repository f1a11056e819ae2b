import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import type { TemplateDeleted, TemplateVersioned } from '#streams/template/facts.ts'
import type { Projection, Sql } from '../define.ts'
import { laws, table } from '../table.ts'

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

const { by, max } = laws<Change>()
const newest = by('seq')

export const templateTable = table<Change>('templates', ['id'], {
  id: null,
  account: null,
  version: newest,
  layout: newest,
  seq: max
}, { where: 'excluded.seq > old.seq' })

const versionTable = table<ReturnType<typeof versionRow>>('template_versions', ['template', 'version'], {
  template: null,
  version: null,
  account: null,
  created_at: null,
  name: null,
  subject: null,
  html: null,
  text: null,
  variables: null,
  layout: null
})

function project (facts: readonly Recorded<AnyFact>[]): Sql[] {
  const versions = facts.map(({ fact }) => fact).filter(fact => fact.type === 'template.versioned')
  return [...versionTable.upsert(versions.map(versionRow)), ...templateTable.upsert(facts.flatMap(changesOf))]
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

function versionRow ({ account, time, data }: TemplateVersioned) {
  return { ...data, account, created_at: time }
}
