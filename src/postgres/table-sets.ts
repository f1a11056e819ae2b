import { readFile } from 'node:fs/promises'
import type { PoolClient } from 'pg'
import { Sql, type Projection } from '#projections/define.ts'
import { projections } from '#projections/list.ts'
import { sha256Hex } from '#src/base/secret.ts'

/** The tables of one projection, with its cursor: a schema of its own, so that what is made anew stands beside what is
 *  read until they change places. Another version of a projection has another schema: older processes go on with
 *  theirs. */
export interface TableSet {
  projection: Projection
  schema: string
}

/** What is read and followed. */
export function liveSet (projection: Projection): TableSet {
  return { projection, schema: `jetpost_${projection.name}_${projection.version}` }
}

/** What is being made in the place of the live one, or was when its maker died. */
export function rebuildingSet (projection: Projection): TableSet {
  return { projection, schema: `${liveSet(projection).schema}_build` }
}

/** A table of a set, whatever the search path is. */
export function qualified ({ schema }: TableSet, table: string): Sql {
  return new Sql([`${schema}.${table}`], [])
}

/** Where statements find their tables by name alone, and the functions of extensions. */
export function searchPath (sets = Object.values(projections).map(liveSet)): string {
  return [...sets.map(({ schema }) => schema), 'public'].join(', ')
}

const FOLDER = new URL('../../projections/', import.meta.url)

/** What the tables of a set, and then its indexes, are made by. */
interface Texts {
  tables: string
  indexes: string
}

async function textsOf ({ projection: { name } }: TableSet): Promise<Texts> {
  const [tables, indexes] = await Promise.all(
    ['tables', 'indexes'].map(async file => await readFile(new URL(`${name}/${file}.sql`, FOLDER), 'utf8'))
  )
  return { tables: tables!, indexes: indexes! }
}

/** Another version or another text, another set. */
export async function fingerprintOf (set: TableSet): Promise<string> {
  return fingerprintBy(set, await textsOf(set))
}

function fingerprintBy ({ projection: { version } }: TableSet, { tables, indexes }: Texts): string {
  return sha256Hex(`${version}\n${tables}\n${indexes}`)
}

/** Any number will do, as long as all Jetposts of all versions use the same. */
const LOCK = 5_382_016_001

const OWN_TABLES = ['about', 'checkpoints', 'dead_letters']

/** Whether the set is there with all its tables, made by the same texts as this code has. */
export async function isMade (client: Pick<PoolClient, 'query'>, set: TableSet): Promise<boolean> {
  const texts = await textsOf(set)
  const names = [...OWN_TABLES, ...tablesIn(texts.tables)].map(name => `${set.schema}.${name}`)
  const { rows: [found] } = await client.query<{ whole: boolean }>(
    'select bool_and(to_regclass(name) is not null) as whole from unnest($1::text[]) as name',
    [names]
  )
  if (!found!.whole) return false
  const { rows: [about] } = await client.query<{ fingerprint: string }>(`select fingerprint from ${set.schema}.about`)
  return about?.fingerprint === fingerprintBy(set, texts)
}

function tablesIn (text: string): string[] {
  return [...text.matchAll(/^create table (\w+)/gm)].map(([, name]) => name!)
}

/** Makes the tables of a set, empty and without the indexes that a bulk load does better without; makes nothing when
 *  they are there, and throws away what was made by other texts. For one transaction; of two processes one waits for
 *  the other. */
export async function makeTables (client: Pick<PoolClient, 'query'>, set: TableSet): Promise<void> {
  const { schema } = set
  await client.query('select pg_advisory_xact_lock($1)', [LOCK])
  if (await isMade(client, set)) return
  await client.query(
    `drop schema if exists ${schema} cascade; create schema ${schema}; set local search_path = ${schema}, public`
  )
  await client.query(
    `create table about (fingerprint text not null, made_at timestamptz not null default now(), used_at timestamptz not null default now());
    -- How far the set has come in each stream. Moved by compare-and-set, in the transaction that writes the rows.
    create table checkpoints (stream text collate "C" primary key, position bigint not null, updated_at timestamptz not null default now());
    -- Facts that could not be written into it, and why.
    create table dead_letters (stream text collate "C", seq bigint, subject text not null, reason text not null, dead_lettered_at timestamptz not null default now(),
      primary key (stream, seq))`
  )
  const texts = await textsOf(set)
  await client.query('insert into about (fingerprint) values ($1)', [fingerprintBy(set, texts)])
  await client.query(texts.tables)
}

/** The rest of the indexes, which a set needs before it is read. */
export async function makeIndexes (client: Pick<PoolClient, 'query'>, set: TableSet): Promise<void> {
  await client.query(`set local search_path = ${set.schema}, public`)
  await client.query((await textsOf(set)).indexes)
}
