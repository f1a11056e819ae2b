import { createHmac } from 'node:crypto'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import t from 'tap'
import { atExit } from '../support/at-exit.ts'
import { jetpostHere } from '../support/command.ts'
import { startTestApp } from '../support/app.ts'
import { startHookSink, type HookRequest } from '../support/hook-sink.ts'
import { jetpost as runJetpost } from '../support/jetpost.ts'
import { SECRET } from '../support/secret.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'
import { until } from '../support/wait.ts'

const natsUrl = freshAccount().natsUrl
const databaseUrl = await freshDatabase(t)
let agoMs = 0
const app = await startTestApp(t, { natsUrl, databaseUrl, clock: { nowMs: () => Date.now() - agoMs } })
const sink = await startHookSink()
t.teardown(() => sink.stop())

const withoutView = { NATS_URL: natsUrl, JETPOST_SECRET: SECRET }
const env = { ...withoutView, DATABASE_URL: databaseUrl }
const jetpost = async (...args: string[]) => await runJetpost(args, env)
const webhooks = async (...args: string[]) => await jetpostHere(['webhooks', ...args], env)
const quiet = async (...args: string[]) => await jetpostHere(['webhooks', ...args], withoutView)
const json = async (...args: string[]) => read(await webhooks(...args, '--json'))
const deliveries = async (...args: string[]) => (await json('deliveries', ...args)).data

function read ({ code, out, err }: { code: number, out: string, err: string }) {
  if (code !== 0) throw new Error(err)
  return JSON.parse(out)
}

const listen = async (path: string, rest: object = {}) =>
  (await app.request('POST', '/api/webhooks', { body: { url: sink.url + path, events: ['email.delivered'], ...rest } }))
    .body
const forget = async (id: string) => await app.request('DELETE', `/api/webhooks/${id}`)
const at = (path: string) => (requests: HookRequest[]) => requests.filter(request => request.path === path)
const signature = (secret: string, body: Buffer) => `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`
async function deliver (): Promise<string> {
  return (await app.send({ to: 'delivered@sandbox.jetpost.test' })).body.id
}
async function sendAndHear (path: string, count = 1): Promise<string[]> {
  const before = at(path)(sink.requests).length
  const ids = await Promise.all(Array.from({ length: count }, deliver))
  await sink.waitFor(requests => at(path)(requests).length >= before + count, 30_000)
  return ids
}

t.test('endpoints are listed, shown, paused, resumed and tested in the shell', async t => {
  t.match(await jetpost('webhooks'), { code: 0, out: '(none)' })
  const { id } = await listen('/hooks')
  t.match(await webhooks(), { code: 0, out: `${id}  enabled  ${sink.url}/hooks  email.delivered` })
  t.strictSame(await json('list'), [(await app.request('GET', `/api/webhooks/${id}`)).body], 'as the API shows them')
  t.match(await webhooks('pause', id), { code: 0, out: /paused\s+true/ })
  t.match(await webhooks('list'), { code: 0, out: `${id}  paused` })
  t.match(await webhooks('test', id), { code: 1, err: 'The webhook is paused' })
  t.match(await json('resume', id), [{ id, paused: false }])
  const [test] = await json('test', id, '--type', 'email.clicked')
  const [request] = await sink.waitFor(requests => requests.length > 0, 30_000)
  t.match(JSON.parse(request!.body.toString()), { id: test.id, type: 'email.clicked', data: { test: true } })
  sink.answers(({ path }) => ({ status: path === '/hooks' ? 410 : 200 }))
  await sendAndHear('/hooks')
  await until(async () => (await app.request('GET', `/api/webhooks/${id}`)).body.status === 'disabled')
  t.match(await webhooks('show', id), { code: 0, out: /disabled_reason\s+gone/ })
  sink.answers(() => ({}))
  t.match(await webhooks('enable', id), { code: 0, out: /status\s+enabled/ })
  t.match(await json('delete', id), [{ id, deleted: true }])
  await until(async () => (await app.request('GET', `/api/webhooks/${id}`)).status === 404)
  t.match(await webhooks('delete', id), { code: 1, err: `There is no webhook ${id}.` })
})

