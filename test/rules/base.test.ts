import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { knownTime, parseTime, timestamp } from '#src/base/clock.ts'
import type { Ring } from '#src/base/config-values.ts'
import { describeConfig, hasDashboard, readConfig } from '#src/base/config.ts'
import { idTimeMs, newId } from '#src/base/id.ts'
import { createVault, newSecret, secretsOf } from '#src/base/secret.ts'
import { coalesce } from '#src/servers/dashboard/live.ts'

t.test('the environment is understood whole, or every fault is named in one complaint', async t => {
  const config = readConfig({})
  t.match(config, {
    host: '127.0.0.1',
    port: 8080,
    publicUrl: 'http://localhost:8080',
    webhookAllowPrivate: false,
    requireVerifiedDomains: false,
    factsRetentionMs: 90 * 86_400_000
  })
  t.throws(
    () => readConfig({ PORT: 'x', JETPOST_ROLES: 'api,cook', NATS_URL: 'nats://h', JETPOST_CONTENT_RETENTION: '1d' }),
    {
      message: /PORT must.*|JETPOST_ROLES must be all or a list/
    }
  )
  try {
    readConfig({ PORT: 'x', JETPOST_ROLES: 'api,cook', NATS_URL: 'nats://h', JETPOST_CONTENT_RETENTION: '1d' })
  } catch (error) {
    for (const name of ['PORT', 'JETPOST_ROLES', 'JETPOST_CONTENT_RETENTION', 'JETPOST_SECRET']) {
      t.match((error as Error).message, name)
    }
  }
})

t.test('a mistyped setting is refused with the nearest name, what others set is not', async t => {
  t.throws(() => readConfig({ JETPOST_PUBLIC_ULR: 'https://mail.example.com', JETPOST_FOO: '1' }), {
    message: 'These settings cannot be used: JETPOST_PUBLIC_ULR is not a setting (did you mean JETPOST_PUBLIC_URL?); ' +
      'JETPOST_FOO is not a setting.'
  })
  const kubernetes = {
    JETPOST_SERVICE_HOST: '10.0.0.1',
    JETPOST_SERVICE_PORT_HTTP: '8080',
    JETPOST_PORT: 'tcp://10.0.0.1:8080',
    JETPOST_PORT_8080_TCP_ADDR: '10.0.0.1'
  }
  t.match(readConfig({ ...kubernetes, JETPOST_WEBHOOK_SECRET: 'whsec_', JETPOST_TYPO: '' }), { port: 8080 })
})

t.test('a secret that everybody knows, or that is too short, is refused with the command that makes one', async t => {
  const refused: Array<[secret: string, why: string]> = [
    ['short', 'must have at least 32 characters'],
    ['laptop-only-laptop-only-laptop-only', 'must be your own, not one that is published with Jetpost'],
    ['a-secret-for-tests-with-at-least-32-characters', 'must be your own, not one that is published with Jetpost'],
    ['my-another-secret-with-at-least-32-characters', 'must be your own, not one that is published with Jetpost']
  ]
  for (const [secret, why] of refused) {
    t.throws(() => readConfig({ JETPOST_SECRET: secret }), {
      message: `These settings cannot be used: JETPOST_SECRET ${why} (make one with: openssl rand -hex 32).`
    }, secret)
  }
  for (let i = 0; i < 100; i++) {
    for (const secret of [newSecret(''), randomBytes(32).toString('hex')]) {
      t.strictSame(readConfig({ JETPOST_SECRET: secret }).secret, [secret])
    }
  }
})

const NOT_OURS = { message: 'sealed with a secret that JETPOST_SECRET does not hold, or changed since' }
const five = ['a', 'b', 'c', 'd', 'e'].map(letter => letter.repeat(32))

t.test('several secrets with commas between them are a ring, each as good as one alone', async t => {
  const [a, b] = five as [string, string]
  t.strictSame(readConfig({ JETPOST_SECRET: `${a},${b}` }).secret, [a, b])
  t.strictSame(readConfig({ JETPOST_SECRET: ` ${a} ,\n${b}, ` }).secret, [a, b])
  t.strictSame(readConfig({ JETPOST_SECRET: five.join() }).secret, five)
  t.strictSame(readConfig({ JETPOST_SECRET: ` ${a} ` }).secret, [` ${a} `], 'one is taken as it is')
  const refused: Array<[secret: string, why: RegExp]> = [
    [`${a},short`, /each secret in it, must have at least 32 characters/],
    [`${a},laptop-only-laptop-only-laptop-only`, /each secret in it, must be your own/],
    [`${a},${b},${a}`, /must not have the same secret twice/],
    [`${five.join()},${'f'.repeat(32)}`, /must have at most 5 secrets/],
    [',', /must have at least 32 characters/]
  ]
  for (const [secret, why] of refused) t.throws(() => readConfig({ JETPOST_SECRET: secret }), { message: why }, secret)
})

