import fc from 'fast-check'
import t from 'tap'
import { createLog } from '#src/base/log.ts'
import type { LiveDirectory } from '#src/actions/directory.ts'
import type { FactLog } from '#src/actions/fact-log.ts'
import type { Requester } from '#src/workers/webhooks/attempt.ts'
import { DeliveryQueue, type Entry } from '#src/workers/webhooks/delivery-queue.ts'
import { DeliveryWorker } from '#src/workers/webhooks/delivery-worker.ts'
import { Endpoint, type EndpointAnswer, type EndpointRules } from '#src/workers/webhooks/endpoint.ts'
import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import type { Pending } from '#streams/delivery/decide.ts'
import { webhookEntry } from '../support/entries.ts'
import {
  ACCOUNT,
  deliveryAttempted,
  deliveryFailed,
  deliveryMoved,
  deliveryRequested,
  timeAt
} from '../support/facts.ts'
import { until } from '../support/wait.ts'

const at = (fact: AnyFact, seq: number): Recorded<AnyFact> => ({ fact, seq, subject: '' })
const member = (email: string) => [{ id: 'ev_e', type: 'email.delivered' as const, seq: 7, email }]
const asked = (n: number, email = `em_${n}`, replay: string | null = null) =>
  at({ ...deliveryRequested({ delivery: `whd_${n}`, replay, events: member(email) }), time: timeAt(n) }, n)
const refused = (n: number, seq: number, dueS: number, attempt = 1) =>
  at(
    deliveryAttempted({
      delivery: `whd_${n}`,
      events: member(`em_${n}`),
      attempt,
      result: 'retrying',
      nextAttemptAt: timeAt(dueS)
    }),
    seq
  )
const arrived = (n: number, seq: number) => at(deliveryAttempted({ delivery: `whd_${n}` }), seq)
const BEGIN_MS = Date.parse(timeAt(0))
const nobody = () => false

function queueOf (facts: Recorded<AnyFact>[]): DeliveryQueue {
  const queue = new DeliveryQueue('wh_one', 'delivery', { whole: 0 }, 0)
  for (const fact of facts) queue.apply(fact)
  queue.folded(Math.max(0, ...facts.map(({ seq }) => seq)))
  return queue
}

/** All that is due at `s` seconds, in the order of its turn. */
function turns (queue: DeliveryQueue, s: number, isRunning: (key: string) => boolean = nobody): string[] {
  const taken: string[] = []
  for (;;) {
    const entry = queue.take(BEGIN_MS + s * 1000, isRunning)
    if (entry === null) return taken
    taken.push(entry.delivery)
  }
}

t.test('what has been due for longest goes first, new or again', async t => {
  const queue = queueOf([asked(1), asked(2), asked(30), refused(1, 40, 5), refused(2, 41, 60)])
  t.same(turns(queue, 50), ['whd_1', 'whd_30'])
  t.same(turns(queue, 60), ['whd_2'])
  t.ok(queue.hasTaken())
})

t.test('one behind another with the same key waits for it', async t => {
  const queue = queueOf([asked(1, 'em_a'), asked(2, 'em_a'), asked(3, 'em_b')])
  t.same(turns(queue, 9, key => key === 'em_a'), ['whd_3'])
  t.same(turns(queue, 9), ['whd_1', 'whd_2'])
})

t.test('an outcome ends a delivery or says when it is due; the cursor passes what has ended', async t => {
  const queue = queueOf([asked(1), asked(2), asked(3), arrived(1, 10), refused(2, 11, 60)])
  t.equal(queue.through(), 2, 'the third was never tried')
  queue.apply(arrived(3, 12))
  t.equal(queue.through(), 10, 'the second holds it at its last fact')
  queue.apply(at(deliveryMoved({ delivery: 'whd_2', nextAttemptAt: timeAt(60) }), 20))
  t.equal(queue.through(), 19)
  t.equal(queue.nextDueMs(), BEGIN_MS + 60_000)
  queue.apply(at(deliveryFailed({ delivery: 'whd_2' }), 21))
  t.equal(queue.through(), Infinity)
  t.ok(queue.isEmpty())
})

t.test('a later replay overrules what an earlier one still does', async t => {
  const queue = queueOf([asked(1, 'em_1', 'rpl_1'), { ...asked(1, 'em_1', 'rpl_2'), seq: 5 }])
  queue.apply(at(deliveryAttempted({ delivery: 'whd_1', replay: 'rpl_1' }), 6))
  t.equal(queue.size, 1)
  t.equal(queue.take(BEGIN_MS + 9000, nobody)!.replay, 'rpl_2')
})

