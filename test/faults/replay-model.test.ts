import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { Client } from 'pg'
import t, { type Test } from 'tap'
import { projections } from '#projections/list.ts'
import { sleep } from '#src/base/backoff.ts'
import { createLog } from '#src/base/log.ts'
import { choosePort } from '#src/embedded/ports.ts'
import { connectBus, type Bus } from '#src/nats/connect.ts'
import { lastSequence } from '#src/nats/get.ts'
import { createCheckpoints } from '#src/workers/projector/commit.ts'
import { createPool, type Pool } from '#src/postgres/pool.ts'
import { atExit } from '../support/at-exit.ts'
import { COMPILED } from '../support/compiled.ts'
import { startHookSink } from '../support/hook-sink.ts'
import { API_KEY, startTestApp } from '../support/app.ts'
import { jetpost } from '../support/jetpost.ts'
import { LONG, LONG_ONLY } from '../support/long.ts'
import { openOwnNats, type OwnNats } from '../support/own-nats.ts'
import { openChance, type Chance } from '../support/random.ts'
import { allViews, foldLog, readTables } from '../support/replay-model.ts'
import { SECRET } from '../support/secret.ts'
import { freshDatabase } from '../support/servers.ts'
import { startSink, type Sink } from '../support/smtp-sink.ts'
import { until } from '../support/wait.ts'

t.setTimeout(LONG ? 900_000 : 240_000)
const STORM_MS = LONG ? 180_000 : 5000
const HANDS = LONG ? 6 : 3
/** Commands of each hand before anything is killed. */
const CALM = LONG ? 400 : 50
const BROWSERS = ['Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0', 'curl/8']

/** A service that can be killed, its servers, and who is at the other end. */
interface World {
  chance: Chance
  nats: OwnNats
  env: Record<string, string>
  url: string
  mail: Sink
  hooks: string[]
  /** What was made, by kind; chance picks among them. */
  made: { email: string[], template: string[], webhook: string[], address: string[] }
}

async function openWorld (t: Test): Promise<World> {
  const chance = openChance(t)
  const nats = await openOwnNats(t)
  const mail = await startSink()
  t.teardown(() => mail.stop())
  const hooks = await Promise.all([200, 500].map(async status => {
    const sink = await startHookSink()
    t.teardown(() => sink.stop())
    sink.answers(() => ({ status: chance.next() < 0.2 ? 503 : status }))
    return sink.url
  }))
  const port = await choosePort(null, null, '')
  const env = {
    NATS_URL: nats.natsUrl,
    DATABASE_URL: await freshDatabase(t),
    JETPOST_SECRET: SECRET,
    JETPOST_API_KEY: API_KEY,
    JETPOST_WEBHOOK_ALLOW_PRIVATE: 'true',
    JETPOST_REQUIRE_VERIFIED_DOMAINS: 'false',
    JETPOST_LOG_LEVEL: 'silent',
    SMTP_URL: mail.url,
    PORT: String(port)
  }
  return {
    chance,
    nats,
    env,
    url: `http://127.0.0.1:${port}`,
    mail,
    hooks,
    made: { email: [], template: [], webhook: [], address: [] }
  }
}

/** `jetpost start` in a process of its own. */
function openService (t: Test, { env }: World) {
  let child: ChildProcess | null = null
  const end = async (signal: NodeJS.Signals) => {
    const dying = child
    child = null
    if (dying === null || dying.exitCode !== null || dying.signalCode !== null) return
    dying.kill(signal)
    await once(dying, 'exit')
  }
  atExit(() => child?.kill('SIGKILL'))
  t.teardown(() => end('SIGKILL'))
  return {
    end,
    async start () {
      child = spawn(process.execPath, ['src/bin.js', 'start'], {
        env: { PATH: process.env.PATH, ...COMPILED, ...env },
        stdio: ['ignore', 'pipe', 'ignore']
      })
      await Promise.race([once(child.stdout!, 'data'), once(child, 'exit')])
    }
  }
}

async function ask ({ url }: World, method: string, path: string, body?: unknown): Promise<any> {
  const headers = {
    authorization: `Bearer ${API_KEY}`,
    ...(body === undefined ? {} : { 'content-type': 'application/json' })
  }
  const response = await fetch(url + path, {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: AbortSignal.timeout(5000)
  })
  return response.status < 300 && response.status !== 204 ? await response.json() : null
}

