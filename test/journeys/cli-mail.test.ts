import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { atExit } from '../support/at-exit.ts'
import { jetpostHere } from '../support/command.ts'
import { COMPILED } from '../support/compiled.ts'
import { deferred, unsubscribed } from '../support/facts.ts'
import { startHookSink } from '../support/hook-sink.ts'
import { API_KEY, FROM, startTestApp } from '../support/app.ts'
import { arf, dsn, handIn } from '../support/inbound-peer.ts'
import { openSecondServices } from '../support/second-services.ts'
import { SECRET } from '../support/secret.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'
import { startSink } from '../support/smtp-sink.ts'
import { until } from '../support/wait.ts'

const mail = await startSink()
const natsUrl = freshAccount().natsUrl
const databaseUrl = await freshDatabase(t)
const app = await startTestApp(t, {
  natsUrl,
  databaseUrl,
  env: { SMTP_URL: mail.url, JETPOST_INBOUND_PORT: '0', JETPOST_BOUNCE_DOMAIN: 'bounces.shop.example' }
})
t.teardown(() => mail.stop())
const env = {
  PATH: process.env.PATH!,
  ...COMPILED,
  NATS_URL: natsUrl,
  DATABASE_URL: databaseUrl,
  JETPOST_SECRET: SECRET,
  JETPOST_API_KEY: API_KEY,
  JETPOST_PUBLIC_URL: app.url
}
const folder = mkdtempSync(join(tmpdir(), 'jetpost-cli-'))
t.teardown(() => rmSync(folder, { recursive: true }))

/** A program takes its time to start on a machine that is busy. */
const START_MS = 60_000

interface Shell {
  child: ChildProcessWithoutNullStreams
  /** What it has printed so far. */
  out(): string
  /** How it ended, and all it printed. */
  end: Promise<{ code: number | null, out: string, err: string }>
}

/** The program as an operator runs it. */
function jetpost (args: string[], extra: Record<string, string> = {}): Shell {
  const child = spawn(process.execPath, ['src/bin.js', ...args], { env: { ...env, ...extra }, stdio: 'pipe' })
  atExit(() => child.kill('SIGKILL'))
  let out = ''
  let err = ''
  child.stdout.setEncoding('utf8').on('data', text => {
    out += text
  })
  child.stderr.setEncoding('utf8').on('data', text => {
    err += text
  })
  return { child, out: () => out, end: once(child, 'close').then(([code]) => ({ code, out, err })) }
}

/** A command that neither reads standard input nor goes on until it is stopped. */
const here = async (args: string[], extra: Record<string, string> = {}) => await jetpostHere(args, { ...env, ...extra })

/** What a command printed with --json; it must have ended with `code`. */
async function json (t: Test, args: string[], code = 0): Promise<any> {
  const ended = await here([...args, '--json'])
  t.equal(ended.code, code, ended.err)
  return JSON.parse(ended.out)[0]
}

const plain = ['send', '--from', FROM, '--to', 'ada@example.com', '--subject', 'Hello', '--text', 'Hello']

t.test('jetpost send sends what it is told', async t => {
  const file = join(folder, 'Zeichnung – 1.csv')
  writeFileSync(file, 'a,b\n1,2\n')
  const shell = jetpost([
    'send',
    '--from',
    `Ada <${FROM}>`,
    '--to',
    'ada@example.com',
    '--to',
    'Grace <grace@example.com>',
    '--cc',
    'cc@example.com',
    '--bcc',
    'bcc@example.com',
    '--reply-to',
    'back@example.com',
    '--subject',
    'Grüße',
    '--html-file',
    '-',
    '--text',
    'Hello',
    '--attach',
    file,
    '--tag',
    'a',
    '--tag',
    'b',
    '--meta',
    'order=7=8',
    '--meta',
    'vip:=true',
    '--wait',
    '--json'
  ])
  shell.child.stdin.end('<p>Grüße</p>')
  const { code, out, err } = await shell.end
  const [email] = JSON.parse(out)
  t.equal(code, 0)
  t.match(err, `${email.id} is accepted`)
  t.match(email, {
    status: 'delivered',
    from: `Ada <${FROM}>`,
    to: ['ada@example.com', 'Grace <grace@example.com>'],
    cc: ['cc@example.com'],
    bcc: ['bcc@example.com'],
    reply_to: ['back@example.com'],
    subject: 'Grüße',
    tags: ['a', 'b'],
    metadata: { order: '7=8', vip: true },
    attachments: [{ filename: 'Zeichnung – 1.csv', content_type: 'text/csv' }]
  })
  const { body } = await app.request('GET', `/api/emails/${email.id}/content`)
  t.match(body, { html: '<p>Grüße</p>', text: 'Hello' })
  t.ok(mail.received.some(({ to, raw }) => to === 'grace@example.com' && raw.includes('YSxiCjEsMgo=')), 'with the file')
})

