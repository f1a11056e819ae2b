import type { AnyFact } from '#streams/catalog.ts'
import { Refusal, type Actor } from '#streams/define.ts'
import type { KeyEntry, Principal } from '#streams/directory.ts'
import { isLive, isOperator, opens } from '#streams/key/decide.ts'
import { placeOf } from '#streams/place.ts'
import {
  isOpen,
  isStale,
  isUser,
  LINK_MS,
  mayOpenDashboard,
  principalOf,
  SESSION_MS,
  SESSIONS_MAX
} from '#streams/session/decide.ts'
import { USER_LINK_MS } from '#streams/user/decide.ts'
import {
  SessionConfirmed,
  SessionEnded,
  SessionLinkMade,
  SessionOpened,
  SessionRotated
} from '#streams/session/facts.ts'
import type { LinkEntry, SessionEntry } from '#streams/session/state.ts'
import { timestamp } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import { deadline } from '#src/base/errors.ts'
import { newSecret, sha256Hex } from '#src/base/secret.ts'
import type { Append } from '#src/nats/append.ts'
import { Conflict } from '#src/nats/errors.ts'
import type { Asker, Commander, Services } from './services.ts'
import { askedBy, stamp } from './fact-log.ts'

type SessionServices = Pick<Services, 'factLog' | 'directory'>

/** A way into the dashboard that was opened just now. */
export interface OpenSession {
  session: string
  /** What the browser keeps: `<session>.<secret>`, nowhere else to be had. */
  ticket: string
  /** In CONTROL: a node whose directory has reached it knows the session. */
  seq: number
}

/** Who stands behind a ticket. */
export interface Visitor {
  session: SessionEntry
  principal: KeyEntry | Principal
  /** The secret of its ticket when another is due, else null. */
  staleSecret: string | null
}

/** Where a sign-in link leads, before its token. */
export const LINK_PATH = '/dashboard/link?token='
/** No page waits longer for its session's new secret: the next one will bring it. */
const RENEWAL_MS = 500

/** Somebody who signs in: under which id all that follows can be found, from which address, and with which browser. */
export interface Comer {
  correlation: string
  ip: string
  /** `Firefox 140 on Linux`; null = it does not say. */
  browser: string | null
}

/** Opens a session with the secret of a key that opens the dashboard. Throws LogUnavailable. */
export async function signIn (
  services: SessionServices,
  comer: Comer,
  secret: string
): Promise<OpenSession | Refusal> {
  const hash = sha256Hex(secret)
  const known = () => services.directory.now.keysByHash.get(hash)
  // It may have been made a moment ago on another node.
  if (known() === undefined) await services.directory.look()
  const key = known()
  if (key === undefined || !opens(key, hash, services.factLog.clock.nowMs())) {
    return new Refusal('unknown_key', 'The key is unknown, has expired or has been revoked.')
  }
  return (await openSession(services, comer, key, { secret: hash }))!
}

/** Makes a token that opens a session once, of a key within 15 minutes, of a user within a day. Throws LogUnavailable.
 */
export async function mintLink (
  services: Pick<Services, 'factLog'>,
  by: Commander,
  principal: Pick<Principal, 'id' | 'account'>
): Promise<{ token: string, untilMs: number, seq: number }> {
  const { factLog } = services
  const nowMs = factLog.clock.nowMs()
  const session = newId('ses', nowMs)
  const secret = newSecret('')
  const untilMs = nowMs + (isUser(principal) ? USER_LINK_MS : LINK_MS)
  const data = { session, principal: principal.id, hash: sha256Hex(secret), until: timestamp(untilMs) }
  const fact = stamp(SessionLinkMade, askedBy({ ...by, account: principal.account }), data, nowMs)
  const [seq] = await factLog.append([{ fact, expectedSeq: 0 }])
  return { token: session.slice('ses_'.length) + secret, untilMs, seq: seq! }
}

