import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { FIRST_ACCOUNT } from '#streams/account/facts.ts'
import { domainOf } from '#streams/address.ts'
import { Refusal } from '#streams/define.ts'
import { decideLink } from '#streams/user/decide.ts'
import type { UserEntry } from '#streams/user/state.ts'
import { SEEN_MS } from '#src/actions/directory.ts'
import { roleActor } from '#src/actions/fact-log.ts'
import { sessionActor, type Comer, type OpenSession } from '#src/actions/session.ts'
import { createUser } from '#src/actions/user.ts'
import { confirmUser, signInUser, usersWith, type OidcIdentity } from '#src/actions/user-session.ts'
import { asError, errorCode } from '#src/base/errors.ts'
import { html } from '#src/base/html.ts'
import { newId } from '#src/base/id.ts'
import { networkOf } from '#src/base/network.ts'
import { CannotOpen } from '#src/base/secret.ts'
import { formOf, OIDC_S, type SessionCookies } from './csrf.ts'
import type { DashboardContext } from './dashboard-context.ts'
import { plainPage } from './layout.ts'
import type { Oidc, OidcChecks } from './oidc.ts'
import { choicePage } from './pages/sign-in.ts'
import type { Passkeys } from './passkeys.ts'
import { PageNotFound } from './visit.ts'
import { queryOf, sendPage, targetOf, type Signer } from './signer.ts'

const FORM_BYTES_MAX = 128 * 1024
/** The issuer tells whole seconds. */
const ROUNDING_MS = 2000

/** What the browser keeps, sealed, while somebody is at the issuer. */
interface OidcState extends OidcChecks {
  purpose: 'sign-in' | 'confirm'
  /** The session that a sign-in opens, once; the one to confirm. */
  session: string
  to: string
  beganMs: number
}

/** Who may choose between accounts, sealed in the page that asks. */
interface Choice {
  session: string
  identity: OidcIdentity
  untilMs: number
}

/** Signing in as a person: at the issuer of the settings, or with a passkey. */
export function userAccessRoutes (
  app: FastifyInstance,
  context: DashboardContext,
  cookies: SessionCookies,
  signer: Signer
): void {
  const { oidc, passkeys } = context.ways
  if (oidc !== null) oidcRoutes(app, new OidcAccess(context, oidc, cookies, signer))
  if (passkeys !== null) passkeyRoutes(app, context, passkeys, signer)
}

const OPEN = { config: { open: true }, bodyLimit: FORM_BYTES_MAX }

function passkeyRoutes (
  app: FastifyInstance,
  { services }: DashboardContext,
  passkeys: Passkeys,
  signer: Signer
): void {
  app.get('/passkey/options', OPEN, async () => await passkeys.startSignIn())

  /** The user who asks, of an open session. */
  const userOf = ({ visitor }: FastifyRequest): { user: UserEntry, session: string } => {
    const user = services.directory.now.users.get(visitor!.principal.id)
    if (user === undefined) throw new PageNotFound()
    return { user, session: visitor!.session.id }
  }

  app.get('/passkey/confirm', async request => {
    const { user, session } = userOf(request)
    return await passkeys.startConfirm(session, user)
  })

  app.get('/passkey/add', async request => {
    const { user, session } = userOf(request)
    return await passkeys.startAdd(session, user)
  })

  app.post('/passkey', OPEN, async (request, reply) => {
    const form = formOf(request)
    const text = (name: string) => form.get(name) ?? ''
    return await signer.enter(request, reply, {
      to: targetOf(form),
      name: networkOf(request.ip),
      async open (comer) {
        const signed = await passkeys.finishSignIn(text('ceremony'), text('credential'))
        if (signed instanceof Refusal) return signed
        return await signInUser(services, comer, signed.user, signed.session, signed.decided)
      }
    })
  })
}

function oidcRoutes (app: FastifyInstance, access: OidcAccess): void {
  app.get('/oidc', OPEN, async (request, reply) => await access.begin(request, reply))
  app.get('/oidc/confirm', async (request, reply) => await access.beginConfirm(request, reply))
  app.get('/oidc/callback', OPEN, async (request, reply) => await access.comeBack(request, reply))
  app.post('/oidc/choose', OPEN, async (request, reply) => await access.choose(request, reply))
}

