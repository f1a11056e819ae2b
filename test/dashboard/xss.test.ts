import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { deadline } from '#src/base/errors.ts'
import { openPage, signIn, type Page } from '../support/browser.ts'
import { crawl, type Crawl } from '../support/crawl.ts'
import { visit } from '../support/dashboard.ts'
import { openDnsServer } from '../support/dns-server.ts'
import { startHookSink } from '../support/hook-sink.ts'
import { API_KEY, FROM, startTestApp, type TestApp } from '../support/app.ts'
import { dsn, handIn, letter } from '../support/inbound-peer.ts'
import { LONG } from '../support/long.ts'
import { startSink } from '../support/smtp-sink.ts'
import { until } from '../support/wait.ts'
import { xssCorpus } from '../support/xss-corpus.ts'
import { intrusions } from '../support/xss-oracle.ts'

const BOUNCES = 'bounces.example'
const LOOK_MS = 10_000
/** What a frame can get hold of of the page around it, or of the session; null = nothing. */
const REACH = `(() => {
  try { return parent.document.title } catch {}
  try { return 'cookie ' + document.cookie } catch {}
  return window.__pwned ? 'ran' : null
})()`
/** Of each kind of page in the browser; all of them are looked through as text. */
const ALIKE_MAX = LONG ? 30 : 1
/** Each of them holds another part of the corpus. */
const CRAWLED_MAX = 30
/** All that any page reads from its URL, and some that none does. */
const NAMES = [
  'q',
  'status',
  'event',
  'to',
  'from',
  'domain',
  'tag',
  'template_id',
  'metadata',
  'created_after',
  'created_before',
  'cursor',
  'as_of',
  'email',
  'part',
  'width',
  'tab',
  'view',
  'recipient',
  'images',
  'address',
  'period',
  'what',
  'since',
  'pace',
  'state',
  'webhook',
  'before',
  'after',
  'token',
  'id',
  'reason',
  'x'
]

const visits: Array<{ path: string, dest: string, cookie: string | undefined }> = []
const trap = createServer(({ url = '', headers }, response) => {
  visits.push({ path: url, dest: String(headers['sec-fetch-dest']), cookie: headers.cookie })
  response.setHeader('access-control-allow-origin', '*').end('pwned()')
}).listen(0, '127.0.0.1')
await once(trap, 'listening')
t.teardown(() => trap.close())
const corpus = xssCorpus(`http://127.0.0.1:${(trap.address() as AddressInfo).port}`)
const all = corpus.join('\n')

const printable = (text: string) => text.replaceAll(/\p{Cc}/gu, '')
const ascii = (text: string) => text.replaceAll(/[^\x20-\x7e]/g, '')
/** The corpus in parts of at most `chars`, whole payloads each. */
function parts (chars: number, payloads = corpus.map(printable)): string[] {
  const made: string[] = []
  for (const payload of payloads) {
    if (made.length === 0 || made.at(-1)!.length + payload.length + 1 > chars) made.push(payload.slice(0, chars))
    else made.push(`${made.pop()!} ${payload}`)
  }
  return made
}
/** All the mischief that a mail address can hold. */
const addressOf = (i: number) => `'onfocus='pwned${i}\`{{x}}&lt@customer.example`
const few = <T>(list: T[]) => (LONG ? list : list.slice(0, 8))
const quoted = (name: string, address: string) =>
  `"${printable(name).replaceAll(/["\\]/g, '\\$&').slice(0, 180)}" <${address}>`

/** Mail whose every part is hostile; together they hold the whole corpus. */
async function sendAll (app: TestApp): Promise<string[]> {
  const subjects = parts(900)
  const count = Math.max(subjects.length, Math.ceil(corpus.length / 20))
  return await Promise.all(Array.from({ length: count }, async (_, i) => {
    const own = Array.from({ length: 20 }, (_, k) => corpus[(i * 20 + k) % corpus.length]!)
    const answer = await app.send({
      from: quoted(own[0]!, FROM),
      to: quoted(own[1]!, addressOf(i)),
      subject: subjects[i % subjects.length],
      html: i === 0 ? all : own.join('\n'),
      text: i === 0 ? all : own.join('\n'),
      tags: own.map(payload => printable(payload).slice(0, 128)),
      metadata: Object.fromEntries(
        own.map((
          payload,
          k
        ) => [k < 5 ? printable(payload).slice(0, 60) : `key ${k}`, printable(payload).slice(0, 300)])
      ),
      headers: Object.fromEntries(
        own.slice(0, 10).map((payload, k) => [`X-Note-${k}`, ascii(payload).slice(0, 400).trim()])
      ),
      attachments: own.slice(0, 5).map((payload, k) => ({
        filename: `${printable(payload).replaceAll(/[/\\]/g, '').slice(0, 60)}${k}.html`,
        content: Buffer.from(all).toString('base64'),
        content_type: 'text/html'
      }))
    })
    if (answer.status !== 202) throw new Error(JSON.stringify(answer.body))
    return answer.body.id as string
  }))
}

