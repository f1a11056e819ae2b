import type { Bus } from '#src/nats/connect.ts'
import { knock, visit } from './dashboard.ts'
import { startHookSink } from './hook-sink.ts'
import { dsn, handIn, letter } from './inbound-peer.ts'
import { openLived } from './lived.ts'
import type { TestApp } from './app.ts'
import { until } from './wait.ts'

const BOUNCES = 'bounces.example'
/** Told by nobody but this app. */
export const CUSTOMER = 'lovelace@customer.example'
export const SUBJECT = 'Order 4711 has left the app'

/** An app that has lived a while, with something of everything that the dashboard shows, and so every link and form it
 *  can have. `seeds` = the way in, and what only forms lead to. */
export async function openWorld (
  t: Parameters<typeof openLived>[0]
): Promise<{ app: TestApp, bus: Bus, seeds: string[] }> {
  const { app, bus } = await openLived(t, ['two@example.com'], {
    JETPOST_INBOUND_PORT: '0',
    JETPOST_BOUNCE_DOMAIN: BOUNCES
  })
  const hooks = await startHookSink()
  t.teardown(() => hooks.stop())
  const ask = async (method: string, path: string, body?: unknown): Promise<any> => {
    const answer = await app.request(method, path, { body })
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
    return answer.body
  }
  hooks.answers(({ path }) => ({
    status: path === '/gone' ? 410 : path === '/broken' ? 500 : 200,
    body: 'no such hook',
    headers: { 'x-served-by': 'sink' }
  }))
  const hook = async (path: string) =>
    await ask('POST', '/api/webhooks', { url: hooks.url + path, events: ['email.delivered'] })
  const [fine] = await Promise.all([hook('/fine'), hook('/gone'), hook('/broken')])
  await ask('POST', `/api/webhooks/${fine.id}/rotate-secret`, {})
  await Promise.all([
    ask('POST', '/api/domains', { name: 'shop-of-ada.example' }),
    ask('POST', '/api/keys', { name: 'Till in Lane 4', scopes: ['emails:send'], domains: ['*'] }),
    ask('POST', '/api/suppressions', { address: 'suppressed-by-hand@customer.example' })
  ])
  const grace = await ask('POST', '/api/users', { email: 'grace-of-the-shop@example.com', role: 'developer' })
  const { url: link } = await ask('POST', `/api/users/${grace.id}/link`)
  await knock(app, 'POST', '/dashboard/link', { body: { token: new URL(link).searchParams.get('token')! } })
  await app.send({ to: 'late@example.com', scheduled_at: new Date(Date.now() + 86_400_000).toISOString() })
  const last = (await app.send({
    to: `Ada Lovelace <${CUSTOMER}>`,
    subject: SUBJECT,
    html: '<p>Hello</p>',
    text: 'Hello',
    tags: ['order'],
    metadata: { order: 7 }
  })).body.id
  await app.settled(last, 'delivered')
  await hooks.waitFor(requests =>
    ['/fine', '/gone', '/broken'].every(path => requests.some(request => request.path === path))
  )
  const senderTo = async (address: string) =>
    (await app.request('GET', '/catcher.json')).body.data.find((message: { to: string[] }) =>
      message.to.includes(address)
    ).from
  await handIn(app.inboundPort!, {
    to: await senderTo(CUSTOMER),
    raw: dsn({ to: CUSTOMER, status: '4.2.2', action: 'delayed' })
  })
  // Refused, and not for want of a mailbox: whether it gets more mail is for somebody to say.
  const refused = (await app.send({ to: 'filtered@customer.example' })).body.id
  await app.settled(refused, 'delivered')
  await handIn(app.inboundPort!, {
    to: await senderTo('filtered@customer.example'),
    raw: dsn({ to: 'filtered@customer.example', status: '5.7.1', diagnostic: 'smtp; 550 5.7.1 not wanted here' })
  })
  await app.settled(refused, 'bounced')
  await handIn(app.inboundPort!, { to: `postmaster@${BOUNCES}`, raw: letter('Who are you?') })
  let all: Array<{ id: string, url: string, status: string }> = []
  await until(async () =>
    (all = (await ask('GET', '/api/webhooks')).data as typeof all).some(({ status }) => status === 'disabled')
  )
  const [one, many] = ['/one', '/many'].map(path => all.find(({ url }) => url.endsWith(path))!.id)
  await ask('PATCH', `/api/webhooks/${many}`, { paused: true })
  // One delivery a second: it runs for as long as a test looks at it.
  await (await visit(app)).post(`/dashboard/webhooks/${one}/replay`, { what: 'window', since: '1', pace: '1' })
  return {
    app,
    bus,
    seeds: ['/dashboard', `/dashboard/webhooks/${one}/replay?what=window&since=1`, `/dashboard/webhooks/${one}/replays`]
  }
}