/** Opens the session that a link stands for. Throws LogUnavailable. */
export async function signInByLink (
  services: SessionServices,
  comer: Comer,
  token: string
): Promise<OpenSession | Refusal> {
  const link = await linkOf(services, token)
  const used = new Refusal('used_link', 'The sign-in link has been used: each works once.')
  if (link === null) return new Refusal('invalid_link', 'The sign-in link is not valid.')
  if (link.isUsed) return used
  if (link.untilMs <= services.factLog.clock.nowMs()) {
    return new Refusal('expired_link', 'The sign-in link has expired.')
  }
  const principal = principalOf(services.directory.now, link.principal)
  if (principal === undefined) {
    return new Refusal('unknown_principal', 'The key or the user of the sign-in link is no more.')
  }
  return await openSession(services, comer, principal, { session: link.session }) ?? used
}

/** The link with this token; null = none was ever made. It may have been made a moment ago by another process. */
async function linkOf ({ directory }: SessionServices, token: string): Promise<LinkEntry | null> {
  const [, id, secret] = /^([0-9a-z]{26})([\w-]{43})$/.exec(token) ?? []
  if (id === undefined || secret === undefined) return null
  const session = `ses_${id}`
  if (!directory.now.links.has(session)) await directory.look()
  const link = directory.now.links.get(session)
  return link?.hash === sha256Hex(secret) ? link : null
}

/** What an operator at this machine signs in with; null when there is none. */
export function operatorsKey ({ directory, factLog: { clock } }: SessionServices): KeyEntry | null {
  const own = [...directory.now.keys.values()].filter(key =>
    isLive(key, clock.nowMs()) && mayOpenDashboard(key) && isOperator(key)
  )
  return own.find(({ scopes }) => scopes.includes('full')) ?? own[0] ?? null
}

/** `way`: the hash of the key's secret that was shown, or the session that a link or a challenge opens, once. null =
 *  that was opened before. `also` = what is appended with it, all or none. */
export async function openSession (
  services: SessionServices,
  { correlation, ip, browser }: Comer,
  principal: Principal,
  way: { secret: string } | { session: string },
  also: readonly AnyFact[] = []
): Promise<OpenSession | Refusal | null> {
  const nowMs = services.factLog.clock.nowMs()
  if (!isLive(principal, nowMs)) return new Refusal('unknown_key', 'The key has expired.')
  if (!mayOpenDashboard(principal)) {
    return new Refusal(
      'insufficient_permissions',
      'The key must have the scope full or dashboard.'
    )
  }
  const secret = newSecret('')
  const data = {
    principal: principal.id,
    hash: sha256Hex(secret),
    until: timestamp(nowMs + SESSION_MS),
    ...(browser === null ? {} : { browser }),
    ...('session' in way ? way : { session: newId('ses', nowMs), secret: way.secret })
  }
  const { session } = data
  const asker = {
    account: principal.account,
    correlation,
    actor: sessionActor({ id: session, principal: principal.id }, ip)
  }
  const fact = stamp(SessionOpened, askedBy(asker), data, nowMs)
  // 0 for a session without a link: nobody has heard of it, or it is open already.
  const { now } = services.directory
  if (now.sessions.has(session)) return null
  const expectedSeq = now.versions.get(placeOf(fact).subject) ?? 0
  const excess = sessionsOf(services, principal.id).toSorted((a, b) => b.createdAt.localeCompare(a.createdAt)).slice(
    SESSIONS_MAX - 1
  )
  try {
    const more = also.map(fact => ({ fact, expectedSeq: now.versions.get(placeOf(fact).subject) ?? 0 }))
    const seqs = await services.factLog.append([...endings(services, asker, excess), ...more, { fact, expectedSeq }])
    return { session, ticket: `${session}.${secret}`, seq: seqs.at(-1)! }
  } catch (error) {
    if (error instanceof Conflict) return null
    throw error
  }
}

/** Who commands by a session of the dashboard: the user, or the session of a key, which may be many people's. */
export function sessionActor ({ id, principal }: Pick<SessionEntry, 'id' | 'principal'>, ip: string): Actor {
  return isUser({ id: principal })
    ? { kind: 'user', id: principal, session: id, ip }
    : { kind: 'session', id, key: principal, ip }
}

/** Who comes with this ticket; null = nobody. One that another node has just given out is looked for in the log, once.
 */
