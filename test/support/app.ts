import { connect } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { pino } from 'pino'
import PostalMime, { type Email } from 'postal-mime'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { Refusal } from '#streams/define.ts'
import { NO_DEFAULTS } from '#streams/email/defaults.ts'
import type { LimitClass } from '#streams/key/facts.ts'
import { createAccount, changeAccount } from '#src/actions/account.ts'
import { roleActor } from '#src/actions/fact-log.ts'
import type { Services } from '#src/actions/services.ts'
import { createKey, limitKey, revokeKey, type NewKey } from '#src/actions/key.ts'
import type { Clock } from '#src/base/clock.ts'
import { readConfig } from '#src/base/config.ts'
import { startApp, type App } from '#src/main.ts'
import type { FetchText } from '#src/servers/relay-feedback/sns.ts'
import { openSecondServices } from './second-services.ts'
import { SECRET } from './secret.ts'
import { freshAccount, freshDatabase, type Ending } from './servers.ts'

/** Of what is told of an app when its test fails. */
const LINES_MAX = 40
const LINE_MAX = 400
/** A read that is told that its view is behind is asked again, as everybody is told to do: a machine may stand still
 *  for seconds. */
const READS_MAX = 5

export const API_KEY = 'jp_live_test-key-of-the-app'
/** Where links of mail lead: to nowhere, but not to this machine alone. */
export const LINKS = 'https://links.example.com'
export const FROM = 'hello@sandbox.jetpost.test'

const LIFTED = { 'emails:send': 100_000, 'emails:batch': 100_000, 'emails:list': 100_000, other: 100_000 }

/** A tap test; a bench has nothing to tell. */
type Witness = Ending & { passing?(): boolean, comment?(line: string): void }

export interface Answer {
  status: number
  headers: Headers
  body: any
}

/** The whole of Jetpost in this process, on a NATS account and a database of its own; closed with the test. */
export interface TestApp extends App {
  request(
    method: string,
    path: string,
    options?: {
      key?: string | null
      body?: unknown
      headers?: Record<string, string>
      raw?: string
      /** Not asked again when the projection is behind: for a test that counts requests. */
      once?: boolean
    }
  ): Promise<Answer>
  /** POST /api/emails with defaults for what a test does not care about. */
  send(fields?: Record<string, unknown>, key?: string): Promise<Answer>
  /** Sends raw bytes, resolves to all that comes back until the line closes. */
  speak(bytes: string): Promise<string>
  /** Made by another node: this one learns of it from the log. `wait: false` does not give it the time. */
  newKey(key: Partial<NewKey>, options?: { account?: string, wait?: boolean }): Promise<{ id: string, secret: string }>
  revokeKey(id: string): Promise<void>
  limitKey(id: string, limits: Partial<Record<LimitClass, number>>): Promise<void>
  limitAccount(id: string, limits: Partial<Record<LimitClass, number>>): Promise<void>
  /** A full key of a new account; but with `limited`, its limits are out of the way. */
  newAccountKey(options?: { limited?: boolean }): Promise<string>
  /** The newest mail the mail catcher has for an address. */
  caught(address: string): Promise<Email>
  /** Reads an email until it is in this state, at most 20 s. */
  settled(id: string, status: string, key?: string): Promise<any>
}

export interface Wishes {
  env?: Record<string, string>
  clock?: Clock
  natsUrl?: string
  databaseUrl?: string
  fetchText?: FetchText
  /** Webhooks go where the settings let them; otherwise those of every account as the first account's. */
  targetsAsSet?: boolean
}

/** A bound, not a promise: some requests are large, and some machines busy. */
const REQUEST_MS = 120_000
const TESTER = { correlation: 'test', actor: roleActor('test') }

export async function startTestApp (
  t: Witness,
  { env = {}, clock, natsUrl, databaseUrl, fetchText, targetsAsSet = false }: Wishes = {}
): Promise<TestApp> {
  const config = readConfig({
    NATS_URL: natsUrl ?? freshAccount().natsUrl,
    DATABASE_URL: databaseUrl ?? await freshDatabase(t),
    JETPOST_SECRET: SECRET,
    JETPOST_API_KEY: API_KEY,
    JETPOST_WEBHOOK_ALLOW_PRIVATE: 'true',
    JETPOST_REQUIRE_VERIFIED_DOMAINS: 'false',
    PORT: '0',
    JETPOST_TRACKING_URL: LINKS,
    ...env
  })
  const note = noteTrouble(t)
  const app = await startApp(config, {
    log: pino({ level: 'warn', base: undefined }, { write: note }),
    say: () => {},
    clock,
    fetchText,
    mayCallPrivate: targetsAsSet ? undefined : () => config.webhookAllowPrivate
  })
  t.teardown(() => app.stop())
  const elsewhere = await openSecondServices(t, config.natsUrl!)
  const test = wire(app, elsewhere, note)
  // A test's own waiting must not run into the limits, unless they are what it is about.
  const own = [...elsewhere.directory.now.keys.values()].find(key => key.name === 'JETPOST_API_KEY')!
  await test.limitKey(own.id, LIFTED)
  return test
}