t.test('jetpost send fills a template, and what it needs that is no text', async t => {
  const { body: template } = await app.request('POST', '/api/templates', {
    body: {
      name: 'Order',
      subject: 'Order {{order}}',
      text: '{{#items}}{{title}} {{/items}}{{name}}',
      variables: [{ name: 'items', type: 'list', required: true }]
    }
  })
  const send = [
    'send',
    '--from',
    FROM,
    '--to',
    'ada@example.com',
    '--template',
    template.id,
    '--var',
    'order=1042',
    '--var',
    'name=Ada'
  ]
  const { id } = await json(t, [...send, '--var', 'items:=[{"title":"Ink"}]'])
  t.match((await app.request('GET', `/api/emails/${id}/content`)).body, { subject: 'Order 1042', text: 'Ink Ada' })
  t.match(await here(send), { code: 1, err: /^jetpost: Validation failed: .*items.*\n$/ })
})

t.test('jetpost suppressions imports a file with a report, and exports all of them', async t => {
  const file = join(folder, 'gone.csv')
  writeFileSync(file, 'email,reason\nfirst@gone.example,bounce\nnobody,bounce\nsecond@gone.example,\n')
  const report = await here(['suppressions', 'import', file, '--json'])
  t.equal(report.code, 1, report.err)
  t.match(JSON.parse(report.out), [{ lines: 3, added: 2, unchanged: 0, refused: [{ line: 3 }] }])
  const again = await here(['suppressions', 'import', file])
  t.match(again.out, /lines +added +unchanged +refused\n3 +0 +2 +1\n/)
  t.match(again.out, /3 +invalid_address +address must be an email address\./)
  const all = await jetpost(['suppressions', 'export', '--format', 'ndjson', '--reason', 'bounce']).end
  t.equal(all.code, 0, all.err)
  t.match(all.out.trim().split('\n').map(line => JSON.parse(line)).filter(({ address }) => /gone/.test(address)), [{
    address: 'first@gone.example',
    reason: 'bounce'
  }])
  const lines = join(folder, 'gone.ndjson')
  writeFileSync(lines, all.out)
  t.match(await json(t, ['suppressions', 'import', lines]), { added: 0, refused: [] })
  const wrong = [[], ['import'], ['export', file], ['imprt', file], ['export', '--json'], [
    'import',
    file,
    '--format',
    'x'
  ]]
  for (const args of wrong) {
    t.equal((await here(['suppressions', ...args])).code, 2, args.join(' '))
  }
})

t.test('jetpost send schedules, and sends once under one key', async t => {
  const at = new Date(Date.now() + 3_600_000).toISOString()
  const first = await json(t, [...plain, '--at', at, '--idempotency-key', 'shell-1'])
  t.match(first, { status: 'scheduled' })
  t.equal((await json(t, [...plain, '--at', at, '--idempotency-key', 'shell-1'])).id, first.id)
  t.match(await here([...plain, '--idempotency-key', 'shell-1']), { code: 1, out: '' })
})

t.test('jetpost send --wait ends with 1 when somebody did not get it, and says why', async t => {
  mail.replies('gone@example.net', { rcpt: '550 5.1.1 no such user' })
  const { code, out } = await here([
    'send',
    '--from',
    FROM,
    '--to',
    'ada@example.com',
    '--to',
    'gone@example.net',
    '--subject',
    'x',
    '--text',
    'x',
    '--wait'
  ])
  t.equal(code, 1)
  t.match(out, /^id +recipient +status +response\n/)
  t.match(out, /ada@example\.com +delivered +250 /)
  t.match(out, /gone@example\.net +bounced +550 5\.1\.1 no such user\n/)
})

