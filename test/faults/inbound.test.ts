import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createFactLog } from '#src/actions/fact-log.ts'
import { systemClock } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import { createLog } from '#src/base/log.ts'
import { createTokens } from '#src/content/token.ts'
import { startSupervised } from '#src/embedded/supervised-process.ts'
import { choosePort } from '#src/embedded/ports.ts'
import { startInbound } from '#src/servers/inbound-smtp/server.ts'
import { lastSequence } from '#src/nats/get.ts'
import { startInboundWorker, type InboundReport } from '#src/workers/inbound/inbound-worker.ts'
import { emptyDirectory } from '#streams/directory.ts'
import { openBus } from '../support/bus.ts'
import { startTestApp } from '../support/app.ts'
import { dsn, handIn } from '../support/inbound-peer.ts'
import { LONG_ONLY } from '../support/long.ts'
import { natsCommand, openOwnNats } from '../support/own-nats.ts'
import { openWorld, subscribe, smallMail } from '../support/reckoning.ts'
import { SECRET } from '../support/secret.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'
import { startSink } from '../support/smtp-sink.ts'
import { signal, startTree, type Tree } from '../support/tree.ts'
import { until } from '../support/wait.ts'

// They wait more than they work, and share nothing: some run beside each other.
t.jobs = 3
t.setTimeout(240_000)
const HOST = 'bounces.jetpost.test'
const MAILS = 20
const tokens = createTokens(SECRET)

async function openListener (t: Test, natsUrl: string) {
  const { bus } = await openBus(t, natsUrl)
  const inbound = await startInbound({
    port: 0,
    host: '127.0.0.1',
    hostname: 'mail.jetpost.test',
    bounceDomain: HOST,
    tlsCert: null,
    tlsKey: null,
    directory: { now: emptyDirectory() },
    tokens,
    factLog: createFactLog(bus, systemClock),
    log: createLog('silent')
  })
  t.teardown(() => inbound.stop())
  return { port: inbound.port, bus }
}

t.test('while NATS is away a mail is not taken: 451, and 250 once it is back and has it', LONG_ONLY, async t => {
  const nats = await openOwnNats(t)
  const { port, bus } = await openListener(t, nats.natsUrl)
  const mail = {
    to: `b+${tokens.mint('return', { email: newId('em', Date.now()), n: 0, request: 1 })}@${HOST}`,
    raw: 'Subject: x\r\n\r\n'
  }
  t.match(await handIn(port, mail), /^250 /)
  await nats.kill()
  t.match(await handIn(port, mail), /^451 4\.3\.0 /)
  await nats.start()
  let reply = ''
  await until(async () => (reply = await handIn(port, mail)).startsWith('250'), 60_000)
  t.match(reply, /^250 2\.0\.0 kept as in_/)
  t.ok(await lastSequence(bus, 'INBOUND') >= 2, 'what was taken is there')
})

t.test('a mail that was kept while nobody worked on it is worked on when somebody does', async t => {
  const [{ natsUrl }, databaseUrl, sink] = [freshAccount(), await freshDatabase(t), await startSink()]
  t.teardown(() => sink.stop())
  const shared = { natsUrl, databaseUrl }
  const env = { SMTP_URL: sink.url, JETPOST_BOUNCE_DOMAIN: HOST }
  const app = await startTestApp(t, { ...shared, env: { ...env, JETPOST_ROLES: 'api,sender,projector,scheduler' } })
  const { body: { id } } = await app.send({ to: 'ada@example.com' })
  await app.settled(id, 'delivered')
  const { port } = await openListener(t, natsUrl)
  t.match(await handIn(port, { to: sink.received[0]!.from, raw: dsn({ to: 'ada@example.com' }) }), /^250 /)
  t.equal((await app.request('GET', `/api/emails/${id}`)).body.status, 'delivered', 'nobody has read it yet')
  await startTestApp(t, { ...shared, env: { ...env, JETPOST_ROLES: 'inbound' } })
  const { timeline } = await app.settled(id, 'bounced')
  t.equal(bouncesIn(timeline), 1)
})

const bouncesIn = (timeline: Array<{ type: string }>): number =>
  timeline.filter(({ type }) => type === 'email.bounced').length

t.test('a bounce of a mail whose sender never says what became of it counts when the lease is over', async t => {
  const [{ natsUrl }, sink, to] = [freshAccount(), await startSink(), 'no-answer@example.com']
  sink.replies(to, { dot: 'hang' })
  const app = await startTestApp(t, {
    natsUrl,
    env: { SMTP_URL: sink.url, JETPOST_BOUNCE_DOMAIN: HOST, JETPOST_ROLES: 'api,sender,projector,scheduler' }
  })
  // Before the app, which waits for the reply.
  t.teardown(() => sink.stop())
  const { body: { id } } = await app.send({ to })
  await until(() => sink.received.some(message => message.to === to))
  const { port, bus } = await openListener(t, natsUrl)
  t.match(await handIn(port, { to: sink.received[0]!.from, raw: dsn({ to }) }), /^250 /)
  const reports: InboundReport[] = []
  const inAnHour = { nowMs: () => Date.now() + 3_600_000 }
  const worker = startInboundWorker({
    factLog: createFactLog(bus, inAnHour),
    tokens,
    repair: async () => false,
    log: createLog('silent'),
    onMail: report => reports.push(report)
  })
  t.teardown(() => worker.stop())
  await until(() => reports.length > 0, 20_000)
  t.match(reports, [{ kind: 'hard', outcome: 'bounced' }])
  await app.settled(id, 'bounced')
})