const AWAY = 'The sign-in service does not answer. Try again in a moment.'
const EXPIRED = 'That sign-in has expired, or belongs to another browser. Try again.'
const NOT_ACCEPTED = 'The sign-in service did not confirm who you are. Try again.'

class OidcAccess {
  private readonly context: DashboardContext
  private readonly oidc: Oidc
  private readonly cookies: SessionCookies
  private readonly signer: Signer

  constructor (context: DashboardContext, oidc: Oidc, cookies: SessionCookies, signer: Signer) {
    this.context = context
    this.oidc = oidc
    this.cookies = cookies
    this.signer = signer
  }

  async begin (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const to = targetOf(queryOf(request))
    return await this.leave(request, reply, { purpose: 'sign-in', session: newId('ses', this.nowMs()), to })
  }

  /** Asks the issuer again who sits there. */
  async beginConfirm (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { session } = request.visitor!
    return await this.leave(request, reply, { purpose: 'confirm', session: session.id, to: '/dashboard' })
  }

  private async leave (
    request: FastifyRequest,
    reply: FastifyReply,
    state: Pick<OidcState, 'purpose' | 'session' | 'to'>
  ): Promise<FastifyReply> {
    try {
      const { url, checks } = await this.oidc.begin(state.purpose === 'confirm')
      const whole: OidcState = { ...state, ...checks, beganMs: this.nowMs() }
      this.cookies.setOidc(reply, this.seal(whole, 'oidc'))
      return await reply.redirect(url.href, 303)
    } catch (error) {
      this.context.log.warn({ requestId: request.id, ...reasonOf(error) }, 'OpenID Connect issuer is unavailable')
      return this.signer.refuse(reply, 503, state.to, AWAY)
    }
  }

  async comeBack (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const state = this.open<OidcState>(this.cookies.takeOidc(request, reply), 'oidc')
    if (state === null || state.beganMs + OIDC_S * 1000 < this.nowMs()) {
      return this.signer.refuse(reply, 422, '/dashboard', EXPIRED)
    }
    const { to, session } = state
    if (state.purpose === 'confirm') return await this.confirm(request, reply, state)
    let choices: UserEntry[] = []
    let found: OidcIdentity | null = null
    const open = async (comer: Comer): Promise<OpenSession | Refusal> => {
      const identity = found = await this.identityOf(request, state)
      if (identity === null) return new Refusal('invalid_identity', NOT_ACCEPTED)
      const users = await this.usersOf(identity, comer)
      if (users instanceof Refusal) return users
      if (users.length > 1) choices = users
      return choices.length > 1
        ? new Refusal('several_accounts', 'Choose an account.')
        : await this.enterAs(comer, users[0]!, identity, session)
    }
    const attempt = {
      to,
      name: networkOf(request.ip),
      open,
      isCostly: true,
      several: () => this.choiceOf(reply, choices, found!, session)
    }
    return await this.signer.enter(request, reply, attempt)
  }

  /** Who came back from the issuer; null = what came back does not fit. */
  private async identityOf (request: FastifyRequest, state: OidcState) {
    try {
      return await this.oidc.finish(queryOf(request), state)
    } catch (error) {
      this.context.log.warn({ requestId: request.id, ...reasonOf(error) }, 'OpenID Connect sign-in failed')
      return null
    }
  }

  /** Those who the person is, one in each account; who is nobody yet may be let in by the domain. */
  private async usersOf (identity: OidcIdentity, { correlation }: Comer): Promise<UserEntry[] | Refusal> {
    const { services } = this.context
    await services.directory.look()
    const users = usersWith(services, identity)
    if (users.length > 0) return users
    const { address, name } = identity
    if (address === null) {
      return new Refusal('no_address', `${this.oidc.host} did not tell a verified email address of yours.`)
    }
    const { allowedDomains, defaultRole } = this.oidc.settings
    if (!allowedDomains.includes(domainOf(address))) {
      return new Refusal('unknown_user', `${address} is not invited. Ask an owner of the account to invite you.`)
    }
    const asker = { account: FIRST_ACCOUNT, correlation, actor: roleActor('oidc'), by: null }
    const wanted = { address, role: defaultRole, ...(name === null ? {} : { name }) }
    const created = await createUser(services, asker, wanted)
    // The user is there, and is somebody else at the issuer.
    if (created instanceof Refusal) return new Refusal('other_identity', `${address} signs in as somebody else.`)
    await services.directory.reached(created.seq, SEEN_MS)
    return [created.user]
  }

