import type { AnyFact } from '#streams/catalog.ts'
import { Refusal, type Unstamped } from '#streams/define.ts'
import type { SessionEntry } from '#streams/session/state.ts'
import { decideLink, decidePasskey } from '#streams/user/decide.ts'
import type { NewPasskey } from '#streams/user/facts.ts'
import { userPrincipal, type UserEntry } from '#streams/user/state.ts'
import { askedBy, stamp, type FactCause } from './fact-log.ts'
import { handleCommand, type CommandServices, type Handled } from './handle-command.ts'
import type { Asker, Services } from './services.ts'
import { confirmSession, openSession, sessionActor, type Comer, type OpenSession } from './session.ts'

type UserServices = Pick<Services, 'factLog' | 'directory'>

/** Opens the session with this id for a user who has shown who they are: once, however often the same proof is brought.
 *  `decided` = what is told of the user with it, all or none. Throws LogUnavailable. */
export async function signInUser (
  services: UserServices,
  comer: Comer,
  user: UserEntry,
  session: string,
  decided: readonly Unstamped[]
): Promise<OpenSession | Refusal> {
  const actor = sessionActor({ id: session, principal: user.id }, comer.ip)
  const also = stamped(services, askedBy({ account: user.account, correlation: comer.correlation, actor }), decided)
  return await openSession(services, comer, userPrincipal(user), { session }, also) ??
    new Refusal('used_sign_in', 'This sign-in was used already.')
}

/** The same for a session that is open: who sits there is the user. */
export async function confirmUser (
  services: UserServices,
  asker: Asker,
  session: Pick<SessionEntry, 'id'>,
  decided: readonly Unstamped[]
): Promise<number> {
  return await confirmSession(services, asker, session, stamped(services, askedBy(asker), decided))
}

function stamped ({ factLog: { clock } }: UserServices, cause: FactCause, decided: readonly Unstamped[]): AnyFact[] {
  return decided.map(({ type, data }) => stamp(type, cause, data, clock.nowMs()) as AnyFact)
}

/** Who somebody is at an issuer. */
export interface OidcIdentity {
  issuer: string
  subject: string
  /** In lower case, and only where the issuer says that it is verified. */
  address: string | null
  /** As the issuer has it. */
  name: string | null
}

/** The users that somebody with this identity is, one in each account: those who are linked to it, and those who have
 *  the address and are linked to none yet. */
export function usersWith ({ directory: { now } }: UserServices, identity: OidcIdentity): UserEntry[] {
  return [...now.users.values()].filter(user =>
    !(decideLink(user, identity) instanceof Refusal) &&
    (user.identity !== null || (identity.address !== null && user.address === identity.address))
  )
}

/** Gives a user a passkey. Refuses one that is in use, and more than a user can have. Throws LogUnavailable or
 *  Conflict. */
export async function addPasskey (
  services: CommandServices,
  asker: Asker,
  user: string,
  passkey: NewPasskey
): Promise<Handled<'user'> | Refusal> {
  const isKnown = [...services.directory.now.users.values()].some(({ passkeys }) =>
    passkeys.some(({ id }) => id === passkey.passkey)
  )
  return await handleCommand(
    services,
    'user',
    user,
    askedBy(asker),
    known =>
      known === undefined ? new Refusal('not_found', 'There is no such user.') : decidePasskey(known, passkey, isKnown)
  )
}
