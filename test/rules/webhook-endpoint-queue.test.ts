import t from 'tap'
import {
  createEndpointQueue,
  type EndpointQueue,
  type EndpointQueueEnd,
  type EndpointQueueRules,
  type Ran
} from '#src/workers/webhooks/endpoint-queue.ts'

const RULES: EndpointQueueRules = {
  concurrency: () => 2,
  failuresMax: 3,
  probesWaitingMax: 1,
  pauseMs: 20,
  pauseMsMax: 40,
  holdMsMax: 200,
  briskS: 0,
  backgroundTurns: 100,
  backgroundMsMax: 60_000,
  bookMsMin: 100,
  nowMs: () => Date.now()
}

/** A job that ends when told. */
function job (lane: EndpointQueue, key: string, limit = 10, background = false) {
  let end = (_ran: Ran) => {}
  const started = { yes: false }
  const run = () =>
    new Promise<Ran>(resolve => {
      started.yes = true
      end = resolve
    })
  const ended: Promise<EndpointQueueEnd> = lane.offer({ key, background, run }, { share: limit, most: 100 })
  return {
    started,
    ended,
    end: async (fine: boolean | null, holdMs = 0) => {
      end({ fine, holdMs })
      return await ended
    }
  }
}

async function fail (lane: EndpointQueue, times: number): Promise<void> {
  for (let i = 0; i < times; i++) await job(lane, `failure ${i}`).end(false)
}

t.test('a lane runs as many as it may, and one of a key after the other', async t => {
  const lane = createEndpointQueue(RULES)
  const [a1, a2, b, c] = ['a', 'a', 'b', 'c'].map(key => job(lane, key))
  t.same([a1, a2, b, c].map(each => each!.started.yes), [true, false, true, false])
  t.equal(await a1!.end(true), 'ran')
  t.same([a2, c].map(each => each!.started.yes), [true, false])
  await b!.end(true)
  t.equal(c!.started.yes, true)
})

t.test('what finds no place is told so, and books one by the pace of late', async t => {
  const lane = createEndpointQueue(RULES)
  const held = [job(lane, 'a', 2), job(lane, 'b', 2)]
  t.equal(await job(lane, 'c', 2).ended, 'full')
  t.ok(lane.book(false) >= Date.now() + 90)
  await Promise.all(held.map(each => each.end(true)))
  t.equal(await job(lane, 'c', 2).end(true), 'ran')
})

