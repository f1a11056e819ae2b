import { createPrivateKey, createPublicKey } from 'node:crypto'
import t from 'tap'
import { domainKey } from '#streams/directory.ts'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { openDnsServer } from '../support/dns-server.ts'
import { API_KEY, startTestApp } from '../support/app.ts'
import { openSecondServices } from '../support/second-services.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'

const dns = await openDnsServer(t)
const natsUrl = freshAccount().natsUrl
const databaseUrl = await freshDatabase(t)
const env = {
  JETPOST_DNS: dns.address,
  JETPOST_BOUNCE_DOMAIN: 'bounces.jetpost.example',
  JETPOST_DOMAINS: 'first.example'
}
const app = await startTestApp(t, { natsUrl, databaseUrl, env })
const second = await startTestApp(t, { natsUrl, databaseUrl, env: { ...env, JETPOST_ROLES: 'api' } })
const services = await openSecondServices(t, natsUrl)

const entryOf = (name: string) => services.directory.now.domains.get(domainKey(FIRST_ACCOUNT, name))
const add = async (name: string, key = API_KEY) => await app.request('POST', '/api/domains', { key, body: { name } })
const verify = async (id: string, key = API_KEY) => await app.request('POST', `/api/domains/${id}/verify`, { key })
const rotate = async (id: string, key = API_KEY) => await app.request('POST', `/api/domains/${id}/rotate-dkim`, { key })
/** By purpose, of keys by their kind; of those in rotation the stage goes before. */
const states = ({ body }: { body: any }) =>
  Object.fromEntries(
    body.records.map((
      { purpose, name, stage, state }: Record<string, string>
    ) => [
      `${stage === 'current' ? '' : `${stage} `}${purpose === 'dkim' ? name!.split('.')[0]!.split('-')[1] : purpose}`,
      state
    ])
  )

t.test('a domain is added with the records to publish', async t => {
  const { status, headers, body } = await add('Shop.Example')
  t.equal(status, 201)
  t.equal(headers.get('location'), `/api/domains/${body.id}`)
  t.match(body, {
    id: /^dom_[0-9a-z]{26}$/,
    name: 'shop.example',
    status: 'pending',
    track: { opens: null, clicks: null },
    unsubscribe: null,
    checked_at: null,
    failing_since: null
  })
  t.match(body.records, [
    {
      purpose: 'dkim',
      type: 'TXT',
      name: /^jp\d{8}[0-9a-f]{6}-rsa\._domainkey\.shop\.example$/,
      value: /^v=DKIM1; k=rsa; p=[A-Za-z0-9+/]{392}$/,
      required: true,
      state: 'unchecked',
      found: []
    },
    {
      purpose: 'dkim',
      type: 'TXT',
      name: /^jp\d{8}[0-9a-f]{6}-ed25519\._domainkey\.shop\.example$/,
      value: /^v=DKIM1; k=ed25519; p=[A-Za-z0-9+/]{43}=$/,
      required: false,
      state: 'unchecked'
    },
    {
      purpose: 'return_path',
      type: 'CNAME',
      name: 'jp-bounces.shop.example',
      value: 'bounces.jetpost.example',
      required: false,
      state: 'unchecked'
    },
    {
      purpose: 'dmarc',
      type: 'TXT',
      name: '_dmarc.shop.example',
      value: 'v=DMARC1; p=none',
      required: false,
      state: 'unchecked'
    }
  ])
  t.strictSame((await app.request('GET', `/api/domains/${body.id}`)).body, body)
  t.strictSame((await second.request('GET', `/api/domains/${body.id}`)).body, body, 'and so does another node say')
  const again = await add('shop.example')
  t.equal(again.status, 200, 'saying it again is no fault')
  t.strictSame(again.body, body)
})

t.test('the private halves of its keys are sealed, fit the public ones, and are in no answer', async t => {
  const { body } = await add('sealed.example')
  await services.directory.catchUp(5000)
  const { id, dkim } = entryOf('sealed.example')!
  const pems = dkim.active.map(key => services.vault.open(key.sealedKey, id))
  const [rsa, ed25519] = pems.map(pem => createPublicKey(pem).export({ type: 'spki', format: 'der' }))
  t.equal(rsa!.toString('base64'), dkim.active[0]!.publicKey)
  t.equal(ed25519!.subarray(-32).toString('base64'), dkim.active[1]!.publicKey)
  t.match(pems.map(pem => createPrivateKey(pem).asymmetricKeyType), ['rsa', 'ed25519'])
  t.throws(() => services.vault.open(dkim.active[0]!.sealedKey, 'dom_other'))
  for (const answer of [body, (await app.request('GET', '/api/domains')).body, (await rotate(body.id)).body]) {
    t.notMatch(JSON.stringify(answer), 'PRIVATE')
    t.notMatch(JSON.stringify(answer), dkim.active[0]!.sealedKey)
    t.notMatch(JSON.stringify(answer), /sealed_?key/i)
  }
})

