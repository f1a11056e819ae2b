import t from 'tap'
import { subjects } from '#streams/subjects.ts'
import { REASONS } from '#streams/suppression/facts.ts'
import { roleActor } from '#src/actions/fact-log.ts'
import { importSuppressions } from '#src/actions/suppression-import.ts'
import { suppressionHash } from '#src/actions/suppression-store.ts'
import { suppress, unsuppress } from '#src/actions/suppression.ts'
import { lastSequenceUnder } from '#src/nats/get.ts'
import { readFacts } from '#src/nats/range.ts'
import { readUpload, UPLOAD_TYPES } from '#src/servers/api/suppression-lines.ts'
import { startTestApp } from '../support/app.ts'
import { openSecondServices } from '../support/second-services.ts'
import { freshAccount } from '../support/servers.ts'

const { natsUrl } = freshAccount()
const app = await startTestApp(t, { natsUrl })
const services = await openSecondServices(t, natsUrl)

interface Account {
  key: string
  account: string
}

/** An account with nothing in it, and a key of it that no window stops. */
async function freshAccountKey (): Promise<Account> {
  const key = await app.newAccountKey()
  const { body } = await app.request('GET', '/api/keys', { key })
  const { id } = body.data[0]
  await app.limitKey(id, { other: 100_000 })
  await services.directory.catchUp(5000)
  return { key, account: services.directory.now.keys.get(id)!.account }
}

const CSV = { 'content-type': 'text/csv' }
const NDJSON = { 'content-type': 'application/x-ndjson' }
const upload = (key: string, raw: string, { headers = CSV, query = '' }: { headers?: object, query?: string } = {}) =>
  app.request('POST', `/api/suppressions/import${query}`, { key, raw, headers: headers as Record<string, string> })
const exported = async (key: string, query = '') =>
  (await app.request('GET', `/api/suppressions/export${query}`, { key })).body as string
const reasonsOf = async (key: string, address: string) => {
  const { body } = await app.request('GET', `/api/suppressions/${encodeURIComponent(address)}`, { key })
  return body.reasons?.map(({ reason }: { reason: string }) => reason) ?? null
}
const codesOf = (refused: Array<{ line: number, code: string }>) => refused.map(({ line, code }) => `${line} ${code}`)

t.test('a CSV file is imported: added, unchanged, and every refused line with its number', async t => {
  const { key } = await freshAccountKey()
  await app.request('POST', '/api/suppressions', { key, body: { address: 'known@example.com', reason: 'bounce' } })
  const file = [
    'Name,E-mail,Reason',
    'Ada,ada@example.com,bounce',
    '"Hopper, Grace",Grace@Example.com,',
    'Known,known@example.com,BOUNCE',
    '',
    'Nobody,nobody,bounce',
    'Spite,spite@example.com,spite',
    'Sandbox,bounced@sandbox.jetpost.test,bounce',
    'Ada again,ADA@example.com,bounce',
    'Ada more,ada@example.com,complaint',
    'Short'
  ].join('\r\n')
  const answer = await upload(key, file)
  t.equal(answer.status, 200, JSON.stringify(answer.body))
  const { refused, ...counts } = answer.body
  t.strictSame(counts, { lines: 9, added: 3, unchanged: 2 })
  t.strictSame(codesOf(refused), [
    '6 invalid_address',
    '7 invalid_reason',
    '8 sandbox_address',
    '11 invalid_address'
  ])
  t.equal(refused[1].message, 'reason must be bounce, complaint, unsubscribe or manual.')
  t.strictSame(await reasonsOf(key, 'ada@example.com'), ['bounce', 'complaint'])
  t.strictSame(await reasonsOf(key, 'grace@example.com'), ['manual'])
  const again = await upload(key, file)
  t.strictSame(again.body, { lines: 9, added: 0, unchanged: 5, refused }, 'again, and nothing happens')
})

t.test('NDJSON says the same, line by line', async t => {
  const { key } = await freshAccountKey()
  const lines = [
    '{"address":"ada@example.com","reason":"bounce","since":"2026-01-01"}',
    '',
    '{"address":7}',
    'ada@example.com',
    '{"address":"ada@example.com","reason":"spite"}',
    '{"address":"用户@例え.jp"}'
  ]
  const { status, body } = await upload(key, lines.join('\n'), { headers: NDJSON })
  t.equal(status, 200)
  t.match(body, { lines: 5, added: 2, unchanged: 0 })
  t.strictSame(codesOf(body.refused), ['3 invalid_json', '4 invalid_json', '5 invalid_reason'])
  t.strictSame(await reasonsOf(key, '用户@例え.jp'), ['manual'])
})