t.test('the secrets of a data folder are a line each, and the first is made there', async t => {
  const folder = join(t.testdir(), 'data')
  const [made] = await secretsOf(folder)
  t.strictSame(await secretsOf(folder), [made])
  t.equal(statSync(join(folder, 'secret')).mode & 0o777, 0o600)
  writeFileSync(join(folder, 'secret'), `${five[0]}\n\n${made} \n`)
  t.strictSame(await secretsOf(folder), [five[0], made])
  for (const text of ['', '\n', `${made}\nshort\n`, `${made}\n${made}\n`]) {
    writeFileSync(join(folder, 'secret'), text)
    await t.rejects(secretsOf(folder), /secret holds a secret a line: it, or each of them, must /, JSON.stringify(text))
  }
})

t.test('docker-compose.yml has a default for no password, and settings beside them', async t => {
  const compose = readFileSync(new URL('../../docker-compose.yml', import.meta.url), 'utf8')
  const uses = [...compose.matchAll(/\$\{(\w+)(:?[-?+])?([^}]*)\}/g)].map(([, name, how, text]) => ({
    name,
    how,
    text
  }))
  const secret = uses.filter(({ name }) => /PASSWORD|^JETPOST_SECRET$/.test(name!))
  t.strictSame(
    [...new Set(secret.map(({ name }) => name))].sort(),
    ['JETPOST_SECRET', 'NATS_PASSWORD', 'POSTGRES_PASSWORD']
  )
  for (const { name, how, text } of secret) {
    t.match([name, how, text], [name, ':?', /^must be in \.env, see With Docker in docs\/getting-started\.md$/], name!)
  }
  const known = describeConfig({}).map(({ name }) => name)
  const others = uses.filter(use => !secret.includes(use)).map(({ name }) => name!)
  const published = ['JETPOST_INBOUND_BIND', 'JETPOST_SUBMISSION_BIND']
  t.strictSame(others.filter(name => !known.includes(name) && !published.includes(name)), [])
})

t.test('a command of the documents makes the passwords, for their owner, and overwrites none', async t => {
  const [command, other] = ['README.md', 'docs/getting-started.md'].map(page =>
    /^ {4}(\(set -C;[^)]*\)[^)]*\))$/m.exec(readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8'))![1]!
  )
  t.equal(command, other)
  const cwd = t.testdir()
  const run = () => spawnSync('sh', ['-c', command!], { cwd }).status
  t.equal(run(), 0)
  const made = readFileSync(join(cwd, '.env'), 'utf8')
  t.match(made, /^JETPOST_SECRET=x[0-9a-f]{64}\nNATS_PASSWORD=x[0-9a-f]{64}\nPOSTGRES_PASSWORD=x[0-9a-f]{64}\n$/)
  t.equal(statSync(join(cwd, '.env')).mode & 0o777, 0o600)
  const [, secret] = /JETPOST_SECRET=(.*)/.exec(made)!
  t.strictSame(readConfig({ JETPOST_SECRET: secret }).secret, [secret])
  t.not(run(), 0)
  t.equal(readFileSync(join(cwd, '.env'), 'utf8'), made)
})

t.test('a host that is none and a log level that is none are told as such', async t => {
  for (const HOST of ['127.0.0.1', '0.0.0.0', '::', '::1', 'localhost', 'api.internal', 'my_service', 'h2']) {
    t.equal(readConfig({ HOST }).host, HOST)
  }
  for (const HOST of ['999.1.1.1', '127.0.0.1:80', 'a b', 'http://localhost', '1.2.3', '-.']) {
    t.throws(() => readConfig({ HOST }), { message: 'HOST must be an IP address or a host name' }, HOST)
  }
  for (const JETPOST_LOG_LEVEL of ['silent', 'trace', 'warn']) {
    t.equal(readConfig({ JETPOST_LOG_LEVEL }).logLevel, JETPOST_LOG_LEVEL)
  }
  for (const JETPOST_LOG_LEVEL of ['loud', 'INFO']) {
    t.throws(
      () => readConfig({ JETPOST_LOG_LEVEL }),
      { message: 'JETPOST_LOG_LEVEL must be one of trace,' },
      JETPOST_LOG_LEVEL
    )
  }
})

