import t from 'tap'
import { deliveries } from '#projections/deliveries/project.ts'
import { failedPages, findDelivery } from '#src/actions/delivery-view.ts'
import { cancelReplay, countReplay, replayDelivery, replaysOf, requestReplay } from '#src/actions/replay.ts'
import { advanceReplay, readPage } from '#src/actions/replay-job.ts'
import { changeWebhook, deleteWebhook } from '#src/actions/webhook.ts'
import { sleep } from '#src/base/backoff.ts'
import { idTimeMs, newId } from '#src/base/id.ts'
import { createLog } from '#src/base/log.ts'
import { openRebuilder } from '#src/workers/projector/rebuild.ts'
import { createProjectors } from '#src/workers/projector/projector.ts'
import { getFact } from '#src/nats/get.ts'
import { createPool } from '#src/postgres/pool.ts'
import type { AnyFact } from '#streams/catalog.ts'
import { Refusal } from '#streams/define.ts'
import { replayFactIn, type ReplayWish } from '#streams/replay/decide.ts'
import { subjects } from '#streams/subjects.ts'
import { askedIn, openHookRig, type Happened, type HookRig } from '../support/hook-rig.ts'
import { startHookSink, type HookRequest, type HookSink } from '../support/hook-sink.ts'
import { LONG, LONG_ONLY } from '../support/long.ts'
import { freshDatabase, type Ending } from '../support/servers.ts'
import { nextMs, until } from '../support/wait.ts'

const DAY_MS = 86_400_000
t.jobs = 4

async function openSink (t: Ending): Promise<HookSink> {
  const sink = await startHookSink()
  t.teardown(() => sink.stop())
  return sink
}

/** The view of deliveries, fed from the log by the projector itself. */
async function openView (t: Ending, rig: HookRig) {
  const log = createLog('silent')
  const databaseUrl = await freshDatabase(t)
  const pool = createPool(databaseUrl, log)
  const projectors = createProjectors({
    bus: rig.factLog.bus,
    pool,
    log,
    projections: { deliveries },
    rebuild: openRebuilder({ bus: rig.factLog.bus, pool, log }).rebuild
  })
  t.teardown(async () => {
    await Promise.all(projectors.map(projector => projector.stop()))
    await pool.end()
  })
  return { failedDeliveries: failedPages(pool), find: findDelivery(pool) }
}

function granted<T> (result: T | Refusal): T {
  if (result instanceof Refusal) throw new Error(`${result.code}: ${result.message}`)
  return result
}

const lately = (wish: Partial<ReplayWish> = {}): ReplayWish => ({
  what: 'window',
  fromMs: Date.now() - 3_600_000,
  toMs: Date.now(),
  pace: 1000,
  ...wish
})
const bodiesOf = (requests: HookRequest[]) => requests.map(({ body }) => body.toString())
const requestedIn = (facts: AnyFact[]) => facts.filter(fact => fact.type === 'delivery.requested')
const attemptsIn = (facts: AnyFact[]) => facts.filter(fact => fact.type === 'delivery.attempted')
const endedIn = (facts: AnyFact[]) => facts.filter(fact => fact.type === 'replay.ended')
const timesOf = (texts: string[]) => Map.groupBy(texts, text => text)

async function stateOf (rig: HookRig, webhook: string, replay: string) {
  return (await replaysOf(rig.services, webhook)).find(state => state.replay === replay)
}

async function happenMany (
  rig: HookRig,
  count: number,
  type: 'delivered' | 'bounced' = 'delivered'
): Promise<Happened[]> {
  return await Promise.all(Array.from({ length: count }, () => rig.happen(type)))
}

t.test('one delivery is sent again: same id, same bytes, new attempts and new 24 hours', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  const { find } = await openView(t, rig)
  sink.answers((_request, i) => ({ status: i === 0 || i === 2 ? 500 : 200 }))
  rig.start()
  await rig.listen(sink.url)
  const event = await rig.happen('delivered')
  const before = attemptsIn(await rig.facts(facts => attemptsIn(facts).length === 2))
  const { delivery } = before[0]!.data
  await until(async () => await find(rig.asker.account, delivery) !== null)
  const owed = granted(await replayDelivery(rig.services, rig.asker, delivery, find))
  t.equal(owed.delivery, delivery)
  t.match(owed.replay, /^rpl_/)
  const after = attemptsIn(await rig.facts(facts => attemptsIn(facts).length === 4)).slice(2)
  t.match(after.map(({ data }) => [data.attempt, data.result, data.delivery, data.replay]), [[
    1,
    'retrying',
    delivery,
    owed.replay
  ], [2, 'delivered', delivery, owed.replay]])
  t.ok(after[0]!.data.firstAttemptAt > before[0]!.data.firstAttemptAt, 'the 24 hours start again')
  t.strictSame(bodiesOf(sink.requests), Array(4).fill(event.body))
  t.equal(new Set(sink.requests.map(({ headers }) => headers['webhook-id'])).size, 1)
})

