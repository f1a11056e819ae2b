import { connect } from 'nats'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { readConfig } from '#src/base/config.ts'
import { createLog } from '#src/base/log.ts'
import { readServers } from '#src/embedded/kept.ts'
import { startApp } from '#src/main.ts'
import { api } from '#src/nats/api.ts'
import { readMessages } from '#src/nats/range.ts'
import { openBus } from '../support/bus.ts'
import { openDnsServer } from '../support/dns-server.ts'
import { startTestApp } from '../support/app.ts'
import { closedLoop, type Shot } from '#src/cli/bench/load.ts'
import { LONG_ONLY } from '../support/long.ts'
import { openWorld, reckon, smallMail, subscribe, type World } from '../support/reckoning.ts'
import { freshAccount } from '../support/servers.ts'
import { startSink } from '../support/smtp-sink.ts'
import { request, TREE_KEY } from '../support/tree.ts'
import { until } from '../support/wait.ts'

/** A key's window takes no more. */
const EMAILS = 100
const LATER_EVERY = 3
/** Schedules of facts that the views had not seen yet when they were lost come back with the second look, after a
 *  minute. */
const RECOVERY_MS = 120_000
// They wait more than they work, and share nothing: some run beside each other.
t.jobs = 2
t.setTimeout(240_000)

t.test(
  'SCHEDULE deleted under load, with mail waiting for its next attempt: everything still goes out, once',
  LONG_ONLY,
  async t => {
    const world = await openWorld(t)
    const { url, natsUrl } = await startQuickApp(t, world)
    const jetpost = { request: (method: string, path: string, body?: unknown) => request(url, method, path, body) }
    await subscribe(jetpost, world)
    for (let i = 0; i < EMAILS; i += LATER_EVERY) {
      world.mail.replies(`user${i}@example.com`, {
        rcpt: '451 4.7.1 greylisted, come back later'
      })
    }
    let deleted: Promise<void> | null = null
    const shots: Shot[] = []
    await closedLoop({
      url,
      key: TREE_KEY,
      inFlight: 5,
      acceptedMax: EMAILS,
      durationMs: 60_000,
      body: smallMail,
      onShot: shot => {
        if (shots.push(shot) === Math.round(EMAILS / 2)) deleted = deleteSchedules(natsUrl, world)
      }
    })
    await deleted
    const { doubled, doubted } = await reckon(t, jetpost, world, shots, RECOVERY_MS)
    t.strictSame({ doubled, doubted }, { doubled: 0, doubted: 0 })
    t.ok(world.mail.attempts('user0@example.com') >= 2, 'what was put off was tried again')
  }
)

t.test(
  'SCHEDULE deleted while mail for a slow domain has nothing but a place in its line: it still goes out',
  LONG_ONLY,
  async t => {
    const { natsUrl } = freshAccount()
    const dns = await openDnsServer(t)
    const mx = await startSink({ host: '127.0.0.2' })
    t.teardown(() => mx.stop())
    dns.mx('slow.example', [10, 'mx.slow.example'])
    dns.host('mx.slow.example', ['127.0.0.2'])
    const direct = {
      SMTP_URL: 'direct:',
      JETPOST_DNS: dns.address,
      JETPOST_MX_PORT: String(mx.port),
      JETPOST_MX_ALLOW_PRIVATE: 'true',
      JETPOST_HOSTNAME: 'sender.test'
    }
    const app = await startTestApp(t, { natsUrl, env: direct })
    const to = Array.from({ length: 32 }, (_, i) => `r${i}@slow.example`)
    for (const address of to) mx.replies(address, { dot: { reply: '250 ok', afterMs: 3000 } })
    for (const address of to) await app.send({ to: address })
    const { bus } = await openBus(t, natsUrl)
    const position = { filter: 'schedule.send.>', afterSeq: 0 }
    const waiting = async () => (await readMessages(bus, 'SCHEDULE', position, { max: 20 })).messages.length
    await until(async () => await waiting() > 5, 30_000)
    await api(bus, 'STREAM.DELETE.SCHEDULE', undefined)
    await until(() => new Set(mx.received.map(message => message.to)).size === to.length, RECOVERY_MS)
    t.equal(mx.received.length, to.length, 'each once')
  }
)

/** Everything in this process, with retries after seconds instead of minutes. */
async function startQuickApp (t: Test, { smtpUrl }: World): Promise<{ url: string, natsUrl: string }> {
  const dataDir = mkdtempSync(join(tmpdir(), 'jetpost-schedule-'))
  const config = readConfig({
    JETPOST_DATA_DIR: dataDir,
    JETPOST_API_KEY: TREE_KEY,
    JETPOST_NATS_BIN: process.env.JETPOST_NATS_BIN,
    SMTP_URL: smtpUrl,
    PORT: '0'
  })
  const app = await startApp(config, {
    log: createLog('error'),
    say: () => {},
    timings: { retry: { firstS: 5, maxS: 10 } }
  })
  t.teardown(async () => {
    await app.stop()
    rmSync(dataDir, { recursive: true, force: true })
  })
  return { url: app.url, natsUrl: readServers(dataDir)!.nats! }
}

/** Once something waits in it. */
async function deleteSchedules (natsUrl: string, { mail }: World): Promise<void> {
  const { host, username, password } = new URL(natsUrl)
  const nc = await connect({ servers: host, user: username, pass: password })
  try {
    const { streams } = await nc.jetstreamManager()
    for (let look = 0; look < 100 && (await streams.info('SCHEDULE')).state.messages === 0; look++) await sleep(50)
    if ((await streams.info('SCHEDULE')).state.messages === 0) {
      throw new Error(`nothing waits, after ${mail.received.length} mails`)
    }
    await streams.delete('SCHEDULE')
  } finally {
    await nc.close()
  }
}
