import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { readProcessStart } from '#src/embedded/running.ts'
import { jetpostHere } from '../support/command.ts'
import { jetpost as runJetpost } from '../support/jetpost.ts'
import { openRelay } from '../support/relay.ts'
import { startTree, TREE_KEY } from '../support/tree.ts'

const folder = mkdtempSync(join(tmpdir(), 'jetpost-running-'))
const dataDir = join(folder, 'data')
const file = join(dataDir, 'service.json')
t.teardown(() => rmSync(folder, { recursive: true, force: true }))

/** A shell of its own: nothing of the service's environment, in the folder that has `data` in it. */
const jetpost = (args: string[], env: Record<string, string> = {}, cwd = folder) => runJetpost(args, env, cwd)
const mail = [
  'send',
  '--from',
  'hello@sandbox.jetpost.test',
  '--to',
  'ada@example.com',
  '--subject',
  'x',
  '--text',
  'x'
]

t.test('where nothing runs, commands say so, and what to do', async t => {
  const words = /^jetpost: No Jetpost runs on the data folder \.\/data: start it there, set JETPOST_DATA_DIR to its /
  t.match(await jetpost(['dashboard']), { code: 1, out: '', err: words })
  t.match(await jetpost(mail, { JETPOST_API_KEY: TREE_KEY }), { code: 1, out: '', err: words })
  t.match(await jetpost(['doctor']), { code: 0, out: /embedded: no Jetpost runs on the data folder/ })
})

t.test('commands find the service on the data folder, its URL and its settings', async t => {
  const relay = await openRelay(t)
  mkdirSync(dataDir, { mode: 0o700 })
  const tree = await startTree({
    dataDir,
    env: { SMTP_URL: relay.url('u', 'hunter2', '?tls=off'), JETPOST_RETENTION: '100d' }
  })
  t.teardown(() => tree.dispose())
  t.equal(statSync(file).mode & 0o777, 0o600)
  t.notMatch(readFileSync(file, 'utf8'), new RegExp(`hunter2|${TREE_KEY}`), 'no secret is written down')

  const places: Array<[env: Record<string, string>, cwd: string]> = [
    [{}, folder],
    [{ JETPOST_DATA_DIR: dataDir }, tmpdir()]
  ]
  for (const [env, cwd] of places) {
    const link = await jetpost(['dashboard', '--json'], env, cwd)
    t.equal(link.code, 0, link.err)
    const [{ url }] = JSON.parse(link.out)
    t.ok(url.startsWith(`${tree.url}/`), url)
    t.equal((await fetch(url, { redirect: 'manual' })).status < 400, true, 'the link leads somewhere')
    const sent = await jetpost([...mail, '--json'], { ...env, JETPOST_API_KEY: TREE_KEY }, cwd)
    t.equal(sent.code, 0, sent.err)
    t.equal((await tree.request('GET', `/api/emails/${JSON.parse(sent.out)[0].id}`)).status, 200)
    const found = JSON.parse((await jetpost(['doctor', '--json'], env, cwd)).out)
    t.match(found.service, { pid: tree.pid(), url: tree.url })
    const settingOf = (name: string) => found.settings.find((setting: { name: string }) => setting.name === name)
    t.match(settingOf('JETPOST_RETENTION'), { value: String(100 * 86_400_000), from: 'service' })
    t.match(settingOf('SMTP_URL'), { value: 'set', from: 'service' })
    const checkOf = (name: string) => found.checks.find((check: { name: string }) => check.name === name)
    t.match(checkOf('nats'), { ok: true })
    t.match(checkOf('smtp'), { ok: null, says: /has a SMTP_URL of its own, set the same one here/ })
  }

  const own = JSON.parse((await jetpost(['doctor', '--json'], { JETPOST_RETENTION: '95d' })).out)
  t.match(
    own.settings.find(({ name }: { name: string }) => name === 'JETPOST_RETENTION'),
    { value: String(95 * 86_400_000), from: 'environment' },
    'the environment comes first'
  )
  t.match(await jetpost(mail, { JETPOST_API_KEY: TREE_KEY, JETPOST_PUBLIC_URL: 'http://127.0.0.1:9' }), {
    code: 1,
    err: /is JETPOST_PUBLIC_URL, http:\/\/127\.0\.0\.1:9, where Jetpost serves\?/
  })

  await tree.kill9()
  t.ok(existsSync(file), 'nobody could remove it')
  t.match(await jetpost(['dashboard']), { code: 1, err: /No Jetpost runs on the data folder/ })
  await tree.start()
  t.match(await jetpost(['dashboard']), { code: 0, out: `${tree.url}/` })
  await tree.stop()
  t.notOk(existsSync(file), 'a stop leaves nothing')
  t.match(await jetpost(['dashboard']), { code: 1, err: /No Jetpost runs on the data folder/ })
})