t.test('what jetpost send cannot do it says in a sentence, without the key', async t => {
  const cases: Array<[string[], Record<string, string>, number, RegExp]> = [
    [
      plain,
      { JETPOST_API_KEY: '' },
      1,
      /^jetpost: Set JETPOST_API_KEY to an API key: jetpost keys create makes one\.\n$/
    ],
    [
      plain,
      { JETPOST_API_KEY: 'jp_live_somebody-elses-key' },
      1,
      /^jetpost: Unauthorized: the key in JETPOST_API_KEY is not one of http.*\n$/
    ],
    [
      plain,
      { JETPOST_PUBLIC_URL: 'http://127.0.0.1:9' },
      1,
      /cannot be reached: is JETPOST_PUBLIC_URL, http:\/\/127\.0\.0\.1:9, where Jetpost serves\?\n$/
    ],
    [[...plain, '--to', 'nobody'], {}, 1, /^jetpost: Validation failed: to\[1\] .*\n$/],
    [[...plain, '--attach', join(folder, 'none')], {}, 1, /none cannot be read: ENOENT\.\n$/],
    [['send', '--to', 'ada@example.com'], {}, 2, /--from and --to are needed/],
    [[...plain, '--colour', 'red'], {}, 2, /--colour/],
    [[...plain, 'more'], {}, 2, /"more" belongs to no option/],
    [[...plain, '--text-file', '-'], {}, 2, /Either --text or --text-file/],
    [[...plain, '--meta', 'order'], {}, 2, /--meta takes a name and a value/],
    [[...plain, '--meta', 'order:=x'], {}, 2, /--meta order:= takes JSON/],
    [['send', '--from', FROM, '--to', 'a@b.c', '--html-file', '-', '--text-file', '-'], {}, 2, /can be standard input/]
  ]
  await Promise.all(cases.map(async ([args, extra, code, err]) => {
    const ended = await here(args, extra)
    t.match(ended, { code, out: '', err }, args.slice(-2).join(' '))
    t.notMatch(ended.err, extra.JETPOST_API_KEY || API_KEY)
  }))
  t.match(await jetpost(['send', '--help']).end, { code: 0, out: /--idempotency-key <key> +the same key/ })
})