t.test('what nobody knows is not sent again, nor what was owed to an endpoint that is disabled or gone', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  const { find } = await openView(t, rig)
  rig.start()
  const { webhook } = await rig.listen(sink.url)
  await rig.happen('delivered')
  const { delivery } = attemptsIn(await rig.facts(facts => attemptsIn(facts).length === 1))[0]!.data
  await until(async () => await find(rig.asker.account, delivery) !== null)
  const again = async (id = delivery, account = rig.asker.account) =>
    await replayDelivery(rig.services, { ...rig.asker, account }, id, find)
  t.match(await again('whd_none'), new Refusal('not_found', 'There is no delivery whd_none.'))
  t.match(await again(delivery, 'acc_other'), { code: 'not_found' })
  sink.answers(() => ({ status: 410 }))
  await rig.happen('delivered')
  await until(() => rig.directory.now.webhooks.get(webhook.id)!.disabled === 'gone')
  t.match(await again(), { code: 'webhook_disabled' })
  t.match(await requestReplay(rig.services, rig.asker, webhook.id, lately()), { code: 'webhook_disabled' })
  const { seq } = granted(await deleteWebhook(rig.services, rig.asker, webhook.id))
  await rig.directory.reached(seq, 5000)
  t.match(await again(), { code: 'webhook_deleted' })
  t.match(await requestReplay(rig.services, rig.asker, webhook.id, lately()), { code: 'not_found' })
})

t.test('a replay that is asked for twice by one id begins once; an id that is out of order is not taken', async t => {
  const rig = await openHookRig(t)
  const { webhook } = await rig.listen('http://127.0.0.1:9/')
  const ask = async (once: string) =>
    granted(await requestReplay(rig.services, rig.asker, webhook.id, lately(), once)).replay
  const once = newId('rpl', Date.now() - 10_000)
  t.strictSame(await Promise.all([ask(once), ask(once)]), [once, once])
  granted(await cancelReplay(rig.services, rig.asker, once))
  t.equal(await ask(once), once, 'also when it is over')
  t.equal((await replaysOf(rig.services, webhook.id)).length, 1)
  for (
    const odd of [
      newId('rpl', Date.now() - 20_000),
      newId('rpl', Date.now() + 60_000),
      newId('zzz', Date.now() - 1000),
      'x'
    ]
  ) {
    const [before] = await replaysOf(rig.services, webhook.id)
    const replay = await ask(odd)
    t.ok(replay !== odd && replay > before!.replay && replay.startsWith('rpl_'), odd)
    t.ok(idTimeMs(replay)! <= Date.now() + 1000, 'by our clock')
  }
  t.match(await requestReplay(rig.services, { ...rig.asker, account: 'acc_other' }, webhook.id, lately(), once), {
    code: 'not_found'
  })
})

