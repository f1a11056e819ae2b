import t from 'tap'
import { openDirect } from '../support/direct-rig.ts'
import { eventOf } from '../support/sender-rig.ts'
import { until } from '../support/wait.ts'

// They wait more than they work, and share nothing: some run beside each other.
t.jobs = 3

t.test('mail goes to the best MX host, and facts say which', async t => {
  const { ask, told, dns, mxHost, sink: catcher } = await openDirect(t)
  const [best, other] = [await mxHost('mx1.example.net', 2), await mxHost('mx2.example.net', 3)]
  dns.mx('example.net', [20, 'mx2.example.net'], [10, 'MX1.Example.Net'])
  const [, delivered] = await told(await ask('a@example.net'), ['attempted', 'delivered'])
  t.match(delivered!.data, {
    via: 'mx',
    host: 'mx1.example.net',
    address: '127.0.0.2',
    tls: null,
    plain: 'not_offered',
    reply: { code: 250 }
  })
  t.equal(eventOf(delivered).data.via, 'mx')
  t.same([best.received.length, other.received.length, catcher.received.length], [1, 0, 0])
})

t.test('mail of test keys and to the sandbox goes to the catcher, whatever DNS says', async t => {
  const { ask, told, dns, mxHost, sink: catcher } = await openDirect(t)
  await mxHost('mx.example.net', 2)
  dns.mx('example.net', [10, 'mx.example.net'])
  dns.mx('sandbox.jetpost.test', [10, 'mx.example.net'])
  const sandbox = await ask(['delivered@sandbox.jetpost.test', 'a@example.net'])
  t.match((await told(sandbox, ['attempted', 'delivered'], 0))[1]!.data, {
    via: 'relay',
    to: 'delivered@sandbox.jetpost.test'
  })
  t.match((await told(sandbox, ['attempted', 'delivered'], 1))[1]!.data, { via: 'mx' })
  t.match((await told(await ask('b@example.net', { test: true }), ['attempted', 'delivered']))[1]!.data, {
    via: 'relay'
  })
  t.same(catcher.received.map(({ to }) => to), ['delivered@sandbox.jetpost.test', 'b@example.net'])
})

t.test('a host that is away, and one that greets with 5xx, leave the mail to the next', async t => {
  const { ask, told, dns, mxHost } = await openDirect(t)
  dns.host('away.example.net', ['127.0.0.9'])
  const [rude, last] = [await mxHost('rude.example.net', 2), await mxHost('last.example.net', 3)]
  rude.greet('554 5.7.1 nobody is at home')
  dns.mx('example.net', [10, 'away.example.net'], [20, 'rude.example.net'], [30, 'last.example.net'])
  const [, delivered] = await told(await ask('a@example.net'), ['attempted', 'delivered'])
  t.match(delivered!.data, { host: 'last.example.net', attempt: 1 })
  t.equal(last.received.length, 1)
  t.equal(rude.sessions().made, 1)
})

t.test('a 5xx banner of all hosts is no bounce: it is tried later', async t => {
  const { ask, told, dns, mxHost } = await openDirect(t, { timings: { retry: { firstS: 7, maxS: 7 } } })
  const mx = await mxHost('mx.example.net', 2)
  mx.greet('554 5.7.1 nobody is at home')
  dns.mx('example.net', [10, 'mx.example.net'])
  const email = await ask('a@example.net')
  const [deferred] = await told(email, ['deferred'])
  t.match(deferred!.data, { via: 'mx', host: 'mx.example.net', stage: 'connect', reply: { code: 554 } })
  mx.greet(null)
  await told(email, ['deferred', 'attempted', 'delivered'])
})

t.test('after a 4xx at RCPT the next host is not asked, and the greylisting one takes the retry', async t => {
  const { ask, told, dns, mxHost } = await openDirect(t)
  const [grey, backup] = [await mxHost('mx1.example.net', 2), await mxHost('mx2.example.net', 3)]
  dns.mx('example.net', [10, 'mx1.example.net'], [20, 'mx2.example.net'])
  grey.replies('a@example.net', { rcpt: '451 4.7.1 Greylisted, come back in 5 minutes' })
  const [deferred, , delivered] = await told(await ask('a@example.net'), ['deferred', 'attempted', 'delivered'])
  t.match(deferred!.data, { host: 'mx1.example.net', stage: 'rcpt', class: 'speeding' })
  t.match(delivered!.data, { host: 'mx1.example.net', attempt: 2 })
  t.equal(backup.sessions().made, 0)
})

