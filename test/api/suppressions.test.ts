import t from 'tap'
import { subjects } from '#streams/subjects.ts'
import { REASONS, SuppressionAdded, type SuppressionReason } from '#streams/suppression/facts.ts'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { causedBy, roleActor, stamp } from '#src/actions/fact-log.ts'
import { suppressionHash } from '#src/actions/suppression-store.ts'
import { suppress, unsuppress } from '#src/actions/suppression.ts'
import { timestamp } from '#src/base/clock.ts'
import { readFacts } from '#src/nats/range.ts'
import { startTestApp } from '../support/app.ts'
import { LONG_ONLY } from '../support/long.ts'
import { openOwnNats } from '../support/own-nats.ts'
import { openSecondServices } from '../support/second-services.ts'
import { freshAccount, freshDatabase } from '../support/servers.ts'

const { natsUrl } = freshAccount()
const databaseUrl = await freshDatabase(t)
const app = await startTestApp(t, { natsUrl, databaseUrl })
const second = await startTestApp(t, { natsUrl, databaseUrl })
const services = [await openSecondServices(t, natsUrl), await openSecondServices(t, natsUrl)] as const
const asker = { account: FIRST_ACCOUNT, correlation: 'test', actor: roleActor('test') }

type Options = Parameters<typeof app.request>[2]
const post = (body: unknown, options: Options = {}) => app.request('POST', '/api/suppressions', { body, ...options })
const pathOf = (address: string) => `/api/suppressions/${encodeURIComponent(address)}`
const list = async (query = '', options: Options = {}) =>
  (await app.request('GET', `/api/suppressions${query}`, options)).body
const listed = async (query = '', options: Options = {}) =>
  (await list(query, options)).data.map(({ address }: { address: string }) => address)
const factsOf = async (address: string) =>
  (await readFacts(services[0].factLog.bus, 'CONTROL', subjects.suppression(FIRST_ACCOUNT, suppressionHash(address))))
    .map(({ fact }) => fact)

t.test('an address is suppressed by hand: 201, then 200 and no further fact', async t => {
  const made = await post({ address: 'Ada@Example.COM' })
  t.equal(made.status, 201)
  const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
  t.match(made.body, {
    address: 'Ada@example.com',
    reasons: [{ reason: 'manual', email_id: null, since: time }],
    created_at: time
  })
  t.strictSame(Object.keys(made.body), ['address', 'reasons', 'created_at'])
  t.equal(made.headers.get('location'), '/api/suppressions/Ada%40example.com')
  const again = await post({ address: 'ada@example.com', reason: 'manual' })
  t.equal(again.status, 200)
  t.strictSame(again.body, made.body)
  t.equal((await factsOf('ada@example.com')).length, 1)
  t.strictSame((await app.request('GET', made.headers.get('location')!)).body, made.body)
})

t.test('a suppression from elsewhere keeps its reason; a further reason joins those that stand', async t => {
  for (const [i, reason] of REASONS.entries()) {
    const { status, body } = await post({ address: 'import@example.com', reason })
    t.equal(status, i === 0 ? 201 : 200)
    t.strictSame(body.reasons.map((entry: { reason: string }) => entry.reason), REASONS.slice(0, i + 1))
    t.equal(body.created_at, body.reasons[0].since)
  }
})

t.test('all faults of a request are named at once', async t => {
  const named = async (body: unknown) => {
    const answer = await post(body)
    t.equal(answer.status, 422, JSON.stringify(body)?.slice(0, 80))
    return Object.fromEntries(
      answer.body.details.map((fault: { field: string, code: string }) => [fault.field, fault.code])
    )
  }
  t.strictSame(await named({ address: 'nobody', reason: 'spite', adress: 'x' }), {
    adress: 'unknown_field',
    reason: 'invalid_value',
    address: 'invalid_address'
  })
  t.strictSame(await named({ reason: null }), { address: 'required', reason: 'invalid_value' })
  t.strictSame(await named({ address: 7 }), { address: 'invalid_value' })
  t.strictSame(await named({ address: `${'a'.repeat(400)}@example.com` }), { address: 'too_long' })
  for (const body of [[{ address: 'ada@example.com' }], null, 'ada@example.com', undefined]) {
    t.strictSame(await named(body), { body: 'invalid_value' })
  }
  t.strictSame(await named({ address: ['ada@example.com'] }), { address: 'invalid_value' })
  for (
    const address of [
      '',
      'a@b',
      'Ada <ada@example.com>',
      'ada@example.com ',
      'a\0@example.com',
      '\ud800@example.com',
      `${'a'.repeat(65)}@example.com`
    ]
  ) {
    t.strictSame(await named({ address }), { address: 'invalid_address' })
  }
})