t.test('a signing secret is rotated in the shell, shown once, and the one before is ended at once', async t => {
  const { id, secret: leaked } = await listen('/secrets', { events: ['email.complained'] })
  const rotated = await webhooks('rotate', id, '--json')
  const [{ secret, secret_rotation: rotation }] = read(rotated)
  t.match(secret, /^whsec_[\w+/]{43}=$/)
  t.match(await webhooks('rotate', id), { code: 1, err: 'still signs' })
  const known = async () => (await app.request('GET', `/api/webhooks/${id}`)).body
  await until(async () => (await known()).secret_rotation !== null)
  t.strictSame(await json('show', id), [await known()])
  t.match(await known(), { secret_rotation: rotation })
  const shown = await webhooks('show', id)
  t.match(shown.out, new RegExp(`previous_secret_expires_at\\s+${rotation.previous_expires_at}`))
  for (const text of [shown.out, (await webhooks('list', '--json')).out]) {
    for (const told of [leaked, secret]) t.notMatch(text, told)
  }
  t.match(await webhooks('rotate', id, '--finish'), { code: 0, out: /previous_secret_expires_at\s+-/ })
  await until(async () => (await known()).secret_rotation === null)
  await json('test', id)
  const [request] = at('/secrets')(await sink.waitFor(requests => at('/secrets')(requests).length === 1, 30_000))
  t.equal(request!.headers['x-service-signature'], signature(secret, request!.body))
  t.match(await webhooks('rotate', id, '--finish'), { code: 1, err: 'No rotation' })
  const plain = await webhooks('rotate', id)
  t.match(plain, { code: 0, out: new RegExp(`${id}  whsec_[\\w+/]{43}=  in 2\\d h`) })
  await forget(id)
})

t.test('an option of another verb is refused, and nothing is done', async t => {
  const { id } = await listen('/options')
  await sendAndHear('/options')
  await until(async () => (await deliveries(id, '--state', 'delivered')).length === 1, 30_000)
  const [{ id: delivery }] = await deliveries(id)
  const cases: Array<[string[], string]> = [
    [['resend', delivery, '--dry-run'], '--dry-run is no option of webhooks resend, which takes --account, --json.'],
    [['pause', id, '--dry-run'], '--dry-run is no option of webhooks pause'],
    [['delete', id, '--dry-run'], '--dry-run is no option of webhooks delete'],
    [['rotate', id, '--dry-run'], '--dry-run is no option of webhooks rotate'],
    [['replay', id, '--all', '--since', '2h', '--type', 'email.complained'], '--type is no option of webhooks replay'],
    [['replay', id, '--all', '--since', '2h', '--state', 'failed'], '--state is no option of webhooks replay'],
    [['--limit', '25', 'replays', id], '--limit is no option of webhooks replays'],
    [['list', '--since', '1h'], '--since is no option of webhooks list'],
    [['deliveries', '--failed'], '--failed is no option of webhooks deliveries'],
    [['test', id, '--pace', '1'], '--pace is no option of webhooks test']
  ]
  for (const [args, err] of cases) t.match(await webhooks(...args), { code: 2, out: '', err }, args.join(' '))
  t.match(await json('show', id), [{ paused: false, secret_rotation: null }])
  t.strictSame(await json('replays', id), [])
  await sendAndHear('/options')
  t.match(await json('delivery', delivery), [{ replay: null, requests: { length: 1 } }])
  t.equal(at('/options')(sink.requests).length, 2)
  await forget(id)
})

