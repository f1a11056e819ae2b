import t from 'tap'
import { closedLoop, type Shot } from '#src/cli/bench/load.ts'
import { LONG, LONG_ONLY } from '../support/long.ts'
import { openWorld, smallMail } from '../support/reckoning.ts'
import { startTree, TREE_KEY, type Tree } from '../support/tree.ts'

t.setTimeout(LONG ? 600_000 : 120_000)
const KILLS = LONG ? 5 : 1
const EMAILS = LONG ? 1000 : 200

t.test(
  `kill -9 of all ${KILLS} times while keyed requests are accepted: each key has the email it was answered with`,
  LONG_ONLY,
  async t => {
    const world = await openWorld(t)
    const tree = await startTree({ env: { SMTP_URL: world.smtpUrl } })
    t.teardown(tree.dispose)
    let unanswered = 0
    let total = 0
    for (let round = 0; round < KILLS; round++) {
      const keyOf = (i: number) => `round-${round}-${i}`
      const load = {
        url: tree.url,
        key: TREE_KEY,
        inFlight: 50,
        durationMs: 30_000,
        body: smallMail,
        idempotencyKey: keyOf
      }
      const over = new AbortController()
      let killed: Promise<void> | null = null
      const kill = () => tree.kill9().then(() => over.abort())
      const first = await closedLoop({
        ...load,
        signal: over.signal,
        onShot: shot => {
          if (shot.status === 202 && shot.i > EMAILS) killed ??= kill()
        }
      })
      await (killed ??= kill())
      await tree.start()
      const again = await repeat(first, load)
      unanswered += first.filter(({ status }) => status === 0).length
      t.strictSame(new Set(again.map(({ status }) => status)), new Set([202]), 'every key is answered')
      const answered = new Map(first.filter(({ id }) => id !== null).map(({ i, id }) => [i, id]))
      t.ok(
        again.every(({ i, id }) => !answered.has(i) || answered.get(i) === id),
        'what was answered before is answered the same'
      )
      const third = await repeat(first, load)
      t.strictSame(third.map(({ id }) => id), again.map(({ id }) => id), 'and stays so')
      t.equal(new Set(again.map(({ id }) => id)).size, first.length, 'no two keys share an email')
      total += first.length
      t.equal(await countAll(tree), total, 'and there is no email beside them')
    }
    t.comment(`${unanswered} requests were cut off by a kill`)
    t.ok(unanswered > 0, 'a kill came in the middle')
  }
)

type Load = Parameters<typeof closedLoop>[0]

/** The same requests, one answer each, in the order of their numbers. */
async function repeat (shots: Shot[], load: Load): Promise<Shot[]> {
  const wanted = shots.map(({ i }) => i).sort((a, b) => a - b)
  const numberOf = (k: number) => wanted[k]!
  const done = new Set<number>()
  const answers: Shot[] = []
  const repeated = await closedLoop({
    ...load,
    inFlight: 20,
    acceptedMax: wanted.length,
    body: k => smallMail(numberOf(k % wanted.length)),
    idempotencyKey: k => load.idempotencyKey!(numberOf(k % wanted.length))
  })
  for (const shot of repeated) {
    const i = numberOf(shot.i % wanted.length)
    if (shot.status === 202 && !done.has(i)) answers.push({ ...shot, i })
    if (shot.status === 202) done.add(i)
  }
  return answers.sort((a, b) => a.i - b.i)
}

/** How many emails there are. */
async function countAll ({ request }: Tree): Promise<number> {
  let total = 0
  for (let cursor = '';;) {
    const { body }: { body: any } = await request('GET', `/api/emails?limit=100${cursor}`)
    total += body.data.length
    if (!body.has_more) return total
    cursor = `&cursor=${body.next_cursor}`
  }
}
