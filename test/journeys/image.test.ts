import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import t from 'tap'
import { deadline } from '#src/base/errors.ts'
import { API_KEY, FROM } from '../support/app.ts'
import { atExit } from '../support/at-exit.ts'
import { SECRET } from '../support/secret.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'

const ROOT = join(import.meta.dirname, '..', '..')
/** Of the image's user, `node`. */
const UID = 1000
const READY_MS = 60_000

const dockerfile = readFileSync(join(ROOT, 'src/Dockerfile'), 'utf8')
const final = dockerfile.split(/^FROM /m).at(-1)!

/** What `npm ci --omit=dev --omit=optional` installs. */
function installed (): string[] {
  const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { dev?: true, optional?: true, devOptional?: true }>
  }
  const isShipped = (path: string) => {
    const { dev, optional, devOptional } = packages[path]!
    return path !== '' && !(dev ?? optional ?? devOptional)
  }
  return Object.keys(packages).filter(isShipped)
}

/** The folder /app of the image, made as the Dockerfile says. */
function makeImage (): string {
  const folder = mkdtempSync(join(tmpdir(), 'jetpost-image-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const copied = [...final.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(([, names]) => names!.split(' '))
  t.ok(copied.includes('src') && copied.includes('package.json'), 'the Dockerfile is read')
  t.match(dockerfile, 'npm ci --omit=dev --omit=optional --ignore-scripts')
  for (const name of [...copied, ...installed()]) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    cpSync(join(ROOT, name), join(folder, name), { recursive: true, filter: path => !path.endsWith('/.cache') })
  }
  chmodSync(folder, 0o755)
  return folder
}

t.test('what the image contains runs alone, as a user that may write to nothing of it', async t => {
  const app = makeImage()
  t.match(final, /^USER node$/m)
  t.notOk(existsSync(join(app, 'node_modules/tap')), 'what is for development alone is not in it')
  const command = JSON.parse(/^ENTRYPOINT (.+)$/m.exec(final)![1]!) as string[]
  const asRoot = process.getuid?.() === 0
  const child = spawn(process.execPath, [...command.slice(1), 'start'], {
    cwd: app,
    env: {
      ...Object.fromEntries([...final.matchAll(/\b(NODE_ENV|HOST)=(\S+)/g)].map(([, name, value]) => [name, value])),
      PORT: '0',
      JETPOST_DATA_DIR: join(app, 'none'),
      JETPOST_SECRET: SECRET,
      JETPOST_API_KEY: API_KEY,
      JETPOST_REQUIRE_VERIFIED_DOMAINS: 'false',
      NATS_URL: freshAccount().natsUrl,
      DATABASE_URL: await freshDatabase(t)
    },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(asRoot ? { uid: UID, gid: UID } : {})
  })
  atExit(() => child.kill('SIGKILL'))
  const exited = once(child, 'exit')
  let said = ''
  child.stderr.setEncoding('utf8').on('data', text => {
    said += text
  })
  const ready = new Promise<{ url: string }>(resolve => {
    createInterface(child.stdout).on('line', line => {
      if (line.includes('"event":"ready"')) resolve(JSON.parse(line))
    })
  })
  const ended = exited.then(() => {
    throw new Error(`it ended before it was ready: ${said}`)
  })
  const { url } = await deadline(Promise.race([ready, ended]), READY_MS, 'not ready in time')
  ended.catch(() => {})
  const answer = await fetch(new URL('/api/emails', url.replace('0.0.0.0', '127.0.0.1')), {
    method: 'POST',
    headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ from: FROM, to: 'ada@example.com', subject: 'Hello', text: 'Hello' }),
    signal: AbortSignal.timeout(20_000)
  })
  t.equal(answer.status, 202)
  child.kill('SIGTERM')
  t.strictSame(await exited, [0, null], 'it stops when it is told to')
})
