import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import t from 'tap'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { domainKey } from '#streams/directory.ts'
import { subjects } from '#streams/subjects.ts'
import { roleActor } from '#src/actions/fact-log.ts'
import { addDomain, rotateDomainKeys } from '#src/actions/domain.ts'
import type { Handled } from '#src/actions/handle-command.ts'
import { followDirectory } from '#src/actions/directory.ts'
import { openServices } from '#src/actions/open-services.ts'
import { createLog } from '#src/base/log.ts'
import { DnsUnavailable, openDns } from '#src/dns/resolve.ts'
import { connectBus } from '#src/nats/connect.ts'
import { readFacts } from '#src/nats/range.ts'
import { startDomainChecks } from '#src/workers/scheduler/domain-checks.ts'
import { openBus } from '../support/bus.ts'
import { openDnsServer, type DnsServer } from '../support/dns-server.ts'
import { SECRET } from '../support/secret.ts'
import type { Ending } from '../support/servers.ts'
import { until } from '../support/wait.ts'

const server = await openDnsServer(t)
const dns = openDns(server.address)

t.test('records come whole: parts joined, names in one form, too much for UDP over TCP', async t => {
  server.txt('two.example', 'one', ['v=DKIM1; ', 'p=abc'])
  t.same((await dns.txt('two.example')).sort(), ['one', 'v=DKIM1; p=abc'])
  server.cname('alias.example', 'Host.Elsewhere.Example')
  t.equal(await dns.cname('alias.example'), 'host.elsewhere.example')
  server.txt('long.example', 'x'.repeat(3000))
  t.same(await dns.txt('long.example'), ['x'.repeat(3000)])
  t.same(server.asked.filter(({ name }) => name === 'long.example').map(({ over }) => over), ['udp', 'tcp'])
})

t.test('no such name and no such record are none; what was there is not remembered', async t => {
  t.same(await dns.txt('nobody.example'), [])
  t.equal(await dns.cname('nobody.example'), null)
  server.txt('bare.example')
  t.same(await dns.txt('bare.example'), [])
  t.equal(await dns.cname('bare.example'), null)
  server.txt('bare.example', 'now')
  t.same(await dns.txt('bare.example'), ['now'])
  server.forget('bare.example')
  t.same(await dns.txt('bare.example'), [])
})

t.test('where DNS does not say, nobody is told that there is nothing', async t => {
  server.fails('sick.example', 'SERVFAIL')
  server.fails('closed.example', 'REFUSED')
  server.fails('none.example', 'NXDOMAIN')
  await t.rejects(dns.txt('sick.example'), DnsUnavailable)
  await t.rejects(dns.cname('closed.example'), DnsUnavailable)
  t.same(await dns.txt('none.example'), [])
  const unheard = createSocket('udp4').bind(0, '127.0.0.1')
  await once(unheard, 'listening')
  const { port } = unheard.address()
  await new Promise<void>(resolve => unheard.close(resolve))
  await t.rejects(openDns(`127.0.0.1:${port}`).txt('any.example'), DnsUnavailable, 'nobody listens')
})

t.test('thousands of records come whole', async t => {
  server.txt('f.example', ...Array.from({ length: 2000 }, (_, i) => String(i)))
  t.equal((await dns.txt('f.example')).length, 2000)
})

t.test('a server that says nothing is given up within 5 s, also by those who wait behind 32 others', async t => {
  const names = Array.from({ length: 40 }, (_, i) => `silent-${i}.example`)
  for (const name of names) server.fails(name, 'silence')
  const startMs = Date.now()
  const results = await Promise.allSettled(names.map(name => dns.txt(name)))
  t.ok(Date.now() - startMs < 9500, 'one after the other they would take 10 s')
  t.ok(results.every(result => result.status === 'rejected' && result.reason instanceof DnsUnavailable))
  const asked = (name: string) => server.asked.filter(question => question.name === name).length
  t.ok(names.slice(0, 32).every(name => asked(name) === 3), 'asked three times')
  t.ok(names.slice(32).every(name => asked(name) <= 1), 'not asked before the others were through')
  t.same(await dns.txt('nobody.example'), [], 'and the next question is free to go')
})

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS

