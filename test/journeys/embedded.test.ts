import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { connect, StringCodec } from 'nats'
import { Client } from 'pg'
import t, { type Test } from 'tap'
import { createLog } from '#src/base/log.ts'
import { openKept, readServers } from '#src/embedded/kept.ts'
import { lockDataDir } from '#src/embedded/lock.ts'
import { postgresAccount } from '#src/embedded/postgres-account.ts'
import { findPostgres } from '#src/embedded/postgres-package.ts'
import { asSuperuser } from '#src/embedded/postgres-role.ts'
import { run } from '#src/embedded/run-command.ts'
import { startEmbedded } from '#src/embedded/start.ts'
import type { Embedded, EmbeddedOptions } from '#src/embedded/start.ts'
import { atExit } from '../support/at-exit.ts'

const CHILD = fileURLToPath(new URL('../support/embedded-child.ts', import.meta.url))
const STATE_MS = 20_000

function dataFolder (t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'jetpost-embedded-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

async function start (t: Test, dataDir: string, options: Partial<EmbeddedOptions> = {}): Promise<Embedded> {
  const embedded = await startEmbedded({
    dataDir,
    nats: true,
    postgres: true,
    natsBin: process.env.JETPOST_NATS_BIN ?? null,
    log: createLog('silent'),
    say: line => t.comment(line),
    ...options
  })
  t.teardown(() => embedded.stop())
  return embedded
}

/** Asks again and again until `look` answers something; errors count as "not yet". */
async function until<T> (what: string, look: () => T | null | Promise<T | null>): Promise<T> {
  const endMs = performance.now() + STATE_MS
  while (performance.now() < endMs) {
    const found = await Promise.resolve().then(look).catch(() => null)
    if (found !== null) return found
    await wait(20)
  }
  throw new Error(`${what}: not within ${STATE_MS} ms`)
}

async function ask<T> (url: string, sql: string, values: unknown[] = []): Promise<T[]> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 2_000, query_timeout: 5_000 })
  client.on('error', () => {})
  try {
    await client.connect()
    return (await client.query(sql, values)).rows as T[]
  } finally {
    await client.end().catch(() => {})
  }
}

async function withNats<T> (url: string, use: (nats: Awaited<ReturnType<typeof connect>>) => Promise<T>): Promise<T> {
  const { host, username, password } = new URL(url)
  const nats = await connect({ servers: host, user: username, pass: password, timeout: 2_000, reconnect: false })
  try {
    return await use(nats)
  } finally {
    await nats.close()
  }
}

async function keep (url: string, text: string): Promise<void> {
  await withNats(url, async nats => {
    await (await nats.jetstreamManager()).streams.add({ name: 'KEPT', subjects: ['kept'] })
    await nats.jetstream().publish('kept', StringCodec().encode(text))
  })
}

async function kept (url: string): Promise<string> {
  return await withNats(url, async nats => {
    const message = await (await nats.jetstreamManager()).streams.getMessage('KEPT', { last_by_subj: 'kept' })
    return StringCodec().decode(message.data)
  })
}

const natsPid = (folder: string): number => Number(readFileSync(join(folder, 'nats', 'nats-server.pid'), 'utf8'))
const postgresPid = (folder: string): number =>
  Number(readFileSync(join(folder, 'postgres', 'postmaster.pid'), 'utf8').split('\n')[0])

/** Pids of processes whose command line names the folder: servers, their watchers and whatever else was started for it.
 */
function runningFor (folder: string): string[] {
  return readdirSync('/proc').filter(name => /^\d+$/.test(name) && Number(name) !== process.pid).filter(pid => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(folder)
    } catch {
      return false
    }
  })
}

async function nothingRunsFor (folder: string): Promise<void> {
  await until(`nothing runs for ${folder}`, () => runningFor(folder).length === 0 ? true : null)
}

async function spawnChild (t: Test, folder: string) {
  const child = spawn(process.execPath, [CHILD, folder], { stdio: ['ignore', 'pipe', 'inherit'] })
  atExit(() => child.kill('SIGKILL'))
  t.teardown(() => {
    child.kill('SIGKILL')
  })
  const [line] = await once(createInterface(child.stdout), 'line', { signal: AbortSignal.timeout(60_000) }) as [string]
  return { child, urls: JSON.parse(line) as { natsUrl: string, databaseUrl: string } }
}