t.test('jetpost trace shows an email as a tree, in one line for whatever strangers wrote', async t => {
  mail.replies('later@example.net', { rcpt: '451 4.7.1 come\x1b[31m back later' })
  const { body: { id, created_at: begin } } = await app.send({
    from: `Ada <${FROM}>`,
    to: ['ada@example.com', 'later@example.net'],
    subject: 'Hello',
    tags: ['a'],
    metadata: { order: '7\n8' }
  })
  await until(async () => {
    const { body } = await app.request('GET', `/api/emails/${id}`)
    return body.recipients.every(({ status }: { status: string }) => ['delivered', 'deferred'].includes(status))
  })
  const { code, out, err } = await here(['trace', id])
  t.equal(code, 0, err)
  const lines = out.trimEnd().split('\n')
  const said = '451 4\\.7\\.1 come.?\\[31m back later'
  t.equal(lines[0], `${id}  deferred  "Hello"`)
  for (
    const pattern of [
      /^├─ request {2}2\d{3}-.*Z$/,
      new RegExp(`^│  ├─ from {7}Ada <${FROM}>$`),
      /^│ {2}├─ metadata {3}order=7 8$/,
      /^└─ recipients$/,
      /^ {3}├─ to {3}ada@example\.com {4}delivered$/,
      /^ {3}│ {2}├─ #\d+ {2}2.*Z {2}\+[\dmhs. ]+ +email\.attempted {2}attempt 1$/,
      /^ {3}│ {2}└─ #\d+ {2}2.*Z {2}\+[\dmhs. ]+ +email\.delivered {2}attempt 1 {2}250 .* m?s$/,
      /^ {3}└─ to {3}later@example\.net {2}deferred {2}next attempt 2.*Z$/,
      new RegExp(
        `^ {6}└─ #\\d+ {2}2.*Z {2}\\+[\\w. ]+email\\.deferred +attempt 1 {2}${said} .* next attempt 2.*Z$`
      )
    ]
  ) t.ok(lines.some(line => pattern.test(line)), `${pattern} in\n${out}`)
  t.notMatch(lines.join(''), /\p{Cc}/u, 'nothing that a terminal obeys')
  const traced = await json(t, ['trace', id])
  t.match(traced, {
    id,
    trouble: null,
    recipients: [{
      status: 'delivered',
      facts: [{ type: 'email.attempted', deliveries: [] }, { type: 'email.delivered', smtp_code: 250 }]
    }, { status: 'deferred' }]
  })
  for (const { time, seq, stored_at: stored, after_ms: afterMs } of traced.recipients[0].facts) {
    t.ok(seq > 0 && Date.parse(stored) >= Date.parse(time) - 1)
    t.equal(afterMs, Date.parse(time) - Date.parse(begin))
  }
  t.match(await json(t, ['trace', id, '--as-of', begin]), {
    id,
    status: 'queued',
    recipients: [{ status: 'queued', facts: [] }, { status: 'queued', facts: [] }]
  })
  t.match(await here(['trace', id, '--as-of', '1h']), {
    code: 1,
    err: /^jetpost: There was no email em_\w+ yet at 2.*Z: it was requested at 2.*Z\.\n$/
  })
  t.match(await here(['trace', id, '--as-of', 'then']), { code: 2, err: /--as-of takes a duration/ })
  t.match(await here(['trace', id, '--as-of', '2999-01-01T00:00:00Z']), {
    code: 2,
    err: /--as-of must be in the past/
  })
  for (const none of ['em_none', 'em_*', '>']) {
    t.match(await here(['trace', none]), { code: 1, err: `jetpost: There is no email ${none}.\n` })
  }
  t.match(await here(['trace']), { code: 2, err: /usage: jetpost trace/ })
})

t.test('jetpost trace shows under each event what endpoints were told of it, also of another account', async t => {
  const key = await app.newAccountKey()
  const sink = await startHookSink()
  t.teardown(() => sink.stop())
  sink.answers((_request, index) => ({ status: index === 0 ? 500 : 200 }))
  const { status } = await app.request('POST', '/api/webhooks', {
    key,
    body: { url: sink.url, events: ['email.delivered'] }
  })
  t.equal(status, 201)
  const { body: { id } } = await app.send({ to: 'told@example.com' }, key)
  let fact: any
  await until(async () => {
    ;[, fact] = (await json(t, ['trace', id])).recipients[0].facts
    return fact?.deliveries?.[0]?.state === 'delivered'
  }, START_MS)
  t.match(fact, {
    type: 'email.delivered',
    deliveries: [{
      url: sink.url,
      state: 'delivered',
      attempts: [{ attempt: 1, status: 500, error: null }, { attempt: 2, status: 200 }]
    }]
  })
  const { out } = await here(['trace', id])
  const tail = out.trimEnd().split('\n').slice(-3)
  t.match(tail[0], new RegExp(`^ {9}└─ → ${sink.url}  delivered  whd_`))
  t.match(tail[1], /^ {12}├─ 2.*Z {2}attempt 1 {2}500 {2}[\d.]+ m?s$/)
  t.match(tail[2], /^ {12}└─ 2.*Z {2}attempt 2 {2}200 {2}[\d.]+ m?s$/)
  const between = new Date(Date.parse(fact.deliveries[0].attempts[1].at) - 1).toISOString()
  t.match(await json(t, ['trace', id, '--as-of', between]), {
    recipients: [{ facts: [{}, { deliveries: [{ state: 'retrying', attempts: [{ status: 500 }] }] }] }]
  })
})