/** Keeps the last of what is noted, for a test that fails to tell. */
function noteTrouble (t: Witness): (line: string) => void {
  const lines: string[] = []
  t.teardown(async () => {
    if (t.passing?.() === false) { for (const line of lines) t.comment?.(`trouble: ${line.trim().slice(0, LINE_MAX)}`) }
  })
  return line => {
    lines.push(line)
    if (lines.length > LINES_MAX) lines.shift()
  }
}

function wire (app: App, elsewhere: Services, note: (line: string) => void): TestApp {
  const ask: TestApp['request'] = async (method, path, { key = API_KEY, body, headers = {}, raw } = {}) => {
    const payload = raw ?? (body === undefined ? null : JSON.stringify(body))
    const own = {
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
      ...(payload === null ? {} : { 'content-type': 'application/json' })
    }
    const init: RequestInit = {
      method,
      headers: { ...own, ...headers },
      body: payload,
      signal: AbortSignal.timeout(REQUEST_MS)
    }
    const response = await fetch(app.url + path, init)
    const text = await response.text()
    if (response.status >= 500) note(`${new Date().toISOString()} ${response.status} ${method} ${path} ${text}`)
    const json = response.headers.get('content-type')?.startsWith('application/json') === true && text !== ''
    return { status: response.status, headers: response.headers, body: json ? JSON.parse(text) : text }
  }
  const request: TestApp['request'] = async (method, path, options) => {
    for (let tries = 1;; tries++) {
      const answer = await ask(method, path, options)
      const mayAskAgain = method === 'GET' && options?.once !== true && tries < READS_MAX
      if (!mayAskAgain || answer.body?.code !== 'projection_behind') return answer
    }
  }
  const send: TestApp['send'] = (fields = {}, key = API_KEY) =>
    request('POST', '/api/emails', {
      key,
      body: { from: FROM, to: 'ada@example.com', subject: 'Hello', html: '<p>Hello</p>', ...fields }
    })
  const settled: TestApp['settled'] = async (id, status, key = API_KEY) => {
    let last
    for (const endMs = Date.now() + 20_000; Date.now() < endMs; await wait(50)) {
      last = await request('GET', `/api/emails/${id}`, { key })
      if (last.status === 200 && last.body.status === status) return last.body
    }
    throw new Error(`email ${id} did not become ${status}: ${JSON.stringify(last?.body)}`)
  }
  const seen = async (seq: number): Promise<void> => {
    for (const endMs = Date.now() + 5000; Date.now() < endMs; await wait(5)) if (await app.hasSeen(seq)) return
    throw new Error(`the app has not seen ${seq} of CONTROL`)
  }
  /** The other node may not have heard yet of what this one has just made. */
  const upToDate = async (): Promise<Services> => {
    await elsewhere.directory.catchUp(5000)
    return elsewhere
  }
  const newKey: TestApp['newKey'] = async (wish, { account = FIRST_ACCOUNT, wait = true } = {}) => {
    const defaults: NewKey = {
      name: 'test',
      test: false,
      scopes: ['full'],
      domains: ['*'],
      expiresMs: null,
      defaults: NO_DEFAULTS
    }
    const made = granted(await createKey(elsewhere, { account, ...TESTER }, { ...defaults, ...wish }))
    if (wait) await seen(made.seq)
    await elsewhere.directory.reached(made.seq, 5000)
    return { id: made.key, secret: made.secret }
  }
  return {
    ...app,
    request,
    send,
    settled,
    speak: bytes => speak(app.url, bytes),
    newKey,
    revokeKey: async id =>
      await seen(
        granted(await revokeKey(await upToDate(), { account: FIRST_ACCOUNT, ...TESTER, by: null }, id)).seq
      ),
    limitKey: async (id, limits) => await seen(granted(await limitKey(await upToDate(), TESTER, id, limits)).seq),
    limitAccount: async (id, limits) =>
      await seen(granted(await changeAccount(await upToDate(), TESTER, id, { limits })).seq),
    async newAccountKey ({ limited = false } = {}) {
      const { account } = granted(await createAccount(elsewhere, TESTER, { name: 'Another' }))
      const { id, secret } = await newKey({}, { account: account.id })
      if (!limited) await seen(granted(await limitKey(elsewhere, TESTER, id, LIFTED)).seq)
      return secret
    },
    caught: async address => {
      const { body } = await request('GET', '/catcher.json')
      const message = body.data.find((message: { to: string[] }) => message.to.includes(address))
      return await PostalMime.parse((await request('GET', `/catcher/${message.id}.eml`)).body)
    }
  }
}

function granted<T> (result: T | Refusal): T {
  if (result instanceof Refusal) throw new Error(result.message)
  return result
}

function speak (url: string, bytes: string): Promise<string> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve, reject) => {
    let text = ''
    const socket = connect(Number(port), hostname, () => socket.write(bytes))
    socket.setEncoding('utf8').setTimeout(5000, () => socket.destroy())
    socket.on('data', chunk => {
      text += chunk
    }).on('close', () => resolve(text)).on('error', reject)
  })
}