t.test("the operator's domains have one pair of keys, however many nodes start with them", async t => {
  await services.directory.catchUp(5000)
  const before = entryOf('first.example')!.dkim.active[0]!.selector
  await startTestApp(t, { natsUrl, databaseUrl, env: { ...env, JETPOST_ROLES: 'api' } })
  await services.directory.catchUp(5000)
  t.equal(entryOf('first.example')!.dkim.active[0]!.selector, before)
})

t.test('what is no domain to send from is refused, and all faults are named', async t => {
  for (
    const name of [
      'localhost',
      '127.0.0.1',
      '[::1]',
      'sandbox.jetpost.test',
      'a@b.example',
      'shop.example/',
      '',
      ' ',
      'x'.repeat(999)
    ]
  ) {
    t.match(await add(name), {
      status: 422,
      body: { code: 'validation_failed', details: [{ field: 'name', code: 'invalid_domain' }] }
    }, name.slice(0, 20))
  }
  const { status, body } = await app.request('POST', '/api/domains', { body: { name: 7, region: 'eu' } })
  t.equal(status, 422)
  t.same(body.details.map(({ field, code }: { field: string, code: string }) => [field, code]).sort(), [[
    'name',
    'invalid_value'
  ], ['region', 'unknown_field']])
  const both = await app.request('POST', '/api/domains', { body: { name: 'bad x', foo: 1 } })
  t.same(both.body.details.map(({ field, code }: { field: string, code: string }) => [field, code]).sort(), [[
    'foo',
    'unknown_field'
  ], ['name', 'invalid_domain']])
  t.match((await app.request('POST', '/api/domains', { body: {} })).body, {
    details: [{ field: 'name', code: 'required' }]
  })
  t.equal((await add('bücher.example')).body.name, 'xn--bcher-kva.example')
})

t.test("a domain is nobody else's to see or touch", async t => {
  const { body: { id } } = await add('mine.example')
  const key = await app.newAccountKey()
  for (
    const [method, path, body] of [['GET', ''], ['PATCH', '', { unsubscribe: true }], ['DELETE', ''], [
      'POST',
      '/verify'
    ], ['POST', '/rotate-dkim']] as const
  ) {
    t.match(await app.request(method, `/api/domains/${id}${path}`, { key, ...(body === undefined ? {} : { body }) }), {
      status: 404,
      body: { error: 'Not found' }
    }, `${method} ${path}`)
  }
  t.same((await app.request('GET', '/api/domains', { key })).body, { data: [], has_more: false, next_cursor: null })
  for (const strange of ['x', 'dom_0', '%00', 'mine.example', 'x'.repeat(1000)]) {
    t.equal((await app.request('GET', `/api/domains/${strange}`)).status, 404, strange.slice(0, 20))
  }
})

t.test('of two nodes that add a name at the same moment one does, and accounts do so each for itself', async t => {
  const ours = await Promise.all(
    [app, second].map(async node => await node.request('POST', '/api/domains', { body: { name: 'same.example' } }))
  )
  t.same(ours.map(({ status }) => status).sort(), [200, 201])
  t.equal(ours[0]!.body.id, ours[1]!.body.id)
  const key = await app.newAccountKey()
  const rivals = await Promise.all([
    app.request('POST', '/api/domains', { body: { name: 'rival.example' } }),
    second.request('POST', '/api/domains', { key, body: { name: 'rival.example' } })
  ])
  t.same(rivals.map(({ status }) => status), [201, 201])
  t.not(rivals[0]!.body.id, rivals[1]!.body.id)
})

t.test('who claims a name first neither learns of others, nor keeps it from whom DNS shows to have it', async t => {
  const [squatter, owner] = [await app.newAccountKey(), await app.newAccountKey()]
  const unheardOf = await add('unheard-of.example', owner)
  const claimed = await add('bank.example', squatter)
  const { status, body } = await add('bank.example', owner)
  t.equal(status, unheardOf.status)
  t.strictSame(Object.keys(body), Object.keys(unheardOf.body), 'as for a name that nobody claims')
  t.strictSame([body.status, body.checked_at], ['pending', null])
  const send = (key: string) => app.send({ from: 'ceo@bank.example' }, key)
  t.equal((await send(squatter)).status, 202, 'into the mail catcher')
  dns.txt(body.records[0].name, body.records[0].value)
  t.match(await verify(body.id, owner), { body: { status: 'verified' } })
  t.match(await verify(claimed.body.id, squatter), { body: { status: 'pending' } })
  t.match(await send(squatter), { status: 422, body: { details: [{ field: 'from', code: 'domain_unverified' }] } })
  t.equal((await send(owner)).status, 202)
  t.equal((await app.request('DELETE', `/api/domains/${claimed.body.id}`, { key: squatter })).status, 204)
  t.match(await app.request('GET', `/api/domains/${body.id}`, { key: owner }), { body: { status: 'verified' } })
})

