import t, { type Test } from 'tap'
import type { RecipientFact } from '#streams/email/facts.ts'
import type { RouteEntry } from '#streams/route/state.ts'
import { openDns } from '#src/dns/resolve.ts'
import { HostFailure } from '#src/workers/sender/errors.ts'
import type { PolicyCache } from '#src/workers/sender/mta-sts.ts'
import type { MxConnector } from '#src/workers/sender/mx.ts'
import { MxRouter, ROUTE_TIMINGS } from '#src/workers/sender/route.ts'
import { Site, type NextHop } from '#src/workers/sender/site.ts'
import { openDnsServer } from '../support/dns-server.ts'
import { ANY_MAIL, routeOf, sourceOf } from '../support/routes.ts'
import { openDirect } from '../support/direct-rig.ts'
import { LONG } from '../support/long.ts'
import { openRig, SMTP_QUICK, type Rig } from '../support/sender-rig.ts'
import { freshAccount } from '../support/servers.ts'
import { startSink, type Sink, type SinkOptions } from '../support/smtp-sink.ts'
import { until } from '../support/wait.ts'

const MAILS = LONG ? 1000 : 240
const TODAY = () => new Date().toISOString().slice(0, 10)

async function sinkOf (t: Test, options: SinkOptions = {}): Promise<Sink> {
  const sink = await startSink(options)
  t.teardown(() => sink.stop())
  return sink
}

const relayUrl = ({ url }: Sink) => `${url}?tls=off`
const accepted = ({ received }: Sink) => received.filter(mail => mail.accepted)

/** `count` mails, the nth to `n<n>@…`. */
async function askMany (
  { ask }: Rig,
  count: number,
  of: (n: number) => { domain?: string, tags?: string[], key?: string, from?: string } = () => ({})
) {
  const emails: string[] = []
  for (let n = 0; n < count; n++) {
    const { domain = 'example.net', from = 'shop@example.com', ...more } = of(n)
    emails.push(await ask(`n${n}@${domain}`, { ...more, from: { address: from, name: null } }))
  }
  return emails
}

/** The facts of each, once it is delivered. */
async function delivered (rig: Rig, emails: string[]): Promise<RecipientFact[][]> {
  const all: RecipientFact[][] = []
  for (const email of emails) {
    let found: RecipientFact[] = []
    await until(async () => (found = await rig.facts(email)).at(-1)?.type === 'email.delivered', 60_000)
    all.push(found)
  }
  return all
}

t.test('rules pick between two relays and direct MX, and each fact says by which route', async t => {
  const [one, two] = [await sinkOf(t), await sinkOf(t)]
  const routes: RouteEntry[] = [
    routeOf('receipts', { url: relayUrl(one), position: 1, match: { ...ANY_MAIL, tags: ['receipt'] } }),
    routeOf('partner', {
      url: relayUrl(two),
      position: 2,
      match: { ...ANY_MAIL, keys: ['key_2'], senderDomains: ['two.example'] }
    }),
    routeOf('straight', { url: 'direct:', position: 3, match: { ...ANY_MAIL, recipientDomains: ['big.test'] } })
  ]
  const rig = await openDirect(t, { routes })
  const [big, other] = [await rig.mxHost('mx.big.test', 31), await rig.mxHost('mx.other.test', 32)]
  rig.dns.mx('big.test', [10, 'mx.big.test'])
  rig.dns.mx('other.test', [10, 'mx.other.test'])
  const kinds = [
    { domain: 'big.test', tags: ['receipt'] },
    { domain: 'big.test', tags: [], key: 'key_2', from: 'a@two.example' },
    { domain: 'big.test', tags: ['news'] },
    { domain: 'other.test', tags: [], key: 'key_2' }
  ]
  const emails = await askMany(rig, MAILS, n => kinds[n % 4]!)
  const facts = await delivered(rig, emails)
  t.strictSame([one, two, big, other].map(sink => accepted(sink).length), [1, 1, 1, 1].map(() => MAILS / 4))
  for (const [i, sink] of [one, two, big, other].entries()) {
    t.ok(accepted(sink).every(({ to }) => Number(/^n(\d+)@/.exec(to)![1]) % 4 === i), 'its own alone')
  }
  const told = facts.map(all => all.map(({ data }) => (data as { route?: string }).route))
  t.ok(told.every((names, n) => names.every(name => name === ['receipts', 'partner', 'straight', undefined][n % 4])))
})

