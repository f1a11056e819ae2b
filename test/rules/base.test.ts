import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { knownTime, parseTime, timestamp } from '#src/base/clock.ts'
import { describeConfig, hasDashboard, readConfig } from '#src/base/config.ts'
import { idTimeMs, newId } from '#src/base/id.ts'
import { createVault, newSecret } from '#src/base/secret.ts'
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
      t.equal(readConfig({ JETPOST_SECRET: secret }).secret, secret)
    }
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
  t.strictSame(others.filter(name => !known.includes(name) && name !== 'JETPOST_INBOUND_BIND'), [])
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
  t.equal(readConfig({ JETPOST_SECRET: secret }).secret, secret)
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
  const [version, nonce, tag] = vault.seal('', 'wh_1').split('.')
  const short = (bytes: number) => Buffer.from(tag!, 'base64url').subarray(0, bytes).toString('base64url')
  t.equal(vault.open(`${version}.${nonce}.${short(16)}`, 'wh_1'), '')
  for (const bytes of [0, 4, 8, 12, 15]) {
    t.throws(() => vault.open(`${version}.${nonce}.${short(bytes)}`, 'wh_1'), `${bytes} bytes`)
  }
})

t.test('what is derived follows from text, context and secret, and is told by none of them alone', async t => {
  const derive = (text: string, context: string, secret = 'a'.repeat(32)) => createVault(secret).derive(text, context)
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
