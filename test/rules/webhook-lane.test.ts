import t from 'tap'
import { createLane, type Lane, type LaneEnd, type LaneRules } from '#src/out/webhooks/lane.ts'

const RULES: LaneRules = { concurrency: () => 2, failuresMax: 3, probesWaitingMax: 1, pauseMs: 20, pauseMsMax: 40, bookMsMin: 100, nowMs: () => Date.now() }

/** A job that ends when told. */
function job (lane: Lane, key: string, limit = 10) {
  let end = (_fine: boolean | null) => {}
  const started = { yes: false }
  const run = () => new Promise<boolean | null>(resolve => {
    started.yes = true
    end = resolve
  })
  const ended: Promise<LaneEnd> = lane.offer({ key, run }, limit)
  return { started, ended, end: async (fine: boolean | null) => { end(fine); return await ended } }
}

async function fail (lane: Lane, times: number): Promise<void> {
  for (let i = 0; i < times; i++) await job(lane, `failure ${i}`).end(false)
}

t.test('a lane runs as many as it may, and one of a key after the other', async t => {
  const lane = createLane(RULES)
  const [a1, a2, b, c] = ['a', 'a', 'b', 'c'].map(key => job(lane, key))
  t.same([a1, a2, b, c].map(each => each!.started.yes), [true, false, true, false])
  t.equal(await a1!.end(true), 'ran')
  t.same([a2, c].map(each => each!.started.yes), [true, false])
  await b!.end(true)
  t.equal(c!.started.yes, true)
})

t.test('what finds no place is told so, and books one by the pace of late', async t => {
  const lane = createLane(RULES)
  const held = [job(lane, 'a', 2), job(lane, 'b', 2)]
  t.equal(await job(lane, 'c', 2).ended, 'full')
  t.ok(lane.book() >= Date.now() + 90)
  await Promise.all(held.map(each => each.end(true)))
  t.equal(await job(lane, 'c', 2).end(true), 'ran')
})

t.test('a lane that fails probes one at a time, with pauses, and parks the others', async t => {
  const lane = createLane(RULES)
  await fail(lane, 3)
  const probe = job(lane, 'a')
  const next = job(lane, 'b')
  t.equal(probe.started.yes, false, 'a pause first')
  t.equal(await job(lane, 'c').ended, 'failing')
  await new Promise(resolve => setTimeout(resolve, 30))
  t.same([probe.started.yes, next.started.yes], [true, false])
  t.equal(await probe.end(true), 'ran')
  t.equal(next.started.yes, true, 'one success opens it again')
  t.equal(await next.end(true), 'ran')
})

t.test('those that wait are parked when the lane begins to fail', async t => {
  const lane = createLane(RULES)
  const [a, b, ...waiting] = ['a', 'b', 'c', 'd', 'e', 'f'].map(key => job(lane, key))
  await a!.end(false)
  await b!.end(false)
  await waiting[0]!.end(false)
  t.same(await Promise.all(waiting.slice(2).map(each => Promise.race([each.ended, Promise.resolve('waits')]))), ['waits', 'failing'])
  lane.close()
})

t.test('what tells nothing about the endpoint changes nothing, and a closed lane lets go', async t => {
  const lane = createLane(RULES)
  for (let i = 0; i < 5; i++) await job(lane, 'a').end(null)
  t.equal(lane.idle(), true)
  const [a, b, c] = ['a', 'b', 'c'].map(key => job(lane, key))
  lane.close()
  t.equal(await c!.ended, 'released')
  t.same([await a!.end(true), await b!.end(true)], ['ran', 'ran'])
  t.equal(await job(lane, 'd').ended, 'released')
})