t.test('without PostgreSQL jetpost trace shows what the log has, and says what is missing', async t => {
  const { body: { id } } = await app.send({ to: 'ada@example.com', subject: 'From the log' })
  await app.settled(id, 'delivered')
  const away = { DATABASE_URL: 'postgres://u:p@127.0.0.1:1/x' }
  const { code, out } = await here(['trace', id], away)
  t.equal(code, 0)
  t.match(out, new RegExp(`^${id}  delivered  "From the log"\n`))
  t.match(out, /email\.delivered {2}attempt 1 {2}250 /)
  t.match(out, /^└─ webhook deliveries are unknown: PostgreSQL cannot be reached: .*ECONNREFUSED/m)
  t.match(await here(['trace', 'em_none'], away), {
    code: 1,
    err: /^jetpost: The log alone does not show an email em_none\. PostgreSQL cannot be reached: /
  })
  t.match(await here(['trace', id], { NATS_URL: 'nats://127.0.0.1:9' }), {
    code: 1,
    err: /^jetpost: NATS cannot be reached/
  })
})

t.test('jetpost trace tells who clicked what, and how what came back came', async t => {
  const { body: { id } } = await app.send({
    to: 'reader@example.com',
    html: '<a href="https://shop.example/?a=1">shop</a>'
  })
  await app.settled(id, 'delivered')
  const { raw, from } = mail.received.find(({ to }) => to === 'reader@example.com')!
  const link = /https:\/\/links\.example\.com(\/c\/[\w.-]+)/.exec(raw.toString().replaceAll('=\r\n', ''))![1]
  await fetch(app.url + link, {
    redirect: 'manual',
    headers: { 'user-agent': 'Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)' }
  })
  const heard = async (type: string) =>
    await until(
      async () =>
        (await app.request('GET', `/api/emails/${id}`)).body.timeline.some((entry: { type: string }) =>
          entry.type === type
        ),
      START_MS
    )
  await heard('email.clicked')
  t.match(
    await handIn(app.inboundPort!, {
      to: 'fbl@bounces.shop.example',
      raw: arf({ returned: raw.toString().split('\r\n\r\n')[0]! })
    }),
    /^250/
  )
  await heard('email.complained')
  t.match(await handIn(app.inboundPort!, { to: from, raw: dsn({ to: 'reader@example.com' }) }), /^250/)
  await heard('email.bounced')
  const { out } = await here(['trace', id])
  const lineWith = (type: string) => out.split('\n').find(line => line.includes(` ${type} `))!
  t.match(lineWith('email.clicked'), / {2}https:\/\/shop\.example\/\?a=1 {2}by a machine$/)
  t.match(
    lineWith('email.delivered'),
    / {2}attempt 1 {2}250 .* {2}127\.0\.0\.1 \[127\.0\.0\.1\] {2}no TLS \(not offered\) {2}[\d.]+ m?s$/
  )
  t.match(lineWith('email.complained'), / {2}abuse$/)
  t.match(lineWith('email.bounced'), / {2}userunknown {2}by a report of mailbox\.example\.net$/)
  t.notMatch(
    lineWith('email.bounced').split('email.bounced')[1],
    /TLS|\d ms/,
    'nothing of a transaction that there was not'
  )
  const { recipients: [{ facts }] } = await json(t, ['trace', id])
  const entry = facts.find(({ type }: { type: string }) => type === 'email.bounced')
  t.match(entry, { report: /^in_/, host: 'mailbox.example.net' })
  for (const name of ['tls', 'ms', 'via', 'stage']) t.notOk(name in entry, name)
})

t.test('jetpost trace tells of a transaction only where there was one', async t => {
  const { body: { id } } = await app.send({ to: 'lost@example.com' })
  await app.settled(id, 'delivered')
  const { factLog } = await openSecondServices(t, natsUrl)
  const nowhere = { email: id, to: 'lost@example.com', reply: null, tls: null, ms: 7, class: 'networkerror' }
  const facts = [
    deferred({ ...nowhere, stage: 'connect', host: null, error: 'no way there' }),
    deferred({ ...nowhere, stage: 'connect', host: 'mx.example.net', error: 'connect ECONNREFUSED' }),
    deferred({
      ...nowhere,
      stage: 'mail',
      host: 'mx.example.net',
      address: '192.0.2.1',
      plain: 'refused',
      error: 'the line broke'
    }),
    unsubscribed({ email: id, to: 'lost@example.com' })
  ]
  for (const fact of facts) await factLog.append([{ fact: { ...fact, account: FIRST_ACCOUNT } }])
  const { out } = await here(['trace', id])
  t.same(
    out.trimEnd().split('\n').slice(-facts.length).map(line =>
      line.split(/ {2,}/).slice(5).join(' | ').replace(/ \| next attempt .*/, '')
    ),
    [
      'attempt 1 | no way there | networkerror',
      'attempt 1 | connect ECONNREFUSED | networkerror | mx.example.net at connect | 7 ms',
      'attempt 1 | the line broke | networkerror | mx.example.net [192.0.2.1] at mail | no TLS (refused) | 7 ms',
      'one-click'
    ]
  )
})

