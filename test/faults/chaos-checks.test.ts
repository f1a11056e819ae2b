import { isDeepStrictEqual } from 'node:util'
import t, { type Test } from 'tap'
import type { Shot } from '#src/cli/bench/load.ts'
import { API_KEY, startTestApp } from '../support/app.ts'
import { ChaosClient } from '../support/chaos-client.ts'
import { chanceOf } from '../support/random.ts'
import { openWorld, reckon, smallMail, subscribe, type World } from '../support/reckoning.ts'
import type { Received } from '../support/smtp-sink.ts'

/** What chaos.test.ts must notice, planted on purpose. */
const world = await openWorld(t)
const app = await startTestApp(t, { env: { SMTP_URL: world.smtpUrl } })
const jetpost = {
  request: (method: string, path: string, body?: unknown) => app.request(method, path, { body, key: API_KEY })
}
await subscribe(jetpost, world)
const shots: Shot[] = []
for (let i = 0; i < 5; i++) {
  const { status, body: { id } } = await jetpost.request('POST', '/api/emails', JSON.parse(smallMail(i)))
  shots.push({ i, status, id: id as string, retryAfterS: null, ms: 1 })
}

/** The sentences that a reckoning fails with. */
async function failures (seen: World, timeoutMs = 1000, asked = jetpost): Promise<string[]> {
  const failed: string[] = []
  const witness = {
    strictSame: (found: unknown, wanted: unknown, what: string) =>
      void (isDeepStrictEqual(found, wanted) || failed.push(what)),
    fail: (what: string) => void failed.push(what)
  }
  await reckon(witness as unknown as Test, asked, seen, shots, timeoutMs)
  return failed
}

/** The same, with other mails or callbacks. */
function seeing ({ mails = world.mail.received, calls = world.hooks.requests }): World {
  return {
    ...world,
    mail: { ...world.mail, received: mails },
    hooks: { ...world.hooks, requests: calls }
  }
}

t.test('what is well is found to be well', async t => {
  t.strictSame(await failures(world, 30_000), [])
})

t.test('a mail that was accepted and never came is found', async t => {
  t.match(await failures(seeing({ mails: world.mail.received.slice(1) })), [
    'every accepted email reached the mail server'
  ])
})

t.test('a second copy without a doubt is found, and one that differs', async t => {
  const [first] = world.mail.received as [Received]
  const [again, other] = [{ ...first }, { ...first, date: 'Tue, 24 Nov 2026 12:00:00 +0000' }]
  t.match((await failures(seeing({ mails: [...world.mail.received, again] }))).join(), /without a doubt for each/)
  t.match((await failures(seeing({ mails: [...world.mail.received, other] }))).join(), /differ in Message-ID or Date/)
})

t.test('a mail that nobody asked for is found', async t => {
  const [first] = world.mail.received as [Received]
  const stray = { ...first, messageId: `<em_${'0'.repeat(26)}.0@example.com>` }
  t.match(await failures(seeing({ mails: [...world.mail.received, stray] })), [
    'nothing was sent that the list does not know'
  ])
})

t.test('a callback that is missing, or says something else the second time, is found', async t => {
  const { requests } = world.hooks
  t.match(await failures(seeing({ calls: requests.slice(1) })), ['every accepted email had its callback'])
  const changed = { ...requests[0]!, body: Buffer.from(requests[0]!.body.toString().replace('mail', 'Mail')) }
  t.match((await failures(seeing({ calls: [...requests, changed] }))).join(), /repeated callbacks have the same bytes/)
})

t.test('a list that lies is found', async t => {
  const lying = {
    async request (method: string, path: string) {
      const answer = await jetpost.request(method, path)
      if (path.startsWith('/api/emails?')) answer.body.data[0].status = 'queued'
      return answer
    }
  }
  t.match(await failures(world, 1000, lying), ['the list says delivered'])
})

t.test('a key that got two emails, and an answer that is no answer, are found', async t => {
  const client = new ChaosClient([app.url], chanceOf(1))
  const shot = { i: 0, status: 500, id: 'em_1', retryAfterS: null, ms: 1 }
  client.sent.push({ shot, key: 'k', ids: new Set(['em_1', 'em_2']) })
  t.strictSame(client.doubled(), ['k: em_1,em_2'])
  t.strictSame(client.odd(), ['mail 0: 500'])
})