t.test('both servers start, answer to their random credentials alone, and are gone after stop', async t => {
  const folder = dataFolder(t)
  const embedded = await start(t, folder)
  t.match(embedded.natsUrl, /^nats:\/\/jetpost:[\w-]{43}@127\.0\.0\.1:\d+$/)
  t.match(embedded.databaseUrl, /^postgres:\/\/jetpost:[\w-]{43}@127\.0\.0\.1:\d+\/jetpost$/)
  t.strictSame(await ask(embedded.databaseUrl!, 'select 1 as one'), [{ one: 1 }])
  t.equal(await withNats(embedded.natsUrl!, async nats => nats.info!.max_payload), 8 * 1024 * 1024)
  t.strictSame(readServers(folder), { nats: embedded.natsUrl, postgres: embedded.databaseUrl })
  await t.rejects(ask(embedded.databaseUrl!.replace(/:[\w-]{43}@/, ':wrong@'), 'select 1'), /password/)
  await t.rejects(withNats(embedded.natsUrl!.replace(/:[\w-]{43}@/, ':wrong@'), async () => {}), /Authorization/i)
  await Promise.all([embedded.stop(), embedded.stop()])
  t.equal(readServers(folder), null)
  await nothingRunsFor(folder)
})

t.test("the data folder is its owner's alone, and Postgres keeps what is durable", async t => {
  const folder = dataFolder(t)
  const { databaseUrl } = await start(t, folder, { nats: false })
  t.equal(statSync(folder).mode & 0o767, 0o700, 'PostgreSQL may pass through it')
  t.equal(statSync(join(folder, 'credentials.json')).mode & 0o777, 0o600)
  const settings = await ask<{ name: string, setting: string }>(
    databaseUrl!,
    `select name, setting from pg_settings
      where name in ('fsync', 'synchronous_commit', 'listen_addresses') order by name`
  )
  t.strictSame(settings.map(row => row.setting), ['on', '127.0.0.1', 'on'])
  const [, , , , socketFolder] = readFileSync(join(folder, 'postgres', 'postmaster.pid'), 'utf8').split('\n')
  t.equal(socketFolder, '')
  t.strictSame(
    await ask(
      databaseUrl!,
      'select datlocprovider, datlocale, encoding from pg_database where datname = current_database()'
    ),
    [{ datlocprovider: 'b', datlocale: 'C.UTF-8', encoding: 6 }]
  )
})

const POWERS = 'select rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls, ' +
  '(select datdba = pg_roles.oid from pg_database where datname = current_database()) as owner ' +
  'from pg_roles where rolname = current_user'
const NO_POWERS = [{
  rolsuper: false,
  rolcreatedb: false,
  rolcreaterole: false,
  rolreplication: false,
  rolbypassrls: false,
  owner: true
}]

t.test('Jetpost is no superuser of PostgreSQL, and neither server knows its environment', async t => {
  process.env.JETPOST_TEST_SECRET = 'not-for-servers-7c1f'
  t.teardown(() => delete process.env.JETPOST_TEST_SECRET)
  const folder = dataFolder(t)
  const { databaseUrl } = await start(t, folder)
  t.strictSame(await ask(databaseUrl!, POWERS), NO_POWERS)
  for (const statement of ["select pg_read_file('/etc/shadow')", "copy (select 1) to program 'true'"]) {
    await t.rejects(ask(databaseUrl!, statement), /permission denied/)
  }
  await t.rejects(ask(databaseUrl!.replace('//jetpost:', '//postgres:'), 'select 1'), /password authentication failed/)
  await ask(databaseUrl!, 'create extension pg_trgm schema public')
  if (process.platform !== 'linux') return
  const pids = [join('nats', 'nats-server.pid'), join('postgres', 'postmaster.pid')].map(name =>
    Number.parseInt(readFileSync(join(folder, name), 'utf8'), 10)
  )
  for (const pid of pids) {
    const names = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').map(line => line.split('=')[0]!)
    t.ok(names.includes('PATH'))
    t.strictSame(names.filter(name => /^(JETPOST|TAP|npm)_/.test(name)), [])
  }
  if (process.getuid!() !== 0) return
  const { postgres } = findPostgres(folder)
  const reach = ['test', '-x', postgres, '-a', '-w', '/dev/null']
  const nobody = ['--reuid=65534', '--regid=65534', '--clear-groups', ...reach]
  const { code } = await run('setpriv', nobody, { timeoutMs: STATE_MS })
  const status = readFileSync(`/proc/${pids[1]}/status`, 'utf8')
  t.notMatch(status, /^Uid:\t0\t/m, 'nor is PostgreSQL root')
  t.match(status, code === 0 ? /^CapEff:\t0{16}$/m : /^CapEff:\t0{15}2$/m, 'with nothing of it where it can be')
})

