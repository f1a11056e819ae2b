import t from 'tap'
import { Refusal, type Unstamped } from '#streams/define.ts'
import { evolveEntity } from '#streams/directory.ts'
import { capOn, chooseRoutes, dayOf, sourcesFor, WeightedTurns, type RoutedMail } from '#streams/route/choose.ts'
import {
  decideRouteChange,
  decideRouteDeletion,
  decideRouteReseal,
  nameFault,
  partUrl,
  settingsFault
} from '#streams/route/decide.ts'
import { RouteCreated, type RouteSettings, type RouteSource } from '#streams/route/facts.ts'
import type { RouteEntry } from '#streams/route/state.ts'
import { checkFact, type AnyFact } from '#streams/catalog.ts'
import { stamp } from '#src/actions/fact-log.ts'
import { ANY_MAIL, routeOf, sourceOf } from '../support/routes.ts'

const CAUSE = { account: 'acc_first', correlation: 'test', causation: null }
const MAIL: RoutedMail = { senderDomain: 'shop.example', recipientDomain: 'gmail.com', key: 'key_1', tags: ['bulk'] }

function namesFor (routes: RouteEntry[], mail: Partial<RoutedMail> = {}): string[] {
  return chooseRoutes(routes, { ...MAIL, ...mail }).map(route => route?.name ?? 'default')
}

t.test('without a route that fits, mail goes by the default', async t => {
  t.strictSame(namesFor([]), ['default'])
  t.strictSame(namesFor([routeOf('a', { match: { ...ANY_MAIL, tags: ['receipt'] } })]), ['default'])
})

t.test('of the routes that fit, the lowest position takes the mail; of equal ones the older', async t => {
  const routes = [
    routeOf('b'),
    routeOf('a'),
    routeOf('first', { position: 5, match: { ...ANY_MAIL, keys: ['key_1'] } })
  ]
  t.strictSame(namesFor(routes), ['first'])
  t.strictSame(namesFor(routes, { key: 'key_2' }), ['a'])
})

t.test('of each list of a rule that has entries one must fit', async t => {
  const rule = { senderDomains: ['shop.example'], keys: [], tags: ['bulk', 'news'], recipientDomains: ['gmail.com'] }
  const routes = [routeOf('a', { match: rule })]
  t.strictSame(namesFor(routes), ['a'])
  t.strictSame(namesFor(routes, { tags: ['x', 'news'] }), ['a'])
  t.strictSame(namesFor(routes, { tags: [] }), ['default'])
  t.strictSame(namesFor(routes, { senderDomain: 'other.example' }), ['default'])
  t.strictSame(namesFor(routes, { recipientDomain: 'mail.gmail.com' }), ['default'])
})

t.test('fallbacks follow in their order; those that are gone are skipped', async t => {
  const routes = [routeOf('a', { position: 1, fallbacks: ['c', 'gone', 'default', 'b'] }), routeOf('b'), routeOf('c')]
  t.strictSame(namesFor(routes), ['a', 'c', 'default', 'b'])
})

t.test('a source is for one of its tags, else for what no other is for', async t => {
  const [bulk, open, receipts] = [
    sourceOf('192.0.2.1', { tags: ['bulk'] }),
    sourceOf('192.0.2.2'),
    sourceOf('192.0.2.3', { tags: ['receipt'] })
  ]
  t.strictSame(sourcesFor([bulk, open, receipts], ['bulk']), [bulk])
  t.strictSame(sourcesFor([bulk, open, receipts], ['x']), [open])
  t.strictSame(sourcesFor([bulk, receipts], ['x']), [bulk, receipts], 'where all are for others, all')
})

t.test('turns hold weights exactly, at every time within one', async t => {
  const pool = [sourceOf('192.0.2.1', { weight: 5 }), sourceOf('192.0.2.2', { weight: 3 }), sourceOf('192.0.2.3')]
  const turns = new WeightedTurns<RouteSource>()
  const counts = pool.map(() => 0)
  for (let n = 1; n <= 900; n++) {
    counts[pool.indexOf(turns.next(pool)!)]!++
    const isFair = pool.every(({ weight }, i) => Math.abs(counts[i]! - n * weight / 9) <= 1)
    if (!isFair) t.fail(`after ${n}: ${counts.join(' ')}`)
  }
  t.strictSame(counts, [500, 300, 100])
  t.equal(turns.next([]), undefined)
})

t.test('a warm-up has a cap for each of its days, none before it, and what is said after it', async t => {
  const plan = { from: '2026-11-24', perDay: [50, 100], after: null }
  const day = dayOf(Date.parse('2026-11-24T23:59:59.999Z'))
  t.strictSame([-1, 0, 1, 2].map(more => capOn(plan, day + more)), [0, 50, 100, null])
  t.equal(capOn({ ...plan, after: 7 }, day + 400), 7)
})

