import assert from 'node:assert/strict'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import t from 'tap'
import { LIMIT_CLASSES } from '#streams/key/facts.ts'
import { API_KEY, FROM, startTestApp, type Answer, type TestApp } from '../support/app.ts'
import { LONG, LONG_ONLY } from '../support/long.ts'
import { readMessage, type ReadPart } from '../support/mime-reader.ts'
import { lookUp, readDescription, type Operation } from '../support/openapi.ts'
import { recipes } from '../support/requests.ts'
import { openSecondServices } from '../support/second-services.ts'
import { freshAccount } from '../support/servers.ts'
import { startSink } from '../support/smtp-sink.ts'
import { until } from '../support/wait.ts'

const SEED = { seed: 20261121 }
const MB = 1024 * 1024

const sink = await startSink()
t.teardown(() => sink.stop())
const { natsUrl } = freshAccount()
const app = await startTestApp(t, { natsUrl, env: { SMTP_URL: `${sink.url}?tls=off` } })
const services = await openSecondServices(t, natsUrl)
const own = (await app.request('GET', '/api/keys')).body.data.find((key: { name: string }) =>
  key.name === 'JETPOST_API_KEY'
)
await app.limitKey(own.id, Object.fromEntries(LIMIT_CLASSES.map(name => [name, 1_000_000])))
const { document, operations, faultsOf } = readDescription(
  (await app.request('GET', '/openapi.json', { key: null })).body
)
const withBody = operations.filter(({ body }) => body !== null)
const byId = new Map(operations.map(operation => [operation.id, operation]))

/** By which operations each list grows. */
const LISTS = {
  emails: 'sendEmail sendBatch',
  templates: 'createTemplate',
  domains: 'createDomain',
  keys: 'createKey',
  webhooks: 'createWebhook',
  suppressions: 'createSuppression'
}
type List = keyof typeof LISTS
/** What was made, as the answers showed it. */
const made = Object.fromEntries(Object.keys(LISTS).map(name => [name, []])) as unknown as Record<List, Made[]>
const before = await counts()

interface Made {
  id: string
  [field: string]: unknown
}

