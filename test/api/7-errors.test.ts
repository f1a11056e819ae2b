import t from 'tap'
import { API_KEY, startTestApp } from '../support/app.ts'

const app = await startTestApp(t)
const HEADERS = ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset', 'x-request-id']

t.test('7 every answer carries the headers, and every error is an object with a string error', async t => {
  const requests: Array<[string, number, Parameters<typeof app.request>]> = [
    ['accepted', 202, ['POST', '/api/emails', {
      body: { from: 'a@sandbox.jetpost.test', to: 'b@example.com', subject: 's', text: 't' }
    }]],
    ['list', 200, ['GET', '/api/emails']],
    ['head', 200, ['HEAD', '/api/emails']],
    ['malformed JSON', 400, ['POST', '/api/emails', { raw: '{"from":' }]],
    ['empty body', 400, ['POST', '/api/emails', { raw: '' }]],
    ['prototype', 400, ['POST', '/api/emails', { raw: '{"__proto__":{"a":1}}' }]],
    ['no key', 401, ['GET', '/api/emails', { key: null }]],
    ['foreign domain', 403, ['POST', '/api/emails', {
      body: { from: 'a@x.example', to: 'b@example.com', subject: 's', text: 't' }
    }]],
    ['unknown path', 404, ['GET', '/api/nothing']],
    ['unknown email', 404, ['GET', '/api/emails/em_nothing']],
    ['other method', 405, ['DELETE', '/api/emails']],
    ['options', 405, ['OPTIONS', '/api/emails']],
    ['too large', 413, ['POST', '/api/emails', { raw: `{"html":"${'x'.repeat(20 * 1024 * 1024)}"}` }]],
    ['other type', 415, ['POST', '/api/emails', {
      raw: 'from=a',
      headers: { 'content-type': 'application/x-www-form-urlencoded' }
    }]],
    ['no object', 422, ['POST', '/api/emails', { body: [] }]]
  ]
  for (const [name, status, call] of requests) {
    const answer = await app.request(...call)
    t.equal(answer.status, status, name)
    for (const header of HEADERS) t.ok(answer.headers.get(header), `${name}: ${header}`)
    if (status >= 400) t.type(answer.body.error, 'string', name)
  }
})

t.test('7 a body that is compressed or in another charset is 415, an unknown path 404, in the same form', async t => {
  const body = { from: 'a@sandbox.jetpost.test', to: 'b@example.com', subject: 's', text: 't' }
  for (
    const [name, value] of [['content-encoding', 'gzip'], ['content-type', 'application/json; charset=utf-16']] as const
  ) {
    t.equal((await app.request('POST', '/api/emails', { body, headers: { [name]: value } })).status, 415, name)
  }
  for (const charset of ['utf-8', '"UTF-8"', 'us-ascii']) {
    t.equal(
      (await app.request('POST', '/api/emails', {
        body,
        headers: { 'content-type': `application/json; charset=${charset}` }
      })).status,
      202,
      charset
    )
  }
  for (const path of ['/nope', '//api/emails', '/API/emails']) {
    const answer = await app.request('GET', path)
    t.match(answer, { status: 404, body: { error: 'Not found' } }, path)
    for (const header of HEADERS) t.ok(answer.headers.get(header), `${path}: ${header}`)
  }
})

t.test('7 an error leads to the documentation, of its operation where there is one', async t => {
  const base = 'http://localhost:0/docs'
  const requests: Array<[number, string, Parameters<typeof app.request>]> = [
    [422, '#/Emails/sendEmail', ['POST', '/api/emails', { body: {} }]],
    [401, '#/Emails/listEmails', ['GET', '/api/emails', { key: null }]],
    [404, '#/Templates/getTemplate', ['GET', '/api/templates/tpl_nothing']],
    [404, '', ['GET', '/api/nothing']],
    [404, '', ['GET', '/nothing']]
  ]
  for (const [status, place, call] of requests) {
    const answer = await app.request(...call)
    t.equal(answer.status, status)
    t.equal(answer.headers.get('link'), `<${base}${place}>; rel="help"`, call[1])
  }
  t.equal((await app.request('GET', '/api/emails')).headers.get('link'), null, 'a success needs none')
})