t.test('a URL is parted from its secret, and no refusal repeats it', async t => {
  t.strictSame(partUrl('direct:'), { url: 'direct:', secretUrl: null })
  t.strictSame(partUrl('smtp://relay.example.com:2525?tls=off'), {
    url: 'smtp://relay.example.com:2525?tls=off',
    secretUrl: null
  })
  const secret = 'smtps://me%40x:hunter2@relay.example.com'
  t.strictSame(partUrl(secret), { url: 'smtps://relay.example.com', secretUrl: secret })
  const wrong = [
    'http://me:hunter2@relay.example.com',
    'smtp://me:hunter2@',
    'smtp://me@hunter2',
    'smtp://:hunter2@relay.example.com',
    'smtp://me:hunter2@relay.example.com/path',
    'smtp://me:hunter2@relay.example.com#x',
    'smtp://me:hunter2@relay.example.com?tls=maybe',
    'smtp://me:hunter2@relay.example.com?auth=no',
    'smtp://me:hunter2%@relay.example.com',
    'smtp://me:hunter2@relay.example.com:0',
    ' smtp://me:hunter2@relay.example.com',
    `smtp://me:hunter2@${'a'.repeat(600)}`
  ]
  for (const url of wrong) {
    const refused = partUrl(url)
    t.ok(refused instanceof Refusal, url)
    t.equal((refused as Refusal).code, 'invalid_url')
    t.notMatch((refused as Refusal).message.replace('smtp://user:password@host', ''), /hunter2/)
  }
})

t.test('names are their own, and not that of SMTP_URL', async t => {
  const others = [routeOf('ses')]
  t.equal(nameFault('bulk-2', others), null)
  for (const name of ['default', 'ses', 'Ses', '-a', '', 'a'.repeat(64)]) {
    t.match(nameFault(name, others), { code: 'invalid_name' }, name)
  }
})

t.test('what is wrong with settings is said of its field', async t => {
  const fault = (settings: Partial<RouteSettings>) => settingsFault('a', routeOf('a', settings), ['a', 'b'])
  const warmUp = { from: '2026-11-24', perDay: [1], after: null }
  t.equal(fault({ fallbacks: ['b', 'default'], hostname: 'mx1.example.com', sources: [sourceOf('::1')], warmUp }), null)
  const wrong: Array<[Partial<RouteSettings>, string]> = [
    [{ fallbacks: ['a'] }, 'invalid_fallbacks'],
    [{ fallbacks: ['b', 'b'] }, 'invalid_fallbacks'],
    [{ fallbacks: ['c'] }, 'invalid_fallbacks'],
    [{ match: { ...ANY_MAIL, senderDomains: ['Shop.example'] } }, 'invalid_match'],
    [{ match: { ...ANY_MAIL, recipientDomains: ['@gmail.com'] } }, 'invalid_match'],
    [{ hostname: 'mx_1' }, 'invalid_hostname'],
    [{ sources: [sourceOf('192.0.2.256')] }, 'invalid_sources'],
    [{ sources: [sourceOf('example.com')] }, 'invalid_sources'],
    [{ sources: [sourceOf('::1'), sourceOf('::1')] }, 'invalid_sources'],
    [{ sources: [sourceOf('192.0.2.1', { hostname: 'x y' })] }, 'invalid_sources'],
    [{ warmUp: { ...warmUp, from: '2026-02-30' } }, 'invalid_warm_up']
  ]
  for (const [settings, code] of wrong) t.match(fault(settings), { code }, JSON.stringify(settings))
})

t.test('a route is changed, sealed again and deleted; what is the same makes no fact', async t => {
  const { id, createdAt, ...data } = routeOf('a', { sealedUrl: 'old' })
  const facts = [checkFact(stamp(RouteCreated, CAUSE, { route: id, ...data }, Date.parse(createdAt)))]
  const created = evolveEntity('route', id, undefined, facts)!
  t.strictSame(created, { id, createdAt, ...data })
  t.strictSame(decideRouteChange(created, { position: 100 }), [])
  const after = (decided: Unstamped[]) =>
    evolveEntity(
      'route',
      id,
      created,
      decided.map(({ type, data }) => checkFact(stamp(type, CAUSE, data, 0) as AnyFact))
    )
  t.strictSame(after(decideRouteChange(created, { position: 7 })), { ...created, position: 7 })
  t.strictSame(after(decideRouteReseal(created, sealed => `${sealed}, again`)), { ...created, sealedUrl: 'old, again' })
  t.strictSame(decideRouteReseal(created, () => null), [])
  t.strictSame(decideRouteReseal(routeOf('b'), () => 'x'), [], 'it has no secret')
  t.equal(after(decideRouteDeletion(created)), undefined)
})