/** An app in which strangers have written all they can wherever they can. */
async function poisoned (t: Parameters<typeof startTestApp>[0]): Promise<TestApp> {
  const [sink, hooks, dns] = [await startSink(), await startHookSink(), await openDnsServer(t)]
  t.teardown(async () => void await Promise.all([sink.stop(), hooks.stop()]))
  const app = await startTestApp(t, {
    env: { SMTP_URL: sink.url, JETPOST_DNS: dns.address, JETPOST_INBOUND_PORT: '0', JETPOST_BOUNCE_DOMAIN: BOUNCES }
  })
  const ask = async (method: string, path: string, body: unknown) => {
    const answer = await app.request(method, path, { body })
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(answer.body)}`)
    return answer
  }
  const replies = parts(440, corpus.map(ascii))
  hooks.answers((_request, i) => ({
    status: 500,
    body: all.slice((i * 4000) % all.length),
    headers: { 'x-note': ascii(corpus[i % corpus.length]!).trim(), 'content-type': 'text/html' }
  }))
  await Promise.all(
    few(parts(150, corpus.map(encodeURIComponent))).map(async path =>
      await ask('POST', '/api/webhooks', {
        url: `${hooks.url}/${path}?q=${path}`,
        events: ['email.delivered', 'email.bounced']
      })
    )
  )
  replies.forEach((reply, i) =>
    sink.replies(
      addressOf(i),
      i % 3 === 0
        ? { rcpt: `451 4.7.1 ${reply}` }
        : i % 3 === 1
        ? { rcpt: `550 5.1.1 ${reply}` }
        : { dot: `250 2.0.0 ${reply}` }
    )
  )
  const ids = await sendAll(app)
  const domain = (await ask('POST', '/api/domains', { name: 'evil.example' })).body
  for (const { name } of domain.records) dns.txt(name, ...few(parts(250, corpus.map(ascii))))
  await ask('POST', `/api/domains/${domain.id}/verify`, undefined)
  await Promise.all(
    few(parts(190)).map(async name => await ask('POST', '/api/keys', { name, scopes: ['emails:send'], domains: ['*'] }))
  )
  // A template that cannot be read is refused, and its subject is one line.
  const plain = corpus.filter(payload => !/\{\{|\}\}|\u2028/.test(payload)).map(printable)
  await Promise.all(
    few(parts(190, plain)).map(async (name, i) =>
      await ask('POST', '/api/templates', {
        name,
        subject: parts(900, plain)[i],
        html: plain.join('\n'),
        text: plain.join('\n')
      })
    )
  )
  for (let i = 100; i < 105; i++) await ask('POST', '/api/suppressions', { address: addressOf(i) })
  await ask('POST', '/api/erasures', { address: addressOf(200) })
  for (const reply of few(replies)) {
    await handIn(app.inboundPort!, { to: `postmaster@${BOUNCES}`, raw: letter(reply) })
    await handIn(app.inboundPort!, {
      to: `nobody@${BOUNCES}`,
      raw: dsn({ to: '<svg onload=pwned()>', diagnostic: `smtp; ${reply}`, returned: `Subject: ${reply}` })
    })
  }
  await Promise.all(
    ids.map(async id =>
      await until(
        async () => !['queued', 'sending'].includes((await app.request('GET', `/api/emails/${id}`)).body.status),
        60_000
      )
    )
  )
  await hooks.waitFor(requests => requests.length >= 8)
  return app
}

/** URLs to open: of each kind some, each kind once more with hostile parameters, and once with a hostile id. */
function urlsOf ({ pages }: Crawl): string[] {
  let k = 0
  const next = () => encodeURIComponent(printable(corpus[k++ % corpus.length]!))
  const hostile = (url: string) => `${url.split('?')[0]}?${NAMES.map(name => `${name}=${next()}`).join('&')}`
  return [...pages].flatMap(([name, urls]) => [
    ...urls.slice(-ALIKE_MAX),
    hostile(urls[0]!),
    ...(name.includes(':')
      ? [urls[0]!.split('?')[0]!.replace(/\b[a-z]{2,4}_[0-9a-z]{20,}|(?<=mail\/)\d+/, next())]
      : [])
  ])
}

interface Seen {
  pwned: number
  style: string
  cookie: string
  violations: string[]
}

/** Opens pages one after the other; what any of them did, ran or asked for. */
async function open (page: Page, urls: string[]): Promise<string[]> {
  const found: string[] = []
  page.on('dialog', dialog => {
    found.push(`${page.url()}: a dialog`)
    void dialog.dismiss()
  })
  page.on('popup', () => found.push(`${page.url()}: a window`))
  page.on('console', message => {
    if (message.text().includes('PWNED')) found.push(`${page.url()}: ran`)
  })
  for (const url of urls) {
    const gone = await page.goto(url, { waitUntil: 'load' }).then(() => null, (error: Error) => error.message)
    // What is no page is downloaded; and a sandboxed answer is not shown by itself.
    if (gone !== null) {
      if (!/Download is starting|ERR_BLOCKED_BY_RESPONSE|ERR_ABORTED/.test(gone)) found.push(`${url}: ${gone}`)
      continue
    }
    const isFrame = /\/(frame|html|previews)\b/.test(url)
    const { pwned, style, cookie, violations } = await deadline(
      page.evaluate<Seen>(
        `({ pwned: window.__pwned, violations: window.__violations,
      cookie: (() => { try { return document.cookie } catch { return '' } })(),
      style: getComputedStyle(document.documentElement).getPropertyValue('--pwned') })`
      ),
      LOOK_MS,
      `${url} does not answer`
    )
    if (pwned !== 0) found.push(`${url}: ran ${pwned} times`)
    if (!isFrame && style !== '') found.push(`${url}: styled`)
    if (cookie !== '') found.push(`${url}: cookie ${cookie}`)
    if (!isFrame) found.push(...violations.map(violation => `${url}: ${violation}`))
    if (new URL(page.url()).pathname !== new URL(url, page.url()).pathname) found.push(`${url}: went to ${page.url()}`)
    // One without an address has nothing in it yet, and nobody to ask.
    for (const frame of page.frames().slice(1).filter(frame => frame.url() !== '')) {
      const reached = await deadline(frame.evaluate<string | null>(REACH), LOOK_MS, `${frame.url()} does not answer`)
      if (reached !== null) found.push(`${frame.url()}: ${reached}`)
    }
  }
  return found
}

async function prove (
  t: Parameters<typeof startTestApp>[0] & { strictSame(found: unknown, wanted: unknown, message: string): void },
  app: TestApp,
  isPart: (url: string) => boolean = () => true
): Promise<void> {
  const visitor = await visit(app)
  const found = await crawl(visitor, undefined, CRAWLED_MAX)
  const urls = urlsOf(found).filter(isPart)
  const broken: string[] = []
  for (const url of new Set([...found.shown.keys(), ...urls])) {
    const { html, headers, status } = found.shown.get(url) ?? await visitor.get(url)
    if (status >= 500) broken.push(`${status} ${url}`)
    const [type, policy] = [headers.get('content-type')!, headers.get('content-security-policy')!]
    if (type.startsWith('text/html') && !policy.startsWith('sandbox')) {
      broken.push(...intrusions(html).map(what => `${url}: ${what}`))
    } else if (!policy.includes("default-src 'none'") || headers.get('x-content-type-options') !== 'nosniff') {
      broken.push(`${url}: ${policy}`)
    }
  }
  t.strictSame(broken, [], `${found.shown.size + urls.length} pages hold nothing that was taken for markup`)
  const { page, context } = await openPage(t, app.url)
  await context.addInitScript(`window.__pwned = 0; window.__violations = []
    for (const name of ['pwned', 'alert', 'confirm', 'prompt', 'print']) {
      window[name] = () => { window.__pwned++; console.log('PWNED') }
    }
    addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI, sample }) =>
      window.__violations.push(violatedDirective + ' ' + blockedURI + ' ' + sample))`)
  await signIn(page, API_KEY)
  const opened = urls.filter(url => !url.includes('images=1'))
  t.strictSame(await open(page, opened), [], `${opened.length} pages ran, showed and reached nothing`)
  t.strictSame(visits, [], 'nobody was told')
}

t.test('content of others runs, styles or loads nothing on any page', async t => {
  t.ok(new Set(corpus).size >= 200, `${corpus.length} payloads`)
  await prove(t, await poisoned(t))
})

t.test('nor in the mailbox', async t => {
  const app = await startTestApp(t)
  const ids = await sendAll(app)
  await Promise.all(ids.map(async id => await app.settled(id, 'delivered')))
  await prove(t, app, url => url.includes('/mailbox'))
})

t.test('a forged notice is text', async t => {
  const app = await startTestApp(t)
  const { page, context } = await openPage(t, app.url)
  await signIn(page, API_KEY)
  for (const payload of parts(480)) {
    await context.addCookies([{
      name: 'jetpost_notice',
      value: Buffer.from(payload).toString('base64url'),
      domain: new URL(app.url).hostname,
      path: '/dashboard'
    }])
    const response = await page.goto('/dashboard/sessions')
    t.strictSame(intrusions(await response!.text()), [])
    t.equal(await page.locator('.box.good').textContent(), payload)
  }
})