t.test('addresses of the sandbox cannot be suppressed, and never are', async t => {
  const { status, body } = await post({ address: 'Bounced+7@SANDBOX.jetpost.test' })
  t.equal(status, 422)
  t.match(body.details, [{ field: 'address', code: 'sandbox_address' }])
  t.equal((await app.request('GET', pathOf('bounced+7@sandbox.jetpost.test'))).status, 404)
  t.equal((await app.request('DELETE', pathOf('bounced+7@sandbox.jetpost.test'))).status, 404)
})

t.test('an address in the path is percent-encoded, whatever it holds', async t => {
  for (
    const address of [
      'ada+news@path.example',
      'a/b@path.example',
      '用户@例え.jp',
      'ü@path.example',
      '100%@path.example',
      'a%2fb@path.example',
      'what?@path.example',
      'a#b@path.example',
      "o'neil!*@path.example",
      'x=y&z@path.example'
    ]
  ) {
    const made = await post({ address })
    t.equal(made.status, 201, address)
    for (const path of [made.headers.get('location')!, pathOf(address), pathOf(address.toUpperCase())]) {
      const read = await app.request('GET', path)
      t.equal(read.status, 200, path)
      t.strictSame(read.body, made.body)
    }
    t.equal((await app.request('DELETE', pathOf(address))).status, 204, address)
    t.equal((await app.request('GET', pathOf(address))).status, 404, address)
  }
  t.equal((await post({ address: 'a+b@path.example' })).status, 201)
  t.equal((await app.request('GET', '/api/suppressions/a+b@path.example')).status, 200, 'a plus is a plus, not a space')
})

t.test('an address that nobody can have, or nobody has suppressed, is a 404', async t => {
  for (
    const address of [
      'nobody',
      'free@example.com',
      '%',
      'a b@example.com',
      'a\0@example.com',
      ' ',
      'x'.repeat(10_000),
      `${'x'.repeat(10_000)}@example.com`,
      '../emails',
      '@',
      '*@example.com.',
      'em_1'
    ]
  ) {
    for (const method of ['GET', 'DELETE']) {
      const answer = await app.request(method, pathOf(address))
      t.equal(answer.status, 404, `${method} ${address.slice(0, 20)}`)
      t.strictSame(answer.body, { error: 'Not found' })
    }
  }
})

t.test('what is deleted is gone at once, may have mail again, and can be added again', async t => {
  await post({ address: 'back@example.com', reason: 'bounce' })
  await post({ address: 'back@example.com', reason: 'complaint' })
  const gone = await app.request('DELETE', pathOf('BACK@example.com'))
  t.equal(gone.status, 204)
  t.equal(gone.body, '')
  t.strictSame(await listed('?address=back@example.com'), [])
  t.equal((await app.request('DELETE', pathOf('back@example.com'))).status, 404)
  t.strictSame(await services[0].suppressions.standing(FIRST_ACCOUNT, ['back@example.com']), [[]])
  const added = await post({ address: 'back@example.com' })
  t.equal(added.status, 201)
  t.strictSame(added.body.reasons.map(({ reason }: { reason: string }) => reason), ['manual'])
  t.strictSame((await factsOf('back@example.com')).map(({ type }) => type), [
    'suppression.added',
    'suppression.added',
    'suppression.removed',
    'suppression.added'
  ])
})

t.test('the list is newest first, page by page, stable while others are added', async t => {
  const key = await app.newAccountKey()
  const names: string[] = []
  for (let i = 0; i < 5; i++) {
    names.unshift(`n${i}@list.example`)
    await post({ address: names[0] }, { key })
  }
  const first = await list('?limit=2', { key })
  t.strictSame(first.data.map(({ address }: { address: string }) => address), names.slice(0, 2))
  t.match(first, { has_more: true, next_cursor: String })
  t.strictSame(first.data[0], (await app.request('GET', pathOf(names[0]!), { key })).body)
  await post({ address: 'newer@list.example' }, { key })
  await post({ address: names[4], reason: 'bounce' }, { key })
  const rest = await list(`?limit=3&cursor=${first.next_cursor}`, { key })
  t.strictSame(
    rest.data.map(({ address }: { address: string }) => address),
    names.slice(2),
    'a reason that joins moves nothing'
  )
  t.match(rest, { has_more: false, next_cursor: null })
  t.strictSame(await listed('', { key }), ['newer@list.example', ...names])
})