t.test('domains are listed newest first, page by page', async t => {
  const key = await app.newAccountKey()
  const names = ['a.example.org', 'b.example.org', 'c.example.org']
  for (const name of names) await add(name, key)
  const first = await second.request('GET', '/api/domains?limit=2', { key })
  t.same(first.body.data.map(({ name }: { name: string }) => name), ['c.example.org', 'b.example.org'])
  t.equal(first.body.has_more, true)
  const rest = await app.request('GET', `/api/domains?limit=2&cursor=${first.body.next_cursor}`, { key })
  t.same(rest.body.data.map(({ name }: { name: string }) => name), ['a.example.org'])
  const foreign = Buffer.from('2026-11-21T12:00:00.000Z key_0').toString('base64url')
  const faulty = await app.request('GET', `/api/domains?status=verified&cursor=${foreign}`, { key })
  t.same(faulty.body.details.map(({ field, code }: { field: string, code: string }) => [field, code]).sort(), [[
    'cursor',
    'invalid_cursor'
  ], ['status', 'unknown_field']])
})

t.test('a domain says what holds for its mail; what is left out stays', async t => {
  const { body: { id } } = await add('defaults.example')
  const patch = async (body: unknown) => await app.request('PATCH', `/api/domains/${id}`, { body })
  t.match(await patch({ track: { opens: false }, unsubscribe: true }), {
    status: 200,
    body: { track: { opens: false, clicks: null }, unsubscribe: true }
  })
  t.match((await patch({ track: { clicks: true, opens: null } })).body, {
    track: { opens: null, clicks: true },
    unsubscribe: true
  })
  t.match((await second.request('GET', `/api/domains/${id}`)).body, {
    track: { opens: null, clicks: true },
    unsubscribe: true
  })
  const seq = async () => {
    await services.directory.catchUp(5000)
    return services.directory.now.versions.get('control.domain.defaults_example')
  }
  const before = await seq()
  t.equal((await patch({})).status, 200)
  t.equal((await patch({ unsubscribe: true })).status, 200)
  t.equal(await seq(), before, 'said twice, happened once')
  const { status, body } = await patch({ track: { opens: 'yes', views: true }, unsubscribe: 1, name: 'x.example' })
  t.equal(status, 422)
  t.same(body.details.map(({ field }: { field: string }) => field).sort(), [
    'name',
    'track.opens',
    'track.views',
    'unsubscribe'
  ])
  const both = await Promise.all([
    app.request('PATCH', `/api/domains/${id}`, { body: { track: { opens: true } } }),
    second.request('PATCH', `/api/domains/${id}`, { body: { unsubscribe: false } })
  ])
  t.same(both.map(({ status }) => status), [200, 200])
  t.match((await app.request('GET', `/api/domains/${id}`)).body, {
    track: { opens: true, clicks: true },
    unsubscribe: false
  }, 'two at once lose nothing')
})

t.test('in direct mode the SPF of the return path is looked up, and two DMARC policies are wrong', async t => {
  const direct = { ...env, SMTP_URL: 'direct:', JETPOST_HOSTNAME: 'mail.jetpost.example' }
  const other = await startTestApp(t, { natsUrl, databaseUrl, env: { ...direct, JETPOST_ROLES: 'api' } })
  const { body: { id } } = await add('spf.example')
  const ask = async () => await other.request('POST', `/api/domains/${id}/verify`)
  t.match(states(await ask()), { spf: 'missing' })
  const value = 'v=spf1 a:mail.jetpost.example ~all'
  dns.txt('bounces.jetpost.example', 'another=1', value)
  dns.txt('_dmarc.spf.example', 'v=DMARC1; p=none', 'v=DMARC1; p=reject')
  const { body } = await ask()
  t.match(states({ body }), { spf: 'ok', dmarc: 'wrong' })
  t.match(body.records.find(({ purpose }: { purpose: string }) => purpose === 'spf'), {
    name: 'bounces.jetpost.example',
    value,
    required: false,
    found: [value]
  })
  dns.txt('bounces.jetpost.example', value, 'v=spf1 -all')
  t.match(states(await ask()), { spf: 'wrong' })
})

