import t from 'tap'
import {
  EndpointQueue,
  type EndpointQueueRules,
  type JobOutcome,
  type QueueResult
} from '#src/workers/webhooks/endpoint-queue.ts'
import { until } from '../support/wait.ts'

const RULES: EndpointQueueRules = {
  concurrency: () => 2,
  failuresMax: 3,
  probesWaitingMax: 1,
  pauseMs: 20,
  pauseMsMax: 40,
  holdMsMax: 200,
  drainSMax: 0,
  backgroundTurns: 100,
  backgroundWaitMsMax: 60_000,
  reserveMsMin: 100,
  nowMs: () => Date.now()
}

/** A job that ends when `end` is called. */
function job (queue: EndpointQueue, key: string, limit = 10, background = false) {
  let end = (_outcome: JobOutcome) => {}
  const started = { yes: false }
  const run = () =>
    new Promise<JobOutcome>(resolve => {
      started.yes = true
      end = resolve
    })
  const ended: Promise<QueueResult> = queue.add({ orderingKey: key, background, run }, { share: limit, max: 100 })
  return {
    started,
    ended,
    end: async (success: boolean | null, holdMs = 0) => {
      end({ success, holdMs })
      return await ended
    }
  }
}

async function fail (queue: EndpointQueue, times: number): Promise<void> {
  for (let i = 0; i < times; i++) await job(queue, `failure ${i}`).end(false)
}

t.test('a queue runs as many jobs as it may, and those with one key one after the other', async t => {
  const queue = new EndpointQueue(RULES)
  const [a1, a2, b, c] = ['a', 'a', 'b', 'c'].map(key => job(queue, key))
  t.same([a1, a2, b, c].map(each => each!.started.yes), [true, false, true, false])
  t.equal(await a1!.end(true), 'ran')
  t.same([a2, c].map(each => each!.started.yes), [true, false])
  await b!.end(true)
  t.equal(c!.started.yes, true)
})

t.test('a job that finds no place ends as full, and reserves one by the latest throughput', async t => {
  const queue = new EndpointQueue(RULES)
  const held = [job(queue, 'a', 2), job(queue, 'b', 2)]
  t.equal(await job(queue, 'c', 2).ended, 'full')
  t.ok(queue.reserve(false) >= Date.now() + 90)
  await Promise.all(held.map(each => each.end(true)))
  t.equal(await job(queue, 'c', 2).end(true), 'ran')
})

t.test('the queue of a failing endpoint probes one at a time, with pauses, and refuses the others', async t => {
  const queue = new EndpointQueue(RULES)
  await fail(queue, 3)
  const probe = job(queue, 'a')
  const next = job(queue, 'b')
  t.equal(probe.started.yes, false, 'a pause first')
  t.equal(await job(queue, 'c').ended, 'failing')
  await until(() => probe.started.yes)
  t.equal(next.started.yes, false)
  t.equal(await probe.end(true), 'ran')
  t.equal(next.started.yes, true, 'one success opens it again')
  t.equal(await next.end(true), 'ran')
})

t.test('jobs that wait are refused when the endpoint begins to fail', async t => {
  const queue = new EndpointQueue(RULES)
  const [a, b, ...waiting] = ['a', 'b', 'c', 'd', 'e', 'f'].map(key => job(queue, key))
  await a!.end(false)
  await b!.end(false)
  await waiting[0]!.end(false)
  t.same(await Promise.all(waiting.slice(2).map(each => Promise.race([each.ended, Promise.resolve('waits')]))), [
    'waits',
    'failing'
  ])
  queue.close()
})

t.test('an outcome that says nothing about the endpoint changes nothing, and a closed queue ends its jobs', async t => {
  const queue = new EndpointQueue(RULES)
  for (let i = 0; i < 5; i++) await job(queue, 'a').end(null)
  t.equal(queue.isIdle(), true)
  const [a, b, c] = ['a', 'b', 'c'].map(key => job(queue, key))
  queue.close()
  t.equal(await c!.ended, 'closed')
  t.same([await a!.end(true), await b!.end(true)], ['ran', 'ran'])
  t.equal(await job(queue, 'd').ended, 'closed')
})

t.test('a background job waits for all others, and background jobs have half of the places', async t => {
  const queue = new EndpointQueue({ ...RULES, concurrency: () => 4 })
  const replays = ['a', 'b', 'c'].map(key => job(queue, `replay ${key}`, 10, true))
  t.same(replays.map(each => each.started.yes), [true, true, false], 'half of the four places')
  const live = ['a', 'b', 'c'].map(key => job(queue, key))
  t.same(live.map(each => each.started.yes), [true, true, false])
  await replays[0]!.end(true)
  t.same([live[2]!.started.yes, replays[2]!.started.yes], [true, false], 'the live one first')
  await live[0]!.end(true)
  t.equal(replays[2]!.started.yes, true, 'nothing live waits')
  t.equal(queue.isIdle(), false)
  await Promise.all([...replays.slice(1), ...live.slice(1)].map(each => each.end(true)))
  t.equal(queue.isIdle(), true)
})

t.test('a queue of one place runs one background job at a time', async t => {
  const queue = new EndpointQueue({ ...RULES, concurrency: () => 1 })
  const [a, b] = ['a', 'b'].map(key => job(queue, key, 10, true))
  const live = job(queue, 'a')
  t.same([a!.started.yes, live.started.yes], [true, false])
  await a!.end(true)
  t.same([b!.started.yes, live.started.yes], [false, true])
  await live.end(true)
  t.equal(b!.started.yes, true)
  await b!.end(true)
})

