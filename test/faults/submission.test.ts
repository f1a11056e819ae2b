import t from 'tap'
import type { Shot } from '#src/cli/bench/load.ts'
import { choosePort } from '#src/embedded/ports.ts'
import { LONG } from '../support/long.ts'
import { openWorld, reckon, subscribe } from '../support/reckoning.ts'
import { logIn, submit } from '../support/submission-peer.ts'
import { startTree, TREE_KEY } from '../support/tree.ts'

t.setTimeout(LONG ? 900_000 : 240_000)
const KILLS = LONG ? 4 : 1
const MAILS = LONG ? 500 : 100
const CLIENTS = 10
const SETTLED_MS = LONG ? 300_000 : 120_000

const KEPT = 'each 250 is a mail that reaches the server'

t.test(`kill -9 of all ${KILLS} times while mail comes in by SMTP: ${KEPT}`, async t => {
  const world = await openWorld(t)
  const port = await choosePort(null, null, 'submission')
  const tree = await startTree({ env: { SMTP_URL: world.smtpUrl, JETPOST_SUBMISSION_PORT: String(port) } })
  t.teardown(tree.dispose)
  await subscribe(tree, world)
  const shots: Shot[] = []
  let unanswered = 0
  let next = 0

  /** One client after the other mail, until the line is cut. */
  async function client (accepted: () => void): Promise<void> {
    const peer = await logIn(port, TREE_KEY)
    for (;;) {
      const i = next++
      const from = 'hello@sandbox.jetpost.test'
      const head = `From: ${from}\r\nTo: user${i}@example.com\r\nSubject: mail ${i}\r\n`
      const reply = await submit(peer, from, [`user${i}@example.com`], `${head}\r\nHello\r\n`)
      const [, id = null] = /^250 2\.0\.0 queued as (em_\w+)$/.exec(reply) ?? []
      if (id === null) {
        unanswered++
        t.match(reply, /^(gone|421 |451 )/, 'a mail without a 250 has no other answer than the end')
        return peer.close()
      }
      shots.push({ i, status: 202, id } as Shot)
      accepted()
    }
  }

  for (let round = 1; round <= KILLS; round++) {
    let killed: Promise<void> | null = null
    const onAccepted = () => {
      if (shots.length >= round * MAILS) killed ??= tree.kill9()
    }
    await Promise.all(Array.from({ length: CLIENTS }, () => client(onAccepted)))
    t.ok(killed, 'it was killed')
    await killed
    await tree.start()
  }
  t.ok(shots.length >= KILLS * MAILS)
  t.ok(unanswered >= CLIENTS, 'a kill came in the middle of other mails')
  const { doubled, doubted } = await reckon(t, tree, world, shots, SETTLED_MS)
  t.comment(`${shots.length} accepted, ${unanswered} cut off; ${doubled} twice, ${doubted} in doubt`)
})