t.test('all that failed since a time is sent again, and nothing else; counted before, it is as many', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  const { failedDeliveries } = await openView(t, rig)
  // Two gaps, so that the third failure is the end of it.
  rig.start({ gapsS: [0.05, 0.1], failedDeliveries })
  let failing = true
  sink.answers(({ body }) => ({ status: failing && JSON.parse(body.toString()).type === 'email.bounced' ? 500 : 200 }))
  const { webhook } = await rig.listen(sink.url)
  const early = await rig.happen('bounced')
  const ends = (facts: AnyFact[]) => attemptsIn(facts).filter(({ data }) => data.result !== 'retrying')
  await rig.facts(facts => ends(facts).length === 1)
  const fromMs = await nextMs()
  const fine = await happenMany(rig, 20)
  const lost = (await happenMany(rig, 30, 'bounced')).map(({ id }) => id).sort()
  const outcome = ends(await rig.facts(facts => ends(facts).length === 51, 60_000))
  t.strictSame(
    outcome.filter(({ data }) => data.result === 'failed').map(({ data }) => data.events[0]!.id).sort(),
    [early.id, ...lost].sort()
  )
  failing = false
  const wish = lately({ what: 'failed', fromMs, toMs: Date.now() })
  const count = granted(await countReplay(rig.services, rig.asker, webhook.id, wish, failedDeliveries))
  t.strictSame(count, {
    deliveries: lost.length,
    events: lost.length,
    types: { 'email.bounced': lost.length },
    whole: true
  })
  const { replay } = granted(await requestReplay(rig.services, rig.asker, webhook.id, { ...wish, pace: 50 }))
  const again = (facts: AnyFact[]) => attemptsIn(facts).filter(({ data }) => data.replay === replay)
  const made = again(
    await rig.facts(facts => again(facts).length >= lost.length && endedIn(facts).length === 1, 30_000)
  )
  t.strictSame(made.map(({ data }) => data.events[0]!.id).sort(), lost)
  t.ok(made.every(({ data }) => data.result === 'delivered' && data.attempt === 1))
  t.match(await stateOf(rig, webhook.id, replay), { what: 'failed', state: 'done', made: lost.length })
  t.notOk(fine.some(({ id }) => lost.includes(id)))
})

t.test('a replay of what failed waits while the view of deliveries is away', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  rig.start()
  const { webhook } = await rig.listen(sink.url)
  const { replay } = granted(await requestReplay(rig.services, rig.asker, webhook.id, lately({ what: 'failed' })))
  const windowed = granted(await requestReplay(rig.services, rig.asker, webhook.id, lately()))
  await rig.facts(facts => endedIn(facts).some(({ data }) => data.replay === windowed.replay))
  t.match(await stateOf(rig, webhook.id, replay), { state: 'running', made: 0 })
  t.match(await countReplay(rig.services, rig.asker, webhook.id, lately({ what: 'failed' })), {
    code: 'projection_behind'
  })
})

t.test('a window is sent again to that endpoint alone, as many and of the types that the dry run counted', async t => {
  const [rig, sink, other] = [await openHookRig(t), await openSink(t), await openSink(t)]
  rig.start()
  const { webhook } = await rig.listen(sink.url, ['email.delivered', 'email.bounced'])
  await rig.listen(other.url)
  const before = await happenMany(rig, 3)
  const fromMs = await nextMs()
  const [delivered, bounced] = [await happenMany(rig, 120), await happenMany(rig, 30, 'bounced')]
  const toMs = await nextMs()
  const after = await happenMany(rig, 3)
  await Promise.all([sink, other].map(each => each.waitFor(requests => requests.length === 156, 30_000)))
  const wish = lately({ fromMs, toMs })
  const count = granted(await countReplay(rig.services, rig.asker, webhook.id, wish))
  t.strictSame(count, {
    deliveries: 150,
    events: 150,
    types: { 'email.delivered': 120, 'email.bounced': 30 },
    whole: true
  })
  t.strictSame(await replaysOf(rig.services, webhook.id), [], 'the dry run changes nothing')
  const { replay } = granted(await requestReplay(rig.services, rig.asker, webhook.id, wish))
  await sink.waitFor(requests => requests.length >= 306, 30_000)
  await rig.facts(facts => endedIn(facts).length === 1)
  const again = bodiesOf(sink.requests.slice(156))
  t.strictSame(again.toSorted(), [...delivered, ...bounced].map(({ body }) => body).sort())
  t.notOk([...before, ...after].some(({ body }) => again.includes(body)))
  t.equal(other.requests.length, 156)
  t.match(await replaysOf(rig.services, webhook.id), [{ replay, what: 'window', state: 'done', made: 150 }])
})

t.test('a window for a batch endpoint goes out in batches, as counted', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  rig.start()
  const { webhook } = await rig.listen(sink.url, ['email.delivered'], { batch: { maxEvents: 20, maxWaitMs: 100 } })
  const events = await happenMany(rig, 130)
  const eventsIn = (requests: HookRequest[]): Array<{ id: string }> =>
    requests.flatMap(({ body }) => JSON.parse(body.toString()).events)
  await sink.waitFor(requests => eventsIn(requests).length === 130, 30_000)
  const first = sink.requests.length
  const count = granted(await countReplay(rig.services, rig.asker, webhook.id, lately()))
  t.strictSame(count, { deliveries: 7, events: 130, types: { 'email.delivered': 130 }, whole: true })
  granted(await requestReplay(rig.services, rig.asker, webhook.id, lately({ pace: 2 })))
  await sink.waitFor(requests => requests.length === first + 7, 30_000)
  const again = sink.requests.slice(first)
  t.strictSame(again.map(request => eventsIn([request]).length), [20, 20, 20, 20, 20, 20, 10])
  t.strictSame(eventsIn(again).map(({ id }) => id).sort(), events.map(({ id }) => id).sort())
  const text = again.map(({ body }) => body.toString()).join()
  t.ok(events.every(({ body }) => text.includes(body)), 'the exact single bodies')
})

