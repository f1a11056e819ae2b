import t, { type Test } from 'tap'
import { ChaosClient } from '../support/chaos-client.ts'
import { describeStep, drawScript, perform, type ChaosHouse } from '../support/chaos-script.ts'
import { LONG } from '../support/long.ts'
import { openCluster } from '../support/nats-cluster.ts'
import { openOwnPostgres } from '../support/own-postgres.ts'
import { chanceOf } from '../support/random.ts'
import { openWorld, reckon, subscribe } from '../support/reckoning.ts'
import { SECRET } from '../support/secret.ts'
import { startTree, type TreeAnswer } from '../support/tree.ts'
import { until } from '../support/wait.ts'

/** The first seed, and how many: `JETPOST_TEST_SEED=17 JETPOST_TEST_SEEDS=1` does the seventeenth again. */
const SEED = Number(process.env.JETPOST_TEST_SEED ?? 1)
const SEEDS = Number(process.env.JETPOST_TEST_SEEDS ?? (LONG ? 10 : 1))
const STEPS = LONG || process.env.JETPOST_TEST_SEEDS !== undefined ? 6 : 2
const RECOVERY_MS = 240_000
const WARM = 20

t.setTimeout(SEEDS * 600_000)

async function openHouse (t: Test): Promise<ChaosHouse> {
  const [cluster, postgres, world] = [await openCluster(t), await openOwnPostgres(t), await openWorld(t)]
  await cluster.whole()
  const env = {
    NATS_URL: cluster.servers.map(({ url }) => url).join(),
    DATABASE_URL: postgres.url,
    JETPOST_SECRET: SECRET,
    JETPOST_NATS_REPLICAS: '3',
    JETPOST_PROCESSES: '1',
    SMTP_URL: world.smtpUrl
  }
  const nodes = []
  for (const _node of ['a', 'b']) {
    const node = await startTree({ env })
    t.teardown(node.dispose)
    nodes.push(node)
  }
  await subscribe(nodes[0]!, world)
  return { nodes, servers: cluster.servers, bus: await cluster.connect(...cluster.servers), postgres, world }
}

/** Asks the nodes in turn until one answers 200: they have just been through a lot. */
async function ask ({ nodes }: ChaosHouse, method: string, path: string): Promise<TreeAnswer> {
  let answer: TreeAnswer | null = null
  let turn = 0
  await until(async () => {
    answer = await nodes[turn++ % nodes.length]!.request(method, path).catch(() => null)
    return answer?.status === 200
  }, RECOVERY_MS)
  return answer!
}

for (let seed = SEED; seed < SEED + SEEDS; seed++) {
  t.test(`seed ${seed}: whatever happens, nothing accepted is lost, and nothing is silently in doubt`, async t => {
    const chance = chanceOf(seed)
    const script = drawScript(chance, STEPS)
    for (const step of script) t.comment(describeStep(step))
    const house = await openHouse(t)
    const client = new ChaosClient(house.nodes.map(({ url }) => url), chance)
    t.teardown(() => client.leave())
    client.start()
    await until(() => client.accepted().length >= WARM)
    await perform(house, script)
    await client.stop()

    t.strictSame(client.odd(), [], 'each answer accepts, or says when to come again')
    t.strictSame(client.doubled(), [], 'each Idempotency-Key is one email')
    const jetpost = { request: (method: string, path: string) => ask(house, method, path) }
    const accepted = client.accepted()
    const { doubled, doubted } = await reckon(t, jetpost, house.world, accepted, RECOVERY_MS)
    t.comment(`${client.sent.length} sent, ${accepted.length} accepted, ${doubled} doubled, ${doubted} doubted`)
    t.match(await house.nodes[0]!.cli('verify', 'all'), /Everything is correct/, 'views and log agree')
  })
}