t.test('a lane that fails probes one at a time, with pauses, and parks the others', async t => {
  const lane = createEndpointQueue(RULES)
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

t.test('those that wait are deferred when the lane begins to fail', async t => {
  const lane = createEndpointQueue(RULES)
  const [a, b, ...waiting] = ['a', 'b', 'c', 'd', 'e', 'f'].map(key => job(lane, key))
  await a!.end(false)
  await b!.end(false)
  await waiting[0]!.end(false)
  t.same(await Promise.all(waiting.slice(2).map(each => Promise.race([each.ended, Promise.resolve('waits')]))), [
    'waits',
    'failing'
  ])
  lane.close()
})

t.test('what tells nothing about the endpoint changes nothing, and a closed lane lets go', async t => {
  const lane = createEndpointQueue(RULES)
  for (let i = 0; i < 5; i++) await job(lane, 'a').end(null)
  t.equal(lane.idle(), true)
  const [a, b, c] = ['a', 'b', 'c'].map(key => job(lane, key))
  lane.close()
  t.equal(await c!.ended, 'released')
  t.same([await a!.end(true), await b!.end(true)], ['ran', 'ran'])
  t.equal(await job(lane, 'd').ended, 'released')
})

t.test('what runs in the background waits for all that does not, and has half of the places', async t => {
  const lane = createEndpointQueue({ ...RULES, concurrency: () => 4 })
  const again = ['a', 'b', 'c'].map(key => job(lane, `again ${key}`, 10, true))
  t.same(again.map(each => each.started.yes), [true, true, false], 'half of the four places')
  const live = ['a', 'b', 'c'].map(key => job(lane, key))
  t.same(live.map(each => each.started.yes), [true, true, false])
  await again[0]!.end(true)
  t.same([live[2]!.started.yes, again[2]!.started.yes], [true, false], 'the live one first')
  await live[0]!.end(true)
  t.equal(again[2]!.started.yes, true, 'nothing live waits')
  t.equal(lane.idle(), false)
  await Promise.all([...again.slice(1), ...live.slice(1)].map(each => each.end(true)))
  t.equal(lane.idle(), true)
})

t.test('a lane of one place has one in the background, one at a time', async t => {
  const lane = createEndpointQueue({ ...RULES, concurrency: () => 1 })
  const [a, b] = ['a', 'b'].map(key => job(lane, key, 10, true))
  const live = job(lane, 'a')
  t.same([a!.started.yes, live.started.yes], [true, false])
  await a!.end(true)
  t.same([b!.started.yes, live.started.yes], [false, true])
  await live.end(true)
  t.equal(b!.started.yes, true)
  await b!.end(true)
})

t.test('what is in the background takes no place from what is not', async t => {
  const lane = createEndpointQueue({ ...RULES, concurrency: () => 1 })
  const again = ['a', 'b', 'c'].map(key => job(lane, `again ${key}`, 2, true))
  t.equal(await again[2]!.ended, 'full')
  const live = ['a', 'b', 'c'].map(key => job(lane, key, 2))
  t.equal(await live[2]!.ended, 'full')
  const bookedMs = lane.book(false)
  for (let i = 0; i < 100; i++) lane.book(true)
  t.ok(lane.book(false) - bookedMs < 1000)
  await again[0]!.end(false)
  for (const each of [live[0]!, live[1]!]) await each.end(false)
  t.equal(await again[1]!.ended, 'failing', 'nothing in the background waits for a probe')
  const probe = job(lane, 'probe', 10, true)
  await new Promise(resolve => setTimeout(resolve, 30))
  t.equal(probe.started.yes, true, 'but when nothing else is there it is one')
  await probe.end(true)
})

t.test('an endpoint that asks to be left alone is not probed for so long, within bounds', async t => {
  /** Is a probe made `afterMs` after three failures, the first of which asked for `holdMs`? */
  const probed = async (holdMs: number, afterMs: number, between: Array<true> = []) => {
    let nowMs = 0
    const lane = createEndpointQueue({ ...RULES, nowMs: () => nowMs })
    await job(lane, 'first').end(false, holdMs)
    for (const fine of between) await job(lane, 'between').end(fine)
    await fail(lane, 3 - (between.length > 0 ? 0 : 1))
    nowMs = afterMs
    const probe = job(lane, 'probe')
    lane.close()
    return probe.started.yes
  }
  t.same([await probed(0, 19), await probed(0, 20)], [false, true])
  t.same([await probed(100, 99), await probed(100, 100)], [false, true])
  t.same([await probed(1e12, 199), await probed(1e12, 200)], [false, true])
  t.equal(await probed(100, 20, [true]), true, 'a success in between says otherwise')
})

t.test('a quick lane takes more than its share, and gives the places back when it stands still', async t => {
  let nowMs = 1e12
  const lane = createEndpointQueue({ ...RULES, briskS: 3, nowMs: () => nowMs })
  t.equal(await job(lane, 'a', 0).ended, 'full', 'nobody knows yet')
  await job(lane, 'a').end(true)
  await job(lane, 'b').end(true)
  nowMs += 1000
  const held = ['a', 'b', 'c', 'd', 'e', 'f'].map(key => job(lane, key, 2))
  t.equal(await job(lane, 'g', 2).ended, 'full', 'two a second are six in three')
  nowMs += 1000
  t.equal(await held[5]!.ended, 'full', 'two run, two wait, the others are let go')
  for (const each of held.slice(0, 4)) t.equal(await each.end(true), 'ran')
})

t.test('a slow endpoint with many at once takes no more than it works off, and never the last quarter', async t => {
  let nowMs = 1e12
  const lane = createEndpointQueue({ ...RULES, concurrency: () => 100, briskS: 3, nowMs: () => nowMs })
  const under = Array.from({ length: 200 }, (_, i) => job(lane, `${i}`, 20))
  t.equal(under.filter(({ started }) => started.yes).length, 20)
  for (const each of under.slice(0, 10)) await each.end(true)
  nowMs += 1000
  const more = Array.from({ length: 200 }, (_, i) => job(lane, `more ${i}`, 20))
  t.equal(
    more.filter(({ started }) => started.yes).length,
    20,
    '10 that were under way, and 20 more: three times the ten that ended'
  )
})

t.test('what books a place pays for the time a request takes, however few were asked for of late', async t => {
  let nowMs = 1e12
  const lane = createEndpointQueue({ ...RULES, concurrency: () => 10, nowMs: () => nowMs })
  for (let i = 0; i < 100; i++) {
    const one = job(lane, `${i}`)
    nowMs += 20
    await one.end(true)
  }
  nowMs += 10_000
  t.equal(await job(lane, 'idle').end(true), 'ran')
  const held = Array.from({ length: 20 }, (_, i) => job(lane, `held ${i}`, 20))
  let bookedMs = 0
  for (let i = 0; i < 500; i++) bookedMs = lane.book(false)
  t.ok(bookedMs - nowMs < 1500, `${bookedMs - nowMs} ms for 500 at 20 ms each, ten at once`)
  for (const each of held) await each.end(true)
  t.ok(lane.book(false) - nowMs < 120, 'once nothing waits the bookings are void')
})

t.test('in the background comes its turn at an endpoint that is never idle, and what waits too long is put off', async t => {
  let nowMs = 1e12
  const lane = createEndpointQueue({
    ...RULES,
    concurrency: () => 1,
    backgroundTurns: 4,
    backgroundMsMax: 3000,
    nowMs: () => nowMs
  })
  const live = Array.from({ length: 9 }, (_, i) => job(lane, `live ${i}`))
  const again = [job(lane, 'again', 10, true), job(lane, 'again too', 10, true)]
  for (const each of live.slice(0, 5)) await each.end(true)
  t.same([again[0]!.started.yes, live[5]!.started.yes], [true, false], 'after four others')
  await again[0]!.end(true)
  nowMs += 3000
  t.equal(await again[1]!.ended, 'full')
  for (const each of live.slice(5)) await each.end(true)
})