t.test('background jobs take no place from others', async t => {
  const queue = new EndpointQueue({ ...RULES, concurrency: () => 1 })
  const replays = ['a', 'b', 'c'].map(key => job(queue, `replay ${key}`, 2, true))
  t.equal(await replays[2]!.ended, 'full')
  const live = ['a', 'b', 'c'].map(key => job(queue, key, 2))
  t.equal(await live[2]!.ended, 'full')
  const reservedMs = queue.reserve(false)
  for (let i = 0; i < 100; i++) queue.reserve(true)
  t.ok(queue.reserve(false) - reservedMs < 1000)
  await replays[0]!.end(false)
  for (const each of [live[0]!, live[1]!]) await each.end(false)
  t.equal(await replays[1]!.ended, 'failing', 'nothing in the background waits for a probe')
  const probe = job(queue, 'probe', 10, true)
  await until(() => probe.started.yes)
  t.equal(probe.started.yes, true, 'but when nothing else is there it is one')
  await probe.end(true)
})

t.test('an endpoint that asks not to be called is not probed for so long, within bounds', async t => {
  /** Is a probe made `afterMs` after three failures, the first of which asked for `holdMs`? */
  const probed = async (holdMs: number, afterMs: number, between: Array<true> = []) => {
    let nowMs = 0
    const queue = new EndpointQueue({ ...RULES, nowMs: () => nowMs })
    await job(queue, 'first').end(false, holdMs)
    for (const success of between) await job(queue, 'between').end(success)
    await fail(queue, 3 - (between.length > 0 ? 0 : 1))
    nowMs = afterMs
    const probe = job(queue, 'probe')
    queue.close()
    return probe.started.yes
  }
  t.same([await probed(0, 19), await probed(0, 20)], [false, true])
  t.same([await probed(100, 99), await probed(100, 100)], [false, true])
  t.same([await probed(1e12, 199), await probed(1e12, 200)], [false, true])
  t.equal(await probed(100, 20, [true]), true, 'a success in between says otherwise')
})

t.test('a queue that drains fast exceeds its share, and gives the places back when it stalls', async t => {
  let nowMs = 1e12
  const queue = new EndpointQueue({ ...RULES, drainSMax: 3, nowMs: () => nowMs })
  t.equal(await job(queue, 'a', 0).ended, 'full', 'nobody knows yet')
  await job(queue, 'a').end(true)
  await job(queue, 'b').end(true)
  nowMs += 1000
  const held = ['a', 'b', 'c', 'd', 'e', 'f'].map(key => job(queue, key, 2))
  t.equal(await job(queue, 'g', 2).ended, 'full', 'two a second are six in three')
  nowMs += 1000
  t.equal(await held[5]!.ended, 'full', 'two run, two wait, the others are let go')
  for (const each of held.slice(0, 4)) t.equal(await each.end(true), 'ran')
})

t.test('a slow endpoint with many jobs takes no more places than it drains, and never the last quarter', async t => {
  let nowMs = 1e12
  const queue = new EndpointQueue({ ...RULES, concurrency: () => 100, drainSMax: 3, nowMs: () => nowMs })
  const under = Array.from({ length: 200 }, (_, i) => job(queue, `${i}`, 20))
  t.equal(under.filter(({ started }) => started.yes).length, 20)
  for (const each of under.slice(0, 10)) await each.end(true)
  nowMs += 1000
  const more = Array.from({ length: 200 }, (_, i) => job(queue, `more ${i}`, 20))
  t.equal(
    more.filter(({ started }) => started.yes).length,
    20,
    '10 that were under way, and 20 more: three times the ten that ended'
  )
})

t.test('a reservation counts the duration of a request, however few were made lately', async t => {
  let nowMs = 1e12
  const queue = new EndpointQueue({ ...RULES, concurrency: () => 10, nowMs: () => nowMs })
  for (let i = 0; i < 100; i++) {
    const one = job(queue, `${i}`)
    nowMs += 20
    await one.end(true)
  }
  nowMs += 10_000
  t.equal(await job(queue, 'idle').end(true), 'ran')
  const held = Array.from({ length: 20 }, (_, i) => job(queue, `held ${i}`, 20))
  let reservedMs = 0
  for (let i = 0; i < 500; i++) reservedMs = queue.reserve(false)
  t.ok(reservedMs - nowMs < 1500, `${reservedMs - nowMs} ms for 500 at 20 ms each, ten at once`)
  for (const each of held) await each.end(true)
  t.ok(queue.reserve(false) - nowMs < 120, 'once nothing waits the reservations are void')
})

t.test('at a busy endpoint a background job gets its turn, and one that waits too long ends as full', async t => {
  let nowMs = 1e12
  const queue = new EndpointQueue({
    ...RULES,
    concurrency: () => 1,
    backgroundTurns: 4,
    backgroundWaitMsMax: 3000,
    nowMs: () => nowMs
  })
  const live = Array.from({ length: 9 }, (_, i) => job(queue, `live ${i}`))
  const replays = [job(queue, 'replay 1', 10, true), job(queue, 'replay 2', 10, true)]
  for (const each of live.slice(0, 5)) await each.end(true)
  t.same([replays[0]!.started.yes, live[5]!.started.yes], [true, false], 'after four others')
  await replays[0]!.end(true)
  nowMs += 3000
  t.equal(await replays[1]!.ended, 'full')
  for (const each of live.slice(5)) await each.end(true)
})