t.test('a relay is killed under load: the other takes over, nothing is lost, a second copy has its doubt', async t => {
  const [main, spare] = [await sinkOf(t), await sinkOf(t)]
  const routes = [
    routeOf('main', { url: relayUrl(main), fallbacks: ['spare'], position: 1 }),
    routeOf('spare', { url: relayUrl(spare), match: { ...ANY_MAIL, tags: ['of-no-mail'] } })
  ]
  const rig = await openRig(t, { routes })
  // One of them dies between the dot and its reply.
  main.replies('n20@example.net', { dot: 'reset' })
  const asking = askMany(rig, MAILS)
  await main.dots(MAILS / 8)
  await main.stop()
  const emails = await asking
  const facts = await delivered(rig, emails)
  t.ok(accepted(main).length >= MAILS / 8 - 1)
  t.ok(accepted(spare).length > 0)
  const doubts = facts.map(all => all.filter(({ type }) => type === 'email.in_doubt').length)
  for (const [n, doubted] of doubts.entries()) {
    const copies = [main, spare].flatMap(({ received }) => received).filter(mail =>
      mail.dot && mail.to === `n${n}@example.net`
    )
    if (copies.length === 0 || copies.length > 1 + doubted) t.fail(`n${n}: ${copies.length} copies, ${doubted} doubts`)
  }
  t.equal(doubts[20], 1)
  t.match(facts[20]!.at(-1)!.data, { route: 'spare' })
  t.equal(rig.sink.received.length, 0, 'SMTP_URL is not one of its fallbacks')
})

t.test('a mail that a relay has refused for good, or put off, goes to no other', async t => {
  const [main, spare] = [await sinkOf(t), await sinkOf(t)]
  const routes = [routeOf('main', { url: relayUrl(main), fallbacks: ['default'] })]
  const rig = await openRig(t, { routes, smtpUrl: relayUrl(spare) })
  main.replies('no@example.net', { rcpt: '550 5.1.1 no such user' })
  main.replies('later@example.net', { rcpt: '451 4.7.1 greylisted' })
  const [no, later] = [await rig.ask('no@example.net'), await rig.ask('later@example.net')]
  t.match((await rig.told(no, ['bounced']))[0]!.data, { route: 'main' })
  await rig.told(later, ['deferred', 'attempted', 'delivered'])
  t.equal(spare.received.length, 0)
  t.equal(accepted(main).length, 1)
})

t.test('a pool of three source addresses holds its weights, and a mail that is put off keeps its own', async t => {
  const relay = await sinkOf(t)
  const sources = [
    sourceOf('127.0.0.2', { weight: 5, hostname: 'two.example.com' }),
    sourceOf('127.0.0.3', { weight: 3 }),
    sourceOf('127.0.0.4', { weight: 2 }),
    sourceOf('127.0.0.5', { tags: ['receipt'] })
  ]
  const routes = [routeOf('pool', { url: relayUrl(relay), sources })]
  const rig = await openRig(t, { routes })
  relay.replies('n7@example.net', { rcpt: '451 4.7.1 greylisted' }, 2)
  const emails = await askMany(rig, MAILS, n => (n % 24 === 0 ? { tags: ['receipt'] } : { tags: ['news'] }))
  const facts = await delivered(rig, emails)
  const counts = Map.groupBy(accepted(relay), ({ peer }) => peer)
  const receipts = Math.ceil(MAILS / 24)
  t.equal(counts.get('127.0.0.5')!.length, receipts, 'by tag')
  for (const { address, weight } of sources.slice(0, 3)) {
    const share = counts.get(address)!.length / (MAILS - receipts)
    t.ok(Math.abs(share - weight / 10) < 0.02, `${address} has ${share}`)
  }
  const from = facts[7]!.filter(({ type }) => type !== 'email.attempted').map(({ data }) =>
    (data as { source?: string }).source
  )
  t.equal(from.length, 3)
  t.equal(new Set(from).size, 1)
  t.ok(from[0]!.startsWith('127.0.0.'))
})