t.test('what cannot be replayed is refused with a code', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  const { webhook } = await rig.listen(sink.url)
  const now = Date.now()
  const refused = async (wish: Partial<ReplayWish>, id = webhook.id) =>
    await requestReplay(rig.services, rig.asker, id, lately(wish))
  t.match(await refused({}, 'wh_none'), { code: 'not_found' })
  t.match(await refused({ fromMs: now - 91 * DAY_MS }), { code: 'invalid_from', message: /no longer kept/ })
  t.match(await refused({ what: 'failed', fromMs: now - 31 * DAY_MS }), { code: 'invalid_from' })
  t.match(await refused({ fromMs: now, toMs: now }), { code: 'invalid_from' })
  t.match(await refused({ toMs: now + DAY_MS }), { code: 'invalid_to' })
  for (const pace of [0, 1001, 1.5, NaN]) t.match(await refused({ pace }), { code: 'invalid_pace' })
  t.match(await requestReplay(rig.services, { ...rig.asker, account: 'acc_other' }, webhook.id, lately()), {
    code: 'not_found'
  })
  t.strictSame(await replaysOf(rig.services, webhook.id), [])
  for (let i = 0; i < 10; i++) t.notOk(await refused({}) instanceof Refusal)
  t.match(await refused({}), { code: 'too_many_replays' })
  t.match(await countReplay(rig.services, rig.asker, webhook.id, lately()), { code: 'too_many_replays' })
  t.match(await cancelReplay(rig.services, rig.asker, 'rpl_none'), { code: 'not_found' })
  const [newest] = await replaysOf(rig.services, webhook.id)
  t.match(await cancelReplay(rig.services, { ...rig.asker, account: 'acc_other' }, newest!.replay), {
    code: 'not_found'
  })
  t.match(await cancelReplay(rig.services, rig.asker, newest!.replay), { state: 'canceled' })
  t.notOk(await refused({}) instanceof Refusal, 'there is room again')
})

t.test('a canceled replay stops; a replay of an endpoint that goes away ends with it', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  rig.start()
  const { webhook } = await rig.listen(sink.url)
  await happenMany(rig, 60)
  await sink.waitFor(requests => requests.length === 60, 30_000)
  const first = granted(await requestReplay(rig.services, rig.asker, webhook.id, lately({ pace: 4 })))
  const made = (facts: AnyFact[]) => requestedIn(facts).filter(({ data }) => data.replay === first.replay).length
  await rig.facts(facts => made(facts) >= 2)
  const canceled = granted(await cancelReplay(rig.services, rig.asker, first.replay))
  t.match(canceled, { state: 'canceled', replay: first.replay })
  t.ok(canceled.made >= 2 && canceled.made < 60)
  t.strictSame(
    granted(await cancelReplay(rig.services, rig.asker, first.replay)),
    canceled,
    'said twice, happened once'
  )
  const second = granted(await requestReplay(rig.services, rig.asker, webhook.id, lately({ pace: 2 })))
  const { seq } = granted(await deleteWebhook(rig.services, rig.asker, webhook.id))
  await rig.directory.reached(seq, 5000)
  const facts = await rig.facts(facts => endedIn(facts).length === 2)
  t.match(endedIn(facts).map(({ data }) => [data.replay, data.reason]), [[first.replay, 'canceled'], [
    second.replay,
    'endpoint_deleted'
  ]])
  t.equal(made(facts), canceled.made, 'no page after the word')
  t.match(await cancelReplay(rig.services, rig.asker, second.replay), { code: 'replay_over' })
})

