import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import t from 'tap'
import { freshAccount, freshDatabase } from '../support/servers.ts'
import { SECRET } from '../support/secret.ts'
import { startTree } from '../support/tree.ts'
import { until } from '../support/wait.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const folder = mkdtempSync(join(tmpdir(), 'jetpost-installed-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))

/** What `npm install` makes of our package: its files, and what it needs beside them. */
function install (): string {
  const modules = join(folder, 'node_modules')
  const home = join(modules, 'jetpost')
  mkdirSync(modules)
  for (const name of readdirSync(join(ROOT, 'node_modules'))) {
    if (!name.startsWith('.')) symlinkSync(join(ROOT, 'node_modules', name), join(modules, name))
  }
  const packed = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], { cwd: ROOT })
  const [{ files }] = JSON.parse(String(packed)) as [{ files: Array<{ path: string }> }]
  for (const { path } of files) {
    mkdirSync(dirname(join(home, path)), { recursive: true })
    cpSync(join(ROOT, path), join(home, path))
  }
  return join(home, 'src', 'bin.js')
}

t.test('the package runs where npm installs it, with its second process and its threads', async t => {
  const tree = await startTree({
    bin: install(),
    env: {
      NATS_URL: freshAccount().natsUrl,
      DATABASE_URL: await freshDatabase(t),
      JETPOST_SECRET: SECRET,
      JETPOST_PROCESSES: '2'
    }
  })
  t.teardown(() => tree.dispose())
  const mail = { from: 'hello@sandbox.jetpost.test', to: 'ada@example.com', subject: 'Installed', text: 'Hello' }
  const { body: { id } } = await tree.request('POST', '/api/emails', mail)
  await until(async () => (await tree.request('GET', `/api/emails/${id}`)).body.status === 'delivered')
  t.match(await tree.cli('rebuild', 'emails'), /emails/)
  t.equal((await tree.request('GET', `/api/emails/${id}`)).body.status, 'delivered')
  t.strictSame((await tree.stop()).code, 0)
  t.notMatch(tree.log(), /Warning/, 'Node has nothing to warn of')
})