t.test('deliveries are listed and shown with their requests and bytes; one is sent again', async t => {
  let status = 500
  sink.answers(({ path }) => ({ status: path === '/log' ? status : 200, body: 'no \u001b[31mthanks' }))
  const { id } = await listen('/log')
  const [email] = await sendAndHear('/log')
  await until(async () => (await deliveries(id)).some(({ attempts }: { attempts: number }) => attempts > 0), 30_000)
  const [delivery] = await deliveries(id, '--email', email!)
  t.match(delivery, {
    id: /^whd_/,
    webhook: id,
    state: 'retrying',
    status: 500,
    events: [{ type: 'email.delivered', email }]
  })
  t.strictSame(await deliveries(id, '--state', 'delivered'), [])
  t.strictSame((await deliveries(id, '--event', delivery.events[0].id, '--since', '1h')).length, 1)
  t.strictSame(await deliveries(id, '--since', '0s'), [])
  for (
    const wide of [['--since', '999999d'], ['--since', '0000-01-01T00:00:00Z', '--until', '9999-12-31T23:59:59-10:00']]
  ) t.equal((await deliveries(id, ...wide)).length, 1, wide.join(' '))
  const listed = await webhooks('deliveries', id, '--limit', '1')
  t.match(listed, { code: 0, out: new RegExp(`${delivery.id}  retrying  email\\.delivered  ${email}`) })
  t.notMatch(listed.out, '--cursor', 'there is no more')
  const [shown] = await json('delivery', delivery.id)
  t.match(shown.requests[0], {
    attempt: 1,
    status: 500,
    error_kind: null,
    request: { url: `${sink.url}/log`, headers: { 'webhook-id': delivery.events[0].id } },
    response: /^no /
  })
  const [first] = at('/log')(sink.requests)
  t.equal(shown.body, first!.body.toString())
  const text = (await webhooks('delivery', delivery.id)).out
  t.match(text, /attempt 1 {2}500 {2}[\d.]+ m?s\n {2}POST http:\/\/127\.0\.0\.1:\d+\/log\n/)
  t.match(text, `"id":"${delivery.events[0].id}"`)
  t.notMatch(text, '\u001b', 'no code that a terminal obeys')
  status = 200
  const before = at('/log')(sink.requests).length
  t.match(await json('resend', delivery.id), [{ id: delivery.id, webhook: id, replay: /^rpl_/ }])
  await sink.waitFor(requests => at('/log')(requests).length > before, 30_000)
  t.strictSame(new Set(at('/log')(sink.requests).map(({ body }) => body.toString())), new Set([shown.body]))
  await until(async () => (await json('delivery', delivery.id))[0].state === 'delivered', 30_000)
  t.match(await webhooks('delivery', 'whd_none'), { code: 1, err: 'There is no delivery whd_none.' })
  t.match(await webhooks('resend', 'whd_none'), { code: 1, err: 'There is no delivery whd_none.' })
  await forget(id)
})

t.test('deliveries that wait for their endpoint say so', async t => {
  // Of a minute ago.
  agoMs = 60_000
  t.teardown(() => {
    agoMs = 0
  })
  const { id } = await listen('/waits', { paused: true })
  const email = await deliver()
  await until(async () => (await deliveries(id)).length === 1, 30_000)
  agoMs = 0
  const [delivery] = await deliveries(id)
  t.match(delivery, { state: 'pending', waits_for: 'paused', attempts: 0 })
  t.match(await webhooks('deliveries', id), { code: 0, out: `pending (endpoint paused)  email.delivered  ${email}` })
  t.match(await webhooks('delivery', delivery.id), { code: 0, out: 'pending (endpoint paused)' })
  await forget(id)
})

