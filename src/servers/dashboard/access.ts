import type { FastifyInstance } from 'fastify'
import { SEEN_MS } from '#src/actions/directory.ts'
import { endSessions, sessionActor, signIn, signInByLink } from '#src/actions/session.ts'
import { sha256Hex } from '#src/base/secret.ts'
import { formOf, type SessionCookies } from './csrf.ts'
import type { DashboardContext } from './dashboard-context.ts'
import { linkPage, signInPage } from './pages/sign-in.ts'
import { queryOf, sendPage, type Signer, targetOf } from './signer.ts'

/** Anybody may send these forms: there is no reason to read much of them. */
const FORM_BYTES_MAX = 16 * 1024

/** Signing in with a key or a link, and signing out. */
export function accessRoutes (
  app: FastifyInstance,
  { services, ways }: DashboardContext,
  cookies: SessionCookies,
  signer: Signer
): void {
  const open = { config: { open: true }, bodyLimit: FORM_BYTES_MAX }

  app.get(
    '/sign-in',
    open,
    async (request, reply) => sendPage(reply, signInPage(ways, { to: targetOf(queryOf(request)) }).text)
  )

  app.post('/sign-in', open, async (request, reply) => {
    const form = formOf(request)
    const secret = form.get('key')?.trim() ?? ''
    return await signer.enter(request, reply, {
      to: targetOf(form),
      name: sha256Hex(secret),
      open: comer => signIn(services, comer, secret)
    })
  })

  app.get('/link', open, async (request, reply) => sendPage(reply, linkPage(queryOf(request).get('token') ?? '').text))

  app.post('/link', open, async (request, reply) => {
    const token = formOf(request).get('token') ?? ''
    return await signer.enter(request, reply, {
      to: '/dashboard',
      name: sha256Hex(token),
      open: comer => signInByLink(services, comer, token)
    })
  })

  app.post('/sign-out', { bodyLimit: FORM_BYTES_MAX }, async (request, reply) => {
    const { session } = request.visitor!
    // This browser forgets the session in any case, also where NATS does not hear of it.
    cookies.clearTicket(reply)
    const asker = { account: session.account, correlation: request.id, actor: sessionActor(session, request.ip) }
    await services.directory.reached(await endSessions(services, asker, [session]), SEEN_MS)
    return await reply.redirect('/dashboard/sign-in', 303)
  })
}
