import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Client } from 'pg'
import t, { type Test } from 'tap'
import { deadline } from '#src/base/errors.ts'
import { API_KEY, FROM } from '../support/app.ts'
import { atExit } from '../support/at-exit.ts'
import { createAuthority } from '../support/certificates.ts'
import { COMPILED } from '../support/compiled.ts'
import { BIN, jetpost } from '../support/jetpost.ts'
import { SECRET } from '../support/secret.ts'
import { freshAccount } from '../support/servers.ts'
import { openTlsNats, openTlsPostgres, PASSWORD } from '../support/tls-servers.ts'
import { until } from '../support/wait.ts'

const READY_MS = 60_000
const authority = createAuthority()
const nats = await openTlsNats(t, authority.certify('localhost', '127.0.0.1'))
/** Its certificate names no address. */
const named = await openTlsNats(t, authority.certify('localhost'))
const postgres = await openTlsPostgres(t, authority.certify('localhost'))
const folder = t.testdir()
const file = (name: string, text: string) => {
  const path = join(folder, name)
  writeFileSync(path, text, { mode: 0o600 })
  return path
}
const ca = file('ca.pem', authority.ca)
const database = `postgres://jetpost:${PASSWORD}@localhost:${postgres.port}/jetpost`
const settings = {
  JETPOST_DATA_DIR: join(folder, 'data'),
  JETPOST_SECRET: SECRET,
  JETPOST_API_KEY: API_KEY,
  JETPOST_REQUIRE_VERIFIED_DOMAINS: 'false',
  NATS_URL: `tls://localhost:${nats.port}`,
  NATS_CREDS: file('jetpost.nk', `${nats.seed}\n`),
  DATABASE_URL: `${database}?sslmode=verify-full&sslrootcert=${ca}`
}
const env = { ...settings, NODE_EXTRA_CA_CERTS: ca }
await untilAnswers()

/** Resolves once PostgreSQL takes connections. */
async function untilAnswers (): Promise<void> {
  await until(() => asked('select 1').then(() => true, () => false), 30_000)
}

async function asked (query: string): Promise<any[]> {
  const client = new Client({ connectionString: settings.DATABASE_URL, connectionTimeoutMillis: 5000 })
  await client.connect()
  const { rows } = await client.query(query).finally(() => client.end())
  return rows
}

/** Starts Jetpost as an operator would; resolves to its URL. */
async function start (t: Test): Promise<string> {
  const child = spawn(process.execPath, [BIN, 'start'], {
    env: { PATH: process.env.PATH, ...COMPILED, ...env, PORT: '0' },
    stdio: ['ignore', 'pipe', 'ignore']
  })
  atExit(() => child.kill('SIGKILL'))
  const exited = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGTERM')
    await exited
  })
  const ready = new Promise<string>(resolve => {
    createInterface(child.stdout).on('line', line => {
      if (line.includes('"event":"ready"')) resolve(JSON.parse(line).url)
    })
  })
  return await deadline(ready, READY_MS, 'not ready in time')
}

/** What doctor says of a server. */
async function verdict (name: 'nats' | 'postgres', change: Record<string, string>): Promise<[boolean, string]> {
  const { out } = await jetpost(['doctor', '--json'], { ...env, ...change })
  const { checks } = JSON.parse(out) as { checks: Array<{ name: string, ok: boolean, says: string }> }
  const { ok, says } = checks.find(check => check.name === name)!
  return [ok, says]
}

t.test('from POST to delivered by TLS alone, with an nkey and a role that can do nothing else', async t => {
  const url = await start(t)
  const ask = async (method: string, path: string, body?: object) => {
    const answer = await fetch(url + path, {
      method,
      headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
      body: body === undefined ? null : JSON.stringify(body),
      signal: AbortSignal.timeout(20_000)
    })
    return { status: answer.status, body: await answer.json() as any }
  }
  const mail = { from: FROM, to: 'ada@example.com', subject: 'Hello', text: 'Hello' }
  const { status, body: { id } } = await ask('POST', '/api/emails', mail)
  t.equal(status, 202)
  await until(async () => (await ask('GET', `/api/emails/${id}`)).body.status === 'delivered', 20_000)
  const sessions = await asked(
    "select ssl from pg_stat_ssl join pg_stat_activity using (pid) where application_name like 'jetpost%'"
  )
  t.ok(sessions.length > 0 && sessions.every(({ ssl }) => ssl === true), `${sessions.length} sessions`)
  const [role] = await asked('select * from pg_roles where rolname = current_user')
  const powers = ['rolsuper', 'rolcreaterole', 'rolcreatedb', 'rolreplication', 'rolbypassrls']
  t.strictSame(powers.filter(power => role[power] !== false), [])
  const rebuilt = await jetpost(['rebuild', 'emails'], env)
  t.equal(rebuilt.code, 0, rebuilt.err)
  const verified = await jetpost(['verify'], env)
  t.equal(verified.code, 0, verified.out + verified.err)
})

t.test('doctor says what is wrong with a certificate, a seed, a role, and a server without TLS', async t => {
  t.match(await verdict('nats', {}), [true, /^nats-server /])
  t.match(await verdict('postgres', {}), [true, /^PostgreSQL /])
  t.match(await verdict('nats', { NODE_EXTRA_CA_CERTS: '' }), [false, /certificate/])
  t.match(await verdict('nats', { NATS_URL: `tls://127.0.0.1:${nats.port}` }), [true, /^nats-server /])
  t.match(await verdict('nats', { NATS_URL: `tls://127.0.0.1:${named.port}` }), [false, /certificate/])
  t.match(await verdict('nats', { NATS_CREDS: '' }), [false, /Authorization/i])
  const plain = new URL(freshAccount().natsUrl)
  plain.protocol = 'tls:'
  t.match(await verdict('nats', { NATS_URL: plain.href }), [false, /./], 'one without TLS is not spoken to')
  const untrusted = `${database}?sslmode=verify-full`
  t.match(await verdict('postgres', { DATABASE_URL: untrusted, NODE_EXTRA_CA_CERTS: '' }), [false, /certificate/])
  t.match(await verdict('postgres', { DATABASE_URL: `${database}?sslmode=disable` }), [false, /no encryption/])
})