t.test("a paused endpoint's replay waits and goes on", async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  rig.start()
  const { webhook } = await rig.listen(sink.url)
  const other = await rig.listen(sink.url)
  const events = await happenMany(rig, 20)
  await sink.waitFor(requests => requests.length === 40, 30_000)
  const pause = async (paused: boolean) => {
    const { seq } = granted(await changeWebhook(rig.services, rig.asker, webhook.id, { paused }))
    await rig.directory.reached(seq, 5000)
  }
  await pause(true)
  const { replay } = granted(await requestReplay(rig.services, rig.asker, webhook.id, lately()))
  const another = granted(await requestReplay(rig.services, rig.asker, other.webhook.id, lately()))
  const facts = await rig.facts(facts => endedIn(facts).some(({ data }) => data.replay === another.replay))
  t.notOk(requestedIn(facts).some(({ data }) => data.replay === replay), 'the other one is done meanwhile')
  await sink.waitFor(requests => requests.length === 60, 30_000)
  await pause(false)
  await sink.waitFor(requests => requests.length === 80, 30_000)
  t.strictSame([...timesOf(bodiesOf(sink.requests)).values()].map(({ length }) => length), events.map(() => 4))
})

t.test('an endpoint with a backlog is not sent more of the past', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  let waiting: number | null = 500
  let asked = 0
  rig.start({
    backlog: async () => {
      asked++
      return waiting
    }
  })
  const { webhook } = await rig.listen(sink.url)
  await happenMany(rig, 5)
  await sink.waitFor(requests => requests.length === 5, 30_000)
  const { replay } = granted(await requestReplay(rig.services, rig.asker, webhook.id, lately()))
  await until(() => asked > 1)
  t.match(await stateOf(rig, webhook.id, replay), { state: 'running', made: 0 })
  waiting = null
  await sink.waitFor(requests => requests.length === 10, 30_000)
})

t.test('a backfill: each event since start_at arrives, and is asked for exactly once, live or after', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  rig.start()
  const startAt = new Date(Date.now() - DAY_MS).toISOString()
  await rig.listen(`${sink.url}/first`)
  const events = await happenMany(rig, 300)
  // What is fanned out before the endpoint is made can only come to it by the backfill.
  await sink.waitFor(requests => requests.length >= 300, 30_000)
  let listening = true
  const going = (async () => {
    while (listening) events.push(await rig.happen('delivered'))
  })()
  await until(() => events.length > 320)
  const { webhook } = await rig.listen(`${sink.url}/late`, undefined, { startAt })
  const known = events.length
  await until(() => events.length > known + 50)
  await rig.facts(facts => endedIn(facts).length === 1, 30_000)
  listening = false
  await going
  const late = (requests: HookRequest[]) => requests.filter(({ path }) => path === '/late')
  await sink.waitFor(requests => late(requests).length >= events.length, 30_000)
  t.strictSame([...new Set(bodiesOf(late(sink.requests)))].sort(), events.map(({ body }) => body).sort())
  const last = await rig.happen('delivered')
  await sink.waitFor(requests => late(requests).some(({ body }) => body.toString() === last.body))
  const asked = (facts: AnyFact[]) => askedIn(facts).filter(owed => owed.webhook === webhook.id)
  const owed = asked(await rig.facts(facts => asked(facts).length > events.length))
  t.equal(new Set(owed.map(({ delivery }) => delivery)).size, owed.length)
  t.equal(owed.length, events.length + 1)
  const [past, live] = [
    owed.filter(({ replay }) => replay !== null),
    owed.filter(({ replay }) => replay === null)
  ]
  t.ok(past.length >= 300 && live.length > 0, `${past.length} after, ${live.length} live`)
})

/** A replay's last fact, as the process that makes its next page reads it. */
async function lastFact (rig: HookRig, webhook: string, replay: string) {
  const subject = subjects.replay(webhook, replay)
  const { fact, seq } = (await getFact(rig.factLog.bus, 'WEBHOOKS', { last_by_subj: subject }, 'leader'))!
  return { fact: replayFactIn(fact)!, seq, subject }
}

t.test('a page that two make at the same time is made once', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  const { webhook } = await rig.listen(sink.url)
  const events = await happenMany(rig, 10)
  const { replay } = granted(await requestReplay(rig.services, rig.asker, webhook.id, lately({ pace: 8 })))
  const factLog = [rig.factLog, await rig.another(), await rig.another()]
  const made: number[] = []
  for (let ended = false; !ended;) {
    const last = await lastFact(rig, webhook.id, replay)
    const pages = await Promise.all(
      factLog.map(factLog => readPage(factLog, webhook, last.fact.data, undefined, 0))
    )
    const done = await Promise.all(factLog.map((factLog, i) => advanceReplay(factLog, last, pages[i]!)))
    t.equal(done.filter(Boolean).length, 1)
    made.push(pages[0]!.deliveries.length)
    ended = pages[0]!.ended
  }
  t.strictSame(made, [4, 4, 2])
  const facts = requestedIn(await rig.facts(facts => endedIn(facts).length === 1))
  t.strictSame(facts.map(({ data }) => data.events[0]!.id).sort(), events.map(({ id }) => id).sort())
})

