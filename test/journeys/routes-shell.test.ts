import { once } from 'node:events'
import { SMTPServer } from 'smtp-server'
import t from 'tap'
import { FROM, startTestApp } from '../support/app.ts'
import { jetpostHere } from '../support/command.ts'
import { SECRET } from '../support/secret.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'
import { startSink } from '../support/smtp-sink.ts'

const natsUrl = freshAccount().natsUrl
const databaseUrl = await freshDatabase(t)
const app = await startTestApp(t, { natsUrl, databaseUrl })
const env = { NATS_URL: natsUrl, DATABASE_URL: databaseUrl, JETPOST_SECRET: SECRET }
const jetpost = async (...args: string[]) => await jetpostHere(args, env)

t.test('a route is created, shown, changed and deleted in the shell; mail goes by it, and trace says so', async t => {
  const relay = await startSink()
  t.teardown(() => relay.stop())
  const source = '127.0.0.9,weight=2,tag=bulk'
  const which = ['--url', `${relay.url}?tls=off`, '--tag', 'bulk', '--position', '5', '--source', source]
  const pace = ['--warm-up', '2026-01-01/5/10/then=100', '--rate', '50']
  const created = await jetpost('routes', 'create', 'bulk', ...which, ...pace, '--json')
  t.equal(created.code, 0, created.err)
  t.match(JSON.parse(created.out), [{
    name: 'bulk',
    position: 5,
    match: { tags: ['bulk'], keys: [] },
    sources: [{ address: '127.0.0.9', weight: 2, tags: ['bulk'] }],
    messages_per_second: 50,
    warm_up: { from: '2026-01-01', per_day: [5, 10], after: 100 }
  }])
  const { body: { id } } = await app.request('POST', '/api/emails', {
    body: { from: FROM, to: 'ada@example.com', subject: 'Hello', text: 'Hello', tags: ['bulk'] }
  })
  await app.settled(id, 'delivered')
  t.equal(relay.received[0]!.peer, '127.0.0.9')
  const { body: { timeline } } = await app.request('GET', `/api/emails/${id}`)
  t.match(timeline.find(({ type }: { type: string }) => type === 'email.delivered'), {
    route: 'bulk',
    source: '127.0.0.9'
  })
  t.match((await jetpost('trace', id)).out, /by route bulk.{1,5}from 127\.0\.0\.9/)
  t.match(
    (await app.request('GET', '/metrics', { key: null })).body,
    /route_attempts_total\{route="bulk",result="delivered"\} 1/
  )

  t.match((await jetpost('routes')).out, /bulk\s+5\s+smtp:\/\/127\.0\.0\.1:\d+\?tls=off\s+tag bulk/)
  t.match(
    (await jetpost('routes', 'change', 'bulk', '--tag', 'none', '--key', 'key_1', '--warm-up', 'none')).out,
    /key_1/
  )
  t.match(JSON.parse((await jetpost('routes', 'show', 'bulk', '--json')).out), [{
    match: { tags: [], keys: ['key_1'] },
    warm_up: null,
    position: 5
  }])
  t.equal((await jetpost('routes', 'delete', 'bulk')).code, 0)
  t.match(await jetpost('routes', 'show', 'bulk'), { code: 1, err: /There is no route bulk\./ })
})

t.test('what is wrong is said, and a password never', async t => {
  const wrong: Array<[string[], number, RegExp]> = [
    [['create', 'a'], 2, /--url is required/],
    [['create', 'a', '--url', 'ftp://me:hunter2@relay'], 2, /url must look like/],
    [['create', 'a', '--url', 'smtp://me:hunter2@relay', '--fallback', 'b'], 2, /there is no route b/],
    [['create', 'a', '--url', 'direct:', '--source', '127.0.0.1,size=3'], 2, /--source must be/],
    [['create', 'a', '--url', 'direct:', '--warm-up', 'soon'], 2, /--warm-up must be/],
    [['create', 'a', '--url', 'direct:', '--rate', 'fast'], 2, /--rate must be a number/],
    [['add', 'a'], 2, /usage|There is no routes add/]
  ]
  for (const [args, code, says] of wrong) {
    const refused = await jetpost('routes', ...args)
    t.equal(refused.code, code, args.join(' '))
    t.match(refused.err, says)
    t.notMatch(refused.out + refused.err, 'hunter2')
  }
  const made = await jetpost('routes', 'create', 'secret', '--url', 'smtp://me:hunter2@relay.example.com')
  t.equal(made.code, 0, made.err)
  t.notMatch(made.out + (await jetpost('routes', '--json')).out, 'hunter2')
  t.equal((await jetpost('routes', 'delete', 'secret')).code, 0)
})

t.test('a route logs in with the password of its sealed URL; one whose login is refused falls over', async t => {
  const taken: string[] = []
  const server = new SMTPServer({
    logger: false,
    onAuth: ({ username, password }, _session, callback) => {
      const error = Object.assign(new Error('5.7.8 no'), { responseCode: 535 })
      callback(username === 'me' && password === 'right+hunter3' ? null : error, { user: 'me' })
    },
    onData: (stream, { envelope: { rcptTo } }, callback) => {
      taken.push(rcptTo[0]!.address)
      stream.resume().on('end', () => callback(null, '2.0.0 taken'))
    }
  })
  server.on('error', () => {})
  server.listen(0, '127.0.0.1')
  await once(server.server, 'listening')
  t.teardown(() => new Promise<void>(resolve => server.close(() => resolve())))
  const { port } = server.server.address() as { port: number }
  const at = (password: string) => `smtp://me:${password}@127.0.0.1:${port}?tls=unverified`
  const right = await jetpost('routes', 'create', 'right', '--url', at('right+hunter3'), '--tag', 'right')
  const refused = ['--url', at('hunter4'), '--tag', 'wrong', '--fallback', 'right']
  const wrong = await jetpost('routes', 'create', 'wrong', ...refused)
  t.strictSame([right.code, wrong.code], [0, 0])
  for (const tag of ['right', 'wrong']) {
    const mail = { from: FROM, to: `${tag}@example.com`, subject: 'Hello', text: 'Hello', tags: [tag] }
    const { body: { id } } = await app.request('POST', '/api/emails', { body: mail })
    await app.settled(id, 'delivered')
    const { body } = await app.request('GET', `/api/emails/${id}`)
    t.match(body.timeline.at(-1), { route: 'right' })
    t.notMatch(JSON.stringify(body) + (await jetpost('trace', id)).out, /hunter/)
  }
  t.strictSame(taken, ['right@example.com', 'wrong@example.com'])
})
