import type { Email } from 'postal-mime'
import { createLog } from '#src/base/log.ts'
import { connectBus } from '#src/nats/connect.ts'
import { createPool } from '#src/postgres/pool.ts'
import { startHookSink, type HookSink } from './hook-sink.ts'
import { startTestApp, type TestApp } from './app.ts'
import { freshAccount, freshDatabase } from './servers.ts'
import { until } from './wait.ts'

const BROWSER = { 'user-agent': 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0' }
const HTML = '<p>Hello <a href="https://shop.example/sale">sale</a></p>'

/** An app that has lived, and its servers as another process has them. See `live`. */
export async function openLived (
  t: Parameters<typeof startTestApp>[0],
  forgotten: readonly string[] = [],
  env: Record<string, string> = {}
) {
  const { natsUrl } = freshAccount()
  const databaseUrl = await freshDatabase(t)
  let passedMs = 0
  const app = await startTestApp(t, { natsUrl, databaseUrl, env, clock: { nowMs: () => Date.now() + passedMs } })
  const hooks = await startHookSink()
  t.teardown(() => hooks.stop())
  const log = createLog('silent')
  const bus = await connectBus({ url: natsUrl, creds: null, name: 'test', log })
  t.teardown(() => bus.close())
  const pool = createPool(databaseUrl, log)
  t.teardown(() => pool.end())
  const emails = await live(app, hooks, ms => {
    passedMs += ms
  }, forgotten)
  return { natsUrl, databaseUrl, app, bus, pool, log, emails }
}

/** Has an app live through a little of everything: mail of all fates, marks, schedules, a batch, a template,
 *  suppressions, callbacks one by one and in batches; at its end some want to be forgotten: `two@example.com` was one
 *  of three, `a@example.com` came with an Idempotency-Key. `passed` lets time pass on its clock, so that people can
 *  have read their mail. `big` = an email whose content lies in the object store. */
async function live (
  app: TestApp,
  hooks: HookSink,
  passed: (ms: number) => void,
  forgotten: readonly string[] = []
): Promise<{ big: string, delivered: string }> {
  const at = (name: string) => `${name}@sandbox.jetpost.test`
  const send = async (fields: Record<string, unknown>) => (await app.send({ html: HTML, ...fields })).body.id as string
  const ask = async (method: string, path: string, body?: unknown) => {
    const answer = await app.request(method, path, { body })
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
    return answer.body
  }
  await ask('POST', '/api/webhooks', {
    url: `${hooks.url}/one`,
    events: ['email.delivered', 'email.bounced', 'email.opened']
  })
  await ask('POST', '/api/webhooks', {
    url: `${hooks.url}/many`,
    events: ['email.delivered'],
    batch: { max_events: 5, max_wait_ms: 200 }
  })
  const template = await ask('POST', '/api/templates', {
    name: 'welcome',
    subject: 'Hello {{name}}',
    html: '<p>{{name}}</p>'
  })
  await ask('PATCH', `/api/templates/${template.id}`, { html: '<p>{{name}}!</p>' })
  const soon = new Date(Date.now() + 3_600_000).toISOString()
  const [read, scheduled, moved] = await Promise.all([
    send({ to: 'reader@example.com', tags: ['sale'] }),
    send({ to: 'later@example.com', scheduled_at: soon }),
    send({ to: 'moved@example.com', scheduled_at: soon }),
    send({
      to: ['one@example.com', 'two@example.com'],
      cc: ['three@example.com'],
      template_id: template.id,
      variables: { name: 'Ada' },
      subject: undefined,
      html: undefined
    })
  ])
  const fates: Array<[string, Record<string, unknown>, string]> = [
    ['delivered', {}, 'delivered'],
    ['bounced', {}, 'bounced'],
    ['softbounced', {}, 'deferred'],
    ['complained', {}, 'delivered'],
    ['indoubt', { on_doubt: 'hold' }, 'in_doubt'],
    ['suppressed', {}, 'suppressed']
  ]
  const [delivered] = await Promise.all(
    fates.map(async ([name, fields, status]) =>
      (await app.settled(await send({ to: at(name), ...fields }), status)).id as string
    )
  )
  const big = await send({
    to: 'big@example.com',
    attachments: [{ filename: 'big.bin', content: Buffer.alloc(400_000, 7).toString('base64') }]
  })
  await app.settled(big, 'delivered')
  await ask('POST', `/api/emails/${scheduled}/cancel`)
  await ask('PATCH', `/api/emails/${moved}`, { scheduled_at: new Date(Date.now() + 7_200_000).toISOString() })
  await ask('POST', '/api/suppressions', { address: 'no@example.com' })
  await ask('DELETE', '/api/suppressions/no@example.com')
  await app.request('POST', '/api/emails/batch', {
    headers: { 'idempotency-key': 'once' },
    body: {
      emails: ['a', 'b'].map(name => ({
        from: 'hello@sandbox.jetpost.test',
        to: `${name}@example.com`,
        subject: 'Both',
        text: 'x'
      }))
    }
  })
  await app.settled(read, 'delivered')
  passed(60_000)
  await visit(app, await app.caught('reader@example.com'))
  await until(async () => (await app.request('GET', `/api/emails/${read}`)).body.recipients[0].unsubscribed_at !== null)
  for (const address of forgotten) await ask('POST', '/api/erasures', { address })
  await hooks.waitFor(requests =>
    requests.some(({ path }) => path === '/many') && requests.some(({ body }) => body.includes('email.opened'))
  )
  return { big, delivered: delivered! }
}

/** Loads the pixel, follows the link, and wants no more. */
async function visit (app: TestApp, { html = '', headers }: Email): Promise<void> {
  const header = headers.find(({ key }) => key === 'list-unsubscribe')!.value
  const links = [
    /<img src="([^"]+)"/.exec(html)![1]!,
    /href="([^"]+)">sale/.exec(html)![1]!,
    /<(http[^>]+)>/.exec(header)![1]!
  ].map(url => new URL(url).pathname)
  const oneClick = { method: 'POST', body: new URLSearchParams({ 'List-Unsubscribe': 'One-Click' }) }
  for (const path of links) {
    await fetch(app.url + path, { redirect: 'manual', headers: BROWSER, ...(path.startsWith('/u/') ? oneClick : {}) })
  }
}