t.test('the log of all endpoints is listed page by page, with deleted endpoints and without unknown ones', async t => {
  sink.answers(() => ({}))
  const [{ id: fine }, { id: away }] = [await listen('/fine'), await listen('', { url: 'http://127.0.0.1:1/' })]
  const from = new Date().toISOString()
  const emails = await sendAndHear('/fine', 3)
  const ours = async (...args: string[]) => await json('deliveries', '--since', from, ...args)
  await until(
    async () => (await ours()).data.filter(({ attempts }: { attempts: number }) => attempts > 0).length === 6,
    30_000
  )
  const whole = await ours()
  t.match(whole, { has_more: false, next_cursor: null })
  const parts = [await ours('--limit', '4')]
  t.match(parts[0], { has_more: true, next_cursor: String })
  parts.push(await ours('--limit', '4', '--cursor', parts[0].next_cursor))
  t.match(parts[1], { has_more: false, next_cursor: null })
  t.strictSame(
    parts.flatMap(({ data }) => data.map(({ id }: { id: string }) => id)),
    whole.data.map(({ id }: { id: string }) => id)
  )
  const text = (await webhooks('deliveries', '--since', from, '--limit', '4')).out
  t.match(text, `The next page: --cursor ${parts[0].next_cursor}\n`)
  for (const id of [fine, away]) t.match(text, `  ${id}\n`, 'whose each is')
  t.strictSame(
    new Set((await ours('--error', 'connect')).data.map(({ webhook }: { webhook: string }) => webhook)),
    new Set([away])
  )
  t.strictSame((await ours('--error', 'dns')).data, [])
  t.strictSame(
    new Set((await ours('--email', emails[0]!)).data.map(({ webhook }: { webhook: string }) => webhook)),
    new Set([fine, away])
  )
  t.strictSame(
    (await deliveries('--since', '1h', '--until', from)).some(({ webhook }: { webhook: string }) =>
      webhook === fine || webhook === away
    ),
    false
  )
  for (const id of [fine, away]) await forget(id)
  t.equal((await deliveries(fine)).length, 3, 'deleted, and still there')
  t.match(await webhooks('deliveries', fine, '--state', 'pending'), { code: 0, out: '(none)' })
  t.match(await webhooks('deliveries', 'wh_nope'), { code: 1, out: '', err: 'There is no webhook wh_nope.' })
  for (const args of [[], [fine], ['wh_nope']]) {
    t.match(await webhooks('deliveries', ...args, '--account', 'acc_nope'), {
      code: 2,
      out: '',
      err: 'There is no account acc_nope.'
    })
  }
})

t.test('a stretch of the past is counted, sent again and canceled in the shell, without PostgreSQL', async t => {
  sink.answers(() => ({}))
  const { id } = await listen('/past')
  await sendAndHear('/past', 12)
  const [{ events }] = read(await quiet('replay', id, '--all', '--since', '1h', '--dry-run', '--json'))
  t.ok(events > 12, 'those of the tests before are of it, too')
  t.equal(at('/past')(sink.requests).length, 12)
  const [replay] = read(await quiet('replay', id, '--all', '--since', '1h', '--pace', '500', '--json'))
  t.match(replay, { id: /^rpl_/, webhook: id, what: 'window', state: 'running', pace: 500 })
  await sink.waitFor(requests => at('/past')(requests).length === 12 + events, 30_000)
  await until(async () => read(await quiet('replays', id, '--json'))[0].state === 'done')
  t.match(read(await quiet('replays', id, '--json')), [{ id: replay.id, made: events }])
  const [slow] = read(
    await quiet(
      'replay',
      id,
      '--all',
      '--from',
      new Date(Date.now() - 3_600_000).toISOString(),
      '--pace',
      '1',
      '--json'
    )
  )
  t.match(read(await quiet('cancel-replay', slow.id, '--json')), [{ id: slow.id, state: 'canceled' }])
  t.match(await webhooks('cancel-replay', replay.id), { code: 1, err: 'The replay is over already.' })
  t.match(await jetpostHere(['webhooks', 'deliveries', id], { ...withoutView, JETPOST_DATA_DIR: '/nonexistent' }), {
    code: 1,
    err: 'No Jetpost runs on the data folder'
  })
  t.match(
    await jetpostHere(['webhooks', 'deliveries', id], { ...withoutView, DATABASE_URL: 'postgres://u:p@127.0.0.1:1/x' }),
    { code: 1, err: 'PostgreSQL cannot be reached' }
  )
  await forget(id)
})