t.test('in a folder in which Jetpost was the superuser it is none any more, and owns what it had', async t => {
  const folder = dataFolder(t)
  const { password } = openKept(folder).postgres
  const programs = findPostgres(folder)
  const postgres = join(folder, 'postgres')
  const account = await postgresAccount(postgres, programs)
  mkdirSync(postgres, { mode: 0o700 })
  writeFileSync(join(folder, 'password'), password, { mode: 0o600 })
  for (const path of [postgres, join(folder, 'password')]) account.own(path)
  const options = ['-D', postgres, '--username=jetpost', `--pwfile=${join(folder, 'password')}`, '--auth=scram-sha-256']
  const made = await run(...account.wrap(programs.initdb, options), { timeoutMs: STATE_MS, env: programs.env })
  t.equal(made.code, 0, made.output)
  const superuser = { folder: postgres, programs, account }
  await asSuperuser(superuser, 'postgres', ['create database jetpost'])
  await asSuperuser(superuser, 'jetpost', [
    'create extension pg_trgm schema public',
    'create schema jetpost_some_1',
    "create table jetpost_some_1.kept as select 'by the superuser' as text"
  ])

  for (const look of ['first', 'second']) {
    const { databaseUrl, stop } = await start(t, folder, { nats: false })
    t.strictSame(await ask(databaseUrl!, POWERS), NO_POWERS, look)
    t.strictSame(await ask(databaseUrl!, 'select text from jetpost_some_1.kept'), [{ text: 'by the superuser' }])
    await ask(databaseUrl!, 'alter table jetpost_some_1.kept add column more text')
    await ask(databaseUrl!, 'create table jetpost_some_1.other ()')
    await ask(databaseUrl!, 'drop table jetpost_some_1.other; alter table jetpost_some_1.kept drop column more')
    await stop()
  }
})

t.test('data, ports and credentials survive a stop and a start', async t => {
  const folder = dataFolder(t)
  const first = await start(t, folder)
  await keep(first.natsUrl!, 'before the stop')
  await ask(first.databaseUrl!, "create table kept as select 'before the stop' as text")
  await first.stop()
  const startMs = performance.now()
  const second = await start(t, folder)
  t.ok(performance.now() - startMs < 20_000)
  t.equal(second.natsUrl, first.natsUrl)
  t.equal(second.databaseUrl, first.databaseUrl)
  t.equal(await kept(second.natsUrl!), 'before the stop')
  t.strictSame(await ask(second.databaseUrl!, 'select text from kept'), [{ text: 'before the stop' }])
})

t.test('a server that is killed comes back on its port with its data', async t => {
  const folder = dataFolder(t)
  const { natsUrl, databaseUrl } = await start(t, folder)
  await keep(natsUrl!, 'before the kill')
  await ask(databaseUrl!, "create table kept as select 'before the kill' as text")
  const killedMs = performance.now()
  process.kill(natsPid(folder), 'SIGKILL')
  process.kill(postgresPid(folder), 'SIGKILL')
  t.equal(await until('nats-server answers', () => kept(natsUrl!)), 'before the kill')
  t.comment(`nats-server was back after ${Math.round(performance.now() - killedMs)} ms`)
  t.strictSame(await until('PostgreSQL answers', () => ask(databaseUrl!, 'select text from kept')), [{
    text: 'before the kill'
  }])
  t.comment(`PostgreSQL was back after ${Math.round(performance.now() - killedMs)} ms`)
})

t.test('a second start on the same folder is refused with a sentence that names the first', async t => {
  const folder = dataFolder(t)
  const { child } = await spawnChild(t, folder)
  const sentence = new RegExp(`in use by another Jetpost \\(process ${child.pid}\\)`)
  t.throws(() => lockDataDir(folder), { name: 'Complaint', message: sentence })
  await t.rejects(start(t, folder), { name: 'Complaint', message: sentence })
  child.kill('SIGTERM')
  await once(child, 'exit')
  lockDataDir(folder)()
})

t.test('the same process cannot take a folder twice, and trying does not loosen its lock', async t => {
  const folder = dataFolder(t)
  const release = lockDataDir(folder)
  t.throws(() => lockDataDir(folder), { message: new RegExp(`process ${process.pid}`) })
  t.throws(() => lockDataDir(folder), { message: new RegExp(`process ${process.pid}`) })
  release()
  lockDataDir(folder)()
})

