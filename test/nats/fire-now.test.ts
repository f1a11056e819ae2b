import t from 'tap'
import { lastSequenceUnder } from '#src/nats/get.ts'
import { fireNow, schedule } from '#src/nats/schedule.ts'
import { createLog } from '#src/base/log.ts'
import { connectBus } from '#src/nats/connect.ts'
import { isUnanswered } from '#src/nats/errors.ts'
import { readMessages } from '#src/nats/range.ts'
import { openBus } from '../support/bus.ts'
import { losing } from '../support/poor-line.ts'

const { bus, natsUrl } = await openBus(t)
const HOUR_MS = 3_600_000

/** Held for an hour under an endpoint's name. */
const hold = (webhook: string, rank: number, delivery = `whd_${rank}`) =>
  schedule(bus, {
    subject: `schedule.held.${webhook}.${delivery}`,
    target: `due.delivery.1.${delivery}`,
    atMs: Date.now() + HOUR_MS,
    payload: { webhook, rank }
  })
const fire = (webhook: string) =>
  fireNow(bus, `schedule.held.${webhook}.*`, payload => (payload as { rank: number }).rank)
const due = async () =>
  (await readMessages(bus, 'SCHEDULE', { filter: 'due.delivery.1.*', afterSeq: 0 }, { max: 2000 })).messages.map((
    { data }
  ) => JSON.parse(Buffer.from(data).toString()) as { webhook: string, rank: number })

t.test('more schedules than are read at once come due in order, once, and are gone; others stay', async t => {
  const ranks = Array.from({ length: 1200 }, (_, i) => i)
  // As they lie in a stream that has fired them once already: neighbours have changed places.
  for (const rank of ranks) await hold('wh_a', rank ^ 1)
  await hold('wh_b', 0, 'whd_other')
  await fire('wh_a')
  const fired = await due()
  t.ok(fired.every(({ webhook }) => webhook === 'wh_a'))
  t.same(fired.map(({ rank }) => rank), ranks)
  t.equal(await lastSequenceUnder(bus, 'SCHEDULE', 'schedule.held.wh_a.*'), 0)
  t.not(await lastSequenceUnder(bus, 'SCHEDULE', 'schedule.held.wh_b.*'), 0)
  await fire('wh_a')
  t.equal((await due()).length, 1200, 'nothing is left to fire')
})

t.test('fired by two at once it comes once', async t => {
  for (let i = 0; i < 20; i++) await hold('wh_c', i, `whd_c${i}`)
  await Promise.all([fire('wh_c'), fire('wh_c')])
  t.equal((await due()).filter(({ webhook }) => webhook === 'wh_c').length, 20)
})

t.test('a part of the answer is lost: what has not come due is not purged, and comes due the next time', async t => {
  for (let i = 0; i < 5; i++) await hold('wh_d', i, `whd_d${i}`)
  const relay = await connectBus({ url: natsUrl, creds: null, name: 'relay', log: createLog('silent') })
  t.teardown(() => relay.close())
  for (const lost of [1, 3, 5]) {
    const line = losing(bus, relay, 'schedule.held.wh_d.*', lost)
    const error = await fireNow(line.bus, 'schedule.held.wh_d.*', () => 0).then(() => null, (thrown: unknown) => thrown)
    t.ok(line.hasLost() && isUnanswered(error), `part ${lost}: ${error}`)
  }
  await fire('wh_d')
  t.same((await due()).filter(({ webhook }) => webhook === 'wh_d').map(({ rank }) => rank), [0, 1, 2, 3, 4])
})
