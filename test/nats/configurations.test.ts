import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { findNatsServer } from '#src/embedded/nats-binary.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const folder = mkdtempSync(join(tmpdir(), 'jetpost-conf-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))
const server = await findNatsServer({
  natsBin: process.env.JETPOST_NATS_BIN || null,
  dataDir: folder,
  say: () => {},
  signal: AbortSignal.timeout(60_000)
})
/** They begin with a letter, as the documents make them. */
const env = { PATH: process.env.PATH, NATS_PASSWORD: 'x1', NATS_ROUTE_PASSWORD: 'x2' }

t.test('nats-server takes the configurations that are shipped, and no other', async t => {
  for (const path of ['src/nats/server.conf', 'docs/deploy/cluster/nats.conf']) {
    const { status, stderr } = spawnSync(server, ['-t', '--config', join(ROOT, path)], { env, encoding: 'utf8' })
    t.equal(status, 0, `${path}: ${stderr}`)
  }
  const bare = { PATH: env.PATH }
  t.not(spawnSync(server, ['-t', '--config', join(ROOT, 'src/nats/server.conf')], { env: bare }).status, 0)
})

t.test('what the template of Coolify writes is one, too', async t => {
  const template = parse(readFileSync(join(ROOT, 'docs/deploy/coolify/jetpost.yaml'), 'utf8'))
  const [, , script] = template.services.nats.entrypoint as string[]
  const own = script!.replaceAll('$$', '$').replaceAll('/tmp/', `${folder}/`).replace(
    'exec nats-server',
    `'${server}' -t`
  )
  const { status, stderr } = spawnSync('sh', ['-c', own], { env, encoding: 'utf8' })
  t.equal(status, 0, stderr)
  t.match(readFileSync(join(folder, 'nats.conf'), 'utf8'), 'password: $NATS_PASSWORD')
})