t.test('a direct route has sources too, and goes from each to the same MX hosts', async t => {
  const sources = [sourceOf('127.0.0.2'), sourceOf('127.0.0.3')]
  const rig = await openDirect(t, { routes: [routeOf('pool', { url: 'direct:', sources })] })
  const mx = await rig.mxHost('mx.big.test', 33)
  rig.dns.mx('big.test', [10, 'mx.big.test'])
  await delivered(rig, await askMany(rig, 20, () => ({ domain: 'big.test' })))
  const counts = Map.groupBy(accepted(mx), ({ peer }) => peer)
  t.strictSame([...counts.keys()].sort(), ['127.0.0.2', '127.0.0.3'])
  t.equal(counts.get('127.0.0.2')!.length, 10)
})

t.test('a site of a direct route gets fewer connections when its hosts fail, as any other', async t => {
  const { address, mx } = await openDnsServer(t)
  mx('big.test', [10, 'mx.big.test'])
  const router = new MxRouter({
    dns: openDns(address),
    policies: { of: async () => null } as unknown as PolicyCache,
    connector: {} as MxConnector,
    hostnames: ['sender.test'],
    apart: { name: 'route pool 0 127.0.0.2', connections: null },
    nowMs: Date.now,
    timings: ROUTE_TIMINGS
  })
  const hop = await router.route('big.test') as NextHop
  const site = new Site(hop)
  t.equal(site.pace.connections(), 2)
  site.failed(hop, new HostFailure('connection refused', 'connect', null), Date.now())
  t.equal(site.pace.connections(), 1)
})

t.test('a direct route with a name of its own sends nothing to us by the usual name', async t => {
  const routes = [routeOf('named', { url: 'direct:', hostname: 'out.example.com' })]
  const rig = await openDirect(t, { routes, timings: { retry: { firstS: 300, maxS: 300 } } })
  rig.dns.mx('one.test', [10, 'sender.test'])
  rig.dns.mx('two.test', [10, 'out.example.com'])
  for (const [domain, name] of [['one.test', 'sender.test'], ['two.test', 'out.example.com']]) {
    const [deferred] = await rig.told(await rig.ask(`a@${domain}`), ['deferred'])
    t.equal((deferred!.data as { error?: string }).error, `${domain} has us, ${name}, as its best MX host`)
  }
})

t.test('caps of a warm-up are kept exactly over two senders; what is more takes the fallback', async t => {
  const { natsUrl } = freshAccount()
  const [warm, spare] = [await sinkOf(t), await sinkOf(t)]
  const plan = (cap: number) => ({ from: TODAY(), perDay: [cap, cap], after: cap })
  const routes = [routeOf('warm', {
    url: relayUrl(warm),
    fallbacks: ['default'],
    warmUp: plan(50),
    sources: [sourceOf('127.0.0.2', { warmUp: plan(10) }), sourceOf('127.0.0.3')]
  })]
  const options = { natsUrl, routes, smtpUrl: relayUrl(spare) }
  const [rig, other] = [await openRig(t, options), await openRig(t, options)]
  // What is refused before the dot has been offered: it counts.
  warm.replies('n3@example.net', { rcpt: '550 5.1.1 no such user' })
  const emails = await askMany(rig, 150)
  await until(async () => {
    const facts = await Promise.all(emails.map(email => rig.facts(email)))
    return facts.every(all => /delivered|bounced/.test(all.at(-1)?.type ?? ''))
  })
  const offered = warm.received.map(({ peer }) => peer)
  const refused = warm.attempts('n3@example.net')
  t.equal(offered.length + refused, 50)
  const cold = offered.filter(peer => peer === '127.0.0.2').length
  t.ok(cold === 10 || (cold === 9 && refused === 1), `${cold} from the cold address`)
  t.equal(spare.received.length, 100)
  t.ok(rig.reports.length > 0 && other.reports.length > 0, 'both senders have sent')
})

