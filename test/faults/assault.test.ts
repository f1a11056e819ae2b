import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import t from 'tap'
import type { AssaultPlan, AssaultReport } from '../support/assault.ts'
import { fixedRate } from '../support/load.ts'
import { LONG_ONLY } from '../support/long.ts'
import { openWorld, reckon, smallMail, subscribe, type World } from '../support/reckoning.ts'
import { startTree, TREE_KEY, type Tree } from '../support/tree.ts'

t.setTimeout(600_000)
const DURATION_MS = 120_000
const PER_S = 100
const RECOVERY_MS = 120_000
/** Of a process, in KiB: what it may have once all bodies that it takes at once are in it. */
const RSS_MAX = 2 * 1024 * 1024
const SIZES = { bigBodies: 24, halfOpen: 2000, slowBodies: 500, bigMails: 60, hostileBatches: 8 }

async function attack (plan: AssaultPlan): Promise<AssaultReport> {
  const file = join(import.meta.dirname, '..', 'support', 'assault.ts')
  const { stdout } = await promisify(execFile)(process.execPath, [file, JSON.stringify(plan)])
  return JSON.parse(stdout) as AssaultReport
}

/** Keys of an account that is not the operator's. */
async function attackersKeys (tree: Tree): Promise<Pick<AssaultPlan, 'sender' | 'reader'>> {
  const { body: { id } } = await tree.request('POST', '/api/accounts', { name: 'Attacker' })
  const keyFor = async (scope: string) => {
    const body = { name: scope, scopes: [scope], domains: ['*'] }
    return (await tree.request('POST', `/api/accounts/${id}/keys`, body)).body.key as string
  }
  return { sender: await keyFor('emails:send'), reader: await keyFor('suppressions:read') }
}

/** The most descriptors and resident memory (KiB) that the process has had. */
async function watch (tree: Tree, signal: AbortSignal): Promise<{ descriptors: number, rss: number }> {
  const most = { descriptors: 0, rss: 0 }
  for (; !signal.aborted; await sleep(250)) {
    const root = `/proc/${tree.pid()}`
    most.descriptors = Math.max(most.descriptors, readdirSync(`${root}/fd`).length)
    most.rss = Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`${root}/status`, 'utf8'))![1])
  }
  return most
}

/** What the mail server took, but for the attacker's. */
function withoutAttack (world: World): World {
  const own = () => world.mail.received.filter(({ to }) => !to.endsWith('@attack.example'))
  const mail = Object.create(world.mail, { received: { get: own } }) as World['mail']
  return { ...world, mail }
}

t.test(
  'attacked in five ways at once, it loses no mail of others and keeps its bounds',
  LONG_ONLY,
  async t => {
    const world = await openWorld(t)
    const tree = await startTree({ env: { SMTP_URL: world.smtpUrl } })
    t.teardown(() => tree.dispose())
    await subscribe(tree, world)
    const over = new AbortController()
    const watching = watch(tree, over.signal)
    const attacking = attackersKeys(tree).then(keys =>
      attack({ url: tree.url, ...keys, durationMs: DURATION_MS, ...SIZES })
    )
    const shots = await fixedRate({
      url: tree.url,
      key: TREE_KEY,
      perS: PER_S,
      inFlight: 400,
      durationMs: DURATION_MS,
      body: smallMail
    })
    const report = await attacking
    over.abort()
    const { descriptors, rss } = await watching
    const sorted = shots.map(({ ms }) => Math.round(ms)).sort((a, b) => a - b)
    const at = (share: number) => sorted[Math.floor((sorted.length - 1) * share)]
    const unanswered = shots.filter(({ status }) => status !== 202).length
    t.comment(
      `${shots.length} sent, ${unanswered} not accepted; accept p50 ${at(0.5)}, p99 ${at(0.99)}, most ${at(1)} ms`
    )
    t.comment(`${descriptors} descriptors, ${Math.round(rss / 1024)} MiB; ${JSON.stringify(report)}`)

    await reckon(t, tree, withoutAttack(world), shots, RECOVERY_MS)
    t.ok(rss < RSS_MAX, 'memory has a bound')
    const before = readdirSync(`/proc/${tree.pid()}/fd`).length
    t.ok(before < 300, 'descriptors are given back')
    t.notOk(report['big bodies']?.[202] ?? report['slow bodies']?.[202], 'no attack is an email')
  }
)
