import t from 'tap'
import { startTestApp } from '../support/app.ts'
import { jetpostHere } from '../support/command.ts'
import { SECRET } from '../support/secret.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'

const { natsUrl } = freshAccount()
const databaseUrl = await freshDatabase(t)
// Nobody at work: what is asked for stays under way.
const app = await startTestApp(t, { natsUrl, databaseUrl, env: { JETPOST_ROLES: 'api,projector' } })
const ask = (address: unknown, key?: string) =>
  app.request('POST', '/api/erasures', { body: { address }, ...(key === undefined ? {} : { key }) })

t.test('an erasure is asked for, listed and looked at', async t => {
  const { status, body, headers } = await ask('Ada@Example.com')
  t.equal(status, 202)
  t.match(body, {
    id: /^era_/,
    status: 'pending',
    address_hash: /^[0-9a-f]{64}$/,
    completed_at: null,
    counts: { emails: 0, messages: 0 },
    remains: []
  })
  t.equal(headers.get('location'), `/api/erasures/${body.id}`)
  t.notOk(JSON.stringify(body).toLowerCase().includes('ada@'), 'the address itself is in no answer')
  t.same((await app.request('GET', `/api/erasures/${body.id}`)).body, body)
  const again = await ask('ada@EXAMPLE.com')
  t.same([again.status, again.body], [202, body], 'in any spelling it is the one under way')
  const other = await ask('bob@example.com')
  t.not(other.body.id, body.id)
  const first = await app.request('GET', '/api/erasures?limit=1')
  t.match(first.body, { data: [{ id: other.body.id }], has_more: true })
  const second = await app.request('GET', `/api/erasures?limit=1&cursor=${first.body.next_cursor}`)
  t.match(second.body, { data: [{ id: body.id }], has_more: false, next_cursor: null })
})

t.test('what is no address is refused, and named', async t => {
  for (const address of ['', 'ada', 'a b@example.com', 'Ada <ada@example.com>']) {
    t.match(await ask(address), {
      status: 422,
      body: { code: 'validation_failed', details: [{ field: 'address', code: 'invalid_address' }] }
    }, address)
  }
  t.match(await ask(7), { status: 422, body: { details: [{ field: 'address' }] } })
  t.match(await app.request('POST', '/api/erasures', { body: { adress: 'ada@example.com' } }), { status: 422 })
  t.match(await app.request('GET', '/api/erasures?cursor=x'), {
    status: 422,
    body: { details: [{ field: 'cursor', code: 'invalid_cursor' }] }
  })
})

t.test('its scope opens it, no other does, and not for another account', async t => {
  const { body: { id } } = await ask('carol@example.com')
  const { secret: eraser } = await app.newKey({ scopes: ['erasures:write'] })
  const { secret: sender } = await app.newKey({ scopes: ['emails:send', 'emails:read', 'suppressions:write'] })
  t.equal((await ask('carol@example.com', eraser)).body.id, id)
  t.equal((await ask('carol@example.com', sender)).status, 403)
  t.equal((await app.request('GET', `/api/erasures/${id}`, { key: sender })).status, 403)
  const stranger = await app.newAccountKey()
  t.equal((await app.request('GET', `/api/erasures/${id}`, { key: stranger })).status, 404)
  t.same((await app.request('GET', '/api/erasures', { key: stranger })).body.data, [])
  t.not((await ask('carol@example.com', stranger)).body.id, id, 'each account forgets for itself')
  t.equal((await app.request('GET', '/api/erasures/era_nobody')).status, 404)
})

t.test('the shell asks for the same', async t => {
  const env = { NATS_URL: natsUrl, DATABASE_URL: databaseUrl, JETPOST_SECRET: SECRET }
  const asked = await jetpostHere(['erase', 'Dora@example.com', '--json'], env)
  t.equal(asked.code, 0, asked.err)
  const [erasure] = JSON.parse(asked.out)
  t.match(erasure, { id: /^era_/, status: 'pending', recipients: 0 })
  t.equal((await ask('dora@example.com')).body.id, erasure.id)
  t.equal(JSON.parse((await jetpostHere(['erase', 'dora@example.com', '--json'], env)).out)[0].id, erasure.id)
  t.match(JSON.parse((await jetpostHere(['erasures', '--json'], env)).out), [{
    id: erasure.id,
    status: 'pending',
    completed_at: ''
  }])
  t.match(await jetpostHere(['erase', 'dora'], env), { code: 2, err: /address must be an email address/ })
  t.match(await jetpostHere(['erase'], env), { code: 2, err: /usage: jetpost erase/ })
  t.match(await jetpostHere(['erasures', '--account', 'acc_nobody'], env), { code: 2, err: /no account/ })
})