t.test('columns are found by their names, or by an address in the first line; separators differ', async t => {
  const { key } = await freshAccountKey()
  const added = async (file: string, query = '') => (await upload(key, file, { query })).body.added
  t.equal(await added('a1@example.com\na2@example.com,complaint\n'), 2, 'no names')
  t.equal(await added('reason;email\nbounce;b1@example.com\n'), 1, 'semicolons')
  t.equal(await added('email\treason\nc1@example.com\tbounce\n'), 1, 'tabs')
  t.equal(await added('\ufeffemail\nd1@example.com'), 1, 'a byte order mark')
  t.equal(await added('address,reason\ne1@example.com,550 5.1.1 No such user\n', '?reason=bounce'), 1, 'one for all')
  t.strictSame(await reasonsOf(key, 'a2@example.com'), ['complaint'])
  t.strictSame(await reasonsOf(key, 'b1@example.com'), ['bounce'])
  t.strictSame(await reasonsOf(key, 'e1@example.com'), ['bounce'])
  t.equal(await added('address\n'), 0, 'names alone')
  t.match((await upload(key, '')).body, { lines: 0, added: 0, refused: [] })
})

t.test('a file that cannot be read changes nothing', async t => {
  const { key } = await freshAccountKey()
  const wrong: Array<[string, string, object, number, string]> = [
    ['an open quote', 'address\nada@example.com\n"grace@example.com\n', CSV, 422, 'invalid_csv'],
    ['no column', 'name,town\nAda,London\n', CSV, 422, 'no_address_column'],
    ['too many', `address\n${'ada@example.com\n'.repeat(50_001)}`, CSV, 422, 'too_many'],
    ['a long line', `{"address":"ada@example.com"}\n{"address":"${'x'.repeat(100_000)}`, NDJSON, 422, 'too_long'],
    ['too large', `address\n${`ada@example.com,${'x'.repeat(4000)}\n`.repeat(6000)}`, CSV, 413, 'body_too_large'],
    ['JSON', '{"address":"ada@example.com"}', { 'content-type': 'application/json' }, 415, 'unsupported_media_type'],
    ['gzip', 'address\nada@example.com', { ...CSV, 'content-encoding': 'gzip' }, 415, 'unsupported_media_type']
  ]
  for (const [name, raw, headers, status, code] of wrong) {
    const { status: got, body } = await upload(key, raw, { headers })
    t.equal(got, status, name)
    t.equal(body.details?.[0].code ?? body.code, code, name)
  }
  const bytes = await fetch(`${app.url}/api/suppressions/import`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, ...CSV },
    body: Buffer.from('address\nad\xe9@example.com\n', 'latin1')
  })
  t.equal(bytes.status, 400, 'not UTF-8')
  t.match(await bytes.json(), { code: 'malformed_text' })
  t.match((await upload(key, 'x', { headers: { 'content-type': 'text/plain' } })).body, {
    error: 'The Content-Type of the body must be text/csv or application/x-ndjson.'
  })
  t.match(await app.request('POST', '/api/suppressions', { key, raw: 'address', headers: CSV }), { status: 415 })
  t.equal(await exported(key), 'address,reason,email_id,since\r\n')
})

t.test('a file that breaks off is refused as a whole, and is no fault of the server', async t => {
  async function* cut (error: Error): AsyncGenerator<Buffer> {
    yield Buffer.from('address\nada@example.com\n')
    throw error
  }
  const reset = Object.assign(new Error('aborted'), { code: 'ECONNRESET' })
  for (const type of UPLOAD_TYPES) {
    await t.rejects(readUpload(cut(reset), type), { message: 'The body must be as long as Content-Length says.' }, type)
    await t.rejects(readUpload(cut(new Error('ours')), type), { message: 'ours' }, type)
  }
})

t.test('what is exported can be imported, and is the same then', async t => {
  const { key } = await freshAccountKey()
  const other = await freshAccountKey()
  const addresses = ['a+b=c@example.com', "o'neil@example.com", '用户@例え.jp', 'Ada@example.com']
  for (const [i, address] of addresses.entries()) {
    for (const reason of REASONS.slice(0, i + 1)) {
      const made = await app.request('POST', '/api/suppressions', { key, body: { address, reason } })
      t.ok(made.status < 300, address)
    }
  }
  const csv = await exported(key)
  const ndjson = await exported(key, '?format=ndjson')
  t.equal(csv.trim().split('\r\n').length, 1 + 10)
  t.match(csv, /^address,reason,email_id,since\r\nAda@example\.com,bounce,,20/)
  const pairs = (text: string) =>
    text.trim().split('\n').map(line => JSON.parse(line)).map(({ address, reason }) => `${address} ${reason}`).sort()
  t.match((await upload(other.key, csv)).body, { lines: 10, added: 10, refused: [] })
  t.strictSame(pairs(await exported(other.key, '?format=ndjson')), pairs(ndjson))
  t.match((await upload(other.key, ndjson, { headers: NDJSON })).body, { added: 0, unchanged: 10 })
  const manual = (await exported(key, '?format=ndjson&reason=manual')).trim().split('\n')
  t.equal(manual.length, 4, 'all reasons of those that are found')
  t.equal(await exported(key, '?format=ndjson&created_before=2020-01-01T00:00:00Z'), '')
})