/** Processes with the role, on one log, each with a resolver of its own, at a time that the test sets. */
async function openCheckers (t: Ending, servers: DnsServer[]) {
  const { natsUrl } = await openBus(t)
  const clock = { ms: Date.parse('2026-11-21T10:00:00.000Z'), nowMs: () => clock.ms }
  const log = createLog('silent')
  const checkers = await Promise.all(servers.map(async server => {
    const bus = await connectBus({ url: natsUrl, creds: null, name: 'test', log })
    const directory = followDirectory(bus, log)
    const config = {
      webhookAllowPrivate: false,
      requireVerifiedDomains: true,
      bounceDomain: null,
      smtpUrl: null,
      hostname: null,
      trackingUrl: 'http://localhost:8080',
      contentRetentionMs: 30 * 24 * HOUR_MS,
      factsRetentionMs: 90 * 86_400_000,
      dns: server.address
    }
    const services = await openServices({
      bus,
      clock,
      directory,
      secrets: [SECRET],
      config
    })
    const checks = startDomainChecks({ services, log, everyMs: 20 })
    t.teardown(async () => {
      await checks.stop()
      await directory.stop()
      await bus.close()
    })
    return { services, checks }
  }))
  const { services } = checkers[0]!
  return {
    clock,
    checks: checkers.map(({ checks }) => checks),
    add: async (name: string) =>
      (await addDomain(
        services,
        { account: 'acc_first', correlation: 'test', actor: roleActor('test') },
        name
      ) as Handled<'domain'>).domain,
    rotate: async (name: string) =>
      await rotateDomainKeys(
        services,
        { account: 'acc_first', correlation: 'test', actor: roleActor('test') },
        services.directory.now.domains.get(domainKey(FIRST_ACCOUNT, name))!
      ),
    now: (name: string) => services.directory.now.domains.get(domainKey(FIRST_ACCOUNT, name))!,
    types: async (name: string) =>
      (await readFacts(services.factLog.bus, 'CONTROL', subjects.domain(name))).map(({ fact }) => fact.type)
  }
}

const keyRecord = (name: string, { selector }: { selector: string }) => `${selector}._domainkey.${name}`
const questions = (server: DnsServer, name: string) => server.asked.filter(question => question.name === name).length

t.test('a domain is looked at again and again, and only what is new is recorded', async t => {
  const { clock, checks: [checks], add, now, types } = await openCheckers(t, [server])
  const { name, dkim } = await add('shop.example')
  const record = keyRecord(name, dkim.active[0]!)
  const later = async (ms: number) => {
    const before = questions(server, record)
    clock.ms += ms
    await until(() => questions(server, record) > before)
  }
  server.txt(record, `v=DKIM1; p=${dkim.active[0]!.publicKey}`)
  clock.ms += 59_000
  const elder = await add('elder.example')
  t.equal(questions(server, record), 0, 'not in its first minute')
  await later(1000)
  await until(() => now(name).status === 'verified')
  server.forget(record)
  await later(12 * HOUR_MS)
  await until(() => now(name).failingSince !== null)
  t.equal(now(name).status, 'verified')
  server.fails(record, 'SERVFAIL')
  await later(72 * HOUR_MS)
  server.txt(record, 'v=DKIM1; p=other')
  await later(HOUR_MS)
  await until(() => now(name).status === 'failed')
  server.txt(record, `v=DKIM1; p=${dkim.active[0]!.publicKey}`)
  await later(24 * HOUR_MS)
  await until(() => now(name).status === 'verified')
  await later(12 * HOUR_MS)
  t.equal(checks!.unhealthyReason(), null)
  await checks!.stop()
  t.same(await types(name), ['domain.added', 'domain.checked', 'domain.checked', 'domain.checked', 'domain.checked'])
  t.match(now(elder.name), {
    status: 'pending',
    records: [{ purpose: 'dkim', state: 'missing' }, { purpose: 'dkim', state: 'missing' }, {
      purpose: 'dmarc',
      state: 'missing'
    }]
  })
})

