import { execFile, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { deleteWebhook, finishRotation, rotateSecret } from '#src/actions/webhook.ts'
import type { Handled } from '#src/actions/handle-command.ts'
import { deadline } from '#src/base/errors.ts'
import { choosePort } from '#src/embedded/ports.ts'
import { signatureHeaders, signingKeys } from '#src/workers/webhooks/attempt.ts'
import type { AnyFact } from '#streams/catalog.ts'
import { Refusal } from '#streams/define.ts'
import { atExit } from '../support/at-exit.ts'
import { openHookRig } from '../support/hook-rig.ts'
import { until } from '../support/wait.ts'

const root = join(import.meta.dirname, '..', '..')
const RECEIVERS = join(root, 'docs', 'receivers')

interface Recipe {
  name: string
  /** Its name in docs/receivers. */
  file: string
  /** Says what is missing on this machine; false = nothing. */
  missing: false | string
  /** Makes what stands in the folder ready, and says how it is run. */
  prepare(folder: string, path: string): Promise<[command: string, ...args: string[]]>
  /** Does it look at the headers that bind the time? */
  timed: boolean
}

/** Through env: tap puts a loader of its own into every Node it sees. */
async function prepareNode (_folder: string, path: string): Promise<[string, ...string[]]> {
  return ['env', 'NODE_OPTIONS=', process.execPath, path]
}

/** With the package as `npm run build` makes it. */
async function prepareClient (folder: string, path: string): Promise<[string, ...string[]]> {
  const installed = join(folder, 'node_modules', 'jetpost')
  mkdirSync(installed, { recursive: true })
  cpSync(join(root, 'package.json'), join(installed, 'package.json'))
  const tsc = [process.execPath, join(root, 'node_modules', 'typescript', 'bin', 'tsc')]
  const output = ['--outDir', join(installed, 'dist', 'client')]
  await promisify(execFile)('env', ['-i', ...tsc, '-p', join(root, 'src', 'client'), ...output])
  return await prepareNode(folder, path)
}

async function preparePython (_folder: string, path: string): Promise<[string, ...string[]]> {
  return ['python3', path]
}

/** With nothing but what Go brings. */
async function prepareGo (folder: string, path: string): Promise<[string, ...string[]]> {
  const env = { ...process.env, GOFLAGS: '-mod=mod', GOPROXY: 'off', GOTOOLCHAIN: 'local', CGO_ENABLED: '0' }
  await promisify(execFile)('go', ['vet', path], { cwd: folder, env })
  await promisify(execFile)('go', ['build', '-o', 'receiver', path], { cwd: folder, env })
  return [join(folder, 'receiver')]
}

/** Where everything is installed on purpose, its absence is a fault. */
const missing = (
  tool: string,
  question: string
):
  | false
  | string => (process.env.CI === 'true' || spawnSync(tool, [question]).status === 0 ? false : `${tool} is not there`)

const recipes: Recipe[] = [
  { name: 'Node, with jetpost/client', file: 'node-client.mjs', missing: false, prepare: prepareClient, timed: true },
  { name: 'Node alone', file: 'node.mjs', missing: false, prepare: prepareNode, timed: false },
  {
    name: 'Python',
    file: 'receiver.py',
    missing: missing('python3', '--version'),
    prepare: preparePython,
    timed: false
  },
  { name: 'Go', file: 'receiver.go', missing: missing('go', 'version'), prepare: prepareGo, timed: false }
]

/** The command of a receiver in a folder of its own. */
async function install (t: Test, { file, prepare }: Recipe): Promise<[string, ...string[]]> {
  const folder = mkdtempSync(join(tmpdir(), 'jetpost-recipe-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, file)
  copyFileSync(join(RECEIVERS, file), path)
  return await prepare(folder, path)
}

/** Without a secret, with its first letters alone, or with an empty one beside another, everybody could sign. */
async function refusesEmptySecrets (t: Test, [command, ...args]: [string, ...string[]]): Promise<void> {
  for (const secret of ['', 'whsec_', `whsec_${Buffer.alloc(32, 7).toString('base64')},`]) {
    const env = { ...process.env, PORT: '0', JETPOST_WEBHOOK_SECRET: secret }
    const ended = promisify(execFile)(command, args, { env, timeout: 30_000 })
    await t.rejects(ended, { message: /JETPOST_WEBHOOK_SECRET must be/ }, `with '${secret}'`)
  }
}

/** A receiver of its own process, once it listens, with the lines it writes. */
async function run (
  t: Test,
  [command, ...args]: [string, ...string[]],
  port: number,
  secret: string
): Promise<string[]> {
  const child = spawn(command, args, {
    env: { ...process.env, PORT: String(port), JETPOST_WEBHOOK_SECRET: secret },
    stdio: ['ignore', 'pipe', 'inherit']
  })
  atExit(() => child.kill('SIGKILL'))
  t.teardown(async () => {
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  })
  const lines: string[] = []
  createInterface({ input: child.stdout }).on('line', line => lines.push(line))
  await until(() => listens(port), 30_000)
  return lines
}

async function listens (port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  const open = await once(socket, 'connect').then(() => true, () => false)
  socket.destroy()
  return open
}

/** The first line of the answer to a request that announces more than it sends. */
async function announce (port: number, bytes: number): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  socket.write(
    `POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${bytes}\r\n\r\n`
  )
  const [answer] = await deadline(once(socket, 'data'), 10_000, 'no answer').finally(() => socket.destroy())
  return String(answer).split('\r\n')[0]!
}

/** Headers of a callback signed with `secret`, `offS` seconds from now. */
const signed = (secret: string, id: string, body: string, offS = 0) =>
  signatureHeaders({
    keys: signingKeys(secret),
    previous: null,
    id,
    timestampS: Math.floor(Date.now() / 1000) + offS,
    body: Buffer.from(body)
  })

const rig = await openHookRig(t)
rig.start()

async function known<T extends Handled<'webhook'>> (change: Promise<T | Refusal>): Promise<T> {
  const changed = await change
  if (changed instanceof Refusal) throw new Error(changed.message)
  if (!await rig.directory.reached(changed.seq, 5000)) throw new Error('the directory did not see it')
  return changed
}

async function check (t: Test, recipe: Recipe): Promise<void> {
  const port = await choosePort(null, null, 'receiver')
  const url = `http://127.0.0.1:${port}/`
  const { webhook: { id }, secret: first } = await rig.listen(url, ['email.delivered'])
  const { secret: second } = await known(rotateSecret(rig.services, rig.asker, id))
  const installed = await install(t, recipe)
  await refusesEmptySecrets(t, installed)
  const lines = await run(t, installed, port, `${first},${second}`)
  const send = async (body: string, own: Record<string, string>) => {
    const headers = { 'content-type': 'application/json', ...own }
    return (await fetch(url, { method: 'POST', body, headers, signal: AbortSignal.timeout(10_000) })).status
  }
  const worked = (event: string) => lines.filter(line => line === `email.delivered ${event} ada@example.net`).length

  const during = await rig.happen('delivered')
  await until(() => worked(during.id) === 1)
  await known(finishRotation(rig.services, rig.asker, id))
  const event = await rig.happen('delivered')
  await until(() => worked(event.id) === 1)
  const attempts = (facts: AnyFact[]) =>
    facts.filter(fact => fact.type === 'delivery.attempted').filter(({ data }) => data.webhook === id)
  const made = attempts(await rig.facts(facts => attempts(facts).length === 2))
  t.match(
    made.map(({ data }) => data),
    [{ result: 'delivered', status: 204 }, { result: 'delivered', status: 204 }],
    'Jetpost sees both callbacks taken: one signed by the old secret, one by the new'
  )

  t.equal(await send(event.body, signed(second, event.id, event.body)), 204, 'a second copy')
  t.equal(
    await send(event.body, { 'X-Service-Signature': signed(second, event.id, event.body)['X-Service-Signature']! }),
    204,
    "a third, by the spec's header alone"
  )

  const tampered = event.body.replace('ada@example.net', 'eve@example.net').replace(event.id, 'ev_tampered')
  const stranger = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
  const batch = (...bodies: string[]) => `{"object":"batch","id":"evb_${port}","events":[${bodies.join(',')}]}`
  const forged: Array<[string, string, Record<string, string>]> = [
    ['tampered with', tampered, signed(second, event.id, event.body)],
    ['signed by a stranger', tampered, signed(stranger, event.id, tampered)],
    ['signed with no secret', tampered, signed('whsec_', event.id, tampered)],
    ['not signed', tampered, {}],
    ['an empty signature', tampered, { 'X-Service-Signature': '' }],
    ['no more than the name of the algorithm', tampered, { 'X-Service-Signature': 'sha256=' }],
    ['a signature beyond ASCII', tampered, { 'X-Service-Signature': `sha256=${'é'.repeat(64)}` }],
    ['a signature of the right length', tampered, { 'X-Service-Signature': `sha256=${'0'.repeat(64)}` }],
    ['the signature of another event', tampered, signed(second, during.id, during.body)],
    ['a batch around a body that is signed alone', batch(event.body), signed(second, event.id, event.body)],
    ['no body', '', signed(second, event.id, event.body)],
    ...(recipe.timed
      ? [
        ['six minutes old', event.body, signed(second, event.id, event.body, -360)] satisfies [
          string,
          string,
          Record<string, string>
        ]
      ]
      : [])
  ]
  for (const [what, body, headers] of forged) t.equal(await send(body, headers), 401, what)
  t.match(await announce(port, 10_000_001), / 413 /, 'a body that nobody needs')

  const [one, two] = [event.body.replace(event.id, 'ev_one'), event.body.replace(event.id, 'ev_two')]
  const together = batch(one, event.body, two)
  t.equal(await send(together, signed(second, `evb_${port}`, together)), 204, 'a batch')
  t.equal(await send(together, signed(second, `evb_${port}`, together)), 204, 'and once more')
  const last = await rig.happen('delivered')
  await until(() => worked(last.id) === 1)
  t.strictSame(
    lines,
    [during.id, event.id, 'ev_one', 'ev_two', last.id].map(id => `email.delivered ${id} ada@example.net`),
    'each event is worked on once, and nothing forged'
  )
  await known(deleteWebhook(rig.services, rig.asker, id))
}

t.strictSame(readdirSync(RECEIVERS).sort(), recipes.map(({ file }) => file).sort(), 'every receiver of the docs is run')
for (const recipe of recipes) {
  const name = `the receiver of the docs takes what is signed, once, and nothing else: ${recipe.name}`
  t.test(name, { skip: recipe.missing }, t => check(t, recipe))
}
