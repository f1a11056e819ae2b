import { once } from 'node:events'
import { createServer } from 'node:https'
import t, { type Test } from 'tap'
import { DnsUnavailable } from '#src/dns/resolve.ts'
import { RetryLater } from '#src/workers/sender/errors.ts'
import { PolicyCache, type StsPolicy } from '#src/workers/sender/mta-sts.ts'
import { MxConnector } from '#src/workers/sender/mx.ts'
import { createPolicyStore } from '#src/workers/sender/policy-store.ts'
import { closeSession } from '#src/workers/sender/session.ts'
import { siteOf } from '#src/workers/sender/shaping.ts'
import { openBus } from '../support/bus.ts'
import { createAuthority } from '../support/certificates.ts'
import { openDirect, type DirectRig } from '../support/direct-rig.ts'
import { log, SMTP_QUICK, type RigOptions } from '../support/sender-rig.ts'
import { startSink } from '../support/smtp-sink.ts'
import { until } from '../support/wait.ts'

const authority = createAuthority()
const good = authority.certify('mx1.example.net', 'mx2.example.net', '*.pool.example.net')
const anothers = authority.certify('mx.elsewhere.example')

/** What policy hosts answer, by domain. */
type Answers = Record<string, { status?: number, type?: string, body: string, location?: string }>