  private async enterAs (
    comer: Comer,
    user: UserEntry,
    identity: OidcIdentity,
    session: string
  ): Promise<OpenSession | Refusal> {
    const decided = decideLink(user, identity)
    if (decided instanceof Refusal) return decided
    return await signInUser(this.context.services, comer, user, session, decided)
  }

  private choiceOf (
    reply: FastifyReply,
    users: UserEntry[],
    identity: OidcIdentity,
    session: string
  ): FastifyReply {
    const { accounts } = this.context.services.directory.now
    const choice: Choice = { session, identity, untilMs: this.nowMs() + OIDC_S * 1000 }
    const named = users.map(({ id, account, role }) => ({ id, role, account: accounts.get(account)?.name ?? account }))
    return sendPage(reply, choicePage(named, this.seal(choice, 'oidc choice')).text)
  }

  async choose (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const form = formOf(request)
    const choice = this.open<Choice>(form.get('choice') ?? '', 'oidc choice')
    if (choice === null || choice.untilMs < this.nowMs()) return this.signer.refuse(reply, 422, '/dashboard', EXPIRED)
    const user = usersWith(this.context.services, choice.identity).find(({ id }) => id === form.get('user'))
    const open = async (comer: Comer) =>
      user === undefined
        ? new Refusal('unknown_user', 'This user is no more.')
        : await this.enterAs(comer, user, choice.identity, choice.session)
    return await this.signer.enter(request, reply, { to: '/dashboard', name: networkOf(request.ip), open })
  }

  /** The session's cookie does not come with a redirect from another site: the sealed state tells which one it is. */
  private async confirm (request: FastifyRequest, reply: FastifyReply, state: OidcState): Promise<FastifyReply> {
    const { services } = this.context
    const identity = await this.identityOf(request, state)
    const session = services.directory.now.sessions.get(state.session)
    const user = services.directory.now.users.get(session?.principal ?? '')
    if (identity === null || session === undefined || user === undefined) return notConfirmed(reply, NOT_ACCEPTED)
    // Of both clocks only what passed: they need not agree.
    if (identity.ageMs === null || identity.ageMs > this.nowMs() - state.beganMs + ROUNDING_MS) {
      return notConfirmed(reply, `${this.oidc.host} did not ask you to sign in again.`)
    }
    const decided = decideLink(user, identity)
    if (decided instanceof Refusal || user.identity === null) {
      return notConfirmed(reply, `You signed in there as somebody else than ${user.name}.`)
    }
    const actor = sessionActor(session, request.ip)
    const asker = { account: session.account, correlation: request.id, actor }
    await services.directory.reached(await confirmUser(services, asker, session, decided), SEEN_MS)
    return sendPage(reply, CONFIRMED)
  }

  private seal (value: object, context: string): string {
    return this.context.services.vault.seal(JSON.stringify(value), context)
  }

  /** null = not ours. */
  private open<T> (sealed: string, context: string): T | null {
    try {
      return JSON.parse(this.context.services.vault.open(sealed, context)) as T
    } catch (error) {
      if (error instanceof CannotOpen) return null
      throw error
    }
  }

  private nowMs (): number {
    return this.context.services.factLog.clock.nowMs()
  }
}

/** Not all of it: it may hold the code, or a token. */
function reasonOf (error: unknown): { reason: string, code: string } {
  return { reason: asError(error).message, code: errorCode(error) }
}

const CONFIRMED = plainPage(
  'Confirmed',
  html`<h1>Confirmed</h1><p>You are who you say. Close this tab, and continue in the one you came from.</p>`
).text

function notConfirmed (reply: FastifyReply, text: string): FastifyReply {
  const page = plainPage('Not confirmed', html`<h1>Not confirmed</h1><p>${text} Close this tab, and try again.</p>`)
  return sendPage(reply.code(422), page.text)
}
