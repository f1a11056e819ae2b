import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Refusal } from '#streams/define.ts'
import { SESSION_MS } from '#streams/session/decide.ts'
import type { Desk } from '#src/actions/desk.ts'
import { endSessions, signIn, signInByLink, type OpenSession } from '#src/actions/session.ts'
import { Memory } from '#src/base/memory.ts'
import { linkPage, signInPage } from './pages/sign-in.ts'
import { formOf, type Cookies } from './tickets.ts'

/** Tries of one address in a minute. A key has 256 bits: this is for the log's sake, and for keys that somebody made up. */
const TRIES_MAX = 10
const ADDRESSES_MAX = 10_000
/** Anybody may send one: there is no reason to read much of it. */
const FORM_BYTES_MAX = 16 * 1024
/** How long the answer waits until this node knows of what it has just written. */
const SEEN_MS = 2000

const MESSAGES: Record<string, string> = { unknown_key: 'No live key has this secret. Keys are shown once, when they are made: jetpost keys create makes another.' }

/** The door: signing in with a key or a link, signing out. */
export function accessRoutes (app: FastifyInstance, { desk }: { desk: Desk }, jar: Cookies): void {
  const tries = createTries(() => desk.ledger.clock.nowMs())
  const open = { config: { open: true }, bodyLimit: FORM_BYTES_MAX }

  app.get('/sign-in', open, async (request, reply) => {
    const to = targetOf(new URL(request.url, 'http://here').searchParams)
    return page(reply, signInPage({ to }).text)
  })

  app.post('/sign-in', open, async (request, reply) => {
    const form = formOf(request)
    const to = targetOf(form)
    return await enter(request, reply, to, async () => await signIn(desk, request.id, form.get('key')?.trim() ?? ''))
  })

  app.get('/link', open, async (request, reply) => page(reply, linkPage(new URL(request.url, 'http://here').searchParams.get('token') ?? '').text))

  app.post('/link', open, async (request, reply) => {
    const form = formOf(request)
    return await enter(request, reply, '/dashboard', async () => await signInByLink(desk, request.id, form.get('token') ?? ''))
  })

  app.post('/sign-out', { bodyLimit: FORM_BYTES_MAX }, async (request, reply) => {
    const { session } = request.visitor!
    await desk.directory.reached(await endSessions(desk, askerOf(request), [session]), SEEN_MS)
    jar.take(reply)
    return await reply.redirect('/dashboard/sign-in', 303)
  })

  async function enter (request: FastifyRequest, reply: FastifyReply, to: string, open: () => Promise<OpenSession | Refusal>): Promise<FastifyReply> {
    if (!tries.may(request.ip)) return page(reply.code(429).header('retry-after', '60'), signInPage({ to, fault: 'Too many tries from your address: wait a minute.' }).text)
    const opened = await open()
    if (opened instanceof Refusal) return page(reply.code(422), signInPage({ to, fault: MESSAGES[opened.code] ?? opened.message }).text)
    const { ticket, seq } = opened
    await desk.directory.reached(seq, SEEN_MS)
    jar.give(reply, ticket, desk.ledger.clock.nowMs() + SESSION_MS)
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
  return url !== null && url.origin === 'http://here' && /^\/dashboard(\/|$)/.test(url.pathname) ? url.pathname + url.search : '/dashboard'
}

function createTries (nowMs: () => number) {
  const counts = new Memory<{ minute: number, count: number }>(ADDRESSES_MAX)
  return {
    may (address: string): boolean {
      const minute = Math.floor(nowMs() / 60_000)
      const known = counts.get(address)
      const count = known?.minute === minute ? known.count + 1 : 1
      counts.set(address, { minute, count })
      return count <= TRIES_MAX
    }
  }
}

function page (reply: FastifyReply, text: string): FastifyReply {
  return reply.type('text/html; charset=utf-8').send(text)
}