/** Everything of a list, page by page. */
async function all (list: string): Promise<Array<{ id: string }>> {
  const data = []
  for (let cursor: string | null = ''; cursor !== null;) {
    const { status, body } = await app.request(
      'GET',
      `/api/${list}?limit=100${cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`}`
    )
    assert.equal(status, 200, `${list}: ${JSON.stringify(body)}`)
    data.push(...body.data)
    cursor = body.next_cursor as string | null
  }
  return data
}

async function counts (): Promise<Record<List, number>> {
  const entries = await Promise.all(Object.keys(LISTS).map(async name => [name, (await all(name)).length]))
  return Object.fromEntries(entries) as Record<List, number>
}

/** Takes note of what an answer says was made. */
function note (operation: Operation, { status, body }: Answer): void {
  if (status !== 201 && status !== 202) return
  const list = (Object.keys(LISTS) as List[]).find(name => LISTS[name].split(' ').includes(operation.id))
  const things: Made[] = operation.id === 'sendBatch' ? body.data : [body]
  if (list !== undefined) made[list].push(...things.filter(({ id, address }) => id ?? address))
}

/** Sends these very bytes, and holds the answer against the description: no 500, nothing that is not described. */
async function send (
  operation: Operation,
  params: Record<string, string>,
  payload: string | Uint8Array<ArrayBuffer>,
  headers: Record<string, string> = {}
): Promise<Answer> {
  const path = operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name]!))
  const own = { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json', ...headers }
  const response = await fetch(app.url + path, {
    method: operation.method,
    headers: own,
    body: payload,
    signal: AbortSignal.timeout(30_000)
  })
  const text = await response.text()
  const answer = { status: response.status, headers: response.headers, body: text === '' ? '' : JSON.parse(text) }
  assert.ok(answer.status < 500 && answer.status !== 429, `${answer.status} ${text.slice(0, 500)}`)
  assert.deepEqual(faultsOf(operation, answer), [])
  note(operation, answer)
  return answer
}

/** The app, with note taken of what recipes make in it. */
const watched: TestApp = {
  ...app,
  request: async (method, path, options) => {
    const answer = await app.request(method, path, options)
    const operation = operations.find(one => one.method === method && one.path === path.split('?')[0])
    if (operation !== undefined) note(operation, answer)
    return answer
  },
  send: (fields = {}) => watched.request('POST', '/api/emails', { body: { ...EMAIL, ...fields } })
}

const EMAIL = { from: FROM, to: 'ada@example.com', subject: 'Hello', text: 'Hello' }
/** With all that goes together. */
const FULL = {
  from: `Shop <${FROM}>`,
  to: ['Ada <ada@example.com>'],
  cc: ['ben@example.com'],
  bcc: ['cat@example.com'],
  reply_to: ['Help <help@example.com>'],
  subject: 'Hello',
  html: '<p>Hello</p>',
  text: 'Hello',
  headers: { 'X-Any': 'x' },
  attachments: [{ filename: 'a.txt', content: 'aGVsbG8=', content_type: 'text/plain', content_id: 'a' }],
  tags: ['a'],
  metadata: { any: 'x' },
  expires_in: 3600,
  track: { opens: false, clicks: false },
  unsubscribe: false,
  on_doubt: 'retry'
}
const BODIES: Record<string, unknown> = {
  sendEmail: FULL,
  sendBatch: { emails: [FULL, EMAIL], mode: 'permissive' },
  createTemplate: {
    name: 'Any',
    subject: 'Hello {{any}}',
    html: '<p>{{any}}</p>',
    text: '{{any}}',
    variables: [{ name: 'any', type: 'string', fallback: 'x' }]
  },
  createWebhook: { url: 'http://127.0.0.1:9/', events: ['email.complained'], paused: true }
}

/** Where each operation is pointed, and a body it takes. */
const targets = new Map(
  await Promise.all(withBody.map(async operation => {
    const { params = {}, body } = await recipes[operation.id]!.valid(watched)
    return [operation.id, { params, body: BODIES[operation.id] ?? body ?? operation.body!.examples[0] }] as const
  }))
)

type Path = Array<string | number>
type Json = Record<string, any>

/** Every place that a schema names, the whole body first. */
function placesOf (schema: Json, at: Path = []): Path[] {
  if (schema.$ref !== undefined) return placesOf(lookUp(document, schema.$ref), at)
  const record = Object.values<Json>(schema.patternProperties ?? {})[0] ??
    (typeof schema.additionalProperties === 'object' ? schema.additionalProperties : null)
  const places = [
    at,
    ...Object.entries<Json>(schema.properties ?? {}).flatMap(([name, child]) => placesOf(child, [...at, name])),
    ...(schema.items === undefined ? [] : placesOf(schema.items, [...at, 0])),
    ...(schema.anyOf ?? schema.oneOf ?? []).flatMap((child: Json) => placesOf(child, at)),
    ...(record === null ? [] : placesOf(record, [...at, 'any']))
  ]
  return [...new Map(places.map(place => [JSON.stringify(place), place])).values()]
}

const HOLE = 'put it here'

/** The JSON of a body that has `token` in one place, whatever that is. */
function withToken (body: unknown, place: Path, token: string): string {
  const put = (value: any, [key, ...rest]: Path): unknown => {
    if (key === undefined) return HOLE
    const copy: any = Array.isArray(value)
      ? [...value]
      : typeof value === 'object' && value !== null
      ? { ...value }
      : typeof key === 'number'
      ? []
      : {}
    copy[key] = put(copy[key], rest)
    return copy
  }
  const [start, end] = JSON.stringify(put(body, place)).split(JSON.stringify(HOLE))
  return start + token + end
}

/** As a test's output can show it. */
const escape = (text: string) =>
  JSON.stringify(text).replaceAll(/[^\x20-\x7e]/g, char => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
const nested = (open: string, close: string, depth: number, inner = '') =>
  open.repeat(depth) + inner + close.repeat(depth)

const TOKENS = [
  'null',
  'true',
  'false',
  '0',
  '-0',
  '1',
  '-1',
  '1.5',
  '1e308',
  '1e999',
  '-1e999',
  '1e-999',
  '9007199254740993',
  '01',
  'NaN',
  '0x10',
  '.5',
  '9'.repeat(1000),
  '""',
  '" "',
  '[]',
  '{}',
  '[[]]',
  '[null]',
  '["a","a"]',
  '[{}]',
  '{"":""}',
  '{"any":1}',
  '"\\u0000"',
  '"\\ud800"',
  '"\\udc00\\ud800"',
  '"a\\r\\nInjected: yes"',
  '"a\\nInjected: yes"',
  '"a\\rInjected: yes"',
  '"a\\u0085Injected: yes"',
  '"a\\u2028Injected: yes"',
  '"\\ufeffa"',
  '"\\u202ea"',
  '"ada@example.com\\r\\nInjected: yes"',
  '"\\"Ada\\r\\nInjected: yes\\" <ada@example.com>"',
  '"Ada\\u0000 <ada@example.com>"',
  '"ada@example.com, ben@example.com"',
  '"<ada@example.com>"',
  '"ädä@exämple.com"',
  '"=?UTF-8?Q?=0D=0AInjected:_yes?="',
  '"{{#a}}"',
  '"{{{a}}}"',
  '"%s%n"',
  '"../../etc/passwd"',
  '"\' or 1=1 --"',
  '"<script>"',
  '{"__proto__":{"x":1}}',
  '{"constructor":{"prototype":{"x":1}}}',
  '{"constructor":"x"}',
  '{"toString":"x","valueOf":"x","hasOwnProperty":"x"}',
  '{"toJSON":"x"}',
  '{"then":"x"}',
  '{"length":1}',
  '{"any":"x","any":1}',
  '{"\\u0000":"x"}',
  '{"\\ud800":"x"}',
  '{"a\\r\\nInjected":"yes"}',
  '{"X-A: x\\r\\nInjected":"yes"}',
  '[,]',
  "'x'",
  '"\\x"',
  '"a\tb"',
  '"a\nb"',
  '//',
  'undefined',
  nested('[', ']', 2000),
  nested('{"a":', '}', 2000, '1'),
  nested('[{"a":', '}]', 2000, '1'),
  `"${'x'.repeat(70_000)}"`,
  `"${'\\u0000'.repeat(5000)}"`,
  `[${'0,'.repeat(5000)}0]`,
  `{${Array.from({ length: 2000 }, (_, i) => `"k${i}":"x"`).join(',')}}`
]
const anyToken = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...TOKENS) },
  { weight: 2, arbitrary: fc.string({ unit: 'binary', maxLength: 300 }).map(text => JSON.stringify(text)) },
  { weight: 2, arbitrary: fc.jsonValue({ maxDepth: 4 }).map(value => JSON.stringify(value)) }
)

const BYTES = [
  [0xff],
  [0xc0, 0x80],
  [0xed, 0xa0, 0x80],
  [0xf4, 0x90, 0x80, 0x80],
  [0x00],
  [0xef, 0xbb, 0xbf],
  [0x0b],
  [0xe2, 0x80, 0xa8],
  [0x22],
  [0x5c],
  [0x7d],
  [0x2c]
].map(bytes => Buffer.from(bytes))
/** What is done to the bytes of a body: mostly nothing. */
const anyDamage = fc.oneof(
  { weight: 8, arbitrary: fc.constant((text: string) => Buffer.from(text)) },
  {
    weight: 1,
    arbitrary: fc.double({ min: 0, max: 1, noNaN: true }).map(share => (text: string) =>
      Buffer.from(text).subarray(0, Math.floor(share * Buffer.byteLength(text)))
    )
  },
  {
    weight: 1,
    arbitrary: fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.constantFrom(...BYTES)).map(
      ([share, bytes]) => (text: string) => {
        const at = Math.floor(share * Buffer.byteLength(text))
        return Buffer.concat([Buffer.from(text).subarray(0, at), bytes, Buffer.from(text).subarray(at)])
      }
    )
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(' x', '{}', '\0', ',', ']').map(tail => (text: string) => Buffer.from(text + tail))
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      '"__proto__":{},',
      '"constructor":{"prototype":{}},',
      '"constructor":1,',
      '"from":1,',
      '"name":1,',
      '"":1,'
    ).map(pair => (text: string) => Buffer.from(text.replace('{', `{${pair}`)))
  }
)

const places = new Map(withBody.map(({ id, body }) => [id, placesOf(body!.schema)]))
const anyRequest = fc.constantFrom(...withBody).chain(operation =>
  fc.record({
    operation: fc.constant(operation.id),
    place: fc.constantFrom(...places.get(operation.id)!),
    token: anyToken,
    damage: anyDamage
  })
)

t.test('whatever stands in any place of any body, the answer is one of those described, and never a 500', {
  timeout: 3_600_000
}, async () => {
  await fc.assert(
    fc.asyncProperty(anyRequest, async ({ operation, place, token, damage }) => {
      const { params, body } = targets.get(operation)!
      await send(byId.get(operation)!, params, damage(withToken(body, place, token)))
    }),
    { ...SEED, numRuns: LONG ? 30_000 : 20 * withBody.length, endOnFailure: LONG }
  )
})

t.test(
  'whatever stands in any place of a send, a batch beside a good one, or a template, also under an Idempotency-Key',
  { timeout: 3_600_000 },
  async () => {
    for (const id of ['sendEmail', 'sendBatch', 'createTemplate']) {
      const { params, body } = targets.get(id)!
      for (const [i, place] of places.get(id)!.entries()) {
        // In the end every token has stood in many places, and every place has had many tokens.
        const tokens = TOKENS.filter((_, k) => LONG || (i + k) % 29 === 0)
        for (const [k, token] of tokens.entries()) {
          const headers: Record<string, string> = byId.get(id)!.parameters.some(({ name }) =>
              name === 'Idempotency-Key'
            )
            ? { 'idempotency-key': `${id} ${i} ${k}` }
            : {}
          await send(byId.get(id)!, params, withToken(body, place, token), headers)
        }
      }
    }
  }
)

const BREAKS = ['\r\n', '\n', '\r', '\0', '\v', '\x1b', '\x7f', '\x85']
const inject = (end: string) => `x${end}Injected: yes`

t.test('a line break in whatever goes into a header is refused, and so is every other control character', {
  timeout: 600_000
}, async t => {
  for (const end of BREAKS) {
    const evil = inject(end)
    const address = (name: string) =>
      [
        `"${evil}" <ada@example.com>`,
        `${evil} <ada@example.com>`,
        `ada@example.com${end}Injected: yes`,
        `ada@example.com${end}`
      ].map(text => ({ [name]: text }))
    const file = (fields: Record<string, unknown>) => ({
      attachments: [{ filename: 'a.txt', content: 'aGVsbG8=', ...fields }]
    })
    const bodies: Array<Record<string, unknown>> = [
      ...['from', 'to', 'cc', 'bcc', 'reply_to'].flatMap(address),
      { subject: evil },
      { headers: { 'X-A': evil } },
      { headers: { [evil]: 'x' } },
      { headers: { [`X-A: x${end}Injected`]: 'yes' } },
      file({ filename: evil }),
      file({ content_type: `text/plain${end}Injected: yes` }),
      file({ content_type: `text/plain; x="${evil}"` }),
      file({ content_id: evil }),
      { metadata: { [evil]: 'x' } },
      { template_id: `tpl_${evil}`, text: undefined }
    ]
    for (const fields of bodies) {
      const { status, body } = await watched.send(fields)
      t.equal(status, 422, escape(evil) + Object.keys(fields)[0])
      t.ok(body.details.length > 0)
    }
    for (
      const [path, body] of [
        ['templates', { name: evil, text: 'x' }],
        ['templates', { name: 'x', subject: evil, text: 'x' }],
        ['keys', { name: evil, scopes: ['full'], domains: ['*'] }],
        ['webhooks', { url: `http://127.0.0.1:9/${end}Injected: yes`, events: ['email.complained'] }],
        ['domains', { name: `x.example${end}` }],
        ['suppressions', { address: `ada@example.com${end}` }]
      ] as const
    ) {
      t.equal((await watched.request('POST', `/api/${path}`, { body })).status, 422, `${path} ${escape(evil)}`)
    }
  }
})

