import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Refusal } from '#streams/define.ts'
import { SESSION_MS } from '#streams/session/decide.ts'
import type { Services } from '#src/actions/services.ts'
import { SEEN_MS } from '#src/actions/directory.ts'
import { endSessions, signIn, signInByLink, type OpenSession } from '#src/actions/session.ts'
import { html, type Value } from '#src/base/html.ts'
import { Memory } from '#src/base/memory.ts'
import { sha256Hex } from '#src/base/secret.ts'
import { linkPage, signInPage } from './pages/sign-in.ts'
import { formOf, type SessionCookies } from './cookies.ts'

/** In a minute: an address that fails more often is told to wait. It keeps nobody out who has a key, since behind a
 *  proxy that nobody told us of all the world has one address, and a key has 256 bits. */
const FAILURES_MAX = 10
/** In a minute by one key: each is a fact, and kept for ever. */
const ENTRIES_MAX = 60
const KNOWN_MAX = 10_000
/** Anybody may send one: there is no reason to read much of it. */
const FORM_BYTES_MAX = 16 * 1024

const MESSAGES: Record<string, string> = {
  unknown_key:
    'No live key has this secret. Keys are shown once, when they are made: jetpost keys create makes another.'
}

type Opening = (services: Services, correlation: string, secret: string) => Promise<OpenSession | Refusal>

/** The door: signing in with a key or a link, signing out. */
export function accessRoutes (
  app: FastifyInstance,
  { services, publicUrl }: { services: Services, publicUrl: string },
  jar: SessionCookies
): void {
  const elsewhere =
    html`Your browser would forget the session at once: it is for <a href="${publicUrl}/dashboard">${publicUrl}/dashboard</a> alone. Sign in there.`
  const [failures, entries] = [
    minuteCounter(() => services.appenders.clock.nowMs()),
    minuteCounter(() => services.appenders.clock.nowMs())
  ]
  const open = { config: { open: true }, bodyLimit: FORM_BYTES_MAX }

  app.get('/sign-in', open, async (request, reply) => {
    const to = targetOf(new URL(request.url, 'http://here').searchParams)
    return page(reply, signInPage({ to }).text)
  })

  app.post('/sign-in', open, async (request, reply) => {
    const form = formOf(request)
    return await startSession(request, reply, { to: targetOf(form), secret: form.get('key')?.trim() ?? '' }, signIn)
  })

  app.get(
    '/link',
    open,
    async (request, reply) =>
      page(reply, linkPage(new URL(request.url, 'http://here').searchParams.get('token') ?? '').text)
  )

  app.post('/link', open, async (request, reply) => {
    return await startSession(
      request,
      reply,
      { to: '/dashboard', secret: formOf(request).get('token') ?? '' },
      signInByLink
    )
  })

  app.post('/sign-out', { bodyLimit: FORM_BYTES_MAX }, async (request, reply) => {
    const { session } = request.visitor!
    // From this browser in any case, also when the log does not hear of it.
    jar.take(reply)
    await services.directory.reached(await endSessions(services, askerOf(request), [session]), SEEN_MS)
    return await reply.redirect('/dashboard/sign-in', 303)
  })

  /** `open` takes the secret that was shown, a key's or a link's. */
  async function startSession (
    request: FastifyRequest,
    reply: FastifyReply,
    { to, secret }: { to: string, secret: string },
    open: Opening
  ): Promise<FastifyReply> {
    const refuse = (status: number, fault: Value) => page(reply.code(status), signInPage({ to, fault }).text)
    const tooMany = () => {
      reply.header('retry-after', '60')
      return refuse(429, 'Too many tries: wait a minute.')
    }
    if (!jar.areKept(request)) return refuse(422, elsewhere)
    const hash = sha256Hex(secret)
    if (entries.of(hash) >= ENTRIES_MAX) return tooMany()
    const opened = await open(services, request.id, secret)
    if (opened instanceof Refusal) {
      return failures.add(request.ip) > FAILURES_MAX
        ? tooMany()
        : refuse(422, MESSAGES[opened.code] ?? opened.message)
    }
    entries.add(hash)
    const { ticket, seq } = opened
    await services.directory.reached(seq, SEEN_MS)
    jar.give(reply, ticket, services.appenders.clock.nowMs() + SESSION_MS)
    return await reply.redirect(to, 303)
  }
}

function askerOf ({ visitor, id }: FastifyRequest) {
  return { account: visitor!.session.account, correlation: id }
}

/** Only to a page of ours: an address is anybody's to write. */
function targetOf (given: URLSearchParams): string {
  const to = given.get('to') ?? ''
  const url = URL.canParse(to, 'http://here') ? new URL(to, 'http://here') : null
  return url !== null && url.origin === 'http://here' && /^\/dashboard(\/|$)/.test(url.pathname)
    ? url.pathname + url.search
    : '/dashboard'
}

/** How often something was done in the present minute, by whom. */
function minuteCounter (nowMs: () => number) {
  const counts = new Memory<{ minute: number, count: number }>(KNOWN_MAX)
  const minuteNow = () => Math.floor(nowMs() / 60_000)
  const of = (who: string): number => {
    const known = counts.get(who)
    return known?.minute === minuteNow() ? known.count : 0
  }
  return {
    of,
    add (who: string): number {
      const count = of(who) + 1
      counts.set(who, { minute: minuteNow(), count })
      return count
    }
  }
}

function page (reply: FastifyReply, text: string): FastifyReply {
  return reply.type('text/html; charset=utf-8').send(text)
}