/** What a hand can do. Each may be refused, and the service may be away: the log tells what came of it. */
function commandsOf (world: World): Array<() => Promise<unknown>> {
  const { chance, made, mail, hooks, url } = world
  let count = 0
  const inHours = () => new Date(Date.now() + chance.int(1, 48) * 3_600_000).toISOString()
  const keep = (kind: keyof World['made'], answer: { id?: string, address?: string } | null) => {
    if (answer !== null) made[kind].push((answer.id ?? answer.address)!)
  }
  const one = (kind: keyof World['made']) => (made[kind].length === 0 ? 'none' : chance.of(made[kind]))
  const send = async (more: object) => {
    const to = Array.from({ length: chance.int(1, 3) }, () => `r${chance.int(0, 200)}@example.com`)
    for (const address of to) {
      const act = chance.of([null, null, null, '451 4.7.1 later', '550 5.1.1 no such user', 'reset'] as const)
      if (act !== null) mail.replies(address, { [chance.of(['rcpt', 'dot'] as const)]: act })
    }
    const body = {
      from: 'hello@sandbox.jetpost.test',
      to: [...new Set(to)],
      subject: `Mail ${count++}`,
      html: '<p>Hello</p><a href="https://shop.example/">shop</a>',
      ...more
    }
    keep('email', await ask(world, 'POST', '/api/emails', body))
  }
  const visit = async (path: string, method = 'GET') => {
    const taken = mail.received.filter(({ accepted }) => accepted)
    const text = taken.length === 0
      ? ''
      : chance.of(taken).raw.toString().replaceAll('=\r\n', '').replaceAll('=3D', '=')
    const link = new RegExp(`http://[^/\\s"<>]+(/${path}/[\\w.-]+)`).exec(text)?.[1]
    if (link !== undefined) {
      await fetch(url + link, {
        method,
        redirect: 'manual',
        headers: { 'user-agent': chance.of(BROWSERS) },
        signal: AbortSignal.timeout(5000)
      })
    }
  }
  return [
    async () => await send({}),
    async () => await send({}),
    async () => await send({ tags: ['a'], metadata: { n: count } }),
    async () => await send({ scheduled_at: inHours() }),
    async () => await ask(world, 'PATCH', `/api/emails/${one('email')}`, { scheduled_at: inHours() }),
    async () => await ask(world, 'POST', `/api/emails/${one('email')}/cancel`),
    async () => await ask(world, 'POST', `/api/emails/${one('email')}/retry`),
    async () => await visit('o'),
    async () => await visit('c'),
    async () => await visit('u', 'POST'),
    async () =>
      keep('address', await ask(world, 'POST', '/api/suppressions', { address: `r${chance.int(0, 200)}@example.com` })),
    async () => await ask(world, 'DELETE', `/api/suppressions/${one('address')}`),
    async () =>
      keep(
        'template',
        await ask(world, 'POST', '/api/templates', {
          name: `T${count++}`,
          subject: 'Hello',
          html: '<p>Hello {{name}}</p>'
        })
      ),
    async () => await ask(world, 'PATCH', `/api/templates/${one('template')}`, { subject: `Hello ${count++}` }),
    async () => await ask(world, 'DELETE', `/api/templates/${one('template')}`),
    async () => {
      if (made.webhook.length < 6) {
        keep(
          'webhook',
          await ask(world, 'POST', '/api/webhooks', {
            url: chance.of(hooks),
            events: ['email.delivered', 'email.bounced', 'email.opened']
          })
        )
      }
    },
    async () => await ask(world, 'PATCH', `/api/webhooks/${one('webhook')}`, { paused: chance.next() < 0.3 })
  ]
}

/** Does each thing once, in order, then by chance: so many at least, and until it is told to stop. */
async function work (world: World, count: number, signal: AbortSignal): Promise<void> {
  const commands = commandsOf(world)
  for (let i = 0; i < count || !signal.aborted; i++) {
    await (commands[i] ?? world.chance.of(commands))().catch(() => {})
    await sleep(world.chance.int(0, 20))
  }
}

