import t, { type Test } from 'tap'
import { openDirect, type DirectRig } from '../support/direct-rig.ts'
import { openRig, type Rig } from '../support/sender-rig.ts'
import { startSink, type Sink } from '../support/smtp-sink.ts'
import { until } from '../support/wait.ts'

/** So long that nothing goes out again by the schedule of retries. */
const LONG = { retry: { firstS: 300, maxS: 300 } }

async function openHost (
  t: Test,
  timings: object = LONG,
  connectionsMax?: number
): Promise<DirectRig & { mx: Sink }> {
  const rig = await openDirect(t, { timings })
  const mx = await rig.mxHost('mx.example.net', 2, { connectionsMax })
  rig.dns.mx('example.net', [10, 'mx.example.net'])
  return { ...rig, mx }
}

const askMany = ({ ask }: Pick<Rig, 'ask'>, count: number): Promise<string[]> =>
  Promise.all(Array.from({ length: count }, (_, i) => ask(`r${i}@example.net`)))

/** Waits until all have arrived, and for no other fact of any. */
async function arriveAtOnce ({ told }: Pick<Rig, 'told'>, emails: string[]): Promise<void> {
  for (const email of emails) await told(email, ['attempted', 'delivered'])
}

t.test('after one 421 the other mail waits for seconds, and is not deferred', async t => {
  const rig = await openHost(t)
  rig.mx.replies('busy@example.net', { rcpt: '421 4.3.2 closing' })
  const busy = await rig.ask('busy@example.net')
  await rig.told(busy, ['deferred'])
  await arriveAtOnce(rig, await askMany(rig, 20))
  t.equal((await rig.facts(busy)).length, 1, 'who was answered waits for its retry')
})

t.test('a greeting with 421 defers the mail that met it, and none that comes meanwhile', async t => {
  const rig = await openHost(t)
  rig.mx.greet('421 4.3.2 not now')
  const first = await rig.ask('first@example.net')
  const [deferred] = await rig.told(first, ['deferred'])
  t.match(deferred!.data, { attempt: 1, stage: 'connect', reply: { code: 421, text: '421 4.3.2 not now' } })
  t.notOk('untried' in deferred!.data)
  rig.mx.greet(null)
  await arriveAtOnce(rig, await askMany(rig, 20))
})

t.test('hosts that take two connections and refuse the third get two, and all mail', async t => {
  const rig = await openHost(t, LONG, 2)
  await arriveAtOnce(rig, await askMany(rig, 90))
  t.equal(rig.mx.sessions().made, 3, 'it is asked for a third connection once')
})

t.test('so does a relay, which all connections were meant for', async t => {
  const relay = await startSink({ connectionsMax: 2 })
  t.teardown(() => relay.stop())
  const rig = await openRig(t, { smtpUrl: relay.url, timings: { ...LONG, patienceMs: 0 } })
  await arriveAtOnce(rig, await askMany(rig, 90))
  t.ok(relay.sessions().made <= 10, `${relay.sessions().made} connections`)
})

t.test('mail waits in line for a probe, a few of it, and goes when the probe is answered', async t => {
  const rig = await openHost(t)
  rig.mx.replies('busy@example.net', { rcpt: '421 4.3.2 closing' })
  await rig.told(await rig.ask('busy@example.net'), ['deferred'])
  const answered = Promise.withResolvers<void>()
  rig.mx.greet({ reply: '220 at last', after: answered.promise })
  const emails = await askMany(rig, 20)
  await until(() => rig.mx.sessions().made === 2, 15_000)
  t.equal(rig.mx.connections(), 1, 'one connection asks for all')
  answered.resolve()
  await arriveAtOnce(rig, emails)
})

t.test('mail that was not tried is told so: no attempt, and no word of the reply to another', async t => {
  const rig = await openHost(t, { ...LONG, patienceMs: 0 })
  rig.mx.replies('secret@example.net', { rcpt: '421 4.7.0 <secret@example.net> sends too much to secret@example.net' })
  await rig.told(await rig.ask('secret@example.net'), ['deferred'])
  const email = await rig.ask('other@example.net')
  const [deferred, attempted] = await rig.told(email, ['deferred', 'attempted', 'delivered'])
  t.match(deferred!.data, {
    stage: 'rcpt',
    host: 'mx.example.net',
    reply: null,
    untried: { code: 421, enhanced: '4.7.0' },
    error: /^Not tried: mx\.example\.net answered another email with 421 4\.7\.0/
  })
  t.notMatch(JSON.stringify(await rig.facts(email)), /secret|too much/)
  const { nextAttemptAt, event } = deferred!.data as { nextAttemptAt: string, event: string }
  t.ok(Date.parse(nextAttemptAt) - Date.parse(deferred!.time) <= 5000, 'for as long as the host is left alone')
  t.match(JSON.parse(event).data.bounce, { code: 421, enhanced_code: '4.7.0', final: false, reason: /^Not tried/ })
  t.match(attempted!.data, { attempt: 1 }, 'the first')
})
