import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Refusal } from '#streams/define.ts'
import { SESSION_MS } from '#streams/session/decide.ts'
import type { Services } from '#src/actions/services.ts'
import { SEEN_MS } from '#src/actions/directory.ts'
import { endSessions, sessionActor, signIn, signInByLink, type Comer, type OpenSession } from '#src/actions/session.ts'
import { html, type Value } from '#src/base/html.ts'
import { Memory } from '#src/base/memory.ts'
import { networkOf } from '#src/base/network.ts'
import { sha256Hex } from '#src/base/secret.ts'
import { browserOf } from './browser.ts'
import { formOf, type SessionCookies } from './csrf.ts'
import { linkPage, signInPage } from './pages/sign-in.ts'

/** Failures a minute by one address. They lock nobody out who has a key: behind an unknown proxy all visitors have one
 *  address, and a key with its 256 bits cannot be guessed. */
const FAILURES_MAX = 10
/** Sessions a minute by one key: each is a fact that is kept for ever. */
const SESSIONS_A_MINUTE_MAX = 60
const COUNTED_MAX = 10_000
/** Anybody may send this form: there is no reason to read much of it. */
const FORM_BYTES_MAX = 16 * 1024

const REFUSALS: Record<string, string> = {
  unknown_key: 'No active key has this secret. To get a new one, run jetpost keys create.',
  insufficient_permissions: 'This key does not open the dashboard. Use a key with the scope full or dashboard.',
  invalid_link: 'This sign-in link is not valid.',
  expired_link: 'This sign-in link has expired. Links are valid for 15 minutes.',
  used_link: 'This sign-in link was already used. Each link works once.'
}

type OpenBySecret = (services: Services, comer: Comer, secret: string) => Promise<OpenSession | Refusal>

interface AccessOptions {
  services: Services
  publicUrl: string
}

/** Signing in with a key or a link, and signing out. */
export function accessRoutes (app: FastifyInstance, options: AccessOptions, cookies: SessionCookies): void {
  const { services } = options
  const signer = new Signer(options, cookies)
  const open = { config: { open: true }, bodyLimit: FORM_BYTES_MAX }

  app.get('/sign-in', open, async (request, reply) => page(reply, signInPage({ to: targetOf(queryOf(request)) }).text))

  app.post('/sign-in', open, async (request, reply) => {
    const form = formOf(request)
    return await signer.signIn(request, reply, targetOf(form), form.get('key')?.trim() ?? '', signIn)
  })

  app.get('/link', open, async (request, reply) => page(reply, linkPage(queryOf(request).get('token') ?? '').text))

  app.post('/link', open, async (request, reply) => {
    return await signer.signIn(request, reply, '/dashboard', formOf(request).get('token') ?? '', signInByLink)
  })

  app.post('/sign-out', { bodyLimit: FORM_BYTES_MAX }, async (request, reply) => {
    const { session } = request.visitor!
    // This browser forgets the session in any case, also where NATS does not hear of it.
    cookies.clearTicket(reply)
    const actor = sessionActor(session.id, session.key, request.ip)
    const asker = { account: session.account, correlation: request.id, actor }
    await services.directory.reached(await endSessions(services, asker, [session]), SEEN_MS)
    return await reply.redirect('/dashboard/sign-in', 303)
  })
}

class Signer {
  private readonly services: Services
  private readonly publicUrl: string
  private readonly cookies: SessionCookies
  /** By address. */
  private readonly failures: MinuteCounter
  /** By the hash of the secret. */
  private readonly sessions: MinuteCounter

  constructor ({ services, publicUrl }: AccessOptions, cookies: SessionCookies) {
    this.services = services
    this.publicUrl = publicUrl
    this.cookies = cookies
    const nowMs = () => services.factLog.clock.nowMs()
    this.failures = new MinuteCounter(nowMs)
    this.sessions = new MinuteCounter(nowMs)
  }

  /** `open` takes the secret of a key or the token of a link. */
  async signIn (
    request: FastifyRequest,
    reply: FastifyReply,
    to: string,
    secret: string,
    open: OpenBySecret
  ): Promise<FastifyReply> {
    const refuse = (status: number, fault: Value) => page(reply.code(status), signInPage({ to, fault }).text)
    const tooMany = () => {
      reply.header('retry-after', '60')
      return refuse(429, 'Too many attempts. Wait a minute and try again.')
    }
    if (!this.cookies.areKept(request)) return refuse(422, this.otherUrlText())
    const hash = sha256Hex(secret)
    if (this.sessions.of(hash) >= SESSIONS_A_MINUTE_MAX) return tooMany()
    const comer = { correlation: request.id, ip: request.ip, browser: browserOf(request.headers['user-agent']) }
    const opened = await open(this.services, comer, secret)
    if (opened instanceof Refusal) {
      if (this.failures.add(networkOf(request.ip)) > FAILURES_MAX) return tooMany()
      return refuse(422, REFUSALS[opened.code] ?? opened.message)
    }
    this.sessions.add(hash)
    const { directory, factLog } = this.services
    await directory.reached(opened.seq, SEEN_MS)
    this.cookies.setTicket(reply, opened.ticket, factLog.clock.nowMs() + SESSION_MS)
    return await reply.redirect(to, 303)
  }

  private otherUrlText (): Value {
    const url = `${this.publicUrl}/dashboard`
    return html`Your browser only keeps sessions of <a href="${url}">${url}</a>. Sign in there.`
  }
}

/** Counts by name within the present minute. */
class MinuteCounter {
  private readonly nowMs: () => number
  private readonly counts = new Memory<{ minute: number, count: number }>(COUNTED_MAX)

  constructor (nowMs: () => number) {
    this.nowMs = nowMs
  }

  of (name: string): number {
    const known = this.counts.get(name)
    return known?.minute === this.minute() ? known.count : 0
  }

  add (name: string): number {
    const count = this.of(name) + 1
    this.counts.set(name, { minute: this.minute(), count })
    return count
  }

  private minute (): number {
    return Math.floor(this.nowMs() / 60_000)
  }
}

function queryOf ({ url }: FastifyRequest): URLSearchParams {
  return new URL(url, 'http://here').searchParams
}

/** Only a page of ours: anybody can write a link with `to`. */
function targetOf (given: URLSearchParams): string {
  const to = given.get('to') ?? ''
  const url = URL.canParse(to, 'http://here') ? new URL(to, 'http://here') : null
  return url !== null && url.origin === 'http://here' && /^\/dashboard(\/|$)/.test(url.pathname)
    ? url.pathname + url.search
    : '/dashboard'
}

function page (reply: FastifyReply, text: string): FastifyReply {
  return reply.type('text/html; charset=utf-8').send(text)
}
