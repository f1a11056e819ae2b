import { execFile, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { API_KEY, startTestApp } from '../support/app.ts'
import { dial } from '../support/inbound-peer.ts'
import { startSink } from '../support/smtp-sink.ts'
import { dialSecurely, logIn, submit } from '../support/submission-peer.ts'

const CLIENT = join(import.meta.dirname, '..', 'support', 'smtplib-client.py')
const SIZE_MAX = 25 * 1024 * 1024
const mail = await startSink()
t.teardown(() => mail.stop())
const app = await startTestApp(t, {
  env: { SMTP_URL: mail.url, JETPOST_DOMAINS: 'shop.example', JETPOST_SUBMISSION_PORT: '0' }
})
const port = app.submissionPort!
const pythonMissing = spawnSync('python3', ['--version']).status === 0 ? false : 'python3 is not installed'
const swaksMissing = spawnSync('swaks', ['--version']).status === 0 ? false : 'swaks is not installed'

interface Job {
  password?: string
  from?: string
  to?: string[]
  message?: string
  tls?: boolean
}

const message = (head = 'From: hello@shop.example', body = 'Hello') =>
  `${head}\r\nTo: ada@example.net\r\nSubject: Hi\r\n\r\n${body}\r\n`

/** A refusal: the mail that meets it, and the reply. */
const REFUSALS: Record<string, [Job, RegExp]> = {
  'a wrong password': [
    { password: 'secret' },
    /^535 5\.7\.8 The password must be a Jetpost API key that is live; the user name may be anything$/
  ],
  'a sender that is a login': [
    { from: 'apikey' },
    /^501 5\.1\.7 The sender must be an address .* the login is not an address, so set the From .* of the client$/
  ],
  'an envelope sender of somebody else': [
    { from: 'boss@bank.example' },
    /^550 5\.7\.1 from must be on a domain that is linked to the key: bank\.example is not\. Add the domain: /
  ],
  'a From of somebody else': [
    { message: message('From: boss@bank.example') },
    /^550 5\.7\.1 from must be on a domain that is linked to the key: bank\.example is not\./
  ],
  'a Sender of somebody else': [
    { message: message('From: hello@shop.example\r\nSender: boss@bank.example') },
    /^550 5\.7\.1 from must be on a domain that is linked to the key: bank\.example is not\./
  ],
  'a Sender that is no address': [
    { message: message('From: hello@shop.example\r\nSender: nobody') },
    /^550 5\.6\.0 The message must have at most one Sender field, with one address$/
  ],
  'no From': [
    { message: message('X-Nothing: 1') },
    /^550 5\.6\.0 The message must have one From field with one address$/
  ],
  'two authors': [
    { message: message('From: hello@shop.example, boss@shop.example') },
    /^550 5\.6\.0 The message must have one From field with one address$/
  ],
  'no header': [
    { message: 'Hello Ada,\r\n\r\nhow are you?\r\n' },
    /^550 5\.6\.0 The message must begin with header fields, each a name, a colon and a value$/
  ],
  'a recipient that is no address': [
    { to: ['ada@localhost'] },
    /^501 5\.1\.3 The recipient must be an address such as ada@example\.com$/
  ],
  'a header that is too long': [
    { message: message(`From: hello@shop.example\r\nX-Long: ${'x '.repeat(40_000)}`) },
    /^550 5\.6\.0 The header must have at most 64 kB$/
  ],
  'a header of ours that is not': [
    { message: message('From: hello@shop.example\r\nX-Jetpost-Tags: a') },
    /^550 5\.6\.0 X-Jetpost-Tags is no header that Jetpost knows$/
  ],
  'a time that has passed': [
    { message: message('From: hello@shop.example\r\nX-Jetpost-Scheduled-At: 2020-01-01T00:00:00Z') },
    /^550 5\.6\.0 scheduled_at must/
  ],
  'a time that is none': [
    { message: message('From: hello@shop.example\r\nX-Jetpost-Scheduled-At: soon') },
    /^550 5\.6\.0 X-Jetpost-Scheduled-At must be a time such as 2026-11-21T12:00:00Z$/
  ],
  'a template that is not there': [
    { message: message('From: hello@shop.example\r\nX-Jetpost-Template: tpl_nothing') },
    /^550 5\.6\.0 /
  ],
  'an Idempotency-Key of nothing': [
    { message: message('From: hello@shop.example\r\nIdempotency-Key: ') },
    /^550 5\.6\.0 Idempotency-Key must be given once, with 1 to 255 printable ASCII characters$/
  ],
  'a mail that is too big': [
    { message: message(undefined, `${'x'.repeat(998)}\r\n`.repeat(SIZE_MAX / 1000 + 1000)) },
    /^552 5\.3\.4 Error: message exceeds fixed maximum message size 26214400$/
  ]
}

const CLIENT_MS = 120_000

/** Sends by Python's smtplib; resolves to code and text of each answer. */
async function sendAll (jobs: Job[]): Promise<string[]> {
  const input = jobs.map(job =>
    JSON.stringify({
      port,
      user: 'anything',
      password: API_KEY,
      from: 'hello@shop.example',
      to: ['ada@example.net'],
      message: message(),
      ...job
    })
  )
  const running = promisify(execFile)('python3', [CLIENT], { timeout: CLIENT_MS })
  running.child.stdin!.end(`${input.join('\n')}\n`)
  const { stdout } = await running
  return stdout.trim().split('\n').map(line => JSON.parse(line) as { code: number, text: string })
    .map(({ code, text }) => `${code} ${text}`)
}

t.test('Python is told what must be: code, enhanced code and a sentence', { skip: pythonMissing }, async t => {
  const answers = await sendAll(Object.values(REFUSALS).map(([job]) => job))
  for (const [i, [what, [, expected]]] of Object.entries(REFUSALS).entries()) t.match(answers[i]!, expected, what)
  t.match((await sendAll([{}]))[0]!, /^250 /, 'and the same client sends a mail without faults')
})

t.test('what depends on the key and its account', { skip: pythonMissing }, async t => {
  const reader = await app.newKey({ scopes: ['emails:read'] })
  const few = await app.newKey({ name: 'few' })
  await app.limitKey(few.id, { 'emails:send': 1 })
  const narrow = await app.newKey({ domains: ['other.example'] })
  const [noScope, first, second, foreign] = await sendAll([
    { password: reader.secret },
    { password: few.secret },
    { password: few.secret },
    { password: narrow.secret }
  ])
  t.match(noScope!, /^535 5\.7\.8 The API key must have the scope emails:send$/)
  if (second!.startsWith('250 ')) {
    t.match((await sendAll([{ password: few.secret }]))[0]!, /^450 4\.7\.1 /, 'the window had turned')
  } else {
    t.match(first!, /^250 /)
    t.match(second!, /^450 4\.7\.1 Rate limit exceeded: try again in \d+ s$/)
  }
  t.match(foreign!, /^550 5\.7\.1 .* Link it: PATCH \/api\/keys\/key_\w+ with domains\.$/)
})

t.test('an account that is suspended, and one that has sent enough today', { skip: pythonMissing }, async t => {
  const key = await app.newAccountKey()
  const { body: me } = await app.request('GET', '/api/me', { key })
  await app.request('POST', '/api/domains', { key, body: { name: 'shop.example' } })
  const account = `/api/accounts/${me.account.id}`
  await app.request('PATCH', account, { body: { recipients_per_day: 1 } })
  const [sent, over] = await sendAll([{ password: key, to: ['ada@example.net'] }, { password: key }])
  if (sent!.startsWith('250 ')) {
    t.match(over!, /^450 4\.7\.1 The account must not send to more than 1 recipients a day \(UTC\)\.$/)
  } else t.match(sent!, /^550 5\.7\.1 from must be on a verified domain/, 'where domains must be verified first')
  await app.request('POST', `${account}/suspend`, { body: { reason: 'billing' } })
  t.match(
    (await sendAll([{ password: key }]))[0]!,
    /^550 5\.7\.1 The account is suspended \(billing\): it sends nothing until the operator resumes it$/
  )
})

t.test('a password is not taken before TLS', async t => {
  const peer = await dial(port)
  t.match(await peer.say('EHLO client.example'), /^250-(?![^]*AUTH)[^]*STARTTLS/, 'nor asked for')
  t.match(await peer.say('AUTH PLAIN AGEAYg=='), /^538 5\.7\.0 .*STARTTLS/)
  t.match(await peer.say('MAIL FROM:<hello@shop.example>'), /^530 5\.7\.0 /)
  peer.close()
})

t.test('who is revoked in the middle of a session sends no more', async t => {
  const { id, secret } = await app.newKey({ name: 'short' })
  const peer = await logIn(port, secret)
  t.match(await submit(peer, 'hello@shop.example', ['ada@example.net'], message()), /^250 2\.0\.0 queued as em_/)
  await app.revokeKey(id)
  t.match(await submit(peer, 'hello@shop.example', ['ada@example.net'], message()), /^535 5\.7\.8 .* no longer live/)
  peer.close()
})

t.test('more than 100 recipients: the others are for the next transaction', async t => {
  const peer = await logIn(port, API_KEY)
  await peer.say('MAIL FROM:<hello@shop.example>')
  for (let i = 0; i < 100; i++) t.match(await peer.say(`RCPT TO:<r${i}@example.net>`), /^250 2\.1\.5 /)
  t.match(await peer.say('RCPT TO:<r100@example.net>'), /^452 4\.5\.3 /)
  peer.close()
})

t.test('a size that is announced is refused before the mail', async t => {
  const peer = await logIn(port, API_KEY)
  t.match(await peer.say(`MAIL FROM:<hello@shop.example> SIZE=${SIZE_MAX + 1}`), /^552 5\.3\.4 /)
  peer.close()
  const other = await dialSecurely(port)
  t.match(await other.say('EHLO client.example'), new RegExp(`SIZE ${SIZE_MAX}`))
  other.close()
})

t.test('the same key with another mail', async t => {
  const peer = await logIn(port, API_KEY)
  const keyed = (body: string) => message('From: hello@shop.example\r\nIdempotency-Key: order-77', body)
  const to = ['ada@example.net']
  const first = await submit(peer, 'hello@shop.example', to, keyed('One'))
  t.match(first, /^250 2\.0\.0 queued as em_/)
  const id = /em_\w+/.exec(first)![0]
  const again = await submit(peer, 'hello@shop.example', to, `Date: Sat, 21 Nov 2026 12:00:00 +0000\r\n${keyed('One')}`)
  t.equal(again, `250 2.0.0 queued as ${id}, accepted before`, 'made again by the client, it is the same mail')
  t.match(
    await submit(peer, 'hello@shop.example', to, keyed('Two')),
    new RegExp(`^550 5\\.6\\.0 Idempotency-Key must come with the body that it was first used with: .*${id}`)
  )
  peer.close()
})

t.test('swaks is told the same', { skip: swaksMissing }, async t => {
  const run = async (...args: string[]) => {
    const shared = ['--server', '127.0.0.1', '--port', String(port), '--tls', '--auth', 'PLAIN', '--auth-user', 'any']
    const all = [...shared, '--to', 'ada@example.net', ...args]
    // A refusal is its failure.
    return await promisify(execFile)('swaks', all, { timeout: CLIENT_MS }).then(
      ({ stdout }) => stdout,
      (error: { stdout: string }) => error.stdout
    )
  }
  const key = ['--auth-password', API_KEY]
  t.match(await run('--from', 'hello@shop.example', ...key), /250 2\.0\.0 queued as em_/)
  t.match(await run('--from', 'boss@bank.example', ...key), /550 5\.7\.1 from must be on a domain/)
  t.match(await run('--from', 'hello@shop.example', '--auth-password', 'secret'), /535 5\.7\.8 The password must be/)
})