t.test('all that failed is counted and sent again in the shell', async t => {
  sink.answers(({ path }) => ({ status: path === '/failed' ? 410 : 200 }))
  const { id } = await listen('/failed')
  await sendAndHear('/failed')
  await until(async () => (await deliveries(id, '--state', 'failed')).length === 1, 30_000)
  sink.answers(() => ({}))
  await webhooks('enable', id)
  t.match(await webhooks('replay', id, '--failed', '--since', '1h', '--dry-run'), {
    code: 0,
    out: /deliveries {2}events {2}email\.delivered\n1 /
  })
  t.match(await webhooks('replay', id, '--failed', '--since', '1h'), { code: 0, out: /failed {2}running/ })
  await sink.waitFor(requests => at('/failed')(requests).length === 2, 30_000)
  await forget(id)
})

t.test('a dry run does not wait long for a PostgreSQL that says nothing', async t => {
  const sockets: Socket[] = []
  const mute = createServer(socket => {
    sockets.push(socket.on('error', () => {}))
  }).listen(0, '127.0.0.1')
  await once(mute, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    mute.close()
  })
  const { id } = await listen('/mute')
  const env = { ...withoutView, DATABASE_URL: `postgres://u:p@127.0.0.1:${(mute.address() as AddressInfo).port}/x` }
  t.match(await jetpostHere(['webhooks', 'replay', id, '--failed', '--since', '1h', '--dry-run'], env), {
    code: 1,
    out: '',
    err: 'PostgreSQL may be unavailable'
  })
  t.ok(sockets.length <= 2, 'each try may take 2 s')
  await forget(id)
})

t.test('what is not understood ends with 2, what cannot be with 1', async t => {
  const { id } = await listen('/usage')
  for (
    const args of [['show'], ['dance', id], ['constructor', id], ['show', id, 'more'], ['list', 'x'], ['rotate'], [
      'delete'
    ], ['deliveries', id, id]]
  ) {
    t.match(await webhooks(...args), { code: 2, out: '', err: 'usage: jetpost webhooks' }, args.join(' '))
  }
  const unclear: Array<[string[], string]> = [
    [['replay', id, '--since', '1h'], 'Either --failed or --all'],
    [['replay', id, '--all', '--failed', '--since', '1h'], 'Either --failed or --all'],
    [['replay', id, '--all'], 'Either --since or --from'],
    [['replay', id, '--all', '--since', 'yesterday'], '--since takes a duration'],
    [['replay', id, '--all', '--from', 'yesterday'], '--from takes a time'],
    [['replay', id, '--all', '--since', '1h', '--pace', 'fast'], 'The pace must be a whole number'],
    [['replay', id, '--all', '--since', '91d'], 'no longer kept'],
    [['deliveries', id, '--state', 'lost'], 'There is no state lost'],
    [['deliveries', '--error', 'lost'], 'There is no error lost: the errors are timeout'],
    [['deliveries', '--since', 'yesterday'], '--since takes a duration'],
    [['deliveries', '--until', 'tomorrow'], '--until takes a duration'],
    [['deliveries', '--cursor', 'x'], '--cursor must be the one that the last list ended with.'],
    [['deliveries', id, '--limit', '0'], '--limit takes a whole number'],
    [['test', id, '--type', 'email.lost'], 'There is no type email.lost'],
    [['list', '--account', 'acc_none'], 'There is no account acc_none']
  ]
  for (const [args, err] of unclear) t.match(await webhooks(...args), { code: 2, out: '', err }, args.join(' '))
  for (const verb of ['show', 'pause', 'resume', 'enable', 'rotate', 'delete', 'test', 'replays']) {
    t.match(await webhooks(verb, 'wh_none'), { code: 1, err: 'There is no webhook wh_none.' }, verb)
  }
  t.match(await webhooks('cancel-replay', 'rpl_none'), { code: 1, err: 'There is no replay rpl_none.' })
  t.match(await jetpost('webhooks', '--help'), { code: 0, out: /--dry-run/ })
  t.match(await jetpost('webhooks', 'pause', id, '--dry-run'), { code: 2, err: '--dry-run is no option' })
  await forget(id)
})

