import diagnostics from 'node:diagnostics_channel'
import { once } from 'node:events'
import { BlockList, createServer, type AddressInfo, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { Client } from 'undici'
import { explainers } from '#src/cli/explain.ts'
import { createConnector, createResolver, hostFault, isPublic, TargetRefused, type Resolve } from '#src/dns/guard.ts'
import { createPoster } from '#src/workers/webhooks/post.ts'
import { openDnsServer } from '../support/dns-server.ts'
import { startHookSink } from '../support/hook-sink.ts'

/** Counts who connects, and hangs up. */
async function openListener (t: Test, host = '127.0.0.1', port = 0) {
  const server = createServer(socket => void socket.on('error', () => {}).destroy())
  server.listen(port, host)
  await once(server, 'listening')
  t.teardown(() => server.close())
  let calls = 0
  server.on('connection', () => calls++)
  return { port: (server.address() as AddressInfo).port, calls: () => calls }
}

/** Sockets of this process that set out from now on, each with the addresses that its name led to. None of them is let
 *  out. */
function holdBack (t: Test): string[][] {
  const nowhere = new BlockList()
  nowhere.addSubnet('0.0.0.0', 0, 'ipv4')
  nowhere.addSubnet('::', 0, 'ipv6')
  const sockets: string[][] = []
  const watch = (message: unknown): void => {
    const { socket } = message as { socket: Socket }
    const addresses: string[] = []
    sockets.push(addresses)
    Object.assign(socket, { blockList: nowhere })
    socket.on('lookup', (_error, address) => {
      if (address) addresses.push(address)
    })
  }
  diagnostics.subscribe('net.client.socket', watch)
  t.teardown(() => diagnostics.unsubscribe('net.client.socket', watch))
  return sockets
}

const explain = async (url: string) =>
  await explainers['webhook-url']!.explain({ url }) as { ok: boolean, reason: string | null }

t.test('only addresses of the public internet may be called', async t => {
  for (
    const address of [
      '1.1.1.1',
      '8.8.8.8',
      '9.255.255.255',
      '11.0.0.0',
      '100.63.255.255',
      '100.128.0.0',
      '126.255.255.255',
      '128.0.0.0',
      '168.63.129.15',
      '168.63.129.17',
      '169.253.255.255',
      '169.255.0.0',
      '172.15.0.1',
      '172.32.0.1',
      '192.0.1.0',
      '192.0.3.0',
      '192.167.255.255',
      '192.169.0.0',
      '198.17.255.255',
      '198.20.0.0',
      '223.255.255.255',
      '2001:200::',
      '2001:4860:4860::8888',
      '2001:db7:ffff::1',
      '2001:db9::1',
      '2003::1',
      '2a00:1450::1',
      '2600:1f00::5efe',
      '3ffe:ffff::1',
      '3fff:1000::1',
      '::ffff:8.8.8.8',
      '::ffff:808:808'
    ]
  ) t.equal(isPublic(address), true, address)
  for (
    const address of [
      // IANA IPv4 Special-Purpose Address Registry, each block's ends.
      '0.0.0.0',
      '0.255.255.255',
      '10.0.0.0',
      '10.255.255.255',
      '100.64.0.0',
      '100.100.100.200',
      '100.127.255.255',
      '127.0.0.0',
      '127.0.0.1',
      '127.255.255.255',
      '169.254.0.0',
      '169.254.169.254',
      '169.254.170.2',
      '169.254.255.255',
      '172.16.0.0',
      '172.31.255.255',
      '192.0.0.0',
      '192.0.0.8',
      '192.0.0.9',
      '192.0.0.170',
      '192.0.0.192',
      '192.0.0.255',
      '192.0.2.0',
      '192.0.2.255',
      '192.31.196.1',
      '192.52.193.1',
      '192.88.99.0',
      '192.88.99.255',
      '192.168.0.0',
      '192.168.255.255',
      '192.175.48.1',
      '198.18.0.0',
      '198.19.255.255',
      '198.51.100.0',
      '198.51.100.255',
      '203.0.113.0',
      '203.0.113.255',
      '224.0.0.0',
      '239.255.255.255',
      '240.0.0.0',
      '255.255.255.255',
      '168.63.129.16',
      // IANA IPv6 Special-Purpose Address Registry, and what is not handed out at all.
      '::',
      '::1',
      '::2',
      '::127.0.0.1',
      '::8.8.8.8',
      '::808:808',
      '0:0:0:0:0:0:8.8.8.8',
      '::ffff:0.0.0.0',
      '::ffff:127.0.0.1',
      '::ffff:10.0.0.1',
      '::ffff:a9fe:a9fe',
      '::ffff:168.63.129.16',
      '::ffff:0:127.0.0.1',
      '::ffff:0:8.8.8.8',
      '64:ff9b::7f00:1',
      '64:ff9b::8.8.8.8',
      '64:ff9b:1::1',
      '64:ff9b:1:ffff::808:808',
      '100::1',
      '100:0:0:1::1',
      '2001::1',
      '2001:0:7f00:1::',
      '2001:1::1',
      '2001:1::3',
      '2001:2::1',
      '2001:3::1',
      '2001:4:112::1',
      '2001:10::1',
      '2001:20::1',
      '2001:30::1',
      '2001:1ff:ffff::1',
      '2001:db8::1',
      '2001:db8:ffff::1',
      '2002::',
      '2002:7f00:1::',
      '2002:a00:1::1',
      '2002:808:808::1',
      '2620:4f:8000::1',
      '3fff::1',
      '3fff:fff::1',
      '4000::1',
      '5f00::1',
      '8000::1',
      'e000::1',
      'fc00::1',
      'fd00:ec2::254',
      'fd00:42::42',
      'fdff:ffff::1',
      'fe80::1',
      'fe80::a9fe:a9fe',
      'fe80::1%eth0',
      'febf:ffff::1',
      'fec0::1',
      'ff01::1',
      'ff02::1',
      'ff0e::1',
      '2001:4860::5efe:7f00:1',
      '2001:4860::200:5efe:7f00:1',
      '2a00:1450::5efe:a00:1',
      '127.1',
      '0x7f.1',
      '0177.0.0.1',
      '2130706433',
      'localhost',
      '8.8.8.8.',
      '8.8.8.8/32',
      ' 8.8.8.8',
      '[2003::1]',
      ''
    ]
  ) t.equal(isPublic(address), false, address)
})

/** Ways to write 127.0.0.1, or a name of it, with PORT where the port goes. */
const LOOPBACK = [
  ...[
    '127.0.0.1',
    '127.0.0.1.',
    '127.1',
    '127.0.1',
    '127.000.000.001',
    '0177.0.0.1',
    '00000000177.0.0.1',
    '0177.0.0.01',
    '0177.1',
    '017700000001',
    '0x7f.0.0.1',
    '0X7F.0x0.0x0.0x1',
    '0x0000000007f.0.0.1',
    '0x7f.1',
    '0x7f000001',
    '0X7F000001',
    '2130706433',
    '2130706433.',
    '127.0x1',
    '127.0.0x0.01',
    '１２７.０.０.１',
    '１２７。０．０｡１',
    '127。0。0。1',
    '①②⑦.⓪.⓪.①',
    '𝟏𝟐𝟕.𝟎.𝟎.𝟏',
    '𝟙𝟚𝟟.0.0.1',
    '¹²⁷.⁰.⁰.¹',
    '₁₂₇.₀.₀.₁',
    '０ｘ７ｆ.1',
    '２１３０７０６４３３',
    '%31%32%37.0.0.1',
    '127%2e0%2E0%2e1',
    '%EF%BC%91%32%37.0.0.1',
    '127%E3%80%820%E3%80%820%E3%80%821',
    '12\u00AD7.0.0.1',
    '12\u200B7.0.0.1',
    '127\uFE0F.0.0.1',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[0:0:0:0:0:FFFF:7F00:0001]',
    'localhost',
    'LocalHost',
    'lo\u00ADcalhost',
    'ⓛⓞⓒⓐⓛⓗⓞⓢⓣ',
    'ｌｏｃａｌｈｏｓｔ',
    'localhoſt',
    '%6c%6Fcalhost'
  ].map(host => `https://${host}:PORT/hook`),
  'https://public@127.0.0.1:PORT/',
  'https://8.8.8.8@127.0.0.1:PORT/',
  'https://8.8.8.8:443@127.0.0.1:PORT/',
  'https://example.com:443%2F@127.0.0.1:PORT/',
  'https://example.com%23@127.0.0.1:PORT/',
  'https://a@b@127.0.0.1:PORT/',
  'https://@127.0.0.1:PORT/',
  'https://127.0.0.1:PORT#@example.com',
  'https://127.0.0.1:PORT?@example.com',
  'https://127.0.0.1:PORT\\@example.com',
  'https://127.0.0.1:PORT/@example.com',
  'https:127.0.0.1:PORT',
  'https:/127.0.0.1:PORT',
  'https:///127.0.0.1:PORT',
  'https:\\\\127.0.0.1:PORT',
  'HTTPS://127.0.0.1:PORT',
  'https://127.0.0.1:00PORT',
  'https://1\t27.0.0.1:PORT',
  'https://127.0.0.1\n:PORT',
  ' https://127.0.0.1:PORT'
]

/** The same for ::1. */
const LOOPBACK6 = ['[::1]', '[0:0:0:0:0:0:0:1]', '[0000::0001]', '[::0.0.0.1]', 'public@[::1]'].map(host =>
  `https://${host}:PORT/`
)

const OTHER_HOSTS = [
  // Unspecified, all of loopback, private, link-local, CGNAT, metadata, multicast, broadcast, documentation,
  // benchmarks.
  '0',
  '0.0.0.0',
  '0x0',
  '00',
  '0.0.0.1',
  '127.0.0.2',
  '127.255.255.254',
  '127.65535',
  '10.0.0.1',
  '10.1',
  '0xa000001',
  '167772161',
  '012.0.0.1',
  '172.16.0.1',
  '0xac.16.1',
  '192.168.0.1',
  '192.168.1',
  '0300.0250.0.1',
  '3232235521',
  '169.254.169.254',
  '0xa9fea9fe',
  '2852039166',
  '0251.0376.0251.0376',
  '169.254.43518',
  '１６９.２５４.１６９.２５４',
  '169。254。169。254',
  '%31%36%39.254.169.254',
  '169.254.170.2',
  '100.64.0.1',
  '100.100.100.200',
  '168.63.129.16',
  '0xa83f8110',
  '2822734096',
  '192.0.0.192',
  '224.0.0.1',
  '239.255.255.250',
  '240.0.0.1',
  '255.255.255.255',
  '0xffffffff',
  '4294967295',
  '192.0.2.1',
  '198.51.100.1',
  '203.0.113.1',
  '198.18.0.1',
  '192.88.99.1',
  // IPv6, and IPv4 in it: mapped, compatible, translated, NAT64, 6to4, Teredo, ISATAP.
  '[::]',
  '[::ffff:0.0.0.0]',
  '[::ffff:10.0.0.1]',
  '[::ffff:169.254.169.254]',
  '[::ffff:a9fe:a9fe]',
  '[::ffff:168.63.129.16]',
  '[::127.0.0.1]',
  '[::10.0.0.1]',
  '[::ffff:0:127.0.0.1]',
  '[64:ff9b::127.0.0.1]',
  '[64:ff9b::a9fe:a9fe]',
  '[64:ff9b:1::7f00:1]',
  '[64:ff9b:1::a00:1]',
  '[2002:7f00:1::]',
  '[2002:a9fe:a9fe::1]',
  '[2001:0:7f00:1::1]',
  '[2001::a9fe:a9fe]',
  '[2001:4860::5efe:127.0.0.1]',
  '[2001:4860::200:5efe:10.0.0.1]',
  '[fc00::1]',
  '[fd00:ec2::254]',
  '[fe80::1]',
  '[fe80::a9fe:a9fe]',
  '[fec0::1]',
  '[ff02::1]',
  '[ff05::2]',
  '[100::1]',
  '[2001:db8::1]',
  '[3fff::1]',
  '[2001:2::1]',
  '[2001:10::1]',
  '[2001:20::1]',
  '[5f00::1]',
  '[4000::1]',
  // Names that lead inside, wherever they are asked for.
  'localhost.',
  'localhost..',
  'a.localhost',
  'a.b.LOCALHOST.',
  'printer.local',
  'printer｡local',
  'metadata.google.internal',
  'metadata.google.internal.',
  'vault.internal',
  'router.home.arpa',
  'ⓜetadata.google.ⓘnternal',
  '127.0.0.1..',
  '10.0.0.1...'
]
const OTHERS = [
  ...OTHER_HOSTS.map(host => `https://${host}/`),
  'https://10.0.0.1:8443/',
  'https://169.254.169.254:80/latest/meta-data/',
  'https://8.8.8.8@169.254.169.254/',
  'https://169.254.169.254#@8.8.8.8/',
  'https://169.254.169.254\\@8.8.8.8/',
  'https://[::ffff:169.254.169.254]:443/',
  'https://x:y@[fd00:ec2::254]/'
]

/** Nothing that could be called. */
const UNREADABLE = [
  '',
  'https://',
  'https://?',
  'https://[::1',
  'https://::1',
  'https://[::1].',
  'https://[::1%25lo]',
  'https://[fe80::1%25eth0]',
  'https://[fe80::1%eth0]',
  'https://[::ffff:0x7f.0.0.1]',
  'https://[::ffff:１２７.0.0.1]',
  'https://[127.0.0.1]',
  'https://127.0.0.1.1',
  'https://256.0.0.1',
  'https://127.0.0.256',
  'https://0x100000000',
  'https://4294967296',
  'https://08.0.0.1',
  'https://0x7g.1',
  'https://127.0.0.1%00',
  'https://127.0.0.1%20',
  'https://127.0.0.1%2f',
  'https://127.0.0.1%23@8.8.8.8%40',
  'https:// 127.0.0.1',
  'https://127.0.0.1 /',
  'https://127.0.0.1:65536',
  'https://127.0.0.1:-1',
  'https://127.0.0.1:4４3x',
  'https://١٢٧.٠.٠.١',
  'https://8.8.8.8 @127.0.0.1:x',
  '//127.0.0.1',
  '/hook',
  '127.0.0.1',
  'localhost:443'
]

t.test('a target is refused however it is written, and nothing sets out', async t => {
  const listener = await openListener(t)
  const sockets = holdBack(t)
  const poster = createPoster({ allowPrivate: false, timeoutMs: 3000 })
  t.teardown(() => poster.close())
  for (const text of [...LOOPBACK, ...LOOPBACK6, ...OTHERS]) {
    const written = text.replace('PORT', String(listener.port))
    const answer = await poster.post(new URL(written), {}, Buffer.from('{}'))
    t.match(answer, {
      status: null,
      error: /^target refused: .+ is (not a public address|a name of private networks)$/
    }, written)
    t.match(await explain(written), { ok: false, reason: /./ }, written)
  }
  t.strictSame(sockets, [])
  t.equal(listener.calls(), 0)
})

t.test('every way to write loopback does lead there, where it is allowed', async t => {
  const listener = await openListener(t)
  const poster = createPoster({ allowPrivate: true, timeoutMs: 3000 })
  t.teardown(() => poster.close())
  const reaches = async (text: string, { port, calls }: typeof listener) => {
    const before = calls()
    const written = text.replace('PORT', String(port))
    await poster.post(new URL(written), {}, Buffer.from('{}'))
    t.ok(calls() > before, written)
  }
  for (const text of LOOPBACK) await reaches(text, listener)
  const six = await openListener(t, '::1').catch(() => null)
  if (six === null) t.pass('this machine has no IPv6')
  else for (const text of LOOPBACK6) await reaches(text, six)
})

t.test('what is no URL of a host, or not https, goes nowhere', async t => {
  const listener = await openListener(t)
  const poster = createPoster({ allowPrivate: false, timeoutMs: 3000 })
  t.teardown(() => poster.close())
  for (const text of UNREADABLE) {
    t.match(await explain(text), { ok: false, reason: /./ }, text)
    t.ok(URL.parse(text) === null || URL.parse(text)!.protocol !== 'https:', text)
  }
  for (const scheme of ['http', 'ws', 'ftp']) {
    const text = `${scheme}://127.0.0.1:${listener.port}/`
    t.match(await explain(text), { ok: false }, text)
    t.match(await poster.post(new URL(text), {}, Buffer.from('{}')), {
      status: null,
      error: 'target refused: only https is allowed'
    }, text)
  }
  for (
    const text of [
      'https://8.8.8.8#@127.0.0.1/',
      'https://8.8.8.8/@127.0.0.1/',
      'https://8.8.8.8\\@127.0.0.1',
      'https://[2003::1]/?https://127.0.0.1'
    ]
  ) t.match(await explain(text), { ok: true, reason: null }, text)
  t.equal(listener.calls(), 0)
})

/** One request as the poster makes it, with names from that DNS. */
async function call (url: string, resolve: Resolve, allowPrivate = false): Promise<Error> {
  const { origin } = new URL(url)
  const client = new Client(origin, { connect: createConnector(allowPrivate, { resolve }) })
  try {
    return await client.request({ path: '/', method: 'POST', body: '{}' }).then(() => {
      throw new Error('there was an answer')
    }, error => error)
  } finally {
    await client.destroy()
  }
}

t.test('a name that was public when the endpoint was made, and is private when it is called, is refused', async t => {
  const [dns, listener] = [await openDnsServer(t), await openListener(t)]
  const resolve = createResolver(dns.address)
  const url = `https://hooks.rebound.test:${listener.port}/`
  dns.host('hooks.rebound.test', ['8.8.8.8'], 0)
  t.equal(await hostFault('hooks.rebound.test', resolve), null)
  for (
    const inside of [['127.0.0.1'], ['::ffff:127.0.0.1'], ['::1', '127.0.0.1'], ['169.254.169.254', '10.0.0.1'], [
      '64:ff9b::7f00:1'
    ], ['0.0.0.0']]
  ) {
    dns.host('hooks.rebound.test', inside, 0)
    const error = await call(url, resolve)
    t.type(error, TargetRefused, inside.join())
    t.equal(error.message, 'hooks.rebound.test has no address that may be called')
    t.equal(await hostFault('hooks.rebound.test', resolve), 'hooks.rebound.test has no public address')
  }
  t.equal(listener.calls(), 0)
  dns.host('hooks.rebound.test', ['127.0.0.1'], 0)
  await call(url, resolve, true)
  t.equal(listener.calls(), 1, 'it would have got there')
})

t.test('a name is looked up once a connection: what was checked is what is called', async t => {
  const [dns, listener] = [await openDnsServer(t), await openListener(t)]
  const sockets = holdBack(t)
  const asked = createResolver(dns.address)
  dns.host('quick.rebound.test', ['8.8.8.8', '2001:4860:4860::8888'], 0)
  const resolve: Resolve = async host => {
    const found = await asked(host)
    dns.host(host, ['127.0.0.1'], 0)
    return found
  }
  const url = `https://quick.rebound.test:${listener.port}/`
  t.match(await call(url, resolve), { code: 'ERR_IP_BLOCKED' }, 'on its way out')
  t.strictSame(sockets.map(addresses => addresses.toSorted()), [['2001:4860:4860::8888', '8.8.8.8']])
  t.strictSame(dns.asked.map(({ type }) => type).sort(), ['A', 'AAAA'])
  t.type(await call(url, resolve), TargetRefused)
  t.strictSame(sockets.slice(1), [[]], 'and the next one learns of no address')
  t.equal(listener.calls(), 0)
})

t.test('of several addresses only public ones are tried; an alias counts as what it leads to', async t => {
  const [dns, listener] = [await openDnsServer(t), await openListener(t)]
  const sockets = holdBack(t)
  const resolve = createResolver(dns.address)
  dns.host('mixed.test', [
    '127.0.0.1',
    '10.0.0.1',
    '8.8.8.8',
    '169.254.169.254',
    '::1',
    '::ffff:7f00:1',
    '::8.8.8.8',
    '2002:7f00:1::',
    '2001:4860:4860::8888',
    'fd00:ec2::254'
  ])
  dns.host('inside.test', ['127.0.0.1'])
  dns.cname('alias.test', 'inside.test')
  dns.cname('long-alias.test', 'alias.test')
  t.match(await call(`https://mixed.test:${listener.port}/`, resolve), { code: 'ERR_IP_BLOCKED' })
  t.strictSame(sockets.map(addresses => addresses.toSorted()), [['2001:4860:4860::8888', '8.8.8.8']])
  t.equal(await hostFault('mixed.test', resolve), null)
  for (const name of ['inside.test', 'alias.test', 'long-alias.test']) {
    t.type(await call(`https://${name}:${listener.port}/`, resolve), TargetRefused, name)
    t.equal(await hostFault(name, resolve), `${name} has no public address`)
  }
  t.strictSame(sockets.slice(1), [[], [], []])
  t.equal(listener.calls(), 0)
})

t.test('a redirect leads nowhere', async t => {
  const [sink, listener] = [await startHookSink(), await openListener(t)]
  t.teardown(() => sink.stop())
  const poster = createPoster({ allowPrivate: true, timeoutMs: 3000 })
  t.teardown(() => poster.close())
  const statuses = [300, 301, 302, 303, 305, 307, 308]
  sink.answers((_request, index) => ({
    status: statuses[index]!,
    headers: { location: `http://127.0.0.1:${listener.port}/`, refresh: `0; url=http://127.0.0.1:${listener.port}/` }
  }))
  for (const status of statuses) {
    t.match(await poster.post(new URL(sink.url), {}, Buffer.from('{}')), { status, error: null }, String(status))
  }
  t.equal(sink.requests.length, statuses.length)
  t.equal(listener.calls(), 0)
})