t.test('a domain given up is gone on every node, and free for another', async t => {
  const { body: { id, records } } = await add('gone.example')
  t.equal((await app.send({ from: 'a@gone.example' })).status, 202)
  t.equal((await app.request('DELETE', `/api/domains/${id}`)).status, 204)
  t.equal((await second.request('GET', `/api/domains/${id}`)).status, 404)
  t.equal((await app.request('DELETE', `/api/domains/${id}`)).status, 404)
  t.equal((await app.send({ from: 'a@gone.example' })).status, 403)
  const again = await add('gone.example', await app.newAccountKey())
  t.equal(again.status, 201)
  t.not(again.body.id, id)
  t.not(again.body.records[0].name, records[0].name, 'and its key is another')
})

t.test('a domain is verified once its DKIM record is in DNS', async t => {
  const { body } = await add('dns.example')
  const [dkim, small, returnPath, dmarc] = body.records
  t.match(await verify(body.id), { status: 200, body: { status: 'pending', checked_at: String } })
  dns.txt(dkim.name, 'v=DKIM1; p=other')
  dns.cname(returnPath.name, 'elsewhere.example')
  dns.txt(dmarc.name, 'v=spf1 -all')
  const wrong = await verify(body.id)
  t.same(states(wrong), { rsa: 'wrong', ed25519: 'missing', return_path: 'wrong', dmarc: 'wrong' })
  t.match(wrong.body, {
    status: 'pending',
    records: [{ found: ['v=DKIM1; p=other'] }, { found: [] }, { found: ['elsewhere.example'] }, {
      found: ['v=spf1 -all']
    }]
  })
  dns.txt(dkim.name, 'v=spf1 -all', ['p=', ...dkim.value.split('p=')[1].match(/.{1,100}/g), '; t=y'])
  dns.txt(small.name, small.value)
  dns.cname(returnPath.name, 'BOUNCES.jetpost.example')
  dns.forget(dmarc.name)
  dns.txt('_dmarc.example', 'v=DMARC1; p=reject')
  const right = await verify(body.id)
  t.match(right.body, { status: 'verified', failing_since: null })
  t.same(
    states(right),
    { rsa: 'ok', ed25519: 'ok', return_path: 'ok', dmarc: 'missing' },
    'nobody asks a top-level domain for its policy'
  )
  t.strictSame(
    (await second.request('GET', `/api/domains/${body.id}`)).body,
    right.body,
    'known to another node at once'
  )
  t.strictSame((await verify(body.id)).body, right.body, 'and asking again says the same')
  dns.forget(dkim.name)
  t.match((await verify(body.id)).body, {
    status: 'verified',
    failing_since: String,
    records: [{ state: 'missing' }, {}, {}, {}]
  }, 'a record that goes missing does not stop mail at once')
})

t.test("a subdomain's policy may be its parent's", async t => {
  const { body } = await add('mail.parent.example')
  dns.txt('_dmarc.parent.example', 'v=DMARC1; p=quarantine')
  t.match(states(await verify(body.id)), { dmarc: 'ok' })
})

t.test('while DNS does not say, nothing changes and the client is told to come again', async t => {
  const { body } = await add('silent.example')
  for (const failure of ['SERVFAIL', 'REFUSED', 'silence'] as const) {
    dns.fails(body.records[0].name, failure)
    const answer = await verify(body.id)
    t.match(answer, { status: 503, body: { error: String, code: 'dns_unavailable' } }, failure)
    t.ok(Number(answer.headers.get('retry-after')) > 0)
  }
  t.strictSame((await app.request('GET', `/api/domains/${body.id}`)).body, body)
  dns.txt(body.records[0].name, body.records[0].value)
  for (const advice of body.records.slice(1, 3)) dns.fails(advice.name, 'SERVFAIL')
  const told = await verify(body.id)
  t.equal(told.body.status, 'verified', 'advice does not hold it up')
  t.match(states(told), { rsa: 'ok', ed25519: 'unchecked', return_path: 'unchecked' })
})