t.test('in an account with little room mail that comes back gets a quarter of it', async t => {
  const natsUrl = await openSmallNats(t, 8_000_000)
  const { port } = await openListener(t, natsUrl)
  const mail = () => ({
    to: `b+${tokens.mint('return', { email: newId('em', Date.now()), n: 0, request: 1 })}@${HOST}`,
    raw: `${'x'.repeat(98)}\r\n`.repeat(5200)
  })
  const replies: string[] = []
  while (replies.length < 10 && replies.at(-1)?.startsWith('4') !== true) replies.push(await handIn(port, mail()))
  t.strictSame(replies.map(reply => reply.slice(0, 9)), ['250 2.0.0', '250 2.0.0', '250 2.0.0', '452 4.3.1'])
})

/** A nats-server of the test's own whose account may store so many bytes. */
async function openSmallNats (t: Test, storeBytes: number): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'jetpost-nats-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const port = await choosePort(null, null, '')
  const config = `listen: "127.0.0.1:${port}"\nmax_payload: 8MB
jetstream { store_dir: "${folder}", sync_interval: always }
accounts { small {
  jetstream: { max_file: ${storeBytes}, max_mem: 1000000000 }
  users: [{ user: small, password: small }]
} }\n`
  const server = await startSupervised(await natsCommand(folder, config))
  t.teardown(() => server.stop())
  return `nats://small:small@127.0.0.1:${port}`
}

t.test(
  `killed with -9 right after the last of ${MAILS} bounces was taken: each is one fact and one event`,
  LONG_ONLY,
  async t => {
    const { tree, world, port, ids } = await openDelivered(t)
    for (const { from, to } of world.mail.received) t.match(await handIn(port, { to: from, raw: dsn({ to }) }), /^250 /)
    await tree.kill9()
    await tree.start()
    await settled(tree, ids)
    const events = () =>
      new Map(
        world.hooks.requests.map(request => JSON.parse(request.body.toString())).filter(({ type }) =>
          type === 'email.bounced'
        ).map(event => [event.id, event.data.email_id])
      )
    await until(() => events().size >= MAILS, 60_000)
    t.strictSame([...events().values()].sort(), [...ids].sort(), 'one event each')
  }
)

t.test(
  'NATS frozen: 451, and what had come in all the same is one fact when its sender tries again',
  LONG_ONLY,
  async t => {
    const { tree, world, port, ids } = await openDelivered(t)
    const nats = tree.natsPid()!
    const { from, to } = world.mail.received[0]!
    signal(nats, 'SIGSTOP')
    t.match(await handIn(port, { to: from, raw: dsn({ to }) }), /^451 4\.3\.0 /)
    signal(nats, 'SIGCONT')
    await until(async () => (await handIn(port, { to: from, raw: dsn({ to }) })).startsWith('250'), 60_000)
    for (const received of world.mail.received.slice(1)) {
      t.match(
        await handIn(port, { to: received.from, raw: dsn({ to: received.to }) }),
        /^250 /
      )
    }
    await settled(tree, ids)
  }
)

/** A whole Jetpost whose mails have been delivered. */
async function openDelivered (t: Test) {
  const world = await openWorld(t)
  const port = await choosePort(null, null, '')
  const tree = await startTree({
    env: {
      SMTP_URL: world.smtpUrl,
      JETPOST_WEBHOOK_ALLOW_PRIVATE: 'true',
      JETPOST_INBOUND_PORT: String(port),
      JETPOST_BOUNCE_DOMAIN: HOST
    }
  })
  t.teardown(tree.dispose)
  await subscribe(tree, world)
  const ids: string[] = []
  for (let i = 0; i < MAILS; i++) {
    ids.push((await tree.request('POST', '/api/emails', JSON.parse(smallMail(i)))).body.id)
  }
  await world.mail.dots(MAILS)
  await until(
    async () => (await Promise.all(ids.map(id => statusOf(tree, id)))).every(status => status === 'delivered'),
    60_000
  )
  return { tree, world, port, ids }
}

async function statusOf (tree: Tree, id: string): Promise<string> {
  return (await tree.request('GET', `/api/emails/${id}`)).body.status
}

/** Waits until all have bounced, and checks that each did so once. */
async function settled (tree: Tree, ids: string[]): Promise<void> {
  await until(
    async () => (await Promise.all(ids.map(id => statusOf(tree, id)))).every(status => status === 'bounced'),
    60_000
  )
  for (const id of ids) t.equal(bouncesIn((await tree.request('GET', `/api/emails/${id}`)).body.timeline), 1, id)
}