t.test('kill -9 of Jetpost leaves nothing running or locked, and the next start finds every record', async t => {
  const folder = dataFolder(t)
  const { child, urls } = await spawnChild(t, folder)
  await keep(urls.natsUrl, 'before kill -9')
  await ask(urls.databaseUrl, "create table kept as select 'before kill -9' as text")
  child.kill('SIGKILL')
  await nothingRunsFor(folder)
  t.equal(readServers(folder), null, 'its servers.json no longer counts')
  const again = await start(t, folder)
  t.equal(await kept(again.natsUrl!), 'before kill -9')
  t.strictSame(await ask(again.databaseUrl!, 'select text from kept'), [{ text: 'before kill -9' }])
})

t.test('a start that comes while the servers of a killed Jetpost still run takes over after them', async t => {
  const folder = dataFolder(t)
  const { child, urls } = await spawnChild(t, folder)
  await keep(urls.natsUrl, 'before kill -9')
  child.kill('SIGKILL')
  await once(child, 'exit')
  const again = await start(t, folder)
  t.equal(again.natsUrl, urls.natsUrl)
  t.equal(again.databaseUrl, urls.databaseUrl)
  t.equal(await kept(again.natsUrl!), 'before kill -9')
  t.strictSame(await ask(again.databaseUrl!, 'select 1 as one'), [{ one: 1 }])
})

t.test('pid files whose pid is that of another program by now neither block a start nor harm that program', async t => {
  const folder = dataFolder(t)
  await (await start(t, folder)).stop()
  const stranger = spawn('sleep', ['300'], {
    stdio: 'ignore',
    ...process.getuid!() === 0 && existsSync(join(folder, 'postgres'))
      ? { uid: statSync(join(folder, 'postgres')).uid }
      : {}
  })
  atExit(() => stranger.kill('SIGKILL'))
  t.teardown(() => {
    stranger.kill('SIGKILL')
  })
  const now = Math.floor(Date.now() / 1000)
  writeFileSync(
    join(folder, 'postgres', 'postmaster.pid'),
    `${stranger.pid}\n${join(folder, 'postgres')}\n${now}\n5432\n\n127.0.0.1\n`
  )
  writeFileSync(join(folder, 'nats', 'nats-server.pid'), `${stranger.pid}\n`)
  const again = await start(t, folder)
  t.strictSame(await ask(again.databaseUrl!, 'select 1 as one'), [{ one: 1 }])
  t.equal(stranger.exitCode, null)
  t.equal(stranger.signalCode, null)
})

t.test('a database folder of another major version is refused in a sentence; nothing is left running', async t => {
  const folder = dataFolder(t)
  await (await start(t, folder, { nats: false })).stop()
  writeFileSync(join(folder, 'postgres', 'PG_VERSION'), '17\n')
  await t.rejects(start(t, folder), { name: 'Complaint', message: /PostgreSQL 17 and this Jetpost brings 18/ })
  await nothingRunsFor(folder)
  lockDataDir(folder)()
})

t.test('a start that is told to stop half-way leaves nothing running, and the next one begins afresh', async t => {
  const folder = dataFolder(t)
  const halfway = new AbortController()
  const say = (line: string): void => {
    if (line.startsWith('Creating')) setTimeout(() => halfway.abort(), 100)
  }
  await t.rejects(start(t, folder, { say, signal: halfway.signal }), { name: 'Complaint', message: /was stopped/ })
  await nothingRunsFor(folder)
  t.strictSame(readdirSync(folder).filter(name => name.includes('.new')), [])
  const { databaseUrl } = await start(t, folder)
  t.strictSame(await ask(databaseUrl!, 'select 1 as one'), [{ one: 1 }])
})

t.test('a nats-server that is none, and a port that is taken, are named in one sentence', async t => {
  const folder = dataFolder(t)
  const unfit = { natsBin: '/bin/true', postgres: false }
  await t.rejects(start(t, folder, unfit), { name: 'Complaint', message: /JETPOST_NATS_BIN is \/bin\/true/ })
  const other = await start(t, dataFolder(t), { postgres: false })
  const natsPort = Number(new URL(other.natsUrl!).port)
  await t.rejects(start(t, folder, { natsPort, postgres: false }), { name: 'Complaint', message: /JETPOST_NATS_PORT/ })
})
