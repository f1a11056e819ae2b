import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Shot } from '#src/cli/bench/load.ts'
import { fixedRate } from '../support/load.ts'
import { LONG, LONG_ONLY } from '../support/long.ts'
import { openOwnPostgres, type OwnPostgres } from '../support/own-postgres.ts'
import { openWorld, reckon, smallMail, subscribe } from '../support/reckoning.ts'
import { signal, startTree, TREE_KEY, type Tree, type TreeAnswer } from '../support/tree.ts'
import { until as reached } from '../support/wait.ts'

t.setTimeout(LONG ? 600_000 : 240_000)
const POSTGRES_AWAY_MS = LONG ? 30_000 : 5000
const QUICK_STOPS = LONG ? 15 : 2
/** More than a machine can take that has other work leaves each request waiting. */
const PER_S = LONG ? 100 : 20
/** Longer than accepting waits for the log, which is the time that its 503 takes. */
const NATS_AWAY_MS = LONG ? 20_000 : 16_000
const RECOVERY_MS = 90_000

function load (tree: Tree): { stop: () => Promise<Shot[]>, shots: Shot[] } {
  const over = new AbortController()
  const shots: Shot[] = []
  const running = fixedRate({
    url: tree.url,
    key: TREE_KEY,
    perS: PER_S,
    inFlight: 400,
    durationMs: 120_000,
    body: smallMail,
    signal: over.signal,
    onShot: shot => shots.push(shot)
  })
  return {
    shots,
    stop: () => {
      over.abort()
      return running
    }
  }
}

/** Asks until the answer is as wished, or gives the last one when the time is up. */
async function until (
  timeoutMs: number,
  ask: () => Promise<TreeAnswer>,
  wished: (answer: TreeAnswer) => boolean
): Promise<TreeAnswer> {
  for (const endMs = Date.now() + timeoutMs;; await sleep(200)) {
    try {
      const answer = await ask()
      if (wished(answer) || Date.now() > endMs) return answer
    } catch (error) {
      if (Date.now() > endMs) throw error
    }
  }
}

t.test(`PostgreSQL gone under load: all goes on but reads, which answer 503`, async t => {
  const world = await openWorld(t)
  const database = await openOwnPostgres(t)
  const tree = await startTree({
    env: { SMTP_URL: world.smtpUrl, DATABASE_URL: database.url, JETPOST_WEBHOOK_ALLOW_PRIVATE: 'true' }
  })
  t.teardown(tree.dispose)
  await subscribe(tree, world)
  const { shots, stop } = load(tree)
  await reached(() => shots.length > 20)
  await database.stop()
  const mark = { shots: shots.length, mails: world.mail.received.length, hooks: world.hooks.requests.length }
  const accepted = POSTGRES_AWAY_MS / 1000 * PER_S / 2
  await readsRefuse(t, tree)
  await sleep(POSTGRES_AWAY_MS)
  await reached(() => shots.length - mark.shots > accepted, RECOVERY_MS)
  await reached(() => world.mail.received.length - mark.mails > accepted / 2, RECOVERY_MS)
  await reached(() => world.hooks.requests.length - mark.hooks > accepted / 2, RECOVERY_MS)
  const meanwhile = shots.slice(mark.shots)
  t.strictSame(meanwhile.filter(shot => shot.status !== 202), [], 'all that was asked meanwhile was accepted')
  t.equal((await tree.request('GET', '/healthz')).status, 200, 'alive')
  const ready = await tree.request('GET', '/readyz')
  t.equal(ready.status, 503)
  t.match(ready.body.parts.find((part: { name: string }) => part.name === 'postgres'), { ready: false, reason: String })
  await database.start()
  const list = await until(RECOVERY_MS, () => tree.request('GET', '/api/emails'), answer => answer.status === 200)
  t.equal(list.status, 200, 'reads catch up')
  await goAndComeBack(database, shots, QUICK_STOPS)
  const { doubled, doubted } = await reckon(t, tree, world, await stop(), RECOVERY_MS)
  t.strictSame({ doubled, doubted }, { doubled: 0, doubted: 0 })
})

/** A stop hits each connection wherever it is: between two statements of a transaction as well. */
async function goAndComeBack (
  database: OwnPostgres,
  shots: Shot[],
  times: number
): Promise<void> {
  for (let i = 0; i < times; i++) {
    await database.stop()
    await database.start()
    const mark = shots.length
    await reached(() => shots.length > mark + 20)
  }
}

async function readsRefuse (t: Test, tree: Tree): Promise<void> {
  const beginMs = performance.now()
  const answer = await tree.request('GET', '/api/emails')
  t.equal(answer.status, 503, 'reads answer 503')
  t.match(answer.headers.get('retry-after'), /^[1-9]\d*$/)
  t.match(answer.body, { error: String, code: String })
  t.ok(performance.now() - beginMs < 20_000, `after ${Math.round(performance.now() - beginMs)} ms`)
}

/** A tree with its peers that is under load. */
async function openUnderLoad (t: Test) {
  const world = await openWorld(t)
  const tree = await startTree({ env: { SMTP_URL: world.smtpUrl } })
  t.teardown(tree.dispose)
  await subscribe(tree, world)
  const { shots, stop } = load(tree)
  await reached(() => shots.length > 20)
  return { world, tree, shots, stop }
}