t.test('the list filters by reason, address and time', async t => {
  const key = await app.newAccountKey()
  const one = (await post({ address: 'One@filter.example', reason: 'bounce' }, { key })).body
  const two = (await post({ address: 'two@filter.example', reason: 'unsubscribe' }, { key })).body
  await post({ address: 'two@filter.example', reason: 'complaint' }, { key })
  t.strictSame(await listed('?reason=bounce', { key }), ['One@filter.example'])
  t.strictSame(await listed('?reason=complaint', { key }), ['two@filter.example'])
  t.strictSame(await listed('?reason=manual', { key }), [])
  t.strictSame(await listed(`?address=${encodeURIComponent('oNE@FILTER.example')}`, { key }), ['One@filter.example'])
  t.strictSame(await listed('?address=e@filter.example', { key }), [], 'the whole address, not a part of it')
  t.strictSame(await listed('?address=one@filter.example&reason=manual', { key }), [])
  t.strictSame(
    await listed(`?created_after=${two.created_at}`, { key }),
    two.created_at === one.created_at ? ['two@filter.example', 'One@filter.example'] : ['two@filter.example']
  )
  t.strictSame(await listed(`?created_before=${one.created_at}`, { key }), [])
  t.strictSame(
    (await listed('?created_after=2020-02-29T23:59:59%2B02:00&created_before=9999-12-31T00:00:00z', { key })).length,
    2
  )
})

t.test('a query that means nothing is refused, all of it at once', async t => {
  const answer = await app.request(
    'GET',
    '/api/suppressions?reason=spite&limit=0&cursor=x&created_after=yesterday&' +
      'created_before=2026-02-30T00:00:00Z&address=nobody&adress=x'
  )
  t.equal(answer.status, 422)
  t.strictSame(answer.body.details.map(({ field }: { field: string }) => field).sort(), [
    'address',
    'adress',
    'created_after',
    'created_before',
    'cursor',
    'limit',
    'reason'
  ])
  const twice = await app.request('GET', '/api/suppressions?address=a@b.de&address=c@d.de')
  t.match(twice.body, { details: [{ field: 'address', code: 'invalid_value' }] })
  t.equal(
    (await app.request('GET', '/api/suppressions?created_after=0000-01-01T00:00:00Z')).status,
    200,
    'the year 0 is a time'
  )
})

t.test("another account's suppressions are not there", async t => {
  await post({ address: 'mine@example.com' })
  const key = await app.newAccountKey()
  t.equal((await app.request('GET', pathOf('mine@example.com'), { key })).status, 404)
  t.equal((await app.request('DELETE', pathOf('mine@example.com'), { key })).status, 404)
  t.strictSame(await listed('', { key }), [])
  t.equal(
    (await post({ address: 'mine@example.com', reason: 'bounce' }, { key })).status,
    201,
    'each account has its own'
  )
  t.match((await app.request('GET', pathOf('mine@example.com'))).body.reasons, [{ reason: 'manual' }])
})

t.test('reading and writing are two scopes', async t => {
  const reader = (await app.newKey({ scopes: ['suppressions:read'] })).secret
  const writer = (await app.newKey({ scopes: ['suppressions:write'] })).secret
  await post({ address: 'scope@example.com' })
  const path = pathOf('scope@example.com')
  const statuses = async (key: string) => [
    (await post({ address: 'scope@example.com' }, { key })).status,
    (await app.request('GET', '/api/suppressions', { key })).status,
    (await app.request('GET', path, { key })).status,
    (await app.request('DELETE', path, { key })).status
  ]
  t.strictSame(await statuses(reader), [403, 200, 200, 403])
  t.strictSame(await statuses(writer), [200, 403, 403, 204])
  const refused = await post({ address: 'nobody' }, { key: reader })
  t.strictSame(
    refused.body,
    { error: 'Insufficient API key permissions' },
    'and the scope is looked at before the fields'
  )
})

t.test('what one node has answered the next read on another shows', async t => {
  for (let i = 0; i < 10; i++) {
    const address = `node${i}@example.com`
    await post({ address })
    t.equal((await second.request('GET', '/api/suppressions?limit=1')).body.data[0].address, address)
    t.equal((await second.request('GET', pathOf(address))).status, 200)
    t.equal((await second.request('DELETE', pathOf(address))).status, 204)
    t.equal((await app.request('GET', pathOf(address))).status, 404)
    t.strictSame(await listed(`?address=${address}`), [])
  }
})

t.test('standing tells of many addresses in their order, in any case, and of its account alone', async t => {
  await post({ address: 'Book@example.com', reason: 'bounce' })
  const key = await app.newAccountKey()
  await post({ address: 'foreign@example.com' }, { key })
  const asked = [
    'free@example.com',
    'BOOK@example.com',
    'bounced@sandbox.jetpost.test',
    'foreign@example.com',
    'book@example.com',
    'free@example.com'
  ]
  const standing = await services[0].suppressions.standing(FIRST_ACCOUNT, asked)
  t.strictSame(standing.map(entries => entries.map(({ reason }) => reason)), [[], ['bounce'], [], [], ['bounce'], []])
  t.strictSame(await services[0].suppressions.standing(FIRST_ACCOUNT, []), [])
})