t.test('jetpost replay posts the past to any URL, signed with a secret of its own', async t => {
  const { body: { data } } = await app.request('GET', '/api/emails?limit=100')
  const given = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
  let count = 0
  sink.answers(({ path }) => ({ status: path === '/some' && count++ % 2 === 0 ? 500 : 200 }))
  const replay = async (to: string, ...args: string[]) => await jetpost('replay', '--to', to, '--since', '1h', ...args)
  const [all, none, some, nobody, nope] = await Promise.all([
    replay(`${sink.url}/dev`, '--json'),
    replay(`${sink.url}/none`, '--type', 'email.clicked'),
    replay(`${sink.url}/some`, '--secret', given),
    replay('http://127.0.0.1:1/'),
    replay(`${sink.url}/nope`, '--account', 'acc_nope')
  ])
  t.equal(all.code, 0, all.err)
  const secret = /^Signed with (whsec_\S+)$/m.exec(all.err)![1]!
  const lines = all.out.trimEnd().split('\n').map(line => JSON.parse(line))
  const got = at('/dev')(sink.requests)
  t.equal(lines.length, data.length, 'each has come to its one event')
  t.strictSame(got.map(({ body }) => JSON.parse(body.toString()).id), lines.map(({ event }) => event), 'in their order')
  for (const { headers, body } of got) t.equal(headers['x-service-signature'], signature(secret, body))
  t.match(lines[0], { event: /^ev_/, type: 'email.delivered', email: /^em_/, status: 200, error: null })
  t.match(none, { code: 0, out: '' })
  t.match(some, { code: 1, err: /^\d+ accepted, [1-9]\d* not\.\n$/ })
  const [first] = at('/some')(sink.requests)
  t.equal(first!.headers['x-service-signature'], signature(given, first!.body))
  t.match(nobody, { code: 1, out: /connection refused/ })
  t.match(nope, { code: 2, out: '', err: 'There is no account acc_nope.' })
})

t.test('jetpost replay --follow goes on with what happens until Ctrl-C', async t => {
  sink.answers(() => ({}))
  const child = spawn(process.execPath, ['src/bin.js', 'replay', '--to', `${sink.url}/follow`, '--follow'], {
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  const kill = () => child.kill('SIGKILL')
  atExit(kill)
  // Its pipes would keep this process where the test fails.
  t.teardown(kill)
  const ended = once(child, 'close')
  await until(async () => {
    await app.settled(await deliver(), 'delivered')
    return at('/follow')(sink.requests).length > 0
  }, 30_000)
  child.kill('SIGINT')
  t.strictSame(await ended, [0, null])
})

t.test('jetpost replay says what it does not know', async t => {
  const cases: Array<[string[], string]> = [
    [['--since', '1h'], 'usage: jetpost replay'],
    [['--to', sink.url], 'usage: jetpost replay'],
    [['--to', 'ftp://example.com/', '--since', '1h'], 'url must start with'],
    [['--to', sink.url, '--since', 'long'], '--since takes a duration'],
    [['--to', sink.url, '--since', '1h', '--type', 'email.lost'], 'There is no type email.lost'],
    [['--to', sink.url, '--since', '1h', '--account', '>'], '--account takes an id'],
    [['--to', sink.url, '--since', '1h', '--secret', 'hunter2'], '--secret takes a signing secret']
  ]
  for (const [args, err] of cases) {
    t.match(await jetpostHere(['replay', ...args], env), { code: 2, out: '', err }, args.join(' '))
  }
})