t.test('a time has a date that there is, an hour of a day, and its offset', async t => {
  t.equal(parseTime('2026-11-21T12:00:00Z'), Date.UTC(2026, 10, 21, 12))
  t.equal(parseTime('2024-02-29t23:59:59.5+02:00'), Date.UTC(2024, 1, 29, 21, 59, 59, 500))
  for (
    const text of [
      '2026-11-21T24:00:00Z',
      '2026-11-21T12:60:00Z',
      '2026-11-21T12:00:60Z',
      '2026-02-29T12:00:00Z',
      '2026-11-21T12:00:00',
      '2026-11-21',
      '2026-11-21T12:00:00+24:00',
      'tomorrow',
      ''
    ]
  ) t.equal(parseTime(text), null, text)
  for (const text of ['0000-01-01T00:00:00Z', '1601-01-01T00:00:00Z', '1970-01-01T00:00:00+12:00']) {
    t.equal(knownTime(parseTime(text)!), 0, text)
  }
  t.equal(timestamp(knownTime(parseTime('9999-12-31T23:59:59-10:00')!)), '9999-12-31T23:59:59.999Z')
})

t.test('doctor shows secrets as set or unset', async t => {
  const secret = 'jp_live_very-secret-operator-key'
  const shown = JSON.stringify(
    describeConfig({ JETPOST_API_KEY: secret, SMTP_URL: 'smtp://user:hunter2@mail.example' })
  )
  t.notMatch(shown, secret)
  t.notMatch(shown, 'hunter2')
  t.match(shown, '"name":"SMTP_URL","value":"set"')
})

t.test('ids sort by time and say it', async t => {
  const ids = [1, 1000, 1_763_700_000_000, 1_763_700_000_001].map(ms => newId('em', ms))
  t.strictSame([...ids].sort(), ids)
  t.equal(idTimeMs(ids[2]!), 1_763_700_000_000)
  t.equal(idTimeMs('em_x'), null)
  t.equal(new Set(Array.from({ length: 10_000 }, () => newId('em', 5))).size, 10_000)
})

t.test('what is sealed opens with the same secret and context only', async t => {
  const vault = createVault('a'.repeat(32))
  const sealed = vault.seal('whsec_x', 'wh_1')
  t.equal(vault.open(sealed, 'wh_1'), 'whsec_x')
  t.not(vault.seal('whsec_x', 'wh_1'), sealed, 'never the same twice')
  t.throws(() => vault.open(sealed, 'wh_2'))
  t.throws(() => createVault('b'.repeat(32)).open(sealed, 'wh_1'))
  t.throws(() => vault.open(sealed.slice(0, -2), 'wh_1'))
})

t.test('a seal with a shorter tag is none', async t => {
  const vault = createVault('a'.repeat(32))
  const [version, id, nonce, tag] = vault.seal('', 'wh_1').split('.')
  const short = (bytes: number) => Buffer.from(tag!, 'base64url').subarray(0, bytes).toString('base64url')
  t.equal(vault.open(`${version}.${id}.${nonce}.${short(16)}`, 'wh_1'), '')
  for (const bytes of [0, 4, 8, 12, 15]) {
    t.throws(() => vault.open(`${version}.${id}.${nonce}.${short(bytes)}`, 'wh_1'), NOT_OURS, `${bytes} bytes`)
  }
})

t.test('a ring seals with its first secret and opens with any; an old seal is made anew once', async t => {
  const [a, b, c] = five as [string, string, string]
  const old = createVault(a).seal('whsec_x', 'wh_1')
  const ring = createVault(b, a)
  t.equal(ring.open(old, 'wh_1'), 'whsec_x')
  t.throws(() => createVault(b).open(old, 'wh_1'), NOT_OURS)
  t.throws(() => createVault(a).open(ring.seal('x', 'wh_1'), 'wh_1'), NOT_OURS, 'the first seals')
  const anew = ring.reseal(old, 'wh_1')!
  t.equal(createVault(b).open(anew, 'wh_1'), 'whsec_x')
  t.throws(() => createVault(b).open(anew, 'wh_2'), NOT_OURS, 'for the same context')
  t.equal(ring.reseal(anew, 'wh_1'), null)
  t.throws(() => createVault(c, b).reseal(old, 'wh_1'), NOT_OURS)
  for (const text of ['', 'v2', 'v3.x.y.z', 'v1.x', anew.replace('v2', 'v1'), `v2.${anew.slice(3 + 9)}`]) {
    t.throws(() => ring.open(text, 'wh_1'), NOT_OURS, text)
  }
  t.strictSame(ring.keyIds, [...createVault(b).keyIds, ...createVault(a).keyIds])
  t.match(ring.keyIds, [/^[\w-]{8}$/, /^[\w-]{8}$/])
})