t.test('many at once for one address, on two nodes: each reason is one fact, and none is lost', async t => {
  const wishes = Array.from(
    { length: 24 },
    (_, i) =>
      suppress(services[i % 2]!, asker, { address: 'rush@example.com', reason: REASONS[i % 4]!, email: `em_${i}` })
  )
  const results = await Promise.all(wishes)
  t.equal(results.filter(result => 'created' in result && result.created).length, 1)
  const facts = await factsOf('rush@example.com')
  t.equal(facts.length, 4)
  const { reasons } = (await app.request('GET', pathOf('rush@example.com'))).body
  t.strictSame(reasons.map(({ reason }: { reason: SuppressionReason }) => reason).sort(), [...REASONS].sort())
  const ends = await Promise.all(
    Array.from({ length: 8 }, (_, i) => unsuppress(services[i % 2]!, asker, 'rush@example.com'))
  )
  t.equal(ends.filter(end => end === undefined).length, 1, 'and one ends it')
  t.equal((await factsOf('rush@example.com')).length, 5)
})

t.test('what an email told names the email, and the fact that led to it', async t => {
  const cause = stamp(SuppressionAdded, { ...asker, causation: null }, {
    hash: '0'.repeat(64),
    address: null,
    reason: 'manual',
    standing: []
  }, Date.now())
  await suppress(services[0], causedBy(cause), { address: 'told@example.com', reason: 'complaint', email: 'em_told' })
  t.match(await factsOf('told@example.com'), [{ causation: cause.id, correlation: 'test' }])
  t.match((await app.request('GET', pathOf('told@example.com'))).body.reasons, [{
    reason: 'complaint',
    email_id: 'em_told'
  }])
  t.match(
    await suppress(services[0], asker, {
      address: 'complained@sandbox.jetpost.test',
      reason: 'complaint',
      email: 'em_1'
    }),
    { code: 'sandbox_address' }
  )
})

t.test('an erased address stays suppressed, and nothing writes it down again until it is lifted', async t => {
  await post({ address: 'erased@example.com', reason: 'bounce' })
  const standing = [{ reason: 'bounce' as const, email: null, since: timestamp(Date.now()) }]
  const hash = suppressionHash('erased@example.com')
  const fact = stamp(SuppressionAdded, { ...asker, causation: null }, {
    hash,
    address: null,
    reason: 'bounce',
    standing
  }, Date.now())
  await services[0].factLog.append([{ fact }])
  t.match((await app.request('GET', pathOf('erased@example.com'))).body, {
    address: null,
    reasons: [{ reason: 'bounce' }]
  })
  t.strictSame(await listed('?address=erased@example.com'), [null])
  const more = await post({ address: 'erased@example.com', reason: 'complaint' })
  t.match(more, { status: 200, body: { address: null, reasons: { length: 2 } } })
  t.equal((await app.request('DELETE', pathOf('erased@example.com'))).status, 204)
  t.strictSame(
    (await factsOf('erased@example.com')).slice(1).map(({ data }) => (data as { address: string | null }).address),
    [null, null, null]
  )
  t.equal((await post({ address: 'erased@example.com' })).body.address, 'erased@example.com')
})

t.test('while PostgreSQL is away addresses are suppressed, looked at and lifted; the list says 503', async t => {
  const lonely = await startTestApp(t, { databaseUrl: 'postgres://nobody@127.0.0.1:1/none' })
  const made = await lonely.request('POST', '/api/suppressions', { body: { address: 'ada@example.com' } })
  t.equal(made.status, 201)
  t.strictSame((await lonely.request('GET', pathOf('ada@example.com'))).body, made.body)
  const refused = await lonely.request('GET', '/api/suppressions')
  t.equal(refused.status, 503)
  t.equal(refused.body.code, 'projection_unavailable')
  t.equal((await lonely.request('DELETE', pathOf('ada@example.com'))).status, 204)
})

t.test('while NATS is away nobody is said to be free: 503, and again the truth when it is back', LONG_ONLY, async t => {
  const nats = await openOwnNats(t)
  const stranded = await startTestApp(t, { natsUrl: nats.natsUrl })
  await stranded.request('POST', '/api/suppressions', { body: { address: 'ada@example.com' } })
  await nats.kill()
  const answers = await Promise.all([
    stranded.request('GET', pathOf('ada@example.com')),
    stranded.request('GET', pathOf('free@example.com')),
    stranded.request('POST', '/api/suppressions', { body: { address: 'bob@example.com' } }),
    stranded.request('DELETE', pathOf('ada@example.com'))
  ])
  for (const answer of answers) {
    t.match(answer, { status: 503, body: { code: 'log_unavailable' } })
    t.match(answer.headers.get('retry-after'), /^\d+$/)
  }
  await nats.start()
  let back
  do back = await stranded.request('GET', pathOf('ada@example.com'))
  while (back.status === 503)
  t.equal(back.status, 200)
})