t.test('one that was taken comes back to its place', async t => {
  const queue = queueOf([asked(1), asked(2), asked(3)])
  const [first, second] = [queue.take(BEGIN_MS + 9000, nobody)!, queue.take(BEGIN_MS + 9000, nobody)!]
  queue.putBack(second, BEGIN_MS)
  queue.putBack(first, BEGIN_MS)
  t.same(turns(queue, 9), ['whd_1', 'whd_2', 'whd_3'])
})

t.test('ten thousand are in memory, the others stay in the log, and follow in their order', async t => {
  const count = 10_500
  const all = Array.from({ length: count }, (_, i) => asked(i + 1))
  const queue = queueOf([])
  for (const fact of all) queue.offer(fact)
  t.equal(queue.size, 10_000)
  t.equal(queue.position, 10_000)
  t.equal(queue.wantsMore, false)
  for (let n = 1; n <= 5000; n++) queue.apply(arrived(n, count + n))
  t.equal(queue.wantsMore, true)
  queue.offer(asked(20_000))
  t.equal(queue.size, 5000, 'what is newer does not overtake')
  t.equal(queue.through(), 5000)
  queue.refill([...all.slice(10_000), asked(20_000)])
  t.equal(queue.wantsMore, false)
  t.equal(queue.size, 5501)
  t.equal(turns(queue, 30_000).at(-1), 'whd_20000')
})

t.test('a queue that is taken over holds the oldest, and goes on behind them', async t => {
  const queue = queueOf(Array.from({ length: 12_000 }, (_, i) => asked(i + 1)))
  t.equal(queue.size, 10_000)
  t.equal(queue.position, 10_000)
  t.equal(queue.through(), 0)
})

t.test('what ended before a queue was taken over is not read again for what comes after', async t => {
  const queue = new DeliveryQueue('wh_one', 'delivery', { whole: 0 }, 4999)
  queue.apply(refused(1, 5000, 60))
  queue.offer(asked(9000))
  t.equal(queue.wantsMore, false, 'its facts are still being folded')
  queue.folded(8999)
  t.equal(queue.wantsMore, true)
  t.equal(queue.position, 8999)
  t.equal(queue.through(), 4999)
})

t.test('a queue whose facts are being folded stands still', async t => {
  const queue = new DeliveryQueue('wh_one', 'delivery', { whole: 0 }, 0)
  for (const fact of [asked(1), asked(2), refused(2, 5, 6)]) queue.apply(fact)
  t.same(turns(queue, 60), [])
  t.equal(queue.nextDueMs(), Infinity)
  t.same([queue.waiting(), queue.lagging()], [[], []])
  t.equal(queue.isEmpty(), false)
  t.equal(queue.through(), 0)
  queue.apply(arrived(1, 9))
  queue.folded(9)
  t.same(turns(queue, 60), ['whd_2'])
})

t.test('a later replay that was left in the log overrules when it is read', async t => {
  const queue = queueOf([asked(1, 'em_1', 'rpl_1')])
  queue.refill([{ ...asked(1, 'em_1', 'rpl_2'), seq: 5 }, { ...asked(1, 'em_1', 'rpl_3'), seq: 6 }])
  t.equal(queue.size, 1)
  t.equal(queue.take(BEGIN_MS + 9000, nobody)!.replay, 'rpl_3')
})

t.test('what was read from the log and comes once more is not a delivery once more', async t => {
  const queue = queueOf([])
  queue.refill([1, 2, 3, 4, 5].map(n => asked(n)))
  queue.apply(refused(4, 7, 60))
  queue.apply(arrived(5, 8))
  for (const n of [4, 5]) queue.offer(asked(n))
  t.equal(queue.size, 4)
  t.same(turns(queue, 30), ['whd_1', 'whd_2', 'whd_3'])
  queue.offer(asked(9))
  t.equal(queue.size, 5)
})

t.test('however many wait for their next attempt, a new delivery has its turn', async t => {
  const queue = queueOf([])
  for (let n = 1; n <= 10_500; n++) for (const fact of [asked(n), refused(n, 20_000 + n, 36_000)]) queue.apply(fact)
  queue.offer(asked(50_000))
  t.same(turns(queue, 9), ['whd_50000'])
})