t.test('an export has all of an account, over many pages, and is an attachment', async t => {
  const { key } = await freshAccountKey()
  const lines = Array.from({ length: 2500 }, (_, i) => `n${i}@example.com`)
  t.match((await upload(key, lines.join('\n'))).body, { added: 2500 })
  const answer = await app.request('GET', '/api/suppressions/export', { key })
  t.equal(answer.headers.get('content-type'), 'text/csv; charset=utf-8')
  t.equal(answer.headers.get('content-disposition'), 'attachment; filename="suppressions.csv"')
  t.equal(answer.headers.get('content-length'), null, 'it is streamed')
  const got = (answer.body as string).trim().split('\r\n').slice(1).map(line => line.split(',')[0]!)
  t.strictSame(got.toSorted(), lines.toSorted())
  const head = await app.request('HEAD', '/api/suppressions/export', { key })
  t.match(head, { status: 200, body: '' })
})

t.test('reading and writing need their scopes, and faults are named at once', async t => {
  const reader = (await app.newKey({ scopes: ['suppressions:read'] })).secret
  const writer = (await app.newKey({ scopes: ['suppressions:write'] })).secret
  const statuses = async (key: string) => [
    (await upload(key, 'scoped@example.com')).status,
    (await app.request('GET', '/api/suppressions/export', { key })).status
  ]
  t.strictSame(await statuses(reader), [403, 200])
  t.strictSame(await statuses(writer), [200, 403])
  const { body } = await app.request('GET', '/api/suppressions/export?format=xml&reason=spite&created_after=now&x=1')
  t.strictSame(body.details.map(({ field }: { field: string }) => field).sort(), [
    'created_after',
    'format',
    'reason',
    'x'
  ])
})

t.test('what others do at the same time is neither lost nor undone', async t => {
  const { account } = await freshAccountKey()
  const asker = { account, correlation: 'test', actor: roleActor('test') }
  const wanted = Array.from({ length: 600 }, (_, i) => ({ address: `r${i}@example.com`, reason: 'bounce' as const }))
  const imports = [0, 1].map(() => importSuppressions(services, asker, wanted))
  const others = Array.from(
    { length: 30 },
    (_, i) => suppress(services, asker, { address: `r${i * 20}@example.com`, reason: 'complaint', email: null })
  )
  const [first, second] = await Promise.all(imports)
  await Promise.all(others)
  t.equal(first! + second!, 600, 'each is added once')
  for (const i of [0, 20, 580]) {
    const facts = await readFacts(
      services.factLog.bus,
      'CONTROL',
      subjects.suppression(account, suppressionHash(`r${i}@example.com`))
    )
    t.equal(facts.length, 2)
    const { data } = facts[1]!.fact as { data: { standing: Array<{ reason: string }> } }
    t.strictSame(data.standing.map(({ reason }) => reason).sort(), ['bounce', 'complaint'])
  }
  await unsuppress(services, asker, 'r1@example.com')
  t.equal(await importSuppressions(services, asker, wanted), 1, 'what was lifted is added again')
  const last = await lastSequenceUnder(services.factLog.bus, 'CONTROL', 'suppression.>')
  t.equal(await importSuppressions(services, asker, wanted), 0)
  t.equal(await lastSequenceUnder(services.factLog.bus, 'CONTROL', 'suppression.>'), last, 'and no fact is written')
})

t.test('50,000 addresses go in with one request, and come out with one', async t => {
  const { key } = await freshAccountKey()
  const lines = Array.from({ length: 50_000 }, (_, i) => `user${i}@example${i % 97}.com,bounce`)
  const file = `address,reason\n${lines.join('\n')}`
  const beganMs = performance.now()
  t.strictSame((await upload(key, file)).body, { lines: 50_000, added: 50_000, unchanged: 0, refused: [] })
  const addedMs = performance.now()
  t.match((await upload(key, file)).body, { added: 0, unchanged: 50_000 })
  t.comment(`added in ${Math.round(addedMs - beganMs)} ms, again in ${Math.round(performance.now() - addedMs)} ms`)
  let answer
  do answer = await app.request('GET', '/api/suppressions/export?format=ndjson', { key })
  while (answer.status === 503)
  t.equal((answer.body as string).trim().split('\n').length, 50_000)
})
