import { readFile } from 'node:fs/promises'
import type { PoolClient } from 'pg'
import { Sql, type Projection } from '#projections/define.ts'
import { projections } from '#projections/list.ts'
import { sha256Hex } from '#src/base/secret.ts'

/** The tables of one projection, with its checkpoint: a schema of its own, so that a rebuilt set stands beside the live
 *  one until they are swapped. Another version of a projection has another schema: older processes go on with theirs.
 */
export interface TableSet {
  projection: Projection
  schema: string
}

/** The set that is read and written. */
export function liveSet (projection: Projection): TableSet {
  return { projection, schema: `jetpost_${projection.name}_${projection.version}` }
}

/** The set that is being rebuilt, or was when its process died. */
export function rebuildingSet (projection: Projection): TableSet {
  return { projection, schema: `${liveSet(projection).schema}_rebuild` }
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

/** The SQL that creates the tables of a set, and then its indexes. */
interface Definition {
  tables: string
  indexes: string
}

async function definitionOf ({ projection: { name } }: TableSet): Promise<Definition> {
  const [tables, indexes] = await Promise.all(
    ['tables', 'indexes'].map(async file => await readFile(new URL(`${name}/${file}.sql`, FOLDER), 'utf8'))
  )
  return { tables: tables!, indexes: indexes! }
}

/** Another version or other SQL, another fingerprint; comments and line breaks do not count. */
export async function fingerprintOf (set: TableSet): Promise<string> {
  return fingerprintBy(set, await definitionOf(set))
}

function fingerprintBy ({ projection: { version } }: TableSet, { tables, indexes }: Definition): string {
  const statements = `${tables}\n${indexes}`.replaceAll(/^\s*--.*$/gm, '').replaceAll(/\s+/g, ' ')
  return sha256Hex(`${version}\n${statements}`)
}

/** An arbitrary number, the same in all Jetposts of all versions. */
const LOCK = 5_382_016_001

const OWN_TABLES = ['metadata', 'checkpoints', 'dead_letters']

/** Whether the set exists with all its tables, created by the SQL that this code has. */
export async function isCreated (client: Pick<PoolClient, 'query'>, set: TableSet): Promise<boolean> {
  const definition = await definitionOf(set)
  const names = [...OWN_TABLES, ...tablesIn(definition.tables)].map(name => `${set.schema}.${name}`)
  const { rows: [found] } = await client.query<{ whole: boolean }>(
    'select bool_and(to_regclass(name) is not null) as whole from unnest($1::text[]) as name',
    [names]
  )
  if (!found!.whole) return false
  const { rows: [metadata] } = await client.query<{ fingerprint: string }>(
    `select fingerprint from ${set.schema}.metadata`
  )
  return metadata?.fingerprint === fingerprintBy(set, definition)
}

function tablesIn (text: string): string[] {
  return [...text.matchAll(/^create table (\w+)/gm)].map(([, name]) => name!)
}

/** Creates the tables of a set, empty and without the indexes that a bulk load does better without; does nothing when
 *  they exist, and drops a set that was created by other SQL. For one transaction; of two processes one waits for the
 *  other. */
export async function createTables (client: Pick<PoolClient, 'query'>, set: TableSet): Promise<void> {
  const { schema } = set
  await client.query('select pg_advisory_xact_lock($1)', [LOCK])
  if (await isCreated(client, set)) return
  await client.query(
    `drop schema if exists ${schema} cascade; create schema ${schema}; set local search_path = ${schema}, public`
  )
  await client.query(
    `create table metadata (
      fingerprint text not null, created_at timestamptz not null default now(),
      used_at timestamptz not null default now()
    );
    -- How far the set has come in each stream. Moved by compare-and-set, in the transaction that writes the rows.
    create table checkpoints (
      stream text collate "C" primary key, position bigint not null, updated_at timestamptz not null default now()
    );
    -- Facts that could not be written into it, and why.
    create table dead_letters (
      stream text collate "C", seq bigint, subject text not null, reason text not null,
      dead_lettered_at timestamptz not null default now(), primary key (stream, seq)
    )`
  )
  const definition = await definitionOf(set)
  await client.query('insert into metadata (fingerprint) values ($1)', [fingerprintBy(set, definition)])
  await client.query(definition.tables)
}

/** The indexes that a set needs before it is read. */
export async function createIndexes (client: Pick<PoolClient, 'query'>, set: TableSet): Promise<void> {
  await client.query(`set local search_path = ${set.schema}, public`)
  await client.query((await definitionOf(set)).indexes)
}
