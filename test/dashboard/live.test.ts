import t from 'tap'
import { ROTATE_AFTER_MS } from '#streams/session/decide.ts'
import { createLog } from '#src/base/log.ts'
import { connectBus } from '#src/nats/connect.ts'
import { openPage, signIn } from '../support/browser.ts'
import { cookieOf, visit, visitorWith, type Visitor } from '../support/dashboard.ts'
import { startHookSink } from '../support/hook-sink.ts'
import { API_KEY, startTestApp } from '../support/app.ts'
import { openOwnNats } from '../support/own-nats.ts'
import { openLine, type LiveLine } from '../support/sse.ts'
import { until } from '../support/wait.ts'

const MINUTE_MS = 60_000
const nats = await openOwnNats(t)
let passedMs = 0
const app = await startTestApp(t, { natsUrl: nats.natsUrl, clock: { nowMs: () => Date.now() + passedMs } })
const hooks = await startHookSink()
t.teardown(() => hooks.stop())

t.beforeEach(() => {
  passedMs += MINUTE_MS
})

async function listen (t: { teardown(end: () => void): void }, { cookie }: Visitor): Promise<LiveLine> {
  const line = await openLine(app, cookie)
  t.teardown(() => line.close())
  return line
}

const kinds = (line: LiveLine) => [...new Set(line.events)].toSorted()

/** Sends mail; resolves once the line has heard of something. */
async function heard (line: LiveLine, key?: string): Promise<void> {
  const count = line.events.length
  await app.send({}, key)
  await line.more(count)
}

t.test('a page hears of mail, and of its own account only', async t => {
  const key = await app.newAccountKey()
  const [own, foreign] = [await listen(t, await visit(app)), await listen(t, await visit(app, key))]
  t.strictSame([own.status, foreign.status], [200, 200])
  // Something may have happened before the line was there: each is told once to look.
  await Promise.all([own, foreign].map(async line => await until(() => kinds(line).length === 2)))
  const count = foreign.events.length
  await heard(own)
  t.equal(foreign.events.length, count)
  await heard(foreign, key)
})

t.test('it hears of webhook deliveries too', async t => {
  const ada = await visit(app)
  const line = await listen(t, ada)
  await line.more(0)
  await app.request('POST', '/api/webhooks', { body: { url: hooks.url, events: ['email.delivered'] } })
  const count = line.events.filter(name => name === 'deliveries').length
  await app.send()
  await until(() => line.events.filter(name => name === 'deliveries').length > count, 10_000)
  t.strictSame(kinds(line), ['deliveries', 'emails'])
})

t.test('in a browser, what happens reaches the page', async t => {
  const { page, complaints } = await openPage(t, app.url)
  await signIn(page, API_KEY)
  await page.evaluate("window.heard = 0; document.body.addEventListener('live-emails', () => { window.heard++ })")
  const before = await page.evaluate('window.heard')
  await app.send()
  await page.waitForFunction(count => (globalThis as unknown as { heard: number }).heard > Number(count), before, {
    timeout: 10_000
  })
  t.ok(await page.locator('#stale').isHidden())
  t.strictSame(complaints, [])
})

t.test('the stream ends with its session: signed out, key revoked, expired', async t => {
  const revoked = await app.newKey({ scopes: ['dashboard'] })
  const ending = await app.newKey({ expiresMs: Date.now() + passedMs + 10 * MINUTE_MS })
  const [ada, bob, eve, dan] = [
    await visit(app),
    await visit(app, revoked.secret),
    await visit(app, ending.secret),
    await visit(app)
  ]
  const [left, gone, over, stays] = [
    await listen(t, ada),
    await listen(t, bob),
    await listen(t, eve),
    await listen(t, dan)
  ]
  await ada.post('/dashboard/sign-out')
  await left.ended()
  await app.revokeKey(revoked.id)
  await gone.ended()
  t.notOk(over.hasEnded())
  passedMs += 10 * MINUTE_MS
  await over.ended()
  await heard(stays)
  t.match(await openLine(app, ada.cookie), { status: 303 })
})

t.test('an account has so many streams at a time, and a place is free when one ends', async t => {
  const [ada, other] = [await visit(app, await app.newAccountKey()), await visit(app)]
  const lines = await Promise.all(Array.from({ length: 50 }, () => listen(t, ada)))
  t.ok(lines.every(({ status }) => status === 200))
  t.equal((await listen(t, ada)).status, 422)
  t.equal((await listen(t, other)).status, 200, 'others have theirs')
  lines[0]!.close()
  await until(async () => (await listen(t, ada)).status === 200, 5000)
})

t.test('the open pages of an account share one wait for the projection', async t => {
  const key = await app.newAccountKey()
  const ada = await visit(app, key)
  const lines = await Promise.all(Array.from({ length: 40 }, () => listen(t, ada)))
  await until(() => lines.every(line => kinds(line).length === 2))
  const bus = await connectBus({ url: nats.natsUrl, creds: null, name: 'test', log: createLog('silent') })
  t.teardown(() => bus.close())
  let looks = 0
  bus.nc.subscribe('$JS.API.STREAM.INFO.EMAILS', {
    callback: () => {
      looks++
    }
  })
  await bus.nc.flush()
  const counts = lines.map(({ events }) => events.length)
  await app.send({}, key)
  await Promise.all(lines.map(async (line, i) => await line.more(counts[i]!)))
  t.ok(looks > 0 && looks < lines.length, `${looks} looks for ${lines.length} pages`)
})

t.test('a session whose secret is due goes on while NATS is away, and has the next one when it is back', async t => {
  const ada = await visit(app)
  passedMs += ROTATE_AFTER_MS
  await nats.kill()
  for (let i = 0; i < 3; i++) {
    const shown = await ada.get('/dashboard/sessions')
    t.equal(shown.status, 200)
    t.strictSame(shown.headers.getSetCookie(), [])
  }
  await nats.start()
  let next: string | null = null
  await until(async () => (next = cookieOf(await ada.get('/dashboard/sessions'))) !== null)
  t.equal((await (await visitorWith(app, next!)).get('/dashboard/sessions')).status, 200)
})

t.test('while NATS is away the stream stays, and it has events again when it is back', async t => {
  const ada = await visit(app)
  const line = await listen(t, ada)
  await line.more(0)
  await nats.kill()
  t.equal((await ada.get('/dashboard/sessions')).status, 200, 'what is known is shown')
  const refused = await ada.post('/dashboard/sign-out')
  t.equal(refused.status, 503)
  t.match(refused.html, 'NATS does not answer')
  t.match(
    refused.headers.getSetCookie(),
    [/^jetpost_session=; .*Expires=Thu, 01 Jan 1970/],
    'the browser forgets it in any case'
  )
  await nats.start()
  await until(async () => (await app.send()).status === 202, 30_000)
  const count = line.events.length
  await line.more(count)
  t.notOk(line.hasEnded())
})

t.test('a stop ends every stream at once, and the page says that it is out of date', async t => {
  const { page } = await openPage(t, app.url)
  await signIn(page, API_KEY)
  const line = await listen(t, await visit(app))
  const stopped = app.stop()
  await line.ended()
  await stopped
  await page.locator('#stale').waitFor({ timeout: 15_000 })
})