export async function visitorOf (services: SessionServices, ticket: string): Promise<Visitor | null> {
  const [, id, secret] = /^(ses_[0-9a-z]{26})\.([A-Za-z0-9_-]{43})$/.exec(ticket) ?? []
  if (id === undefined || secret === undefined) return null
  const hash = sha256Hex(secret)
  const { sessions } = services.directory.now
  if (sessions.get(id)?.hash !== hash && sessions.get(id)?.previousHash !== hash) await services.directory.look()
  const session = sessions.get(id)
  const principal = session === undefined ? undefined : principalOf(services.directory.now, session.principal)
  const nowMs = services.factLog.clock.nowMs()
  if (session === undefined || !isOpen(session, principal, hash, nowMs)) return null
  return { session, principal: principal!, staleSecret: isStale(session, hash, nowMs) ? secret : null }
}

/** The ticket that follows one with `staleSecret`, from which alone it is made: who asks again, since the answer never
 *  came, is told the same, and the log once. null = what JETPOST_SECRET was when it was told is no more. Throws what
 *  `isUnanswered` knows, or LogUnavailable. */
export async function renewTicket (
  services: SessionServices & Pick<Services, 'vault'>,
  correlation: string,
  session: SessionEntry,
  staleSecret: string
): Promise<string | null> {
  const { id, hash } = session
  const secrets = services.vault.derive(`${id} ${staleSecret}`, 'session')
  if (hash !== sha256Hex(staleSecret)) {
    const told = secrets.find(secret => sha256Hex(secret) === hash)
    return told === undefined ? null : `${id}.${told}`
  }
  const [secret] = secrets
  const rotation = rotateSession(services, correlation, session, sha256Hex(secret))
  await deadline(rotation, RENEWAL_MS, 'JetStream does not store the new secret')
  return `${id}.${secret}`
}

async function rotateSession (
  { factLog, directory }: SessionServices,
  correlation: string,
  { id, account }: SessionEntry,
  hash: string
): Promise<void> {
  // Nobody commands it: it happens by the clock.
  const fact = stamp(
    SessionRotated,
    { account, correlation, causation: null },
    { session: id, hash },
    factLog.clock.nowMs()
  )
  try {
    const expectedSeq = directory.now.versions.get(placeOf(fact).subject)!
    await factLog.append([{ fact, expectedSeq }], RENEWAL_MS)
  } catch (error) {
    // Another request of it was quicker, with the same.
    if (!(error instanceof Conflict)) throw error
  }
}

/** Whether this is the secret of the session's key: a sign that its holder sits there. */
export function secretFault (
  { directory, factLog: { clock } }: SessionServices,
  { principal: id }: SessionEntry,
  secret: string
): Refusal | null {
  const key = directory.now.keys.get(id)
  return key !== undefined && opens(key, sha256Hex(secret), clock.nowMs())
    ? null
    : new Refusal('wrong_secret', `The secret must be that of the key ${key?.name ?? id}.`)
}

/** Who sits there has just shown who they are; resolves to the sequence after which nodes know it. `also` = what is
 *  appended with it, all or none. Throws Conflict where that was decided on what is no more, and LogUnavailable. */
export async function confirmSession (
  { factLog, directory: { now } }: SessionServices,
  asker: Asker,
  { id }: Pick<SessionEntry, 'id'>,
  also: readonly AnyFact[] = []
): Promise<number> {
  const fact = stamp(SessionConfirmed, askedBy(asker), { session: id }, factLog.clock.nowMs())
  const more = also.map(fact => ({ fact, expectedSeq: now.versions.get(placeOf(fact).subject) ?? 0 }))
  return (await factLog.append([...more, { fact }])).at(-1)!
}

/** Ends sessions everywhere, all or none; resolves to the sequence after which no node knows them. Throws
 *  LogUnavailable. */
export async function endSessions (services: SessionServices, asker: Asker, sessions: SessionEntry[]): Promise<number> {
  return sessions.length === 0
    ? 0
    : (await services.factLog.append(endings(services, asker, sessions))).at(-1)!
}

function endings (
  { factLog: { clock } }: SessionServices,
  asker: Asker,
  sessions: SessionEntry[]
): Append[] {
  const cause = askedBy(asker)
  return sessions.map(({ id }) => ({ fact: stamp(SessionEnded, cause, { session: id }, clock.nowMs()) }))
}

/** The open sessions of a key or a user. */
export function sessionsOf ({ directory: { now } }: Pick<Services, 'directory'>, principal: string): SessionEntry[] {
  return [...now.sessions.values()].filter(session => session.principal === principal)
}
