import t from 'tap'
import { Client } from 'pg'
import { setTimeout as sleep } from 'node:timers/promises'
import { Complaint } from '#src/base/errors.ts'
import { createLog } from '#src/base/log.ts'
import { keepMigrated, migrate } from '#src/postgres/migrate.ts'
import { freshDatabase, type Ending } from '../support/servers.ts'

async function connect (t: Ending): Promise<{ url: string, client: Client }> {
  const url = await freshDatabase(t)
  const client = new Client(url)
  await client.connect()
  t.teardown(() => client.end())
  return { url, client }
}

async function migrations (client: Client): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>('select name from migrations order by number')
  return rows.map(({ name }) => name)
}

async function empty (client: Client): Promise<void> {
  await client.query('drop schema public cascade; create schema public')
}

t.test('many processes may migrate at once', async t => {
  const { url, client } = await connect(t)
  const names = await migrations(client)
  t.ok(names.length >= 3)
  await empty(client)
  await Promise.all([migrate(url), migrate(url), migrate(url)])
  t.strictSame(await migrations(client), names)
  await migrate(url)
  t.strictSame(await migrations(client), names)
})

t.test('a database of a newer version is refused in a sentence', async t => {
  const { url, client } = await connect(t)
  await client.query("insert into migrations (number, name, checksum) values (9999, '9999_future.sql', '')")
  await t.rejects(migrate(url), Complaint)
  await t.rejects(migrate(url), { message: /9999_future\.sql.*newer version/ })
})

t.test('a migration that was changed after it ran is refused in a sentence', async t => {
  const { url, client } = await connect(t)
  await client.query("update migrations set checksum = 'other' where number = 2")
  await t.rejects(migrate(url), { message: /0002_emails\.sql is not the one/ })
})

t.test('a migration that fails leaves nothing behind', async t => {
  const { url, client } = await connect(t)
  await empty(client)
  await client.query('create table recipients ()')
  await t.rejects(migrate(url), /already exists/)
  const { rows } = await client.query("select relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace")
  t.strictSame(rows, [{ relname: 'recipients' }])
})

t.test('a database that is away is migrated when it comes', async t => {
  const { url, client } = await connect(t)
  await empty(client)
  await client.query('create table recipients ()')
  const role = keepMigrated(url, createLog('silent'))
  t.teardown(() => role.stop())
  t.ok(role.trouble())
  await client.query('drop table recipients')
  for (let i = 0; i < 200 && role.trouble() !== null; i++) await sleep(50)
  t.equal(role.trouble(), null)
  t.ok((await migrations(client)).length >= 3)
})
