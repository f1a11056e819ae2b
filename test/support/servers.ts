import { randomBytes } from 'node:crypto'
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from 'pg'
import { errorCode } from '#src/base/errors.ts'
import { TEMPLATE, databaseUrl, readServers, runFolder, type Servers } from './handover.ts'
import { accountNames } from './nats-config.ts'

const CONNECT_TIMEOUT_MS = 10_000
const QUERY_TIMEOUT_MS = 30_000

/** What this needs of a tap test: something to run when it ends. */
export type Ending = { teardown(end: () => Promise<void>): void }

/** The servers of this run. Throws a sentence when the file was started without tap. */
export function servers (): Servers {
  const found = readServers(runFolder(process.ppid))
  if (found === null) {
    throw new Error(
      'This test needs NATS and PostgreSQL, which tap starts: run `npm test`, or `npx tap run <file>' +
        '` for this file alone.'
    )
  }
  return found
}

/** A NATS account of one's own, empty, with JetStream: streams in it may have any name. Throws when the run has used up
 *  all. */
export function freshAccount (): { natsUrl: string } {
  const { nats } = servers()
  const account = accountNames().find(claim)
  if (account === undefined) {
    throw new Error('All NATS accounts of this run are taken: raise ACCOUNTS_MAX in test/support/nats-config.ts.')
  }
  return { natsUrl: `nats://${account}:${nats.password}@${nats.host}:${nats.port}` }
}

/**
 * A migrated database of one's own; resolves to its URL. It is dropped when `t` ends, after whatever was torn down
 * before, and a connection still open then fails the test.
 */
export async function freshDatabase (t: Ending): Promise<string> {
  const name = `t_${randomBytes(8).toString('hex')}`
  await asAdmin(`create database ${name} template ${TEMPLATE}`)
  t.teardown(() => dropDatabase(name))
  return databaseUrl(servers().adminUrl, name)
}

/** True for the one process that took it first. */
function claim (account: string): boolean {
  try {
    closeSync(openSync(join(runFolder(process.ppid), 'accounts', account), 'wx'))
    return true
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return false
    throw error
  }
}

/** PostgreSQL itself waits 5 s for connections that are closing. */
async function dropDatabase (name: string): Promise<void> {
  try {
    await asAdmin(`drop database if exists ${name}`)
  } catch (error) {
    await asAdmin(`drop database if exists ${name} with (force)`)
    throw new Error('The test left a connection to its database open', { cause: error })
  }
}

async function asAdmin (statement: string): Promise<void> {
  const client = new Client({
    connectionString: servers().adminUrl,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: QUERY_TIMEOUT_MS
  })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}