t.test('when an account has too many facts to count in time, they are read one by one', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  const { webhook } = await rig.listen(sink.url)
  const events = await happenMany(rig, 5)
  const { replay } = granted(await requestReplay(rig.services, rig.asker, webhook.id, lately({ pace: 8 })))
  const { bus } = rig.factLog
  const unheard: Array<number | null> = []
  const nc = new Proxy(bus.nc, {
    get: (target, name) =>
      name === 'publish'
        ? () => {
          unheard.push(bus.upSinceMs())
        }
        : (value => typeof value === 'function' ? value.bind(target) : value)(Reflect.get(target, name))
  })
  const { fact: { data } } = await lastFact(rig, webhook.id, replay)
  const page = (await readPage({ bus: { ...bus, nc } }, webhook, data, undefined, 0))!
  t.ok(unheard.length >= 1 && new Set(unheard).size === unheard.length, 'it is asked once on a connection')
  const seen = page.deliveries.map(({ owed }) => owed.events[0]!.id)
  t.ok(seen.length === 4 && seen.every(id => events.some(event => event.id === id)))
})

t.test('two roles that stop and start in the middle make no page twice and leave none out', async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  const factLog = [await rig.another(), await rig.another()]
  let roles = factLog.map(factLog => rig.start({ factLog }))
  const { webhook } = await rig.listen(sink.url)
  const count = LONG ? 240 : 120
  const events = await happenMany(rig, count)
  await sink.waitFor(requests => requests.length >= count, 30_000)
  const wishes = [lately({ pace: 60 }), lately({ pace: 100 })]
  const replays = await Promise.all(
    wishes.map(async wish => granted(await requestReplay(rig.services, rig.asker, webhook.id, wish)).replay)
  )
  for (let turn = 0; turn < 6; turn++) {
    await sleep(100 + Math.random() * 300)
    const i = turn % 2
    await roles[i]!.stop()
    roles = roles.with(i, rig.start({ factLog: factLog[i]! }))
  }
  const facts = await rig.facts(facts => endedIn(facts).length === 2, 60_000)
  for (const replay of replays) {
    const asked = requestedIn(facts).filter(({ data }) => data.replay === replay).map(({ data }) => data.events[0]!.id)
    t.strictSame(asked.toSorted(), events.map(({ id }) => id).sort())
    const pages = facts.flatMap(fact =>
      fact.type === 'replay.advanced' && fact.data.replay === replay ? [fact.data.made] : []
    )
    t.strictSame(pages, [...new Set(pages)].toSorted((a, b) => a - b), 'each page once')
  }
  // Of two replays of one delivery the later one is enough.
  const latest = replays.toSorted().at(-1)
  const arrived = (facts: AnyFact[]) =>
    new Set(
      attemptsIn(facts).filter(({ data }) => data.replay === latest && data.result === 'delivered').map(({ data }) =>
        data.delivery
      )
    )
  t.equal(arrived(await rig.facts(facts => arrived(facts).size === count, 60_000)).size, count)
})

t.test('what is new overtakes a big replay', LONG_ONLY, async t => {
  const [rig, sink] = [await openHookRig(t), await openSink(t)]
  rig.start()
  const { webhook } = await rig.listen(sink.url, undefined, { concurrency: 2 })
  const count = LONG ? 800 : 300
  await happenMany(rig, count)
  await sink.waitFor(requests => requests.length === count, 60_000)
  sink.answers(() => ({ delayMs: 4 }))
  granted(await requestReplay(rig.services, rig.asker, webhook.id, lately({ pace: 1000 })))
  await sink.waitFor(requests => requests.length > count * 9 / 8, 60_000)
  const left = 2 * count - sink.requests.length
  t.ok(left >= count * 5 / 8, `${left} of the replay are left`)
  const fresh = await rig.happen('bounced')
  await sink.waitFor(requests => requests.length >= 2 * count + 1, 60_000)
  const place = sink.requests.findIndex(({ body }) => body.toString() === fresh.body)
  t.ok(place > count * 9 / 8 && place < count * 13 / 8, `place ${place} of ${sink.requests.length}`)
})