t.test('jetpost secret rotate puts a new secret first; the service seals with it after a restart', async t => {
  const own = mkdtempSync(join(tmpdir(), 'jetpost-ring-'))
  t.teardown(() => rmSync(own, { recursive: true, force: true }))
  const rotate = (...more: string[]) => jetpostHere(['secret', 'rotate', ...more], { JETPOST_DATA_DIR: own })
  t.match(await rotate(), { code: 1, err: /No Jetpost runs on the data folder/ })
  const tree = await startTree({ dataDir: own })
  t.teardown(() => tree.dispose())
  const lines = () => readFileSync(join(own, 'secret'), 'utf8').trim().split('\n')
  const [first] = lines()
  t.notMatch(readFileSync(join(own, 'service.json'), 'utf8'), first!, 'the note tells no secret')
  await tree.cli('domains', 'add', 'before.example')

  t.match(await rotate(), { code: 0, out: /A new secret stands first in .*secret: keep a copy .* Restart the service/ })
  const ring = lines()
  t.strictSame(ring.slice(1), [first])
  t.equal(statSync(join(own, 'secret')).mode & 0o777, 0o600)
  t.match(await rotate(), {
    code: 1,
    err: /does not seal with the first secret of .*secret: restart it with that, then/
  })
  t.match(await rotate('--new'), { code: 1, err: /restart it with that/ })
  await tree.cli('domains', 'add', 'between.example')
  t.strictSame(lines(), ring)

  await tree.stop()
  await tree.start()
  t.match(JSON.parse((await rotate('--json')).out), { added: false, domains: 2, lost: [] }, 'also what came between')
  t.match(JSON.parse((await rotate('--json')).out), { added: false, domains: 0, lost: [] })
  t.strictSame(lines(), ring)
  t.match(await jetpostHere(['keys'], { JETPOST_DATA_DIR: own, JETPOST_SECRET: 'x'.repeat(32) }), {
    code: 1,
    err: /seals with a secret that is not in this JETPOST_SECRET: set the same one here\./
  })

  t.match(JSON.parse((await rotate('--new', '--json')).out), { added: true })
  t.strictSame(lines().slice(1), ring)
  await tree.stop()
  writeFileSync(join(own, 'secret'), `${'z'.repeat(32)}\n`)
  await tree.start()
  t.match(tree.log(), /JETPOST_SECRET does not open the secrets of these webhooks, domains and routes/)
})

t.test('a process that has the pid of the former service is not taken for it', async t => {
  const service = { pid: process.pid, startedAt: '', url: 'http://127.0.0.1:9', settings: {}, withheld: [] }
  const found = async (processStart: string | null) => {
    writeFileSync(file, JSON.stringify({ ...service, processStart }))
    return (await jetpostHere(['doctor'], { JETPOST_DATA_DIR: dataDir })).out.includes('http://127.0.0.1:9')
  }
  t.equal(await found(await readProcessStart(process.pid)), true)
  t.equal(await found('another'), false)
  writeFileSync(file, '{"pid":')
  t.match(await jetpostHere(['doctor'], { JETPOST_DATA_DIR: dataDir }), { code: 0 }, 'a broken file is none')
})

t.test('a secret that only the service has is asked for, and not replaced by another', async t => {
  rmSync(join(dataDir, 'secret'), { force: true })
  const processStart = await readProcessStart(process.pid)
  const service = { pid: process.pid, processStart, startedAt: '', url: 'http://127.0.0.1:9', settings: {} }
  const env = { JETPOST_DATA_DIR: dataDir }
  for (const name of ['JETPOST_SECRET', 'NATS_URL']) {
    writeFileSync(file, JSON.stringify({ ...service, withheld: [name] }))
    t.match(await jetpostHere(['keys'], env), {
      code: 1,
      err: `The running service (process ${process.pid}) has a ${name} of its own: set the same one here.`
    })
  }
  t.notOk(existsSync(join(dataDir, 'secret')), 'none is made in its place')
})
