import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t, { type Test } from 'tap'
import { deadline } from '#src/base/errors.ts'
import { atExit } from '../support/at-exit.ts'
import { COMPILED } from '../support/compiled.ts'
import { familyOf, signal, untilGone } from '../support/tree.ts'

const ROOT = join(import.meta.dirname, '..', '..')
/** The first start of all may build nats-server. */
const READY_MS = 240_000

const folder = mkdtempSync(join(tmpdir(), 'jetpost-npm-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))

/** Older ones keep SIGTERM to themselves and go on. */
function passesSignals (): boolean {
  const [major = 0, minor = 0] = execFileSync('npm', ['--version'], { encoding: 'utf8' }).split('.').map(Number)
  return major > 10 || (major === 10 && minor >= 3)
}

interface Started {
  npm: ChildProcess
  exited: Promise<unknown[]>
  /** npm, Jetpost and what that started. */
  family: number[]
}

/** Starts Jetpost as an operator would; resolves when it is ready. */
async function startByNpm (t: Test, args: string[]): Promise<Started> {
  const { PATH, HOME, XDG_CACHE_HOME, JETPOST_NATS_BIN } = process.env
  const env = { PATH, HOME, XDG_CACHE_HOME, JETPOST_NATS_BIN, ...COMPILED, JETPOST_DATA_DIR: folder, PORT: '0' }
  const npm = spawn('npm', args, { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'pipe'] })
  atExit(() => npm.kill('SIGTERM'))
  const exited = once(npm, 'exit')
  let family: number[] = []
  t.teardown(async () => {
    const left = [...family, ...familyOf(folder, npm.pid)]
    for (const pid of left) signal(pid, 'SIGKILL')
    await untilGone(left)
  })
  let said = ''
  npm.stderr!.setEncoding('utf8').on('data', text => {
    said += text
  })
  const ready = new Promise<null>(resolve => {
    createInterface(npm.stdout!).on('line', line => {
      if (line.includes('"event":"ready"')) resolve(null)
    })
  })
  const first = await deadline(Promise.race([ready, exited]), READY_MS, `Jetpost was not ready within ${READY_MS} ms`)
  if (first !== null) throw new Error(`npm ended before Jetpost was ready:\n${said}`)
  family = familyOf(folder, npm.pid)
  return { npm, exited, family }
}

const skip = passesSignals() ? false : 'npm is older than 10.3'

t.test('SIGTERM to npm start stops Jetpost and its servers, and npm ends after them', { skip }, async t => {
  const { npm, exited, family } = await startByNpm(t, ['start'])
  t.ok(family.length >= 4, 'npm, Jetpost, nats-server and PostgreSQL run')
  npm.kill('SIGTERM')
  t.strictSame(await exited, [0, null])
  await untilGone(family)
  t.strictSame(familyOf(folder, npm.pid), [])
})

t.test(
  'where a shell of npm takes the signal for itself, Jetpost stops because its parent is gone',
  { skip },
  async t => {
    const { npm, exited, family } = await startByNpm(t, ['exec', '-c', 'node src/bin.js start'])
    npm.kill('SIGTERM')
    await exited
    await untilGone(family)
    t.strictSame(familyOf(folder, npm.pid), [])
  }
)