t.test('one that is taken for a step without a request is not taken for one, and ends or comes back', async t => {
  const queue = queueOf([asked(1), asked(2)])
  const [first, second] = queue.waiting()
  t.ok(queue.takeOne(first!))
  t.equal(queue.takeOne(first!), false)
  t.same(turns(queue, 9), ['whd_2'])
  t.equal(queue.takeOne(second!), false, 'a request for it is under way')
  queue.putBack(first!, first!.dueMs)
  t.same(turns(queue, 9), ['whd_1'])
  queue.apply(arrived(1, 9))
  t.equal(queue.takeOne(first!), false, 'it has ended')
})

t.test('the few that wait for long are said again once many others have passed them', async t => {
  const queue = queueOf([asked(1), refused(1, 2, 36_000)])
  for (let n = 10; n < 500; n++) for (const fact of [asked(n), arrived(n, 1000 + n)]) queue.apply(fact)
  t.same(queue.lagging(), [])
  for (let n = 2000; n < 2100; n++) for (const fact of [asked(n), arrived(n, 3000 + n)]) queue.apply(fact)
  t.same(queue.lagging().map(({ delivery }) => delivery), ['whd_1'])
})

t.test('who folds the log from the cursor on has the queue that folded all of it', async t => {
  const step = fc.record({ n: fc.integer({ min: 1, max: 9 }), what: fc.constantFrom('arrive', 'refuse', 'ask') })
  fc.assert(fc.property(fc.array(step, { maxLength: 60 }), steps => {
    const log: Recorded<AnyFact>[] = []
    const whole = queueOf([])
    const open = new Set<number>()
    let next = 0
    for (const { n, what } of steps) {
      const seq = log.length + 1
      if (what !== 'ask' && !open.has(n)) continue
      const delivery = what === 'ask' ? ++next : n
      const fact = {
        ask: () => ({ ...asked(delivery), seq }),
        arrive: () => arrived(n, seq),
        refuse: () => refused(n, seq, 60 + seq)
      }[
        what
      ]!()
      if (what === 'ask') open.add(delivery)
      if (what === 'arrive') open.delete(n)
      log.push(fact)
      whole.apply(fact)
    }
    const folded = queueOf(log.filter(({ seq }) => seq > whole.through()))
    t.same(turns(folded, 1000), turns(whole, 1000))
  }))
})

interface Asked {
  entry: Entry
  answer(answer: Partial<EndpointAnswer>): void
}

/** An endpoint whose answers the test gives; an answer of success ends the delivery. */
function openEndpoint (rules: Partial<EndpointRules> = {}) {
  const requests: Asked[] = []
  const time = { nowMs: BEGIN_MS }
  const endpoint = new Endpoint('wh_1', {
    concurrency: () => 2,
    mayStart: () => true,
    deliver: (entry, queue) =>
      new Promise(resolve =>
        requests.push({
          entry,
          answer ({ success = true, holdMs = 0 }) {
            const again = {
              attempt: entry.attempts + 1,
              result: 'retrying' as const,
              nextAttemptAt: new Date(time.nowMs + 60_000).toISOString()
            }
            const outcome = { delivery: entry.delivery, ...(success === true ? {} : again) }
            queue.apply(at(deliveryAttempted(outcome), entry.seq + 1000))
            resolve({ success, holdMs })
          }
        })
      ),
    probeMs: 1000,
    hastenAttemptsMax: 8,
    memory: { whole: 0 },
    nowMs: () => time.nowMs,
    ...rules
  }, { delivery: 0, redelivery: 0 })
  for (const queue of Object.values(endpoint.queues)) queue.folded(0)
  t.teardown(() => endpoint.close())
  const { delivery, redelivery } = endpoint.queues
  return { endpoint, requests, time, live: delivery, replayed: redelivery }
}

const names = (requests: Asked[]) => requests.map(({ entry }) => entry.delivery)

t.test('as many requests at once as it allows, and the next when one ends', async t => {
  const { endpoint, requests, live } = openEndpoint()
  for (let n = 1; n <= 4; n++) live.apply(asked(n))
  endpoint.pump()
  t.same(names(requests), ['whd_1', 'whd_2'])
  requests[1]!.answer({})
  await until(() => requests.length === 3)
  t.same(names(requests).at(-1), 'whd_3')
})

