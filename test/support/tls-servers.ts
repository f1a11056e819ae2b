import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { nkeys } from 'nats'
import { createLog } from '#src/base/log.ts'
import { choosePort } from '#src/embedded/ports.ts'
import { postgresAccount } from '#src/embedded/postgres-account.ts'
import { postgresFolder } from '#src/embedded/postgres-folder.ts'
import { findPostgres } from '#src/embedded/postgres-package.ts'
import { asSuperuser, ROLE, SUPERUSER } from '#src/embedded/postgres-role.ts'
import { startEmbedded } from '#src/embedded/start.ts'
import { startSupervised } from '#src/embedded/supervised-process.ts'
import { natsCommand } from './own-nats.ts'
import type { Certificate } from './certificates.ts'
import type { Ending } from './servers.ts'

const ROLE_SQL = join(import.meta.dirname, '../../docs/deploy/postgres/role.sql')
export const PASSWORD = 'of-the-role'

function newFolder (t: Ending, name: string): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), `jetpost-${name}-`)))
  t.teardown(async () => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** A nats-server on `localhost` that speaks to nobody without TLS, and to whom holds an nkey's seed; ended with the
 *  test. */
export async function openTlsNats (t: Ending, { key, cert }: Certificate): Promise<{ port: number, seed: string }> {
  const folder = newFolder(t, 'tls-nats')
  const port = await choosePort(null, null, 'nats-server')
  const user = nkeys.createUser()
  const at = (name: string) => join(folder, name)
  writeFileSync(at('key.pem'), key, { mode: 0o600 })
  writeFileSync(at('cert.pem'), cert)
  const config = [
    `listen: "127.0.0.1:${port}"`,
    'max_payload: 8MB',
    `jetstream { store_dir: "${folder}", sync_interval: always }`,
    `tls { cert_file: "${at('cert.pem')}", key_file: "${at('key.pem')}" }`,
    `authorization { users: [{ nkey: ${user.getPublicKey()} }] }`
  ]
  const server = await startSupervised(await natsCommand(folder, `${config.join('\n')}\n`))
  t.teardown(() => server.stop())
  return { port, seed: new TextDecoder().decode(user.getSeed()) }
}

/** A PostgreSQL on `localhost` that takes nobody in without TLS, with the role and the database that the documents make
 *  for Jetpost; ended with the test. */
export async function openTlsPostgres (t: Ending, { key, cert }: Certificate): Promise<{ port: number }> {
  const folder = newFolder(t, 'tls-postgres')
  const embedded = { dataDir: folder, nats: false, postgres: true, log: createLog('silent'), say: () => {} }
  await (await startEmbedded(embedded)).stop()
  const database = postgresFolder(folder)
  const programs = findPostgres(folder)
  const account = await postgresAccount(database, programs)
  const [first, second] = roleStatements()
  const drop = [`drop database ${ROLE}`, `drop role ${ROLE}`]
  await asSuperuser({ folder: database, programs, account }, SUPERUSER, [...drop, ...first!])
  await asSuperuser({ folder: database, programs, account }, ROLE, second!)
  const tls = join(folder, 'tls')
  mkdirSync(tls, { mode: 0o700 })
  const own = (name: string, text: string) => {
    const path = join(tls, name)
    writeFileSync(path, text, { mode: 0o600 })
    account.own(path)
    return path
  }
  const port = await choosePort(null, null, 'PostgreSQL')
  const settings = {
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    port,
    ssl: 'on',
    ssl_cert_file: own('cert.pem', cert),
    ssl_key_file: own('key.pem', key),
    hba_file: own('hba.conf', 'hostssl all all 127.0.0.1/32 scram-sha-256\n')
  }
  account.own(tls)
  const options = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const [file, args] = account.wrap(programs.postgres, ['-D', database, ...options])
  const logFile = join(folder, 'tls.log')
  const server = await startSupervised({
    file,
    args,
    env: programs.env,
    logFile,
    stopSignal: 'SIGINT',
    forceSignal: 'SIGQUIT'
  })
  t.teardown(() => server.stop())
  return { port }
}

/** Of role.sql: those before and after it connects to the new database; the rest of psql's own is done here. */
function roleStatements (): string[][] {
  const text = readFileSync(ROLE_SQL, 'utf8').replace(":'password'", `'${PASSWORD}'`)
  return text.split(/^\\connect .*$/m).map(part => part.split('\n').filter(line => /^\w/.test(line)))
}
