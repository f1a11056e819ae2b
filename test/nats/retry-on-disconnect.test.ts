import t, { type Test } from 'tap'
import { setTimeout as wait } from 'node:timers/promises'
import { SuppressionAdded } from '#streams/suppression/facts.ts'
import { subjects } from '#streams/subjects.ts'
import { stamp } from '#src/actions/fact-log.ts'
import { timestamp } from '#src/base/clock.ts'
import { createLog } from '#src/base/log.ts'
import { sha256Hex } from '#src/base/secret.ts'
import { api } from '#src/nats/api.ts'
import { createAppender } from '#src/nats/append.ts'
import { connectBus, type Bus } from '#src/nats/connect.ts'
import { isUnanswered } from '#src/nats/errors.ts'
import { getFact, lastSequence } from '#src/nats/get.ts'
import { createLookup } from '#src/nats/lookup.ts'
import { openBus } from '../support/bus.ts'
import { openLine, type Line } from '../support/line.ts'
import { until } from '../support/wait.ts'

const subjectOf = (name: string): string => subjects.suppression('acc_test', sha256Hex(name))
const { bus: direct, natsUrl } = await openBus(t)

function factOf (name: string): SuppressionAdded {
  const standing = [{ reason: 'manual' as const, email: null, since: timestamp(Date.now()) }]
  return stamp(SuppressionAdded, { account: 'acc_test', correlation: 'test', causation: null }, {
    hash: sha256Hex(name),
    address: name,
    reason: 'manual',
    standing
  }, Date.now())
}

const append = (bus: Bus, name: string, timeoutMs?: number) =>
  createAppender(bus).append([{ fact: factOf(name) }], timeoutMs)

/** A connection to the same account by a wire that can be cut. */
async function wired (t: Test): Promise<{ line: Line, bus: Bus }> {
  const url = new URL(natsUrl)
  const line = await openLine(t, url.hostname, Number(url.port))
  url.host = `127.0.0.1:${line.port}`
  const bus = await connectBus({ url: url.href, creds: null, name: 'wired', log: createLog('silent') })
  t.teardown(() => bus.close())
  return { line, bus }
}

t.test('a question that a connection breaks under is asked again on the next', async t => {
  const { line, bus } = await wired(t)
  await append(direct, 'known')
  line.deafen()
  const asked = Promise.all([
    createLookup(bus, 'CONTROL').last([subjectOf('known')]),
    getFact(bus, 'CONTROL', { last_by_subj: subjectOf('known') }),
    lastSequence(bus, 'CONTROL')
  ])
  await wait(50)
  line.cut()
  line.mend()
  const [[found], last, seq] = await asked
  t.match(found, { data: { address: 'known' } })
  t.match(last, { fact: { data: { address: 'known' } }, seq })
})

t.test('an append that a connection breaks under is stored once, and answered', async t => {
  const { line, bus } = await wired(t)
  const before = await lastSequence(direct, 'CONTROL')
  line.deafen()
  const appended = append(bus, 'once')
  await until(async () => await lastSequence(direct, 'CONTROL') === before + 1)
  line.cut()
  line.mend()
  t.strictSame(await appended, [before + 1])
  t.equal(await lastSequence(direct, 'CONTROL'), before + 1)
})

t.test('what was never sent is refused without doubt, or sent in time when the connection is back', async t => {
  const { line, bus } = await wired(t)
  line.cut()
  await until(() => bus.upSinceMs() === null)
  await t.rejects(append(bus, 'never', 300), { name: 'LogUnavailable', doubt: false })
  const patient = append(bus, 'later', 20_000)
  line.mend()
  await patient
  t.match(await getFact(direct, 'CONTROL', { last_by_subj: subjectOf('later') }), {
    fact: { data: { address: 'later' } }
  })
  t.equal(await getFact(direct, 'CONTROL', { last_by_subj: subjectOf('never') }), null)
})

t.test('a change that a connection breaks under is not asked for twice: it may have been done', async t => {
  const { line, bus } = await wired(t)
  line.deafen()
  const made = api(bus, 'STREAM.CREATE.OTHER', { name: 'OTHER', subjects: ['other.>'], storage: 'memory' }, 10_000)
    .then(() => null, (error: unknown) => error)
  await until(async () => (await api<{ streams: string[] }>(direct, 'STREAM.NAMES', {})).streams.includes('OTHER'))
  line.cut()
  line.mend()
  t.ok(isUnanswered(await made))
})
