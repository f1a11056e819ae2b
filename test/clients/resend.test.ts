import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { API_KEY, startTestApp } from '../support/app.ts'
import { startHookSink } from '../support/hook-sink.ts'

/** Where the SDKs are installed; see generated.test.ts. */
const TOOLS = process.env.JETPOST_TEST_GENERATORS ?? ''
const GO = join(TOOLS, 'resend-go', 'use')
const PYTHON = join(TOOLS, 'venv', 'bin', 'python')
const TIMEOUT_MS = 120_000

const skip = (name: string, path: string): { skip: string | false } => ({
  skip: process.env.CI === 'true' || existsSync(path)
    ? false
    : `no Resend SDK for ${name}: see test/README.md, and set JETPOST_TEST_GENERATORS`
})

const app = await startTestApp(t)
const sink = await startHookSink()
t.teardown(() => sink.stop())

/** Runs a program as an app would; resolves to what it says has happened. */
async function use (program: string, args: string[], base: string): Promise<any> {
  const once = await app.newKey({})
  await app.limitKey(once.id, { 'emails:send': 1 })
  const env = { ...process.env, PYTHONDONTWRITEBYTECODE: '1' }
  const options = { timeout: TIMEOUT_MS, env }
  const given = [...args, base, API_KEY, once.secret, JSON.stringify(await webhook())]
  const { stdout } = await promisify(execFile)(program, given, options).catch(error => {
    throw new Error(`${error.message}\n${error.stdout}\n${error.stderr}`)
  })
  return JSON.parse(stdout)
}

/** A request to an endpoint that has the format of Resend. */
async function webhook (): Promise<object> {
  const body = { endpoint: sink.url, events: ['email.delivered'] }
  const { signing_secret: Secret } = (await app.request('POST', '/resend/webhooks', { body })).body
  const count = sink.requests.length
  await app.send()
  const { headers, body: payload } = (await sink.waitFor(requests => requests.length > count)).at(-1)!
  const { 'svix-id': Id, 'svix-timestamp': Timestamp, 'svix-signature': Signature } = headers
  await app.request('DELETE', `/resend/webhooks/${(await app.request('GET', '/resend/webhooks')).body.data[0].id}`)
  return { Payload: payload.toString(), Id, Timestamp, Signature, Secret }
}

/** What every SDK is to have done. */
async function holds (t: Test, told: any, sdk: string): Promise<void> {
  t.match(await app.settled(told.sent, 'delivered'), { reply_to: ['replies@example.com'], metadata: { sdk } })
  const { attachments } = await app.caught(`${sdk}@example.com`)
  t.match(attachments, [{ filename: 'a.bin', content: { byteLength: 300_000 } }])
  const { same, batch, read, listed, domains, hook, verified } = told
  t.strictSame(
    { same, batch, read, listed, domains, hook, verified },
    {
      same: true,
      batch: [1, 1],
      read: 'canceled',
      listed: true,
      domains: [`${sdk}.example`, `${sdk}.example`],
      hook: 'whsec_',
      verified: true
    }
  )
}

t.test('Go: an app sends, reads, manages, verifies, and learns what is wrong', skip('Go', GO), async t => {
  const told = await use(GO, [], `${app.url}/resend/`)
  await holds(t, told, 'go')
  t.match(told, {
    restricted: /domains:read/,
    wrong: /API key is invalid/,
    invalid: /to\[0\] must be an email address/,
    absent: /Not found/,
    limit: ['1', true]
  })
})

t.test('Python: an app sends, reads, manages, verifies, and learns what is wrong', skip('Python', PYTHON), async t => {
  const told = await use(PYTHON, [join(import.meta.dirname, 'use_resend.py')], `${app.url}/resend`)
  await holds(t, told, 'python')
  t.match(told, {
    restricted: ['401', 'restricted_api_key', /domains:read/],
    wrong: ['403', 'invalid_api_key', String],
    invalid: ['422', 'validation_error', /to must be an email address/],
    missing: ['422', 'missing_required_field', /subject is required|html, text or template is required/],
    conflict: ['409', 'invalid_idempotent_request', String],
    absent: ['404', 'not_found', String],
    limit: ['429', 'rate_limit_exceeded', String]
  })
})