t.test('after five failures in a row it gets one request at a time, each a second after the last', async t => {
  const { endpoint, requests, time, live } = openEndpoint()
  for (let n = 1; n <= 20; n++) live.apply(asked(n))
  endpoint.pump()
  for (let i = 0; i < 5; i++) {
    await until(() => requests.length > i)
    requests[i]!.answer({ success: false, holdMs: i === 4 ? 5000 : 0 })
  }
  await until(() => requests.length === 6)
  requests[5]!.answer({ success: false })
  await new Promise(setImmediate)
  time.nowMs += 4999
  endpoint.pump()
  t.equal(requests.length, 6, 'it asked for five seconds')
  time.nowMs += 1
  endpoint.pump()
  t.equal(requests.length, 7, 'one at a time')
  endpoint.pump()
  t.equal(requests.length, 7)
  requests[6]!.answer({ success: true })
  await until(() => requests.length === 9)
})

t.test('when it works again, what waited for its next attempt is due, but for last attempts', async t => {
  const { endpoint, requests, time, live } = openEndpoint({ concurrency: () => 1 })
  for (let n = 1; n <= 5; n++) live.apply(asked(n))
  live.apply(refused(9, 9, 36_000, 9))
  endpoint.pump()
  for (let i = 0; i < 5; i++) {
    await until(() => requests.length > i)
    requests[i]!.answer({ success: false })
  }
  await new Promise(setImmediate)
  time.nowMs += 1000
  endpoint.pump()
  t.equal(requests.length, 5, 'nothing is due')
  live.apply(asked(20))
  endpoint.pump()
  requests[5]!.answer({})
  for (let i = 6; i < 11; i++) {
    await until(() => requests.length > i)
    requests[i]!.answer({})
  }
  t.same(names(requests).slice(5), ['whd_20', 'whd_1', 'whd_2', 'whd_3', 'whd_4', 'whd_5'])
  t.equal(live.size, 1)
})

t.test('a replayed one has its turn when nothing new waits, or after sixteen, and half of the places', async t => {
  const { endpoint, requests, live, replayed } = openEndpoint({ concurrency: () => 1 })
  for (let n = 1; n <= 40; n++) live.apply(asked(n))
  for (let n = 50; n <= 52; n++) replayed.apply(asked(n, `em_${n}`, 'rpl_1'))
  endpoint.pump()
  for (let i = 0; i < 40; i++) {
    await until(() => requests.length > i)
    requests[i]!.answer({})
  }
  const places = names(requests).flatMap((name, i) => (Number(name.slice(4)) >= 50 ? [i] : []))
  t.same(places, [16, 33])
})

t.test('one that is over ends all that waits at once', async t => {
  const { endpoint, requests, live } = openEndpoint()
  live.apply(asked(1))
  live.apply(refused(1, 2, 36_000))
  endpoint.pump()
  t.equal(requests.length, 0)
  endpoint.release()
  t.equal(requests.length, 1)
})

t.test('the directory catches up before a disabled endpoint ends what waits, once for all of it', async t => {
  const queue = queueOf([asked(1), asked(2)])
  const disabled = webhookEntry({ id: 'wh_one', account: ACCOUNT, disabled: 'gone' })
  const now = { webhooks: new Map([['wh_one', disabled]]) }
  let looks = 0
  const requests: string[] = []
  const worker = new DeliveryWorker({
    factLog: { clock: { nowMs: () => BEGIN_MS + 9000 } } as FactLog,
    directory: {
      now,
      async catchUp () {
        looks++
        now.webhooks.set('wh_one', { ...disabled, disabled: null })
        return true
      }
    } as unknown as LiveDirectory,
    requester: {
      async attempt ({ owed: { delivery } }: Pending) {
        requests.push(delivery)
        now.webhooks.set('wh_one', disabled)
        return { success: true, holdMs: 0, record: async () => arrived(1, 9) }
      }
    } as unknown as Requester,
    log: createLog('silent')
  })
  const deliver = async () => await worker.deliver('wh_one', queue.take(BEGIN_MS + 9000, nobody)!, queue, () => {})
  t.match(await deliver(), { success: true })
  t.same(requests, ['whd_1'])
  worker.giveUp = async () => at(deliveryFailed({ delivery: 'whd_2' }), 10)
  t.match(await deliver(), { success: null })
  t.same([looks, requests.length], [1, 1], 'what it had said then holds for the second, too')
})