t.test('7 CONNECT is refused in the usual form, also while an answer is still to come', async t => {
  const connect = 'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n'
  const answer = await app.speak(connect)
  t.match(answer, /^HTTP\/1.1 405 Method Not Allowed\r\n/)
  for (const header of [...HEADERS, 'allow']) t.match(answer.toLowerCase(), `\r\n${header}: `, header)
  t.match(JSON.parse(answer.slice(answer.indexOf('\r\n\r\n') + 4)), {
    error: 'The method must be DELETE, GET, HEAD, PATCH or POST: Jetpost is no proxy.',
    code: 'method_not_allowed'
  })
  const list = `GET /api/emails HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${API_KEY}\r\n\r\n`
  t.match(await app.speak(list + connect), /^HTTP\/1.1 200 /, 'the request before it is answered')
  t.equal((await app.request('GET', '/healthz')).status, 200, 'and the server lives on')
})

t.test('7 405 says what is allowed', async t => {
  t.equal((await app.request('PUT', '/api/webhooks/wh_1')).headers.get('allow'), 'DELETE, GET, HEAD, PATCH')
  t.equal((await app.request('PUT', '/api/suppressions/export')).headers.get('allow'), 'GET, HEAD')
})

t.test("7 the body of 401, 403 and 429 is the spec's and nothing more", async t => {
  t.strictSame((await app.request('GET', '/api/emails', { key: null })).body, { error: 'Unauthorized' })
  const key = await app.newKey({ scopes: ['emails:read'] })
  t.strictSame((await app.send({}, key.secret)).body, { error: 'Insufficient API key permissions' })
})

t.test('7 what the HTTP parser refuses carries the headers too', async t => {
  for (
    const [bytes, status] of [
      ['GARBAGE\r\n\r\n', 400],
      [`GET / HTTP/1.1\r\nHost: x\r\nX: ${'y'.repeat(40_000)}\r\n\r\n`, 431],
      ['POST /api/emails HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n', 400]
    ] as const
  ) {
    const answer = await app.speak(bytes)
    t.match(answer, new RegExp(`^HTTP/1.1 ${status} `))
    for (const header of HEADERS) t.match(answer.toLowerCase(), `\r\n${header}: `, `${status} ${header}`)
    t.type(JSON.parse(answer.slice(answer.indexOf('\r\n\r\n') + 4)).error, 'string')
  }
})

const KEYED = `Host: x\r\nConnection: close\r\nAuthorization: Bearer ${API_KEY}\r\n`
const HOSTLESS = KEYED.replace('Host: x\r\n', '')
const MAIL = JSON.stringify({ from: 'a@sandbox.jetpost.test', to: 'b@example.com', subject: 's', text: 't' })

t.test('7 what Node or the router would refuse by themselves carries the headers, and 401 comes first', async t => {
  for (
    const [name, head, keyed, status] of [
      ['a strange Expect', 'GET /api/emails HTTP/1.1\r\nExpect: banana', KEYED, 200],
      ['no Host', 'GET /api/emails HTTP/1.1', HOSTLESS, 400],
      ['no Host, unknown path', 'GET /api/nothing HTTP/1.1', HOSTLESS, 400],
      ['two Hosts', 'GET /api/emails HTTP/1.1', `Host: other\r\n${KEYED}`, 400],
      ['two Hosts, HTTP/1.0', 'GET /api/emails HTTP/1.0', `Host: other\r\n${KEYED}`, 400],
      ['a URL that cannot be decoded', 'GET /api/%zz HTTP/1.1', KEYED, 400],
      ['such a URL in absolute form', 'GET http://x/%61pi/%zz HTTP/1.1', KEYED, 400],
      ['such a URL with a method of its own', 'PATCH /api/%c0 HTTP/1.1', KEYED, 400]
    ] as const
  ) {
    for (const [authorization, wanted] of [[keyed, status], [keyed.replace(API_KEY, 'x'), 401]] as const) {
      const answer = await app.speak(`${head}\r\n${authorization}\r\n`)
      t.match(answer, new RegExp(`^HTTP/1.1 ${wanted} `), `${name} ${wanted}`)
      for (const header of HEADERS) t.match(answer.toLowerCase(), `\r\n${header}: `, `${name} ${header}`)
      if (wanted >= 400) t.type(JSON.parse(answer.slice(answer.indexOf('\r\n\r\n') + 4)).error, 'string', name)
    }
  }
  t.match(await app.speak(`GET /%zz HTTP/1.1\r\n${KEYED}\r\n`), /^HTTP\/1.1 400 /, 'outside /api too')
  t.match(await app.speak(`GET /healthz HTTP/1.1\r\n${HOSTLESS}\r\n`), /^HTTP\/1.1 400 /)
})