t.test('jetpost tail shows what happens as it happens, and ends with Ctrl-C', async t => {
  const all = jetpost(['tail'])
  const bounced = jetpost(['tail', '--type', 'email.bounced', '--json'])
  const sent: string[] = []
  // It begins when it is there: what it does not show was before that.
  await until(async () => {
    const gone = `gone-${sent.length}@example.org`
    mail.replies(gone, { rcpt: '550 5.1.1 no such user' })
    const { body: { id } } = await app.send({ to: ['ada@example.com', gone] })
    sent.push(id)
    await app.settled(id, 'partial')
    return [/email\.attempted/, /email\.delivered/, /email\.bounced/].every(type => type.test(all.out())) &&
      bounced.out().includes('email.bounced')
  }, START_MS)
  for (const { child, end } of [all, bounced]) {
    child.kill('SIGINT')
    t.match(await end, { code: 0, err: '' })
  }
  const lines = all.out().trimEnd().split('\n')
  t.ok(lines.every(line => /^2\S+Z {2}email\.\w+ +em_\S+ {2}\S+@\S+/.test(line)))
  t.ok(lines.some(line => /email\.bounced .*gone-\d+@example\.org {2}550 5\.1\.1 no such user/.test(line)))
  const facts = bounced.out().trimEnd().split('\n').map(line => JSON.parse(line))
  t.match(facts[0], { type: 'email.bounced', account: 'acc_first', data: { to: /^gone-/, reply: { code: 550 } } })
  t.ok(facts.every(({ seq, type, data }) => seq > 0 && type === 'email.bounced' && sent.includes(data.email)))
})

t.test('jetpost tail --since begins in the past, and --account shows one account', async t => {
  const key = await app.newAccountKey()
  const { body: { id } } = await app.send({}, key)
  await app.settled(id, 'delivered', key)
  const { body: { id: own } } = await app.send()
  await app.settled(own, 'delivered')
  const every = jetpost(['tail', '--since', '1h', '--type', 'email.delivered'])
  await until(() => every.out().includes(own), START_MS)
  t.ok(every.out().includes(id), 'of all accounts')
  const account = jetpost(['tail', '--since', '1h', '--account', 'acc_first', '--type', 'email.delivered'])
  await until(() => account.out().includes(own), START_MS)
  t.notOk(account.out().includes(id))
  const future = jetpost(['tail', '--since', '0s', '--json'])
  account.child.stdout.destroy()
  await until(async () => {
    await app.settled((await app.send()).body.id, 'delivered')
    return future.out().includes('email.delivered') && account.child.exitCode !== null
  }, START_MS)
  t.equal(account.child.exitCode, 0, 'nobody reads it any more')
  t.notOk(future.out().includes(own))
  for (const { child } of [every, future]) child.kill('SIGTERM')
  for (const { end } of [every, future]) t.match(await end, { code: 0 })
})

t.test('jetpost tail says what it does not know', async t => {
  const cases: Array<[string[], RegExp]> = [
    [['--type', 'email.lost'], /There is no type email\.lost: the types are email\.attempted/],
    [['--account', '>'], /--account takes an id/],
    [['--since', 'yesterday'], /--since takes a duration/],
    [['more'], /usage: jetpost tail/],
    [['--colour'], /--colour/]
  ]
  await Promise.all(
    cases.map(async ([args, err]) => t.match(await here(['tail', ...args]), { code: 2, out: '', err }, args.join(' ')))
  )
  t.match(await here(['tail'], { NATS_URL: 'nats://127.0.0.1:9' }), { code: 1, err: /NATS cannot be reached/ })
})
