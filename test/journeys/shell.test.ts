import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import t from 'tap'
import { jetpostHere } from '../support/command.ts'
import { atExit } from '../support/at-exit.ts'
import { COMPILED } from '../support/compiled.ts'
import { API_KEY, startTestApp } from '../support/app.ts'
import { jetpost as runJetpost } from '../support/jetpost.ts'
import { openRelay } from '../support/relay.ts'
import { SECRET } from '../support/secret.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'
import { until } from '../support/wait.ts'

const natsUrl = freshAccount().natsUrl
const databaseUrl = await freshDatabase(t)
const app = await startTestApp(t, { natsUrl, databaseUrl })
const env = {
  NATS_URL: natsUrl,
  DATABASE_URL: databaseUrl,
  JETPOST_SECRET: SECRET
}

const jetpost = (args: string[], extra: Record<string, string> = {}) => runJetpost(args, { ...env, ...extra })
const here = (args: string[]) => jetpostHere(args, env)

t.test('help and version; what is not understood ends with 2 and a sentence', async t => {
  t.match(await jetpost(['help']), { code: 0, out: /^Accounts, keys, people, domains\n.*\n {2}keys +list/m })
  t.match(await here(['--version']), { code: 0, out: /^\d+\.\d+\.\d+\n$/ })
  t.match(await jetpost(['dance']), { code: 2, err: 'There is no command "dance"' })
  t.match(await here(['keys', 'create', '--colour', 'red']), { code: 2, err: '--colour' })
  t.match(await here(['constructor']), { code: 2, err: 'There is no command "constructor"' })
  t.match(await jetpost(['start'], { PORT: 'x' }), { code: 1, err: /PORT must be a whole number/ })
})

t.test('words that a command does not take end with 2, and -h tells what it takes', async t => {
  const surplus = [
    ['accounts', 'create', 'a', 'b', 'c'],
    ['accounts', 'list', 'x'],
    ['doctor', 'extra'],
    ['start', 'extra', '--port'],
    ['start', '--json'],
    ['migrate', 'x'],
    ['domains', 'list', 'x'],
    ['keys', 'list', 'x'],
    ['users', 'list', 'x'],
    ['users', 'create'],
    ['users', 'change', 'x']
  ]
  await Promise.all(
    surplus.map(async args =>
      t.match(await here(args), { code: 2, out: '', err: `usage: jetpost ${args[0]}` }, args.join(' '))
    )
  )
  for (
    const name of [
      'start',
      'doctor',
      'bench',
      'accounts',
      'keys',
      'users',
      'domains',
      'me',
      'dashboard',
      'send',
      'tail',
      'trace',
      'webhooks',
      'replay',
      'erase',
      'erasures',
      'backup',
      'restore',
      'rebuild',
      'verify',
      'migrate'
    ]
  ) {
    await Promise.all(
      ['-h', '--help'].map(async option =>
        t.match(await here([name, option]), { code: 0, out: `jetpost ${name}` }, `${name} ${option}`)
      )
    )
  }
})

t.test('an option of another verb ends with 2, and so does an account that is none', async t => {
  const { id } = await app.newKey({})
  const cases: Array<[string[], string]> = [
    [
      ['keys', 'revoke', id, '--overlap', '24h'],
      '--overlap is no option of keys revoke, which takes --with-children, --account, --json.'
    ],
    [['keys', 'rotate', id, '--expires', '2099-01-01T00:00:00Z'], '--expires is no option of keys rotate'],
    [['keys', '--test'], '--test is no option of keys list'],
    [['tail', '--account', 'acc_none'], 'There is no account acc_none.'],
    [['replay', '--to', 'http://127.0.0.1:1/', '--follow', '--account', 'acc_none'], 'There is no account acc_none.']
  ]
  await Promise.all(
    cases.map(async ([args, err]) => t.match(await here(args), { code: 2, out: '', err }, args.join(' ')))
  )
  t.match(
    JSON.parse((await here(['keys', 'show', id, '--json'])).out),
    [{ id, previous_expires_at: null }],
    'neither revoked nor rotated'
  )
})