t.test('7 the second request of a pipeline without Host is a 400 with the headers', async t => {
  const first = `GET /api/emails HTTP/1.1\r\n${KEYED.replace('Connection: close\r\n', '')}\r\n`
  const [, ...answers] = (await app.speak(`${first}GET /api/emails HTTP/1.1\r\n${HOSTLESS}\r\n`)).split('HTTP/1.1 ')
  t.equal(answers.length, 2)
  t.match(answers[0], /^200 /)
  t.match(answers[1], /^400 /)
  for (const header of HEADERS) t.match(answers[1]!.toLowerCase(), `\r\n${header}: `)
})

t.test('7 a refusal by the parser never takes the place of an answer that is still to come', async t => {
  const post = `POST /api/emails HTTP/1.1\r\n${
    KEYED.replace('Connection: close\r\n', '')
  }Content-Type: application/json\r\n`
  const whole = `${post}Content-Length: ${MAIL.length}\r\n\r\n${MAIL}`
  for (const rest of ['GARBAGE\r\n\r\n', `${post}Transfer-Encoding: chunked\r\n\r\nnot-a-length\r\n`]) {
    const answer = await app.speak(whole + rest)
    t.match(answer, /^HTTP\/1.1 202 /, 'the accepted mail is answered as such')
    t.equal(answer.split('HTTP/1.1 ').length, 2, 'and then the line ends')
  }
  const own = await app.speak(`${post}Transfer-Encoding: chunked\r\n\r\nnot-a-length\r\n`)
  t.match(own, /^HTTP\/1.1 400 /, 'a body of wrong form is refused in its own place')
  t.equal(own.split('HTTP/1.1 ').length, 2)
})

t.test('7 a request id that the caller sends comes back, a strange one does not', async t => {
  t.equal(
    (await app.request('GET', '/api/emails', { headers: { 'x-request-id': 'trace-0123456789' } })).headers.get(
      'x-request-id'
    ),
    'trace-0123456789'
  )
  t.match(
    (await app.request('GET', '/api/emails', { headers: { 'x-request-id': 'a"b<script>' } })).headers.get(
      'x-request-id'
    ),
    /^req_/
  )
})

t.test('7 bytes that are not UTF-8 are malformed, not replaced', async t => {
  const response = await fetch(`${app.url}/api/emails`, {
    method: 'POST',
    headers: { authorization: 'Bearer jp_live_test-key-of-the-app', 'content-type': 'application/json' },
    body: Buffer.from('{"subject":"\xff"}', 'latin1')
  })
  t.equal(response.status, 400)
})

t.test('7 where nothing is, a browser gets a page, and everybody else the error', async t => {
  const page = await app.request('GET', '/nothing', {
    headers: { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' }
  })
  t.match(page, { status: 404, body: /<h1>Page not found<\/h1>/ })
  t.match(page.headers.get('content-security-policy'), "default-src 'none'")
  for (const accept of ['*/*', 'application/json']) {
    t.match(await app.request('GET', '/nothing', { headers: { accept } }), {
      status: 404,
      body: { error: 'Not found' }
    })
  }
})