t.test('what was sealed before there were rings is opened by each secret in its turn', async t => {
  const [a, b] = five as [string, string]
  const first = 'v1.LzKNzfNaAmDuYn5K.7_wASSTB-D04xQ--N7LMW2HqT5d9gu4'
  const rings: Ring[] = [[a], [a, b], [b, a]]
  for (const ring of rings) t.equal(createVault(...ring).open(first, 'wh_1'), 'whsec_x')
  t.equal(createVault(a, b).reseal(first, 'wh_1'), null, 'it is under the first')
  t.match(createVault(b, a).reseal(first, 'wh_1'), /^v2\./)
  t.throws(() => createVault(b).open(first, 'wh_1'), NOT_OURS)
})

t.test('what is derived follows from text, context and secret, and is told by none of them alone', async t => {
  const derive = (text: string, context: string, secret = 'a'.repeat(32)) =>
    createVault(secret).derive(text, context)[0]
  t.match(derive('x', 'session'), /^[A-Za-z0-9_-]{43}$/)
  t.equal(derive('x', 'session'), derive('x', 'session'), 'on every node')
  t.equal(
    new Set([
      derive('x', 'session'),
      derive('y', 'session'),
      derive('x', 'other'),
      derive('x', 'session', 'b'.repeat(32))
    ]).size,
    4
  )
  t.equal(derive('x', 'session'), '7QefU5jsFXhecptLAbucLWSl5hMYFVqiwK3B0faaAtM', 'as before there were rings')
  const ring = createVault('b'.repeat(32), 'a'.repeat(32)).derive('x', 'session')
  t.strictSame(ring, [derive('x', 'session', 'b'.repeat(32)), derive('x', 'session')], 'newest first')
})

t.test('however many ask, one look at a time is under way, and nobody is told of one that began before', async t => {
  const looks: Array<() => void> = []
  let fails = false
  const ask = coalesce(async () => {
    await new Promise<void>(resolve => looks.push(resolve))
    if (fails) throw new Error('no answer')
    return true
  })
  const begun = async (count: number) => {
    while (looks.length < count) await new Promise(setImmediate)
  }
  const told: string[] = []
  const asked = (name: string) => ask().then(() => told.push(name))
  const first = [asked('first'), asked('beside it')]
  await begun(1)
  const later = [asked('later'), asked('later too')]
  looks[0]!()
  await Promise.all(first)
  await begun(2)
  t.strictSame(told, ['first', 'beside it'], 'who came later waits for another')
  fails = true
  looks[1]!()
  await Promise.all(later)
  const last = ask()
  await begun(3)
  t.equal(looks.length, 3)
  looks[2]!()
  await last
})

t.test('what was so before a look that succeeded began needs no other look', async t => {
  let [looks, succeeds] = [0, false]
  const ask = coalesce(async () => {
    looks++
    return succeeds
  })
  const toldMs = performance.now()
  await ask(toldMs)
  succeeds = true
  await ask(toldMs)
  t.equal(looks, 2, 'the first had failed')
  await Promise.all([ask(toldMs), ask(toldMs)])
  t.equal(looks, 2)
  await ask(performance.now() + 1)
  t.equal(looks, 3, 'of what is told later it says nothing')
})

t.test('a dashboard is at the root of its host only', async t => {
  const has = (JETPOST_PUBLIC_URL: string) => hasDashboard(readConfig({ JETPOST_PUBLIC_URL }))
  t.strictSame(['https://post.example.com', 'https://post.example.com/', 'http://localhost:8080'].map(has), [
    true,
    true,
    true
  ])
  t.strictSame(['https://example.com/post', 'https://example.com/post/'].map(has), [false, false])
})

t.test('secrets are long', async t => {
  t.match(newSecret('jp_live_'), /^jp_live_[A-Za-z0-9_-]{43}$/)
})