t.test('mail whose route is down waits for the rate of the fallback, and is not deferred', async t => {
  const main = await sinkOf(t)
  const routes = [
    routeOf('main', { url: relayUrl(main), fallbacks: ['spare'], position: 1 }),
    routeOf('spare', { url: 'direct:', messagesPerSecond: 10, match: { ...ANY_MAIL, tags: ['of-no-mail'] } })
  ]
  const rig = await openDirect(t, { routes, timings: { patienceMs: 0 } })
  const spare = await rig.mxHost('mx.big.test', 34)
  rig.dns.mx('big.test', [10, 'mx.big.test'])
  await main.stop()
  // It finds out that the route is down.
  await delivered(rig, [await rig.ask('first@big.test')])
  const facts = await delivered(rig, await askMany(rig, 30, () => ({ domain: 'big.test' })))
  t.notOk(facts.flat().some(({ data }) => 'untried' in data))
  t.equal(accepted(spare).length, 31)
})

t.test('mail that the cap of a direct route refuses takes the fallback, however low its rate', async t => {
  const warmUp = { from: TODAY(), perDay: [0, 0], after: 0 }
  const routes = [routeOf('full', { url: 'direct:', fallbacks: ['default'], messagesPerSecond: 0.001, warmUp })]
  const rig = await openRig(t, { routes })
  await delivered(rig, await askMany(rig, 20))
  t.equal(accepted(rig.sink).length, 20)
})

t.test('mail waits for a route that takes none yet; once that is removed it goes by the rules left', async t => {
  const [late, usual] = [await sinkOf(t), await sinkOf(t)]
  const routes = [routeOf('late', { url: relayUrl(late), warmUp: { from: '2999-01-01', perDay: [1], after: null } })]
  const rig = await openRig(t, { routes, smtpUrl: relayUrl(usual), timings: { capMs: 6000 } })
  const email = await rig.ask('a@example.net')
  await until(async () => await rig.scheduled() === 1)
  t.equal(usual.received.length, 0)
  routes.pop()
  t.notMatch((await rig.told(email, ['attempted', 'delivered'])).at(-1)!.data, { route: 'late' })
  t.equal(accepted(usual).length, 1)
  t.equal(late.received.length, 0)
})

t.test('mail that waits for the rate or the connections of a route takes no fallback', async t => {
  const [slow, spare] = [await sinkOf(t), await sinkOf(t)]
  const routes = [
    routeOf('slow', { url: relayUrl(slow), fallbacks: ['default'], messagesPerSecond: 20, connections: 1 })
  ]
  const rig = await openRig(t, { routes, smtpUrl: relayUrl(spare) })
  await delivered(rig, await askMany(rig, 60))
  t.equal(accepted(slow).length, 60)
  t.equal(slow.sessions().most, 1)
  t.equal(spare.received.length, 0)
})

t.test('a route that is slow to answer keeps no mail of others waiting', async t => {
  const slow = await sinkOf(t)
  const match = { ...ANY_MAIL, recipientDomains: ['slow.test'] }
  const routes = [routeOf('slow', { url: relayUrl(slow), connections: 1, match })]
  const rig = await openRig(t, { routes, timings: { smtp: { ...SMTP_QUICK, dotMs: 120_000 } } })
  const held = Promise.withResolvers<void>()
  slow.replies('n0@slow.test', { dot: { reply: '250 2.0.0 at last', after: held.promise } })
  const emails = await askMany(rig, 30, () => ({ domain: 'slow.test' }))
  await until(() => slow.received.some(({ to }) => to === 'n0@slow.test'))
  await rig.told(await rig.ask('a@example.net'), ['attempted', 'delivered'])
  held.resolve()
  await delivered(rig, emails)
  t.equal(slow.received.length, 30)
  t.equal(slow.sessions().most, 1)
})