t.test('without MX records the domain itself is the host, also behind an alias', async t => {
  const { ask, told, dns, mxHost } = await openDirect(t)
  await mxHost('bare.example.net', 2)
  dns.cname('alias.example.net', 'bare.example.net')
  const hosts = []
  for (const domain of ['bare.example.net', 'alias.example.net']) {
    const [, delivered] = await told(await ask(`a@${domain}`), ['attempted', 'delivered'])
    hosts.push((delivered!.data as { host: string }).host)
  }
  t.same(hosts, ['bare.example.net', 'bare.example.net'])
  await mxHost('mx.example.net', 3)
  dns.mx('real.example.net', [10, 'mx.example.net'])
  dns.cname('other.example.net', 'real.example.net')
  t.match((await told(await ask('a@other.example.net'), ['attempted', 'delivered']))[1]!.data, {
    host: 'mx.example.net'
  })
})

t.test('a null MX is a bounce without an attempt', async t => {
  const { ask, told, dns, reports } = await openDirect(t)
  dns.mx('none.example.net', [0, ''])
  dns.host('none.example.net', ['127.0.0.2'])
  const [bounced] = await told(await ask('a@none.example.net'), ['bounced'])
  t.match(bounced!.data, {
    class: 'notaccept',
    status: '5.1.10',
    reply: null,
    error: /null MX/,
    host: null,
    via: 'mx',
    stage: 'connect'
  })
  t.match(eventOf(bounced).data.bounce, { type: 'hard', class: 'notaccept', final: true })
  // Told once the fact is written, which is what was waited for.
  await until(() => reports.length > 0)
  t.match(reports, [{ result: 'bounced', class: 'notaccept', host: null, code: null }])
})

t.test('a domain that is not there is looked for twice before its mail bounces', async t => {
  const { ask, told, dns } = await openDirect(t)
  const [deferred, bounced] = await told(await ask('a@nobody.example'), ['deferred', 'bounced'])
  t.match(deferred!.data, { class: 'hostunknown', reply: null, error: /no domain/ })
  t.match(bounced!.data, { class: 'hostunknown', status: '5.1.2', reply: null })
  t.equal(dns.asked.filter(({ name, type }) => name === 'nobody.example' && type === 'MX').length, 2)
})

t.test('a domain that comes to be between the two looks gets its mail', async t => {
  const { ask, told, dns, mxHost } = await openDirect(t)
  await mxHost('mx.example.net', 2)
  const email = await ask('a@late.example')
  await told(email, ['deferred'])
  dns.mx('late.example', [10, 'mx.example.net'])
  await told(email, ['deferred', 'attempted', 'delivered'])
})

t.test('a domain with neither MX host nor address bounces in the same way', async t => {
  const { ask, told, dns } = await openDirect(t)
  dns.txt('bare.example', 'v=spf1 -all')
  const [, bounced] = await told(await ask('a@bare.example'), ['deferred', 'bounced'])
  t.match(bounced!.data, { class: 'hostunknown', status: '5.4.4' })
})

t.test('while DNS does not say, mail waits', async t => {
  const { ask, told, dns, mxHost } = await openDirect(t)
  await mxHost('mx.example.net', 2)
  dns.fails('sick.example', 'SERVFAIL')
  const email = await ask('a@sick.example')
  const [deferred] = await told(email, ['deferred'])
  t.match(deferred!.data, { class: 'networkerror', reply: null, error: /DNS/ })
  dns.mx('sick.example', [10, 'mx.example.net'])
  await told(email, ['deferred', 'attempted', 'delivered'])
})