t.test('settings that cannot be used end with 1 and a sentence, no stack', async t => {
  for (
    const [settings, sentence] of [
      [{ HOST: '999.1.1.1' }, 'HOST must be an IP address'],
      [{ JETPOST_LOG_LEVEL: 'loud' }, 'JETPOST_LOG_LEVEL must be one of trace'],
      [{ HOST: 'no-such-host.invalid' }, 'HOST no-such-host.invalid with PORT 8080 cannot be listened on: E']
    ] as const
  ) {
    const { code, err } = await jetpost(['start'], settings)
    t.equal(code, 1)
    t.match(err, sentence)
    t.notMatch(err, /^ {4}at /m)
  }
})

t.test('an account, its domain and its key are made in the shell and work at once', async t => {
  const [{ id: account }] = JSON.parse((await here(['accounts', 'create', 'Shop', '--json'])).out)
  t.match(await here(['domains', 'add', 'Shop.example', '--account', account]), { code: 0, out: /shop\.example/ })
  const made = await here([
    'keys',
    'create',
    '--account',
    account,
    '--domains',
    'shop.example',
    '--scopes',
    'emails:send',
    '--json'
  ])
  const [{ id, key }] = JSON.parse(made.out)
  t.equal((await app.send({ from: 'a@shop.example' }, key)).status, 202)
  t.equal((await app.send({ from: 'a@other.example' }, key)).status, 403)
  t.match(await here(['domains', 'show', 'shop.example']), { code: 1, err: 'There is no domain shop.example' })
  t.match(
    await here(['keys', 'limit', id, 'emails:send=5']),
    { code: 1, err: `There is no key ${id}` },
    'the first account has no such key'
  )
  t.match(await here(['keys', 'limit', id, 'emails:send=5', '--account', account]), {
    code: 0,
    out: /emails:send=5 emails:batch=60 emails:list=300/
  })
  await until(async () => (await app.send({ from: 'a@shop.example' }, key)).headers.get('x-ratelimit-limit') === '5')
  const listed = await here(['keys', 'list', '--account', account, '--json'])
  t.match(JSON.parse(listed.out), [{
    id,
    domains: ['shop.example'],
    scopes: ['emails:send'],
    expires_at: null,
    limits: { 'emails:send': 5, other: 60 }
  }])
  t.notMatch(listed.out, key, 'never shown again')
  t.match(await here(['keys', 'revoke', id, '--account', account]), { code: 0 })
  await until(async () => (await app.send({ from: 'a@shop.example' }, key)).status === 401)
})

t.test('a new JETPOST_API_KEY revokes the old', async t => {
  const second = await startTestApp(t, {
    natsUrl,
    databaseUrl,
    env: { JETPOST_API_KEY: 'jp_live_another-key-of-the-app', JETPOST_ROLES: 'api' }
  })
  t.equal((await second.request('GET', '/api/webhooks', { key: 'jp_live_another-key-of-the-app' })).status, 200)
  await until(async () => (await app.request('GET', '/api/webhooks', { key: API_KEY })).status === 401)
})

