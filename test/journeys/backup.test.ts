import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { BACKED_UP, RESTORING } from '#streams/backup.ts'
import { subjects } from '#streams/subjects.ts'
import { createLog } from '#src/base/log.ts'
import { countUnsettled } from '#src/cli/restore.ts'
import { api } from '#src/nats/api.ts'
import { createAppender } from '#src/nats/append.ts'
import { connectBus, type Bus } from '#src/nats/connect.ts'
import { getFact } from '#src/nats/get.ts'
import type { StreamAbout } from '#src/nats/snapshot.ts'
import { openBus as openTopology } from '../support/bus.ts'
import { requested } from '../support/facts.ts'
import { startTestApp } from '../support/app.ts'
import { jetpost } from '../support/jetpost.ts'
import { closedLoop, type Shot } from '#src/cli/bench/load.ts'
import { openWorld, smallMail, subscribe } from '../support/reckoning.ts'
import { SECRET } from '../support/secret.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'
import { startTree, TREE_KEY, type Tree } from '../support/tree.ts'
import { until } from '../support/wait.ts'

t.setTimeout(180_000)

function newFolder (t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'jetpost-backup-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

const waiting = await openWaiting(t)

t.test('backed up under load, all lost, restored: what the backup had is back, what waited goes on', async t => {
  const world = await openWorld(t)
  const tree = await startTree({ env: { SMTP_URL: world.smtpUrl, JETPOST_SECRET: '' } })
  t.teardown(() => tree.dispose())
  const folder = join(newFolder(t), 'one')
  await subscribe(tree, world)
  world.mail.replies('user0@example.com', { rcpt: '550 5.1.1 no such user' })
  world.mail.replies('later@example.com', { rcpt: '451 4.7.1 greylisted, come back later' })
  const early = await load(tree, 20)
  const later = await send(tree, 'later@example.com', { scheduled_at: new Date(Date.now() + 3_600_000).toISOString() })
  const deferred = await send(tree, 'later@example.com')
  await until(async () => (await read(tree, deferred)).status === 'deferred')
  for (const id of early) await until(async () => ['delivered', 'bounced'].includes((await read(tree, id)).status))
  await until(async () => (await tree.request('GET', '/api/suppressions')).body.data?.length === 1)
  const known = await readMany(tree, [...early, later, deferred])
  const under = underLoad(tree)
  await until(() => under.ids.length > 20)
  const before = [...under.ids]
  const manifest = JSON.parse(await tree.cli('backup', folder, '--json'))
  const total = await under.end()
  t.ok(total.length > before.length, 'it went on meanwhile')
  t.match(await refusal(tree, 'restore', folder), /in use by another Jetpost/)
  const secret = readFileSync(join(tree.dataDir, 'secret'))
  await tree.kill9()
  for (const name of readdirSync(tree.dataDir)) rmSync(join(tree.dataDir, name), { recursive: true })

  t.match(await refusal(tree, 'restore', folder), /There is no secret in .*: copy the file `secret`/)
  writeFileSync(join(tree.dataDir, 'secret'), 'another secret of at least 32 characters\n', { mode: 0o600 })
  t.match(await refusal(tree, 'restore', folder), /JETPOST_SECRET does not hold the one/)
  writeFileSync(join(tree.dataDir, 'secret'), secret, { mode: 0o600 })
  const restored = JSON.parse(await tree.cli('restore', folder, '--json'))
  t.strictSame(
    restored.streams.map((copy: { stream: string, last_seq: number }) => [copy.stream, copy.last_seq]),
    manifest.streams.map((copy: { stream: string, lastSeq: number }) => [copy.stream, copy.lastSeq])
  )
  t.match(restored.unsettled, { later: 2, canceled: 0 }, 'the scheduled and the deferred one')
  t.match(await refusal(tree, 'restore', folder), /The stream \w+ exists, up to sequence \d+/)

  await tree.start()
  await until(async () => (await listed(tree)).size >= known.length + before.length)
  t.strictSame(await readMany(tree, known.map(({ id }) => id)), known, 'to the last entry of each timeline')
  for (const id of before) await until(async () => (await read(tree, id)).status === 'delivered')
  t.match(await tree.request('GET', '/api/suppressions'), {
    body: { data: [{ address: 'user0@example.com', reasons: [{ reason: 'bounce' }] }] }
  })
  const sent = await send(tree, 'after@example.com')
  await until(async () => (await read(tree, sent)).status === 'delivered')
  const callback = () => world.hooks.requests.some(({ body }) => JSON.parse(body.toString()).data.email_id === sent)
  await until(callback)
  const moved = await tree.request('PATCH', `/api/emails/${later}`, {
    scheduled_at: new Date(Date.now() + 1000).toISOString()
  })
  t.equal(moved.status, 200, 'what is scheduled can be moved, and goes out')
  await until(async () => (await read(tree, later)).status !== 'scheduled')
  const doubles = [...world.mail.copies().values()].filter(copies => copies.length > 1).length
  t.ok(
    doubles <= restored.unsettled.due,
    `twice at most what was said to be due: ${doubles} of ${restored.unsettled.due}`
  )
  const proof = JSON.parse(await tree.cli('verify', '--json'))
  t.equal(proof.ok, true, JSON.stringify(proof))
})

t.test('a backup that is damaged, changed, cut short or none is refused before anything is touched', async t => {
  const { env, folder } = waiting
  const target = { ...env, NATS_URL: freshAccount().natsUrl }
  t.match(await jetpost(['restore', folder, '--check'], target), { code: 0, err: 'is complete, made' })
  t.equal(statSync(folder).mode & 0o777, 0o700)
  for (const name of readdirSync(folder, { recursive: true }) as string[]) {
    const { mode } = statSync(join(folder, name))
    t.equal(mode & 0o777, name.includes('.') ? 0o600 : 0o700, name)
  }
  const spoiled = async (spoil: (copy: string) => void) => {
    const copy = join(newFolder(t), 'copy')
    cpSync(folder, copy, { recursive: true })
    spoil(copy)
    const { code, err } = await jetpost(['restore', copy], target)
    t.equal(code, 1)
    return err
  }
  const archive = (copy: string) => join(copy, 'EMAILS', 'stream.tar.s2')
  const manifest = JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8'))
  const withManifest = (changed: object) =>
    spoiled(copy => writeFileSync(join(copy, 'manifest.json'), JSON.stringify({ ...manifest, ...changed })))
  const all: Array<[Promise<string>, RegExp]> = [
    [spoiled(copy => truncateSync(archive(copy), 20)), /has 20 bytes instead of \d+: the backup is damaged/],
    [
      spoiled(copy => writeFileSync(archive(copy), readFileSync(archive(copy)).fill(7, 10, 11))),
      /is not what was written: the backup is damaged/
    ],
    [spoiled(copy => rmSync(archive(copy))), /cannot be read \(ENOENT\): the backup is damaged/],
    [
      spoiled(copy => writeFileSync(join(copy, 'CONTROL', 'backup.json'), '{}')),
      /CONTROL\/backup.json is not what was written/
    ],
    [spoiled(copy => rmSync(join(copy, 'manifest.json'))), /holds no complete backup/],
    [spoiled(copy => writeFileSync(join(copy, 'manifest.json'), '{')), /manifest.json cannot be read/],
    [withManifest({ startedAt: '2020-01-01T00:00:00.000Z' }), /manifest.json was changed/],
    [withManifest({ streams: manifest.streams.slice(1) }), /is not what this version of Jetpost writes/]
  ]
  for (const [refused, sentence] of all) t.match(await refused, sentence)
  const other = { ...target, JETPOST_SECRET: `${SECRET}!` }
  t.match(await jetpost(['restore', folder], other), { code: 1, err: 'JETPOST_SECRET does not hold the one' })
  t.match(await jetpost(['restore', folder, '--check', '--other-secret'], other), { code: 0, err: 'is complete, made' })
  t.match(await jetpost(['backup', folder], env), {
    code: 1,
    err: 'holds a backup: each backup needs a folder of its own'
  })
  t.match(
    await jetpost(['restore', folder], env),
    { code: 1, err: /The stream \w+ exists/ },
    'into the log it comes from'
  )
  t.match(await jetpost(['restore'], env), { code: 2, err: 'usage: jetpost restore' })
  t.strictSame(await streamsIn(t, target.NATS_URL), [])
})

t.test('--cancel calls off who might get it twice; what a killed restore left behind is done again', async t => {
  const { env, folder, ids, account } = waiting
  const target = { ...env, NATS_URL: freshAccount().natsUrl }
  const bus = await openBus(t, target.NATS_URL)
  await api(bus, 'STREAM.CREATE.EMAILS', {
    name: 'EMAILS',
    subjects: ['email.>'],
    storage: 'file',
    metadata: { [RESTORING]: 'since then' }
  })
  await api(bus, 'STREAM.CREATE.REQUESTS', { name: 'REQUESTS', subjects: ['request.>'], storage: 'file' })
  // It was killed while it took the marks off.
  for (const subject of ['email.half', 'request.half']) await bus.js.publish(subject, 'half')
  const { code, err } = await jetpost(['restore', folder, '--cancel'], target)
  t.match({ code, err }, { code: 0, err: /whose time has come: 3, of them canceled: 3. None of them is sent to/ })
  for (const id of ids) {
    t.match((await getFact(bus, 'EMAILS', { last_by_subj: subjects.recipient(account, id, 0) }, 'leader'))?.fact, {
      type: 'email.canceled'
    })
  }
  for (const stream of BACKED_UP) {
    const { config } = await api<StreamAbout>(bus, `STREAM.INFO.${stream}`, undefined)
    t.equal(config.metadata?.[RESTORING], undefined, `${stream} may be worked on`)
  }
})

t.test('all who wait are counted, however many they are', async t => {
  const { bus } = await openTopology(t)
  const requests = createAppender(bus)
  const [mails, each] = [450, 50]
  const recipients = Array.from(
    { length: each },
    (_, n) => ({ address: `user${n}@example.net`, name: null, kind: 'to' as const })
  )
  const expiresAt = new Date(Date.now() + 3_600_000).toISOString()
  await Promise.all(
    Array.from({ length: mails }, async (_, i) =>
      await requests.append([{
        fact: requested({ email: `em_${i}`, recipients, expiresAt })
      }], 30_000))
  )
  t.strictSame(await countUnsettled(bus, false, new AbortController().signal), {
    due: mails * each,
    later: 0,
    canceled: 0
  })
})

t.test('a backup that fails leaves no files, a restore that fails no streams', async t => {
  const { env, folder, natsUrl } = waiting
  const bus = await openBus(t, natsUrl)
  const failed = join(newFolder(t), 'failed')
  await api(bus, 'STREAM.DELETE.CONTROL', undefined)
  t.match(await jetpost(['backup', failed], env), {
    code: 1,
    err: /CONTROL could not be copied \(.*stream not found.*\): there is no backup/
  })
  t.strictSame(existsSync(failed) ? readdirSync(failed) : [], [])
  const target = freshAccount().natsUrl
  const there = await openBus(t, target)
  await api(there, 'STREAM.CREATE.STRANGER', { name: 'STRANGER', subjects: ['control.>'], storage: 'file' })
  t.match(await jetpost(['restore', folder], { ...env, NATS_URL: target }), {
    code: 1,
    err: /CONTROL could not be restored \(.*overlap.*\): what was restored has been removed/
  })
  t.strictSame(await streamsIn(t, target), ['STRANGER'])
})

/** An app without a sender, with three mails that wait for one; and a backup of it. */
async function openWaiting (
  t: Test
): Promise<{ env: Record<string, string>, folder: string, ids: string[], account: string, natsUrl: string }> {
  const { natsUrl } = freshAccount()
  const env = { NATS_URL: natsUrl, JETPOST_SECRET: SECRET, DATABASE_URL: await freshDatabase(t) }
  const app = await startTestApp(t, { natsUrl, databaseUrl: env.DATABASE_URL, env: { JETPOST_ROLES: 'api' } })
  const ids: string[] = []
  for (let i = 0; i < 3; i++) ids.push((await app.send({ to: `user${i}@example.com` })).body.id)
  const folder = join(newFolder(t), 'two')
  t.match(await jetpost(['backup', folder], env), {
    code: 0,
    err: /REQUESTS: 3 messages up to 3[^]* is complete: .* JETPOST_SECRET is not in it/
  })
  return { env, folder, ids, account: 'acc_first', natsUrl }
}

async function openBus (t: Test, url: string): Promise<Bus> {
  const bus = await connectBus({ url, creds: null, name: 'test', log: createLog('silent') })
  t.teardown(() => bus.close())
  return bus
}

async function streamsIn (t: Test, natsUrl: string): Promise<string[]> {
  const { streams } = await api<{ streams: string[] | null }>(await openBus(t, natsUrl), 'STREAM.NAMES', {})
  return streams ?? []
}

/** What `jetpost <args>` says no with. */
async function refusal (tree: Tree, ...args: string[]): Promise<string> {
  return await tree.cli(...args).then(() => '', (error: { stderr: string }) => error.stderr)
}

async function send (tree: Tree, to: string, rest: object = {}): Promise<string> {
  const { status, body } = await tree.request('POST', '/api/emails', {
    from: 'hello@sandbox.jetpost.test',
    to,
    subject: 'Hello',
    html: '<p>Hello</p>',
    ...rest
  })
  if (status !== 202) throw new Error(`not accepted: ${status}`)
  return body.id
}

async function load (tree: Tree, count: number): Promise<string[]> {
  const shots = await closedLoop({
    url: tree.url,
    key: TREE_KEY,
    inFlight: 5,
    acceptedMax: count,
    durationMs: 30_000,
    body: smallMail
  })
  return idsOf(shots)
}

const idsOf = (shots: Shot[]): string[] => shots.flatMap(({ id }) => (id === null ? [] : [id]))

/** Goes on until it is told to end. */
function underLoad (tree: Tree): { ids: string[], end: () => Promise<string[]> } {
  const ids: string[] = []
  const stop = new AbortController()
  const shots = closedLoop({
    url: tree.url,
    key: TREE_KEY,
    inFlight: 5,
    durationMs: 60_000,
    signal: stop.signal,
    body: i => smallMail(1000 + i),
    onShot: ({ id }) => {
      if (id !== null) ids.push(id)
    }
  })
  return {
    ids,
    async end () {
      stop.abort()
      return idsOf(await shots)
    }
  }
}

async function read (tree: Tree, id: string): Promise<any> {
  return (await tree.request('GET', `/api/emails/${id}`)).body
}

async function readMany (tree: Tree, ids: string[]): Promise<any[]> {
  const emails: any[] = []
  for (const id of ids) emails.push(await read(tree, id))
  return emails
}

async function listed (tree: Tree): Promise<Set<string>> {
  const ids = new Set<string>()
  for (let cursor = '';;) {
    const { status, body } = await tree.request('GET', `/api/emails?limit=100${cursor}`)
    if (status !== 200) return ids
    for (const { id } of body.data) ids.add(id)
    if (!body.has_more) return ids
    cursor = `&cursor=${body.next_cursor}`
  }
}