t.test('of two processes that see the same one records it', async t => {
  const servers = [await openDnsServer(t), await openDnsServer(t)]
  const { clock, checks, add, now, types } = await openCheckers(t, servers)
  const domains = await Promise.all(Array.from({ length: 20 }, (_, i) => add(`shop-${i}.example`)))
  const records = domains.map(({ name, dkim }) => ({
    name: keyRecord(name, dkim.active[0]!),
    value: `p=${dkim.active[0]!.publicKey}`
  }))
  for (const server of servers) for (const { name, value } of records) server.txt(name, value)
  clock.ms += MINUTE_MS
  await until(() =>
    servers.every(server => server.asked.length > 0) && domains.every(({ name }) => now(name).status === 'verified')
  )
  await Promise.all(checks.map(role => role.stop()))
  for (const { name } of domains) t.same(await types(name), ['domain.added', 'domain.checked'])
})

t.test('a rotation completes by itself: checked each minute, switched when seen, retired after seven days', async t => {
  const server = await openDnsServer(t)
  const { clock, checks: [checks], add, rotate, now, types } = await openCheckers(t, [server])
  const { name, dkim: { active: [old] } } = await add('turned.example')
  const publish = (key: { selector: string, publicKey: string }) =>
    server.txt(keyRecord(name, key), `v=DKIM1; p=${key.publicKey}`)
  publish(old!)
  clock.ms += MINUTE_MS
  await until(() => now(name)?.status === 'verified')

  const { domain: { dkim: { next } } } = await rotate(name) as Handled<'domain'>
  const fresh = next!.keys[0]!
  clock.ms += MINUTE_MS
  await until(() =>
    now(name).records.some(record => record.name === keyRecord(name, fresh) && record.state === 'missing')
  )
  t.equal(now(name).dkim.active[0]!.selector, old!.selector)
  t.match(await rotate(name), { code: 'rotation_under_way' })
  publish(fresh)
  clock.ms += MINUTE_MS
  await until(() => now(name).dkim.active[0]!.selector === fresh.selector)
  t.match(now(name), {
    status: 'verified',
    failingSince: null,
    dkim: { next: null, previous: { until: new Date(clock.ms + 7 * 24 * HOUR_MS).toISOString() } }
  })

  clock.ms += 7 * 24 * HOUR_MS - 1
  await until(() => questions(server, keyRecord(name, fresh)) > 1)
  t.not(now(name).dkim.previous, null)
  clock.ms += 1
  await until(() => now(name).dkim.previous === null)
  t.match(now(name).dkim, { active: [{ selector: fresh.selector }, {}], retired: [{ selector: old!.selector }, {}] })
  await checks!.stop()
  t.same(await types(name), [
    'domain.added',
    'domain.checked',
    'domain.rotation_started',
    'domain.checked',
    'domain.keys_switched',
    'domain.checked',
    'domain.keys_retired'
  ])
  t.not((await rotate(name) as Handled<'domain'>).domain.dkim.next, null, 'and then another may begin')
})

t.test('a role that is told to stop does not wait for a silent resolver beyond its 5 s', async t => {
  const silent = await openDnsServer(t)
  const { clock, checks: [checks], add, now } = await openCheckers(t, [silent])
  const { name, dkim } = await add('silent.example')
  const record = keyRecord(name, dkim.active[0]!)
  silent.fails(record, 'silence')
  clock.ms += MINUTE_MS
  await until(() => questions(silent, record) > 0)
  const startMs = Date.now()
  await checks!.stop()
  t.ok(Date.now() - startMs < 15_000)
  t.match(now(name), { status: 'pending', records: [] })
})