/** Kills, cuts off and restarts by chance; each at least once. */
async function storm (
  world: World,
  service: ReturnType<typeof openService>,
  signal: AbortSignal
): Promise<Record<string, number>> {
  const { chance, nats, env } = world
  const counts = { process: 0, nats: 0, postgres: 0 }
  const faults = {
    async process () {
      await service.end('SIGKILL')
      await service.start()
    },
    async nats () {
      await nats.kill()
      await sleep(chance.int(0, 500))
      await nats.start()
    },
    postgres: async () => await cutOff(env.DATABASE_URL!)
  }
  const names = Object.keys(faults) as Array<keyof typeof faults>
  for (let i = 0; !signal.aborted || i < names.length; i++) {
    await sleep(chance.int(200, 1000))
    const name = i < names.length ? names[i]! : chance.of(names)
    counts[name]++
    await faults[name]()
  }
  return counts
}

/** Ends every connection to the database but its own. */
async function cutOff (databaseUrl: string): Promise<void> {
  const client = new Client({ connectionString: databaseUrl, connectionTimeoutMillis: 5000 })
  await client.connect()
  await client.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()`
  )
  await client.end()
}

/** Resolves once nothing is written any more and every view has it all. */
async function calm (bus: Bus, pools: Pool[]): Promise<void> {
  const streams = ['REQUESTS', 'EMAILS', 'CONTROL', 'WEBHOOKS']
  const ends = async () => (await Promise.all(streams.map(async stream => await lastSequence(bus, stream)))).join()
  await until(async () => {
    const before = await ends()
    const views = pools.map(pool => createCheckpoints(bus, pool))
    const seen = await Promise.all(
      views.flatMap(view =>
        Object.values(projections).map(async projection => await view.caughtUp(projection, 5000).catch(() => false))
      )
    )
    await sleep(1000)
    return seen.every(Boolean) && await ends() === before
  }, 90_000)
}

t.test(
  'whatever is asked and whatever is killed: the log folded, the tables, and tables made again of the log are the same',
  LONG_ONLY,
  async t => {
    const world = await openWorld(t)
    const { env, nats } = world
    const service = openService(t, world)
    await service.start()
    const [own] = JSON.parse((await jetpost(['keys', 'list', '--json'], env)).out)
    t.match(
      await jetpost(['keys', 'limit', own.id, 'emails:send=1000000', 'emails:list=1000000', 'other=1000000'], env),
      { code: 0 }
    )

    const hands = async (count: number, signal: AbortSignal) =>
      void await Promise.all(Array.from({ length: HANDS }, async () => await work(world, count, signal)))
    await hands(CALM, AbortSignal.abort())
    const calming = new AbortController()
    const over = sleep(STORM_MS).then(() => calming.abort())
    const [counts] = await Promise.all([storm(world, service, calming.signal), hands(0, calming.signal), over])
    await hands(CALM / 2, AbortSignal.abort())
    t.comment(`killed and cut off: ${JSON.stringify(counts)}`)
    await service.end('SIGTERM')

    // What is left to write is the views', and what follows from facts.
    const bus = await connectBus({ url: nats.natsUrl, creds: null, name: 'test', log: createLog('silent') })
    t.teardown(() => bus.close())
    const second = await freshDatabase(t)
    const pools = [env.DATABASE_URL!, second].map(url => createPool(url, createLog('silent')))
    t.teardown(async () => void await Promise.all(pools.map(pool => pool.end())))
    for (const databaseUrl of [env.DATABASE_URL!, second]) {
      await startTestApp(t, {
        natsUrl: nats.natsUrl,
        databaseUrl,
        env: { JETPOST_ROLES: 'projector' }
      })
    }
    await calm(bus, pools)

    const [live, rebuilt] = await Promise.all(pools.map(allViews)) as [
      Awaited<ReturnType<typeof allViews>>,
      Awaited<ReturnType<typeof allViews>>
    ]
    const folded = await foldLog(bus)
    const kinds = Map.groupBy(folded, line => line.split(' | ')[0]!)
    t.comment([...kinds].map(([kind, lines]) => `${lines.length} × ${kind}`).join(', '))
    for (const kind of ['recipient', 'suppression', 'template', 'delivery']) t.ok(kinds.has(kind), `some ${kind}`)
    t.same(await readTables(pools[0]!), folded, 'the tables are the log, folded')
    t.same(Object.keys(rebuilt), Object.keys(live))
    for (const [table, rows] of Object.entries(live)) t.same(rebuilt[table], rows, `${table}: ${rows.length} rows`)
    for (const table of Object.keys(live).filter(name => name.endsWith('.dead_letters'))) {
      t.same(
        live[table],
        [],
        `${table} is empty`
      )
    }
  }
)