t.test('a line break in what goes into a header by way of a template, or not at all, does no harm', {
  timeout: 600_000
}, async t => {
  const { body: { id } } = await watched.request('POST', '/api/templates', {
    body: { name: 'Evil', subject: 'Hello {{name}} {{{name}}}', text: 'Hello' }
  })
  for (const end of [...BREAKS, '\u2028', '\u2029', '\ufeff', '\u202e']) {
    const evil = inject(end)
    const fields = [
      { template_id: id, subject: undefined, text: undefined, variables: { name: evil } },
      { tags: [evil] },
      { metadata: { a: evil } },
      { subject: evil },
      { headers: { 'X-A': evil } }
    ]
    for (const one of fields) {
      t.ok([202, 422].includes((await watched.send(one)).status), `${Object.keys(one)[0]} ${escape(end)}`)
    }
  }
})

t.test('an Idempotency-Key that is none lets nothing through', async t => {
  const body = JSON.stringify(EMAIL)
  for (
    const [value, status] of [
      ['', 422],
      [' ', 422],
      ['x'.repeat(256), 422],
      ['a\x00b', 400],
      ['a\x7fb', 400],
      ['a\xffb', 422],
      ['a\r\n b', 400],
      ['a\r\nIdempotency-Key: b', 422],
      ['a\rb', 400]
    ] as const
  ) {
    const answer = await speak(`Idempotency-Key: ${value}\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
    t.match(answer, new RegExp(`^HTTP/1.1 ${status} `), JSON.stringify(value))
  }
})

/** A POST with these headers and whatever follows; all that came back. Accepted mail is noted. */
async function speak (rest: string, method = 'POST'): Promise<string> {
  const head = `${method} /api/emails HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ` +
    `${API_KEY}\r\nContent-Type: application/json\r\n`
  const answer = await app.speak(Buffer.from(head + rest, 'latin1').toString('latin1'))
  for (const [, id] of answer.matchAll(/"id":"(em_[^"]*)"/g)) {
    if (answer.includes('HTTP/1.1 202 ')) made.emails.push({ id: id! })
  }
  return answer
}

t.test('a body whose length is said wrong, or in two ways, is one request or none', { timeout: 600_000 }, async t => {
  const body = JSON.stringify(EMAIL)
  const size = body.length
  const chunked = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n0\r\n\r\n`
  const next = `GET /api/emails HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${API_KEY}\r\n\r\n`
  const cases: Array<[string, string, RegExp]> = [
    ['too short a length', `Content-Length: ${size - 5}\r\n\r\n${body}`, /^HTTP\/1.1 400 /],
    ['length nought', `Content-Length: 0\r\n\r\n${body}`, /^HTTP\/1.1 400 /],
    ['two lengths', `Content-Length: ${size}\r\nContent-Length: ${size - 1}\r\n\r\n${body}`, /^HTTP\/1.1 400 /],
    ['a negative length', `Content-Length: -1\r\n\r\n${body}`, /^HTTP\/1.1 400 /],
    ['a length with a sign', `Content-Length: +${size}\r\n\r\n${body}`, /^HTTP\/1.1 400 /],
    ['a length in hex', `Content-Length: 0x10\r\n\r\n${body}`, /^HTTP\/1.1 400 /],
    ['a length past counting', `Content-Length: 99999999999999999999999\r\n\r\n${body}`, /^HTTP\/1.1 400 /],
    ['a length past what we take', `Content-Length: ${21 * MB}\r\n\r\n${body}`, /^HTTP\/1.1 413 /],
    ['neither length nor chunks', `\r\n${body}`, /^HTTP\/1.1 400 /],
    ['both', `Content-Length: ${size}\r\nTransfer-Encoding: chunked\r\n\r\n${chunked(body)}`, /^HTTP\/1.1 400 /],
    [
      'both, the other way about',
      `Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n${chunked(body)}`,
      /^HTTP\/1.1 400 /
    ],
    ['chunks that are not last', `Transfer-Encoding: chunked, identity\r\n\r\n${chunked(body)}`, /^HTTP\/1.1 400 /],
    ['a coding nobody knows', `Transfer-Encoding: xchunked\r\n\r\n${chunked(body)}`, /^HTTP\/1.1 400 /],
    ['a space before the colon', `Transfer-Encoding : chunked\r\n\r\n${chunked(body)}`, /^HTTP\/1.1 400 /],
    ['a folded header', `Transfer-Encoding:\r\n chunked\r\n\r\n${chunked(body)}`, /^HTTP\/1.1 400 /],
    ['a chunk of no length', `Transfer-Encoding: chunked\r\n\r\nzz\r\n${body}\r\n0\r\n\r\n`, /^HTTP\/1.1 400 /],
    ['a chunk too long to be', `Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n${body}`, /^HTTP\/1.1 400 /],
    [
      'a chunk that goes on',
      `Transfer-Encoding: chunked\r\n\r\n${(size - 3).toString(16)}\r\n${body}\r\n0\r\n\r\n`,
      /^HTTP\/1.1 400 /
    ],
    [
      'an endless chunk extension',
      `Transfer-Encoding: chunked\r\n\r\n1;${'x'.repeat(100_000)}\r\n{\r\n0\r\n\r\n`,
      /^HTTP\/1.1 (400|413|431) /
    ],
    [
      'a packed body',
      `Content-Encoding: gzip\r\nContent-Length: ${gzipSync(body).length}\r\n\r\n${gzipSync(body).toString('latin1')}`,
      /^HTTP\/1.1 (400|415) /
    ],
    ['chunks as they should be', `Transfer-Encoding: chunked\r\n\r\n${chunked(body)}`, /^HTTP\/1.1 202 /],
    ['a length as it should be', `Content-Length: ${size}\r\n\r\n${body}`, /^HTTP\/1.1 202 /]
  ]
  for (const [name, rest, wanted] of cases) t.match(await speak(rest), wanted, name)
  for (const [name, rest] of cases) {
    t.notMatch(
      await speak(`${rest}${next}`),
      /^HTTP\/1.1 5|HTTP\/1.1 202 [^]*HTTP\/1.1 202 /,
      `${name}, and one more behind it`
    )
  }
})

const collect: () => void = (() => {
  setFlagsFromString('--expose-gc')
  return runInNewContext('gc') as () => void
})()

/** In MB, after the garbage is out. V8 gives what it had back late: what the process holds says less than what is alive
 *  in it. */
function memory (): { held: number, alive: number } {
  collect()
  collect()
  const { rss, heapUsed, external } = process.memoryUsage()
  return { held: rss / MB, alive: (heapUsed + external) / MB }
}

/** What a megabyte can be made of. */
const HEAPS: Array<[string, string]> = [
  ['nested lists', nested('[', ']', MB / 2)],
  ['nested objects', nested('{"a":', '}', MB / 6, '1')],
  ['lists in objects', nested('[{"a":', '}]', MB / 8, '1')],
  ['lists that never end', '['.repeat(MB)],
  ['a list', `[${'0,'.repeat(MB / 2)}0]`],
  ['a list of lists', `[${'[],'.repeat(MB / 3)}0]`],
  ['an object', `{${Array.from({ length: 70_000 }, (_, i) => `"key${i}":"x"`).join(',')}}`],
  ['one key again and again', `{${'"a":1,'.repeat(MB / 6)}"a":1}`],
  ['a text', `"${'x'.repeat(MB)}"`],
  ['a text of escapes', `"${'\\u0000'.repeat(MB / 6)}"`],
  ['half characters', `"${'\\ud800'.repeat(MB / 6)}"`],
  ['a number', '9'.repeat(MB)],
  ['mustaches', `"${'{{#a}}'.repeat(MB / 6)}"`],
  ['equals signs', `"${'=?=?'.repeat(MB / 4)}"`]
]
const HELD_MB_MAX = 150
const ALIVE_MB_MAX = 40
const ROUNDS = LONG ? 20 : 2

t.test(
  `a megabyte of anything in any place is answered, and of ${ROUNDS} rounds of them at most ` +
    `${ALIVE_MB_MAX} MB stay, ${HELD_MB_MAX} as the system counts`,
  { timeout: 3_600_000, ...LONG_ONLY },
  async t => {
    let sent = 0
    const round = async (i: number) => {
      for (const [at, [what, heap]] of HEAPS.entries()) {
        for (const operation of withBody.filter((_, k) => LONG || (k + at + i) % 7 === 0)) {
          const chosen = places.get(operation.id)!
          const { params, body } = targets.get(operation.id)!
          const beginMs = performance.now()
          await send(operation, params, withToken(body, chosen[(at + 7 * i) % chosen.length]!, heap))
          assert.ok(
            performance.now() - beginMs < 10_000,
            `${operation.id} took ${performance.now() - beginMs} ms over ${what}`
          )
          sent++
        }
      }
      await inspectMails()
    }
    await round(0)
    sent = 0
    const before = memory()
    for (let i = 1; i <= ROUNDS; i++) await round(i)
    const after = memory()
    t.comment(
      `${sent} MB came in, ${(after.alive - before.alive).toFixed(0)} MB stayed, ${
        (after.held - before.held).toFixed(0)
      } as the system counts`
    )
    t.ok(after.alive - before.alive < ALIVE_MB_MAX)
    t.ok(after.held - before.held < HELD_MB_MAX)
  }
)

t.test('after all that there is as much of everything as was answered with 2xx, whole, and as it was answered', {
  timeout: 600_000
}, async t => {
  const after = await counts()
  for (const name of Object.keys(LISTS) as List[]) t.equal(after[name] - before[name], made[name].length, name)
  const info = await services.factLog.bus.nc.request(
    '$JS.API.STREAM.INFO.REQUESTS',
    JSON.stringify({ subjects_filter: 'request.>' }),
    { timeout: 5000 }
  )
  const { state: { subjects } } = info.json<{ state: { subjects: Record<string, number> } }>()
  t.equal(Object.values(subjects).reduce((sum, count) => sum + count, 0), made.emails.length, 'facts in the log')
  t.ok(
    made.emails.length > 100 && made.templates.length > 5,
    `${made.emails.length} emails, ${made.templates.length} templates`
  )
  const targeted = new Set([...targets.values()].map(({ params }) => params.id))
  for (
    const [name, once] of [
      ['emails', ['status', 'email_id', 'suppressed']],
      ['templates', ['warnings']],
      ['domains', ['status', 'records', 'checked_at']],
      ['keys', ['key']],
      ['webhooks', ['secret']]
    ] as Array<[List, string[]]>
  ) {
    for (const { id, ...answered } of made[name].filter(({ id }) => !targeted.has(id))) {
      const { status, body } = await app.request('GET', `/api/${name}/${id}`)
      assert.equal(status, 200, `${name} ${id}`)
      for (const field of Object.keys(answered)) {
        if (!once.includes(field)) assert.deepEqual(body[field], answered[field], `${name} ${id} ${field}`)
      }
    }
  }
  t.equal((await app.request('GET', '/readyz')).status, 200)
})

t.test(
  'every mail that went out is one message with no header but those it should have',
  { timeout: 600_000 },
  async t => {
    await inspectMails()
    t.ok(inspected > 100, `${inspected} mails`)
  }
)

const ONCE = ['from', 'to', 'subject', 'date', 'message-id', 'mime-version', 'content-type']
let inspected = 0

/** Waits until all mail is out; looks at what the mail server got, and forgets it. */
async function inspectMails (): Promise<void> {
  await until(async () => {
    const lists = await Promise.all(
      ['queued', 'sending', 'deferred'].map(status => app.request('GET', `/api/emails?limit=1&status=${status}`))
    )
    return lists.every(({ body }) => body.data.length === 0)
  }, 120_000)
  for (const { raw } of sink.received.splice(0)) {
    const read = readMessage(raw)
    assert.deepEqual(headersOf(read).filter(name => /injected|^bcc$/.test(name)), [])
    for (const name of ONCE) {
      assert.equal(
        read.headers.filter(header => header.name.toLowerCase() === name).length,
        1,
        `${name}: ${raw.subarray(0, 2000).toString()}`
      )
    }
    inspected++
  }
}

function headersOf (part: ReadPart): string[] {
  return [...part.headers.map(({ name }) => name.toLowerCase()), ...part.parts.flatMap(headersOf)]
}
