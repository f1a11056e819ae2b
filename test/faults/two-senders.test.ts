import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { createFactLog, stamp } from '#src/actions/fact-log.ts'
import { sleep } from '#src/base/backoff.ts'
import { systemClock, timestamp } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import { connectBus, type Bus } from '#src/nats/connect.ts'
import { ensureTopology } from '#src/nats/ensure.ts'
import { readFacts } from '#src/nats/range.ts'
import { EmailRequested } from '#streams/email/facts.ts'
import { subjects } from '#streams/subjects.ts'
import { PLAIN } from '../support/facts.ts'
import { LONG, LONG_ONLY } from '../support/long.ts'
import { ACCOUNT, log, topology } from '../support/sender-rig.ts'
import { freshAccount } from '../support/servers.ts'
import { startSink } from '../support/smtp-sink.ts'

t.setTimeout(180_000)
const CHILD = fileURLToPath(new URL('../support/sender-child.ts', import.meta.url))
const EMAILS = 400
/** Long enough for the other to take it for dead (15 s), or well short of that. */
const PAUSE_MS = LONG ? 20_000 : 4000

t.test(
  `two senders, one of them paused for ${
    PAUSE_MS / 1000
  } s amid its transactions: all is sent, and no second copy without a doubt`,
  LONG_ONLY,
  async t => {
    const { natsUrl } = freshAccount()
    const sink = await startSink()
    const bus = await connectBus({ url: natsUrl, creds: null, name: 'two senders', log })
    t.teardown(async () => {
      await bus.close()
      await sink.stop()
    })
    await ensureTopology(bus, topology)
    // What a silent process holds comes to the other after ack_wait, 30 s by plan.
    await (await bus.nc.jetstreamManager()).consumers.update('REQUESTS', 'sender', { ack_wait: 3_000_000_000 })
    const senders = [
      fork(CHILD, [natsUrl, sink.url], { stdio: 'inherit' }),
      fork(CHILD, [natsUrl, sink.url], { stdio: 'inherit' })
    ]
    t.teardown(() => Promise.all(senders.map(end)))
    await Promise.all(senders.map(sender => once(sender, 'message')))
    const address = (i: number) => `r${i}@example.net`
    for (let i = 0; i < EMAILS; i++) {
      sink.replies(address(i), {
        data: { reply: '354 go ahead', afterMs: (i * 7) % 200 },
        dot: { reply: '250 ok', afterMs: 300 }
      }, 3)
    }
    const emails = await ask(bus, Array.from({ length: EMAILS }, (_, i) => address(i)))
    await sink.dots(EMAILS / 4, 20_000)
    senders[0]!.kill('SIGSTOP')
    await sleep(PAUSE_MS)
    senders[0]!.kill('SIGCONT')

    const endMs = Date.now() + 60_000
    for (const email of emails) await settled(bus, email, endMs)
    // Whatever dot the paused one would still send is sent by then.
    await sleep(2000)
    let [copied, doubted] = [0, 0]
    for (const email of emails) {
      const types = await settled(bus, email, endMs)
      const doubts = types.filter(type => type === 'email.in_doubt').length
      const copies = sink.received.filter(({ dot, messageId }) => dot && messageId?.startsWith(`<${email}.`) === true)
      if (types.filter(type => type === 'email.delivered').length !== 1) {
        t.fail(
          `${email} was not delivered once: ${types.join()}`
        )
      }
      if (copies.length - 1 > doubts) t.fail(`${email} has ${copies.length} copies: ${types.join()}`)
      if (new Set(copies.map(({ messageId, date }) => `${messageId} ${date}`)).size !== 1) {
        t.fail(
          `${email} has copies that differ`
        )
      }
      copied += copies.length - 1
      doubted += doubts
    }
    t.comment(`${copied} second copies, ${doubted} doubts`)
    if (!LONG) {
      t.same({ copied, doubted }, { copied: 0, doubted: 0 }, 'a pause that nobody takes for death costs nothing')
    }
    t.ok(doubted <= 20, 'no more than one process has under way')
  }
)

async function ask (bus: Bus, addresses: string[]): Promise<string[]> {
  const factLog = createFactLog(bus, systemClock)
  const cause = { account: ACCOUNT, correlation: 'test', causation: null }
  return await Promise.all(addresses.map(async address => {
    const email = newId('em', Date.now())
    const fact = stamp(EmailRequested, cause, {
      email,
      key: 'key_1',
      test: false,
      from: { address: 'shop@example.com', name: 'Shop' },
      recipients: [{ address, name: null, kind: 'to' }],
      subject: 'Your order',
      ...PLAIN,
      content: { html: null, text: 'Hello', files: [] },
      tags: [],
      metadata: {},
      expiresAt: timestamp(Date.now() + 3_600_000),
      onDoubt: 'retry'
    }, Date.now())
    await factLog.append([{ fact }])
    return email
  }))
}

/** The types of a recipient's facts once it is delivered, or time is up. */
async function settled (bus: Bus, email: string, endMs: number): Promise<string[]> {
  for (;;) {
    const types = (await readFacts(bus, 'EMAILS', subjects.recipient(ACCOUNT, email, 0))).map(({ fact }) => fact.type)
    if (types.includes('email.delivered') || Date.now() > endMs) return types
    await sleep(100)
  }
}

async function end (child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGKILL')
  await once(child, 'exit')
}