t.test('PostgreSQL silent on open lines: reads answer 503 in time, accepting and sending go on', LONG_ONLY, async t => {
  const { world, tree, shots, stop } = await openUnderLoad(t)
  const silent = tree.family().filter(pid => pid !== tree.pid() && pid !== tree.natsPid())
  const mark = shots.length
  for (const pid of silent) signal(pid, 'SIGSTOP')
  await readsRefuse(t, tree)
  await sleep(3000)
  t.strictSame(shots.slice(mark).filter(shot => shot.status !== 202), [], 'all that was asked meanwhile was accepted')
  for (const pid of silent) signal(pid, 'SIGCONT')
  const { doubled, doubted } = await reckon(t, tree, world, await stop(), RECOVERY_MS)
  t.strictSame({ doubled, doubted }, { doubled: 0, doubted: 0 })
})

t.test(
  `NATS silent for ${NATS_AWAY_MS / 1000} s under load: 503 with Retry-After, nothing lost, recovery by itself`,
  LONG_ONLY,
  async t => {
    const { world, tree, shots, stop } = await openUnderLoad(t)
    const nats = tree.natsPid()!
    signal(nats, 'SIGSTOP')
    const answer = await tree.request('POST', '/api/emails', JSON.parse(smallMail(999_999)))
    t.equal(answer.status, 503)
    t.match(answer.headers.get('retry-after'), /^[1-9]\d*$/)
    t.match(answer.body, { code: /^(acceptance_unknown|log_unavailable)$/ })
    await sleep(NATS_AWAY_MS - 15_000)
    t.equal((await tree.request('GET', '/healthz')).status, 200, 'alive')
    signal(nats, 'SIGCONT')
    const mark = shots.length
    await sleep(3000)
    const later = shots.slice(mark)
    t.ok(later.some(shot => shot.status === 202), 'it accepts again')
    const all = await stop()
    t.strictSame(all.filter(shot => ![202, 503].includes(shot.status)), [], 'accepted, or told to come again')
    t.strictSame(all.filter(shot => shot.status === 503 && shot.retryAfterS === null), [], 'every 503 says when')
    const { doubled, doubted } = await reckon(t, tree, world, all, RECOVERY_MS)
    t.strictSame({ doubled, doubted }, { doubled: 0, doubted: 0 })
    t.comment(
      `${all.filter(shot => shot.status === 202).length} accepted, ${
        all.filter(shot => shot.status === 503).length
      } told to come again`
    )
  }
)

t.test('mail servers that hang, reset, say 421 or garbage: each email in a named state, the others sent', async t => {
  const world = await openWorld(t)
  const { mail } = world
  const tree = await startTree({ env: { SMTP_URL: world.smtpUrl } })
  t.teardown(tree.dispose)
  const jetpost = tree.pid()
  mail.replies('hangs@example.com', { dot: 'hang' }, 9)
  mail.replies('resets@example.com', { dot: 'reset' }, 9)
  mail.replies('garbage-after-dot@example.com', { dot: 'blah blah' }, 9)
  mail.replies('garbage@example.com', { rcpt: 'blah blah' }, 9)
  mail.replies('goes-away@example.com', { rcpt: '421 4.3.2 going down' }, 9)
  mail.replies('refused@example.com', { rcpt: '550 5.1.1 no such user' }, 9)
  const wanted: Record<string, string> = {
    'hangs@example.com': 'sending',
    'resets@example.com': 'in_doubt',
    'garbage-after-dot@example.com': 'in_doubt',
    'garbage@example.com': 'deferred',
    'refused@example.com': 'bounced',
    'fine@example.com': 'delivered',
    'goes-away@example.com': 'deferred',
    'later@example.com': 'delivered'
  }
  for (const to of Object.keys(wanted)) {
    t.equal((await tree.request('POST', '/api/emails', { ...JSON.parse(smallMail(0)), to })).status, 202)
  }
  const states = (answer: TreeAnswer) =>
    Object.fromEntries(answer.body.data.map((email: { to: string[], status: string }) => [email.to[0], email.status]))
  const settled = (answer: TreeAnswer) =>
    answer.status === 200 && Object.entries(wanted).every(([to, status]) => states(answer)[to] === status)
  t.strictSame(states(await until(30_000, () => tree.request('GET', '/api/emails'), settled)), wanted)
  t.equal(tree.pid(), jetpost)
  t.equal((await tree.request('GET', '/readyz')).status, 200)
  mail.greet('garbage')
  const { made } = mail.sessions()
  t.equal((await tree.request('POST', '/api/emails', JSON.parse(smallMail(1)))).status, 202)
  await reached(() => mail.sessions().made > made || mail.attempts('user1@example.com') > 0)
  mail.greet(null)
  t.equal(
    (await until(
      30_000,
      () => tree.request('GET', '/api/emails?to=user1@example.com'),
      answer => answer.body.data?.[0]?.status === 'delivered'
    )).body.data[0].status,
    'delivered'
  )
})
