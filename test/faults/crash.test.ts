import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { closedLoop, type Shot } from '#src/cli/bench/load.ts'
import { fixedRate } from '../support/load.ts'
import { LONG, LONG_ONLY } from '../support/long.ts'
import { openWorld, reckon, smallMail, subscribe, type World } from '../support/reckoning.ts'
import { signal, startTree, TREE_KEY, untilGone, type Tree } from '../support/tree.ts'

// They wait more than they work, and share nothing: some run beside each other.
t.jobs = LONG ? 1 : 3
t.setTimeout(LONG ? 900_000 : 240_000)
const EMAILS = LONG ? 2000 : 300
const TREE_KILLS = LONG ? 3 : 1
const NATS_KILLS = LONG ? 6 : 1
/** A claim's sender is dead after 15 s without heartbeat, and what it held comes again after 30 s. */
const RECOVERY_MS = 120_000

async function open (t: Test): Promise<{ tree: Tree, world: World }> {
  const world = await openWorld(t)
  const tree = await startTree({ env: { SMTP_URL: world.smtpUrl } })
  t.teardown(tree.dispose)
  await subscribe(tree, world)
  return { tree, world }
}

const mailOf = (round: number) => (i: number) => smallMail(round * 1_000_000 + i)

t.test(`kill -9 of all ${TREE_KILLS} times under ${EMAILS} emails: none is lost, no copy without a doubt`, async t => {
  const { tree, world } = await open(t)
  const shots: Shot[] = []
  for (let round = 0; round < TREE_KILLS; round++) {
    shots.push(...await killUnderLoad(tree, world, round))
    await tree.start()
  }
  shots.push(
    ...await closedLoop({
      url: tree.url,
      key: TREE_KEY,
      inFlight: 20,
      acceptedMax: 20,
      durationMs: 20_000,
      body: mailOf(TREE_KILLS)
    })
  )
  const { doubled, doubted } = await reckon(t, tree, world, shots, RECOVERY_MS)
  const accepted = shots.filter(shot => shot.status === 202).length
  t.comment(
    `${accepted} accepted, ${
      shots.length - accepted
    } not answered with 202, ${doubled} with a second copy, ${doubted} of those looked at in doubt`
  )
  t.ok(doubled <= TREE_KILLS * 100, 'no more copies than transactions under way')
})

/** Kills the tree when half of the emails are accepted and some are sent. */
async function killUnderLoad (tree: Tree, { mail }: World, round: number): Promise<Shot[]> {
  const before = mail.received.length
  const over = new AbortController()
  let accepted = 0
  let killed: Promise<void> | null = null
  const kill = async () => {
    await tree.kill9()
    over.abort()
  }
  const onShot = ({ status }: Shot) => {
    if (status === 202) accepted++
    if (accepted >= EMAILS / 2 && mail.received.length > before) killed ??= kill()
  }
  const shots = await closedLoop({
    url: tree.url,
    key: TREE_KEY,
    inFlight: 50,
    acceptedMax: EMAILS,
    durationMs: 30_000,
    body: mailOf(round),
    signal: over.signal,
    onShot
  })
  await (killed ??= kill())
  return shots
}

t.test(
  `kill -9 of nats-server ${NATS_KILLS} times under load: none is lost or sent twice, the service recovers`,
  LONG_ONLY,
  async t => {
    const { tree, world } = await open(t)
    const jetpost = tree.pid()
    const over = new AbortController()
    const load = fixedRate({
      url: tree.url,
      key: TREE_KEY,
      perS: LONG ? 200 : 100,
      inFlight: 100,
      durationMs: 120_000,
      body: mailOf(0),
      signal: over.signal
    })
    for (let kill = 0; kill < NATS_KILLS; kill++) {
      await sleep(1500)
      const pid = tree.natsPid()!
      signal(pid, 'SIGKILL')
      await untilGone([pid])
      await untilAccepting(tree)
    }
    await sleep(1000)
    over.abort()
    const shots = await load
    const { doubled, doubted } = await reckon(t, tree, world, shots, RECOVERY_MS)
    t.equal(doubled, 0, 'no second copy')
    t.equal(doubted, 0, 'no doubt')
    t.equal(tree.pid(), jetpost, 'the same process all the time')
    t.comment(statuses(shots))
    t.strictSame(
      shots.filter(shot => ![202, 503].includes(shot.status)).map(shot => shot.status),
      [],
      'accepted or told to come again'
    )
  }
)

const ACCEPTING_MS = 30_000

async function untilAccepting (tree: Tree): Promise<void> {
  for (const endMs = Date.now() + ACCEPTING_MS;; await sleep(200)) {
    const { status } = await tree.request('POST', '/api/emails', JSON.parse(smallMail(999_999))).catch(() => ({
      status: 0
    }))
    if (status === 202) return
    if (Date.now() > endMs) {
      throw new Error(`not accepting ${ACCEPTING_MS} ms after nats-server was killed:\n${tree.log().slice(-2000)}`)
    }
  }
}

t.test(
  'SIGTERM under load: ends by itself with everything it started, and the next start goes on without a doubt',
  LONG_ONLY,
  async t => {
    const { tree, world } = await open(t)
    const over = new AbortController()
    const load = closedLoop({
      url: tree.url,
      key: TREE_KEY,
      inFlight: 50,
      durationMs: 60_000,
      body: mailOf(0),
      signal: over.signal
    })
    await sleep(2000)
    const family = tree.family()
    const exit = await tree.stop(45_000)
    over.abort()
    const shots = await load
    t.equal(exit.code, 0)
    t.comment(`stopped after ${exit.ms} ms; ${statuses(shots)}`)
    await untilGone(family)
    t.strictSame(tree.family(), [], 'nothing is left running')
    await tree.start()
    const { doubled, doubted } = await reckon(t, tree, world, shots, RECOVERY_MS)
    t.equal(doubled, 0, 'no second copy')
    t.equal(doubted, 0, 'no doubt')
  }
)

/** How many answers of each kind, for people. */
function statuses (shots: Shot[]): string {
  return [...Map.groupBy(shots, shot => shot.status)].map(([status, list]) =>
    `${list.length} × ${status === 0 ? 'no answer' : status}`
  ).join(', ')
}