t.test('keys are rotated: the new ones sign once DNS shows them, the old records are to stay', async t => {
  const { body } = await add('rotated.example')
  const [rsa, ed25519] = body.records
  for (const { name, value } of [rsa, ed25519]) dns.txt(name, value)
  await verify(body.id)
  const signs = async () => {
    await services.directory.catchUp(5000)
    return entryOf('rotated.example')!.dkim.active.map(({ selector }) => `${selector}._domainkey.rotated.example`)
  }
  const { status, body: waiting } = await rotate(body.id)
  t.equal(status, 200)
  t.equal(waiting.status, 'verified', 'it goes on being so')
  t.match(states({ body: waiting }), { rsa: 'ok', ed25519: 'ok', 'next rsa': 'unchecked', 'next ed25519': 'unchecked' })
  const [, , nextRsa, nextEd25519] = waiting.records
  t.notSame([nextRsa.name, nextRsa.value], [rsa.name, rsa.value])
  t.match([nextRsa, nextEd25519], [{ required: false, removable_at: null }, { required: false, removable_at: null }])
  t.strictSame((await second.request('GET', `/api/domains/${body.id}`)).body, waiting, 'known to another node at once')

  t.match(await rotate(body.id), { status: 409, body: { error: String, code: 'rotation_under_way' } })
  const seen = await verify(body.id)
  t.match(states(seen), { rsa: 'ok', 'next rsa': 'missing' })
  t.same(await signs(), [rsa.name, ed25519.name])

  dns.txt(nextEd25519.name, nextEd25519.value)
  await verify(body.id)
  t.same(await signs(), [rsa.name, ed25519.name], 'not every receiver reads that alone')
  dns.txt(nextRsa.name, nextRsa.value)
  const switched = await verify(body.id)
  t.same(states(switched), {
    rsa: 'ok',
    ed25519: 'ok',
    return_path: 'missing',
    dmarc: 'missing',
    'previous rsa': 'ok',
    'previous ed25519': 'ok'
  })
  t.same(await signs(), [nextRsa.name, nextEd25519.name])
  const kept = switched.body.records.filter((record: { stage: string }) => record.stage === 'previous')
  t.same(kept.map(({ name, required }: { name: string, required: boolean }) => [name, required]), [[rsa.name, false], [
    ed25519.name,
    false
  ]])
  const days = kept.map((record: { removable_at: string }) =>
    (Date.parse(record.removable_at) - Date.now()) / 86_400_000
  )
  t.ok(days.every((count: number) => count > 6.99 && count <= 7))
  t.match(await rotate(body.id), { status: 409, body: { code: 'rotation_under_way' } })
  t.strictSame((await verify(body.id)).body, switched.body, 'and asking again says the same')
  t.strictSame((await second.request('GET', `/api/domains/${body.id}`)).body, switched.body)
  dns.forget(rsa.name)
  t.match(
    (await verify(body.id)).body,
    { status: 'verified', failing_since: null },
    'what signs no more is not required'
  )
})

t.test('of two who rotate at the same moment one does', async t => {
  const { body: { id } } = await add('raced.example')
  const both = await Promise.all(
    [app, second].map(async node => await node.request('POST', `/api/domains/${id}/rotate-dkim`))
  )
  t.same(both.map(({ status }) => status).sort(), [200, 409])
  t.equal((await rotate(`${id}x`)).status, 404)
  t.match(await app.request('POST', `/api/domains/${id}/rotate-dkim`, { body: { now: true } }), {
    status: 422,
    body: { details: [{ field: 'body', code: 'not_supported' }] }
  })
})

t.test('a flood of records is looked through and not repeated', async t => {
  const { body } = await add('flood.example')
  dns.txt(body.records[0].name, ...Array.from({ length: 500 }, (_, i) => `junk ${i}\x1b[2J`))
  const { body: { records: [dkim] } } = await verify(body.id)
  t.equal(dkim.state, 'wrong')
  t.equal(dkim.found.length, 5)
  t.notMatch(dkim.found.join(''), '\x1b')
})

t.test('the scope decides who may look and who may change', async t => {
  const { body: { id } } = await add('scoped.example')
  const reader = (await app.newKey({ scopes: ['domains:read'] })).secret
  const writer = (await app.newKey({ scopes: ['domains:write'] })).secret
  const forbidden = { status: 403, body: { error: 'Insufficient API key permissions' } }
  t.match(await add('other.example', reader), forbidden)
  t.match(await app.request('PATCH', `/api/domains/${id}`, { key: reader, body: { unknown: 1 } }), forbidden)
  t.match(await app.request('DELETE', `/api/domains/${id}`, { key: reader }), forbidden)
  t.match(await verify(id, reader), forbidden)
  t.match(await rotate(id, reader), forbidden)
  t.match(await app.request('GET', '/api/domains', { key: writer }), forbidden)
  t.match(await app.request('GET', `/api/domains/${id}`, { key: writer }), forbidden)
  t.equal((await app.request('GET', `/api/domains/${id}`, { key: reader })).status, 200)
  t.equal((await verify(id, writer)).status, 200)
  t.equal((await rotate(id, writer)).status, 200)
})