t.test('start says where bounces come to, and what direct mode wants', async t => {
  const settings = {
    ...env,
    DATABASE_URL: databaseUrl,
    JETPOST_ROLES: 'sender,inbound',
    PORT: '0',
    JETPOST_LOG_LEVEL: 'silent',
    JETPOST_INBOUND_PORT: '0',
    JETPOST_DNS: '127.0.0.1:9'
  }
  const cases: Array<[Record<string, string>, RegExp[], RegExp[]]> = [
    [{ JETPOST_BOUNCE_DOMAIN: 'bounces.shop.example', SMTP_URL: 'direct:' }, [
      /^ {2}➜ {2}Bounces {4}bounces\.shop\.example on 127\.0\.0\.1:\d+$/m,
      /^ {2}! {2}Set JETPOST_HOSTNAME /m
    ], [/JETPOST_BOUNCE_DOMAIN/]],
    [{ JETPOST_HOSTNAME: 'mail.shop.example', SMTP_URL: 'direct:' }, [/^ {2}! {2}Set JETPOST_BOUNCE_DOMAIN /m], [
      /JETPOST_HOSTNAME/,
      /Bounces/
    ]],
    [{}, [/^ {2}➜ {2}Mailbox {4}http:\/\/\S+\/catcher\?token=[\w-]{22}$/m], [/Set JETPOST/, /Bounces/]],
    [{ JETPOST_PUBLIC_URL: 'https://post.example.com' }, [/➜ {2}Health/], [/Mailbox/, /catcher/]],
    [{ JETPOST_PUBLIC_URL: 'https://post.example.com', JETPOST_ROLES: 'api,sender' }, [
      /^ {2}➜ {2}Mailbox {4}https:\/\/post\.example\.com\/dashboard\/mailbox$/m
    ], [/catcher/]]
  ]
  await Promise.all(cases.map(async ([extra, said, unsaid]) => {
    const { code, err } = await startAndStop({ ...settings, ...extra })
    t.equal(code, 0, err)
    for (const pattern of said) t.match(err, pattern)
    for (const pattern of unsaid) t.notMatch(err, pattern)
  }))
})

t.test('start logs what harms the mail that leaves, once', async t => {
  const settings = { ...env, DATABASE_URL: databaseUrl, JETPOST_ROLES: 'sender', PORT: '0', JETPOST_LOG_LEVEL: 'warn' }
  const warned = /Mail goes out without tracking and without unsubscribe links/g
  const { err } = await startAndStop({ ...settings, SMTP_URL: 'smtp://127.0.0.1:9' })
  t.equal(err.match(warned)?.length, 1, err)
  t.notMatch((await startAndStop(settings)).err, warned)
})

t.test('start prints the curl of the README', async t => {
  const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')
  const [block] = /^ {4}curl .*(?:\n {4}.*)*/m.exec(readme)!
  const { err } = await startAndStop({ ...env, JETPOST_ROLES: 'api', PORT: '0', JETPOST_LOG_LEVEL: 'silent' })
  const [, url] = /^curl (\S+)\/api\/emails /m.exec(err)!
  t.match(err, block.replaceAll(/^ {4}/gm, '').replace('http://localhost:8080', url!))
})

/** Runs `jetpost start` until it serves, then stops it as an operator would. */
async function startAndStop (settings: Record<string, string>): Promise<{ code: number | null, err: string }> {
  const child = spawn(process.execPath, ['src/bin.js', 'start'], {
    env: { PATH: process.env.PATH, ...COMPILED, ...settings },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  atExit(() => child.kill('SIGKILL'))
  let err = ''
  child.stderr.setEncoding('utf8').on('data', text => {
    err += text
  })
  child.stdout.setEncoding('utf8').once('data', () => child.kill('SIGTERM'))
  const [code] = await once(child, 'close')
  return { code, err }
}

t.test('doctor names settings and checks, and no secret', async t => {
  const relay = await openRelay(t)
  const { code, out } = await jetpost(['doctor', '--json'], {
    JETPOST_API_KEY: API_KEY,
    SMTP_URL: relay.url('u', 'hunter2', '?tls=off')
  })
  t.equal(code, 0)
  const report = JSON.parse(out)
  t.match(report.settings.find((setting: { name: string }) => setting.name === 'SMTP_URL'), { value: 'set' })
  t.strictSame(report.checks.map((check: { name: string, ok: boolean | null }) => [check.name, check.ok]), [
    ['node', true],
    ['nats', true],
    ['streams', true],
    ['sync_interval', null],
    ['postgres', true],
    ['projections', true],
    ['smtp', true],
    ['links', null],
    ['spf', true],
    ['inbound', true],
    ['submission', true],
    ['webhooks', true]
  ])
  for (const secret of [API_KEY, 'hunter2', env.JETPOST_SECRET, new URL(natsUrl).password]) t.notMatch(out, secret)
  t.match(await jetpost(['doctor', '--json'], { DATABASE_URL: 'postgres://u:p@127.0.0.1:1/x' }), {
    code: 1,
    out: /ECONNREFUSED/
  })
})