t.test('a private MX is refused where the operator has not allowed it', async t => {
  const { ask, told, dns, mxHost } = await openDirect(t, {
    direct: { mxAllowPrivate: false },
    timings: { retry: { firstS: 100, maxS: 100 } }
  })
  const mx = await mxHost('inside.example.net', 2)
  dns.mx('example.net', [10, 'inside.example.net'])
  const [deferred] = await told(await ask('a@example.net'), ['deferred'])
  t.match(deferred!.data, {
    class: 'networkerror',
    error: /inside\.example\.net has no public address/,
    host: 'inside.example.net'
  })
  t.equal(mx.sessions().made, 0)
})

t.test('a host that moves is found again when its address has run out', async t => {
  const { ask, told, facts, dns, mxHost } = await openDirect(t)
  const before = await mxHost('mx.example.net', 2)
  dns.host('mx.example.net', ['127.0.0.2'], 1)
  dns.mx('example.net', [10, 'mx.example.net'])
  await told(await ask('a@example.net'), ['attempted', 'delivered'])
  await before.stop()
  const after = await mxHost('mx.example.net', 3)
  const email = await ask('b@example.net')
  await until(async () => (await facts(email)).at(-1)?.type === 'email.delivered', 20_000)
  t.same([before.received.length, after.received.length], [1, 1])
})

t.test('an IPv6 address is used when there is no other, and only then', async t => {
  const { ask, told, dns, mxHost } = await openDirect(t)
  await mxHost('mx.example.net', 2)
  dns.host('mx.example.net', ['::1', '127.0.0.2'])
  dns.mx('example.net', [10, 'mx.example.net'])
  await told(await ask('a@example.net'), ['attempted', 'delivered'])
  dns.host('six.example.net', ['::1'])
  dns.mx('six.example', [10, 'six.example.net'], [20, 'mx.example.net'])
  t.match(
    (await told(await ask('a@six.example'), ['attempted', 'delivered']))[1]!.data,
    { host: 'mx.example.net' },
    'nobody listens there'
  )
})

t.test('where we are among the hosts, mail goes to better ones only', async t => {
  const { ask, told, dns, mxHost } = await openDirect(t, { timings: { retry: { firstS: 100, maxS: 100 } } })
  const [best, ours] = [await mxHost('mx.example.net', 2), await mxHost('sender.test', 3)]
  dns.mx('example.net', [10, 'mx.example.net'], [20, 'sender.test'])
  await told(await ask('a@example.net'), ['attempted', 'delivered'])
  dns.mx('loop.example', [10, 'sender.test'], [20, 'mx.example.net'])
  t.match((await told(await ask('a@loop.example'), ['deferred']))[0]!.data, {
    class: 'networkerror',
    error: /as its best MX host/
  })
  t.same([best.received.length, ours.sessions().made], [1, 0])
})

t.test('servers of every kind are served', async t => {
  const { ask, told, dns, mxHost } = await openDirect(t)
  const kinds = {
    'old.example': await mxHost('mx.old.example', 2, { extensions: null }),
    'curt.example': await mxHost('mx.curt.example', 3, { closesAfterMail: true }),
    'plain.example': await mxHost('mx.plain.example', 4, { extensions: [] })
  }
  for (const [domain, sink] of Object.entries(kinds)) {
    dns.mx(domain, [10, `mx.${domain}`])
    const emails = await Promise.all(Array.from({ length: 6 }, (_, i) => ask(`r${i}@${domain}`)))
    for (const email of emails) {
      t.match((await told(email, ['attempted', 'delivered']))[1]!.data, { tls: null, attempt: 1 })
    }
    t.equal(sink.received.filter(({ accepted }) => accepted).length, 6, domain)
  }
})

t.test('an address beyond ASCII goes to a server that takes it, and to no other', async t => {
  const { ask, told, dns, mxHost } = await openDirect(t)
  await mxHost('mx.new.example', 2)
  await mxHost('mx.old.example', 3, { extensions: ['8BITMIME'] })
  dns.mx('new.example', [10, 'mx.new.example'])
  dns.mx('old.example', [10, 'mx.old.example'])
  await told(await ask('ünal@new.example'), ['attempted', 'delivered'])
  t.match((await told(await ask('ünal@old.example'), ['failed']))[0]!.data, { reason: 'unsendable', detail: /5\.6\.7/ })
  await told(await ask('unal@old.example'), ['attempted', 'delivered'])
})
