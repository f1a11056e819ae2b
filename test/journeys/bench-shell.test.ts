import t from 'tap'
import { jetpostHere } from '../support/command.ts'
import { API_KEY, startTestApp } from '../support/app.ts'

const app = await startTestApp(t)
const env = { JETPOST_PUBLIC_URL: app.url, JETPOST_API_KEY: API_KEY }
const here = (args: string[], key = API_KEY) => jetpostHere(args, { ...env, JETPOST_API_KEY: key })

t.test('jetpost me shows what the key may do', async t => {
  const key = await app.newKey({ name: 'Shop', scopes: ['emails:read'], domains: ['shop.example'] })
  const { code, out } = await here(['me'], key.secret)
  t.equal(code, 0)
  for (
    const line of [
      `key +Shop \\(${key.id}\\)`,
      'account +First account \\(acc_first\\)',
      'scopes +emails:read',
      'domains +shop\\.example',
      'limits +.*emails:send=100.*',
      'expires_at +never',
      'test +false'
    ]
  ) t.match(out, new RegExp(`^${line}$`, 'm'))
  t.notMatch(out, key.secret)
  const [body] = JSON.parse((await here(['me', '--json'], key.secret)).out)
  t.strictSame(body, (await app.request('GET', '/api/me', { key: key.secret })).body)
  t.match(await here(['me', 'again']), { code: 2, err: 'usage: jetpost me' })
})

t.test('who may not send is told what to look at', async t => {
  const key = await app.newKey({ scopes: ['emails:read'] })
  const args = ['send', '--from', 'a@sandbox.jetpost.test', '--to', 'b@example.com', '--subject', 's', '--text', 't']
  const { code, err } = await here(args, key.secret)
  t.equal(code, 1)
  t.match(err, /The key must have the scope emails:send\.\nWhat the key may do: jetpost me\. What it must do: http/)
  t.match(err, /\/docs#\/Emails\/sendEmail\n$/)
})

t.test('who sends from a domain that the account does not have is told how to add it', async t => {
  const args = ['send', '--from', 'a@own.example', '--to', 'b@example.com', '--subject', 's', '--text', 't']
  t.match(await here(args), {
    code: 1,
    err: /: own\.example is not\. Add the domain: npx jetpost domains add own\.example, or POST \/api\/domains\./
  })
})

t.test('jetpost bench sends to the sandbox, and says how many were accepted and delivered', async t => {
  const { code, out, err } = await here(['bench', '--seconds', '1', '--in-flight', '4', '--json'])
  t.equal(code, 0, err)
  const rows = JSON.parse(out)
  t.match(rows, [{ emails: 'accepted' }, { emails: 'delivered' }])
  for (const { count, per_second: perSecond, p50_ms: p50, p99_ms: p99 } of rows) {
    t.ok(count > 0 && perSecond > 0 && p50 > 0 && p99 >= p50)
  }
  t.equal(rows[0].count, rows[1].count, 'all were delivered')
  t.ok(rows[1].p50_ms >= rows[0].p50_ms, 'delivered after they were accepted')
  const { body: { data: [email] } } = await app.request('GET', '/api/emails?limit=1')
  t.match(email, { from: 'bench@sandbox.jetpost.test', status: 'delivered', tags: [/^bench /] })
  const list = await app.request('GET', `/api/emails?limit=100&tag=${encodeURIComponent(email.tags[0])}`)
  t.ok(list.body.data.every(({ to }: { to: string[] }) => to.join() === 'delivered@sandbox.jetpost.test'))
})

t.test('jetpost bench says what keeps it from measuring', async t => {
  const limited = await app.newKey({})
  await app.limitKey(limited.id, { 'emails:send': 2 })
  t.match(await here(['bench', '--seconds', '60'], limited.secret), {
    code: 1,
    out: '',
    err: `The key may send 2 emails a minute: allow it more with jetpost keys limit ${limited.id} emails:send=1000000`
  })
  const reader = await app.newKey({ scopes: ['emails:read'] })
  t.match(await here(['bench'], reader.secret), { code: 1, err: 'The key must have the scope emails:send.' })
  const sender = await app.newKey({ scopes: ['emails:send'] })
  await app.limitKey(sender.id, { 'emails:send': 100_000 })
  const { code, err } = await here(['bench', '--seconds', '1'], sender.secret)
  t.match({ code, err }, { code: 1, err: 'The key must have the scope emails:metadata.' })
  for (const args of [['--seconds', '0'], ['--seconds', '1.5'], ['--in-flight', '1001'], ['--in-flight', 'x']]) {
    t.match(await here(['bench', ...args]), { code: 2, err: /takes a whole number from 1 to \d+\./ }, args.join(' '))
  }
})
