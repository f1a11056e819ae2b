import type { FastifyReply, FastifyRequest } from 'fastify'
import { Refusal } from '#streams/define.ts'
import { SESSION_MS } from '#streams/session/decide.ts'
import { SEEN_MS } from '#src/actions/directory.ts'
import type { Comer, OpenSession } from '#src/actions/session.ts'
import { html, type Value } from '#src/base/html.ts'
import { Memory } from '#src/base/memory.ts'
import { networkOf } from '#src/base/network.ts'
import { browserOf } from './browser.ts'
import type { SessionCookies } from './csrf.ts'
import type { DashboardContext } from './dashboard-context.ts'
import { signInPage } from './pages/sign-in.ts'

/** Failures a minute by one address. They lock nobody out who has a key: behind an unknown proxy all visitors have one
 *  address, and a key with its 256 bits cannot be guessed. */
const FAILURES_MAX = 10
/** Sessions a minute by one key, or without one by one address: each is a fact that is kept for ever. */
const SESSIONS_A_MINUTE_MAX = 60
const COUNTED_MAX = 10_000

const REFUSALS: Record<string, string> = {
  unknown_principal: 'The key or the user of this sign-in link is no more.',
  unknown_key: "That API key isn't valid. To get a new one, run jetpost keys create.",
  insufficient_permissions: 'This key does not open the dashboard. Use a key with the scope full or dashboard.',
  invalid_link: 'This sign-in link is invalid or expired. Ask for another one.',
  expired_link: 'This sign-in link is invalid or expired. Ask for another one.',
  used_link: 'This sign-in link was already used. Each link works once.'
}

/** One attempt to sign in. */
export interface SignInAttempt {
  /** The page to go to. */
  to: string
  /** What sessions are counted by. */
  name: string
  open(comer: Comer): Promise<OpenSession | Refusal>
  /** Others are asked for it: not for who has failed too often. */
  isCostly?: boolean
  /** The page to choose on, where `open` refuses with `several_accounts`: that is no failure. */
  several?(): FastifyReply
}

/** Opens sessions by whatever proof, counts those that fail, and gives the browser its cookie. */
export class Signer {
  private readonly context: DashboardContext
  private readonly cookies: SessionCookies
  /** By address. */
  private readonly failures: MinuteCounter
  /** By the hash of a secret, or by address. */
  private readonly sessions: MinuteCounter

  constructor (context: DashboardContext, cookies: SessionCookies) {
    this.context = context
    this.cookies = cookies
    const nowMs = () => context.services.factLog.clock.nowMs()
    this.failures = new MinuteCounter(nowMs)
    this.sessions = new MinuteCounter(nowMs)
  }

  async enter (
    request: FastifyRequest,
    reply: FastifyReply,
    { to, name, open, several, isCostly = false }: SignInAttempt
  ): Promise<FastifyReply> {
    if (!this.cookies.areKept(request)) return this.refuse(reply, 422, to, this.otherUrlText())
    const isOver = isCostly && this.failures.of(networkOf(request.ip)) > FAILURES_MAX
    if (isOver || this.sessions.of(name) >= SESSIONS_A_MINUTE_MAX) return this.refuseTooMany(reply, to)
    const comer = { correlation: request.id, ip: request.ip, browser: browserOf(request.headers['user-agent']) }
    const opened = await open(comer)
    if (opened instanceof Refusal && opened.code === 'several_accounts' && several !== undefined) return several()
    if (opened instanceof Refusal) {
      if (this.failures.add(networkOf(request.ip)) > FAILURES_MAX) return this.refuseTooMany(reply, to)
      return this.refuse(reply, 422, to, REFUSALS[opened.code] ?? opened.message)
    }
    this.sessions.add(name)
    const { directory, factLog } = this.context.services
    await directory.reached(opened.seq, SEEN_MS)
    this.cookies.setTicket(reply, opened.ticket, factLog.clock.nowMs() + SESSION_MS)
    return await reply.redirect(to, 303)
  }

  /** The page to sign in on, and why it is shown again. */
  refuse (reply: FastifyReply, status: number, to: string, fault: Value): FastifyReply {
    return sendPage(reply.code(status), signInPage(this.context.ways, { to, fault }).text)
  }

  private refuseTooMany (reply: FastifyReply, to: string): FastifyReply {
    reply.header('retry-after', '60')
    return this.refuse(reply, 429, to, 'Too many attempts. Wait a minute and try again.')
  }

  private otherUrlText (): Value {
    const url = `${this.context.publicUrl}/dashboard`
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

export function sendPage (reply: FastifyReply, text: string): FastifyReply {
  return reply.type('text/html; charset=utf-8').send(text)
}

export function queryOf ({ url }: FastifyRequest): URLSearchParams {
  return new URL(url, 'http://here').searchParams
}

/** Only a page of ours: anybody can write a link with `to`. */
export function targetOf (given: URLSearchParams): string {
  const to = given.get('to') ?? ''
  const url = URL.canParse(to, 'http://here') ? new URL(to, 'http://here') : null
  return url !== null && url.origin === 'http://here' && /^\/dashboard(\/|$)/.test(url.pathname)
    ? url.pathname + url.search
    : '/dashboard'
}