/** Serves policies over HTTPS on loopback, as `mta-sts.` of the domains, and publishes that it does. */
async function servePolicies (t: Test, domains: string[]) {
  const answers: Answers = {}
  const asked: string[] = []
  const server = createServer(authority.certify(...domains.map(domain => `mta-sts.${domain}`)), (request, reply) => {
    const host = String(request.headers.host).replace(/:\d+$/, '')
    asked.push(`${host}${request.url}`)
    const { status = 200, type = 'text/plain', body, location } = answers[host.replace('mta-sts.', '')] ??
      { status: 404, body: '' }
    reply.writeHead(status, { 'content-type': type, ...(location === undefined ? {} : { location }) }).end(body)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { port: (server.address() as { port: number }).port, answers, asked, stop: () => server.closeAllConnections() }
}

const policy = (mode: string, ...mx: string[]) => ({
  body: ['version: STSv1', `mode: ${mode}`, ...mx.map(name => `mx: ${name}`), 'max_age: 86400', ''].join('\r\n')
})

async function openWithPolicies (t: Test, domains: string[], options: RigOptions = {}) {
  const policies = await servePolicies(t, domains)
  const trust = { ca: authority.ca, policyPort: policies.port, policyRefreshMs: 100 }
  const rig = await openDirect(t, { timings: { retry: { firstS: 100, maxS: 100 } }, ...options, direct: { trust } })
  for (const domain of domains) {
    rig.dns.host(`mta-sts.${domain}`, ['127.0.0.1'])
    rig.dns.txt(`_mta-sts.${domain}`, 'v=STSv1; id=1;')
  }
  return { ...rig, policies }
}

async function deliveredBy ({ ask, told }: Pick<DirectRig, 'ask' | 'told'>, address: string) {
  return (await told(await ask(address), ['attempted', 'delivered']))[1]!.data as {
    host: string
    tls: { version: string, cipher: string, verified: boolean } | null
  }
}

async function deferredBy ({ ask, told }: Pick<DirectRig, 'ask' | 'told'>, address: string) {
  return (await told(await ask(address), ['deferred']))[0]!.data
}

// They wait more than they work, and share nothing: some run beside each other.
t.jobs = 3

t.test('TLS is used when offered, whatever the certificate, and recorded', async t => {
  const rig = await openDirect(t, { direct: { trust: { ca: authority.ca, policyPort: 1, policyRefreshMs: 60_000 } } })
  await rig.mxHost('mx1.example.net', 2, { tls: good })
  await rig.mxHost('mx3.example.net', 3, { tls: anothers })
  rig.dns.mx('good.example', [10, 'mx1.example.net'])
  rig.dns.mx('odd.example', [10, 'mx3.example.net'])
  t.match(await deliveredBy(rig, 'a@good.example'), { tls: { version: 'TLSv1.3', cipher: /TLS_/, verified: true } })
  t.match(await deliveredBy(rig, 'a@odd.example'), { tls: { version: 'TLSv1.3', verified: false } })
})

t.test('broken TLS means plain on a new connection, each time again', async t => {
  const rig = await openDirect(t, { connections: 1 })
  const broken = await rig.mxHost('mx.broken.example', 2, { tls: 'broken', closesAfterMail: true })
  rig.dns.mx('broken.example', [10, 'mx.broken.example'])
  for (const [i, who] of ['a', 'b', 'c'].entries()) {
    t.match(await deliveredBy(rig, `${who}@broken.example`), { tls: null, plain: 'broken' })
    t.equal(broken.sessions().made, 2 * (i + 1), 'one that breaks, one in plain')
  }
})

const MINUTE = 60_000

/** Opens sessions with one host whose TLS may come and go, on a clock of its own. */
async function openHost (t: Test) {
  const host = { sink: await startSink({ tls: 'broken' }), nowMs: 1_700_000_000_000 }
  t.teardown(() => host.sink.stop())
  const options = {
    addressesOf: async () => ['127.0.0.1'],
    port: host.sink.port,
    source: null,
    allowPrivate: true,
    hostname: 'sender.test',
    timeouts: SMTP_QUICK,
    nowMs: () => host.nowMs
  }
  const connector = new MxConnector({
    ...options,
    stopping: new AbortController().signal,
    random: Math.random,
    log,
    onPolicyFault: () => {}
  })
  const { shape } = siteOf(['mx1.example.net'])
  /** Whether it speaks TLS, and over how many connections that was found. */
  async function look (): Promise<[boolean, number]> {
    let dialled = 0
    const session = await connector.open({
      domain: 'example.net',
      hosts: [{ preference: 0, exchange: 'mx1.example.net' }],
      shape,
      policy: null
    }, {
      unproven: false,
      at: () => {
        dialled++
      }
    })
    closeSession(session)
    return [session.tls !== null, dialled]
  }
  /** On the same port, TLS works from now on, or breaks. */
  async function become (tls: typeof good | 'broken'): Promise<void> {
    const { port } = host.sink
    await host.sink.stop()
    host.sink = await startSink({ port, tls })
  }
  return {
    look,
    become,
    later: (ms: number) => {
      host.nowMs += ms
    }
  }
}

t.test('a host whose TLS breaks twice, minutes apart, is spoken to in plain for three days', async t => {
  const { look, later } = await openHost(t)
  t.same(await look(), [false, 2])
  later(4 * MINUTE)
  t.same(await look(), [false, 2], 'not long enough ago to count')
  later(MINUTE)
  t.same(await look(), [false, 2])
  t.same(await look(), [false, 1], 'in plain at once')
  later(71 * 60 * MINUTE)
  t.same(await look(), [false, 1])
  later(60 * MINUTE)
  t.same(await look(), [false, 2], 'and then it is tried again')
})

t.test('two breaks of TLS more than an hour apart are two accidents', async t => {
  const { look, later } = await openHost(t)
  for (let i = 0; i < 3; i++) {
    t.same(await look(), [false, 2])
    later(61 * MINUTE)
  }
})

t.test('a good handshake wipes out the break before it', async t => {
  const { look, become, later } = await openHost(t)
  t.same(await look(), [false, 2])
  later(6 * MINUTE)
  await become(good)
  t.same(await look(), [true, 1])
  await become('broken')
  t.same(await look(), [false, 2])
  t.same(await look(), [false, 2], 'it is the first again')
})

t.test('a no to STARTTLS means plain on the same connection', async t => {
  const rig = await openDirect(t)
  const refusing = await rig.mxHost('mx.refusing.example', 2, { tls: 'refused' })
  rig.dns.mx('refusing.example', [10, 'mx.refusing.example'])
  for (const who of ['a', 'b']) {
    t.match(await deliveredBy(rig, `${who}@refusing.example`), { tls: null, plain: 'refused' })
  }
  t.equal(refusing.sessions().made, 1)
})

t.test('a great receiver that must have TLS gets no mail in plain', async t => {
  const rig = await openDirect(t, { timings: { retry: { firstS: 100, maxS: 100 } } })
  const [broken, plain] = [
    await rig.mxHost('mx1.google.com', 2, { tls: 'broken' }),
    await rig.mxHost('mx.orange.fr', 3)
  ]
  rig.dns.mx('gmail.example', [10, 'mx1.google.com'])
  rig.dns.mx('orange.example', [10, 'mx.orange.fr'])
  t.match(await deferredBy(rig, 'a@gmail.example'), { class: 'failedstarttls', reply: null })
  t.match(await deferredBy(rig, 'a@orange.example'), { class: 'failedstarttls', reply: null })
  t.same([broken.received.length, plain.received.length], [0, 0])
})

t.test('under enforce a host that the policy does not name is skipped', async t => {
  const rig = await openWithPolicies(t, ['strict.example'])
  const [stranger, named] = [
    await rig.mxHost('mx.elsewhere.example', 2, { tls: anothers }),
    await rig.mxHost('mx1.example.net', 3, { tls: good })
  ]
  rig.dns.mx('strict.example', [10, 'mx.elsewhere.example'], [20, 'mx1.example.net'])
  rig.policies.answers['strict.example'] = policy('enforce', 'mx1.example.net', '*.pool.example.net')
  t.match(await deliveredBy(rig, 'a@strict.example'), { host: 'mx1.example.net', tls: { verified: true } })
  t.equal(stranger.sessions().made, 0)
  t.equal(named.received.length, 1)
  t.same(rig.faults, [{ domain: 'strict.example', host: 'mx.elsewhere.example', mode: 'enforce', fault: 'name' }])
  t.same(rig.policies.asked, ['mta-sts.strict.example/.well-known/mta-sts.txt'])
})

t.test('under enforce no mail goes to a host whose certificate or TLS is not good', async t => {
  const rig = await openWithPolicies(t, ['false.example', 'plain.example'])
  const [falseHost, plainHost] = [
    await rig.mxHost('mx1.example.net', 2, { tls: anothers }),
    await rig.mxHost('mx2.example.net', 3)
  ]
  rig.dns.mx('false.example', [10, 'mx1.example.net'])
  rig.dns.mx('plain.example', [10, 'mx2.example.net'])
  for (const domain of ['false.example', 'plain.example']) {
    rig.policies.answers[domain] = policy('enforce', 'mx1.example.net', 'mx2.example.net')
    t.match(await deferredBy(rig, `a@${domain}`), { class: 'failedstarttls', reply: null, via: 'mx' })
  }
  t.same([falseHost.received.length, plainHost.received.length], [0, 0])
  t.same(rig.faults.map(({ domain, fault }) => `${domain} ${fault}`), ['false.example tls', 'plain.example tls'])
})

t.test('a session opened for any domain carries no mail under enforce, and that domain holds up no other', async t => {
  const rig = await openWithPolicies(t, ['strict.example'])
  const mx = await rig.mxHost('mx1.example.net', 2, { tls: anothers })
  for (const domain of ['strict.example', 'easy.example']) rig.dns.mx(domain, [10, 'mx1.example.net'])
  rig.policies.answers['strict.example'] = policy('enforce', 'mx1.example.net')
  t.match(await deliveredBy(rig, 'a@easy.example'), { tls: { verified: false } })
  t.match(await deferredBy(rig, 'a@strict.example'), { class: 'failedstarttls' })
  await deliveredBy(rig, 'b@easy.example')
  t.same(mx.received.map(({ to }) => to), ['a@easy.example', 'b@easy.example'])
})

t.test('under testing mail is delivered, and what enforce would have refused is counted', async t => {
  const rig = await openWithPolicies(t, ['trial.example'])
  await rig.mxHost('mx.elsewhere.example', 2)
  rig.dns.mx('trial.example', [10, 'mx.elsewhere.example'])
  rig.policies.answers['trial.example'] = policy('testing', 'mx1.example.net')
  t.match(await deliveredBy(rig, 'a@trial.example'), { host: 'mx.elsewhere.example', tls: null })
  t.same(rig.faults.map(({ mode, fault }) => `${mode} ${fault}`), ['testing name', 'testing tls'])
})

t.test('a known policy stays in force while nothing newer can be had', async t => {
  const rig = await openWithPolicies(t, ['strict.example'])
  await rig.mxHost('mx.elsewhere.example', 2, { tls: anothers })
  rig.dns.mx('strict.example', [10, 'mx.elsewhere.example'])
  rig.policies.answers['strict.example'] = policy('enforce', 'mx1.example.net')
  t.match(await deferredBy(rig, 'a@strict.example'), { class: 'failedstarttls' })
  // A new one is announced, and what is served is none: gone, elsewhere, or of another kind.
  const instead = [{ status: 404, body: '' }, { status: 302, body: '', location: 'https://127.0.0.1/' }, {
    ...policy('none'),
    type: 'text/html'
  }, { body: 'x'.repeat(70_000) }]
  for (const [i, answer] of instead.entries()) {
    rig.policies.answers['strict.example'] = answer
    rig.dns.txt('_mta-sts.strict.example', `v=STSv1; id=${i + 2};`)
    const before = rig.policies.asked.length
    await until(async () => {
      t.match(await deferredBy(rig, `r${i}@strict.example`), { class: 'failedstarttls' })
      return rig.policies.asked.length > before
    })
  }
  rig.dns.fails('_mta-sts.strict.example', 'SERVFAIL')
  t.match(await deferredBy(rig, 'b@strict.example'), { class: 'failedstarttls' })
})

t.test('a new policy takes the place of the old', async t => {
  const rig = await openWithPolicies(t, ['strict.example'])
  await rig.mxHost('mx.elsewhere.example', 2)
  rig.dns.mx('strict.example', [10, 'mx.elsewhere.example'])
  rig.policies.answers['strict.example'] = policy('enforce', 'mx1.example.net')
  await deferredBy(rig, 'a@strict.example')
  rig.policies.answers['strict.example'] = policy('none')
  rig.dns.txt('_mta-sts.strict.example', 'v=STSv1; id=2;')
  await until(async () => {
    const email = await rig.ask('b@strict.example')
    await until(async () => (await rig.facts(email)).length > 0)
    return (await rig.facts(email))[0]!.type === 'email.attempted'
  })
})

t.test('two records, or a policy host with a certificate of another, are no policy', async t => {
  const rig = await openWithPolicies(t, ['two.example'])
  await rig.mxHost('mx.elsewhere.example', 2)
  for (const domain of ['two.example', 'odd.example']) rig.dns.mx(domain, [10, 'mx.elsewhere.example'])
  rig.policies.answers['two.example'] = policy('enforce', 'mx1.example.net')
  rig.dns.txt('_mta-sts.two.example', 'v=STSv1; id=1;', 'v=STSv1; id=2;')
  await deliveredBy(rig, 'a@two.example')
  t.same(rig.policies.asked, [])
  rig.policies.answers['odd.example'] = policy('enforce', 'mx1.example.net')
  rig.dns.txt('_mta-sts.odd.example', 'v=STSv1; id=1;')
  rig.dns.host('mta-sts.odd.example', ['127.0.0.1'])
  await deliveredBy(rig, 'a@odd.example')
})

/** Looks policies up at hosts that are one server, slow until it is let go; it counts which hosts are being asked, and
 *  the most at once. */
async function openSlow (t: Test, fetchMs: number) {
  const state = {
    body: policy('enforce', 'mx1.example.net').body,
    id: 1 as number | null,
    slow: true,
    open: new Set<string>(),
    most: 0
  }
  const held = new Set<() => void>()
  const server = createServer(
    authority.certify('mta-sts.good.example', ...Array.from({ length: 8 }, (_, i) => `mta-sts.d${i}.evil.example`)),
    (request, reply) => {
      const host = String(request.headers.host).replace(/:\d+$/, '')
      state.open.add(host)
      state.most = Math.max(state.most, state.open.size)
      reply.on('close', () => state.open.delete(host))
      const answer = () => void reply.writeHead(200, { 'content-type': 'text/plain' }).end(state.body)
      if (state.slow && host !== 'mta-sts.good.example') held.add(answer)
      else answer()
    }
  )
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const dns = {
    txt: async () => {
      if (state.id === null) throw new DnsUnavailable('held back')
      return [`v=STSv1; id=${state.id};`]
    },
    cname: async () => null,
    mx: async () => null,
    addresses: async () => ({ addresses: ['127.0.0.1'], ttlS: 60 })
  }
  let nowMs = Date.now()
  const { bus } = await openBus(t)
  const shared = {
    dns,
    store: createPolicyStore(bus),
    allowPrivate: true,
    nowMs: () => nowMs,
    stopping: new AbortController().signal,
    log,
    ca: authority.ca
  }
  const restarted = () => new PolicyCache({ ...shared, port: (server.address() as { port: number }).port, fetchMs })
  const policies = restarted()
  /** What is said of the domain once it is no longer being looked for. */
  async function settled (domain: string): Promise<StsPolicy | null> {
    for (;;) {
      const found = await policies.of(domain).catch((error: unknown) => error)
      if (!(found instanceof RetryLater)) return found as StsPolicy | null
    }
  }
  const letGo = () => {
    state.slow = false
    for (const answer of held) answer()
  }
  return {
    state,
    bus,
    policies,
    restarted,
    settled,
    letGo,
    later: (ms: number) => {
      nowMs += ms
    }
  }
}

t.test('no mail waits for a slow policy host: it comes back, and goes without a policy that is late', async t => {
  const { policies, settled } = await openSlow(t, 4000)
  const all = [0, 1, 2].map(i => `d${i}.evil.example`)
  for (const result of await Promise.allSettled(all.map(domain => policies.of(domain)))) {
    t.match(result, { status: 'rejected', reason: { name: 'RetryLater' } })
  }
  t.same(await settled(all[0]!), null)
})

t.test('policies of one parent domain are fetched two at a time, and other domains do not wait for them', async t => {
  const { state, policies, settled, letGo } = await openSlow(t, 8000)
  const all = Array.from({ length: 8 }, (_, i) => `d${i}.evil.example`)
  const first = all.map(domain => policies.of(domain).catch((error: unknown) => error))
  await until(() => state.open.size === 2)
  t.match(await policies.of('good.example'), { mode: 'enforce' })
  t.ok((await Promise.all(first)).every(result => result instanceof RetryLater))
  t.equal(state.most, 3, 'two, and the good one')
  letGo()
  for (const domain of all) t.match(await settled(domain), { mode: 'enforce' }, domain)
})

t.test('where a policy is known, it holds while a newer one is waited for', async t => {
  const { state, policies, letGo, later, settled } = await openSlow(t, 8000)
  letGo()
  t.match(await policies.of('d0.evil.example'), { mode: 'enforce' })
  Object.assign(state, { slow: true, id: 2, body: policy('none').body })
  later(301_000)
  t.match(await policies.of('d0.evil.example'), { mode: 'enforce' })
  letGo()
  await until(async () => await settled('d0.evil.example') === null)
})

t.test('a policy is known after a restart, while its record and its host are held back, until it expires', async t => {
  const { state, bus, policies, restarted, letGo, later } = await openSlow(t, 500)
  letGo()
  t.match(await policies.of('d0.evil.example'), { mode: 'enforce', mx: ['mx1.example.net'] })
  const store = createPolicyStore(bus)
  await until(async () => await store.read('d0.evil.example') !== null)
  Object.assign(state, { id: null, slow: true })
  t.match(await restarted().of('d0.evil.example'), { mode: 'enforce', mx: ['mx1.example.net'] })
  t.equal(await restarted().of('d1.evil.example'), null, 'of another nothing is known')
  later(3_600_000)
  t.match(await restarted().of('d0.evil.example'), { mode: 'enforce' })
  later(31_557_600_000)
  t.equal(await restarted().of('d0.evil.example'), null)
  await bus.close()
  await t.rejects(restarted().of('d0.evil.example'), { name: 'RetryLater' }, 'who cannot look waits')
})
