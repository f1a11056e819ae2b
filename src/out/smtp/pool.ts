import { asError } from '#src/base/errors.ts'
import { backoffMs } from '#src/base/backoff.ts'
import { closeSession, HostTrouble, openSession, quitSession, resetSession, type Session, type SmtpTimeouts } from './session.ts'
import type { Target } from './target.ts'

/** The target is left alone for a while; `downForMs` since the trouble began. Nothing was tried now. */
export class Suspended extends Error {
  override name = 'Suspended'
  readonly trouble: HostTrouble
  readonly retryInMs: number
  readonly downForMs: number
  constructor (trouble: HostTrouble, retryInMs: number, downForMs: number) {
    super(trouble.message)
    this.trouble = trouble
    this.retryInMs = retryInMs
    this.downForMs = downForMs
  }
}

/** The pool is being stopped: the work belongs to somebody else now. */
export class Stopped extends Error {
  override name = 'Stopped'
}

export interface Pool {
  /** Runs `act` with a session of the target; no two at once with the same. Waits for a free one of all `connections`.
   *  Throws Suspended, Stopped, or what `act` throws. */
  use<T> (target: Target, act: (session: Session) => Promise<T>): Promise<T>
  /** Notes that the target sent us away in the middle of a session. */
  blame (target: Target, trouble: HostTrouble): void
  /** Sends the waiting away, closes idle sessions now and the others as they come back. */
  stop (): void
}

export interface PoolOptions {
  connections: number
  hostname: string
  timeouts: SmtpTimeouts
}

interface Health {
  trouble: HostTrouble
  sinceMs: number
  failures: number
  untilMs: number
  probing: boolean
}

interface Waiter {
  target: Target
  /** With a session handed over, or with null to look again. */
  go: (session: Session | null) => void
  fail: (error: Error) => void
}

const IDLE_MS = 30_000
const MESSAGES_MAX = 100
const SUSPEND_FIRST_MS = 5000
const SUSPEND_MAX_MS = 60_000

/** At most `connections` SMTP sessions over all targets, kept and used again. A target that cannot be reached is suspended, 5 s doubling to 60 s;
 *  then one session probes it before the others may follow. */
export function createPool ({ connections, hostname, timeouts }: PoolOptions): Pool {
  const idle = new Map<Target, Set<Session>>()
  const idleTimers = new Map<Session, NodeJS.Timeout>()
  const health = new Map<Target, Health>()
  const waiting: Waiter[] = []
  let open = 0
  let stopped = false

  async function use<T> (target: Target, act: (session: Session) => Promise<T>): Promise<T> {
    const session = await acquire(target)
    const before = session.messages
    try {
      const result = await act(session)
      if (session.usable && session.messages > before) recovered(target)
      return result
    } finally {
      release(target, session)
    }
  }

  async function acquire (target: Target): Promise<Session> {
    for (let woken = false; ; woken = true) {
      if (stopped) throw new Stopped('the pool is stopped')
      const known = takeIdle(target)
      if (known !== null) return known
      const sick = health.get(target)
      if (sick !== undefined && isSuspended(sick)) {
        // The place it was woken for is still free: the next in line may have it, or nobody would.
        if (woken) wakeNext()
        throw suspendedBy(sick)
      }
      if (open >= connections) closeAnyIdle()
      if (open < connections) return await connect(target)
      const handed = await new Promise<Session | null>((go, fail) => waiting.push({ target, go, fail }))
      if (handed !== null) return handed
    }
  }

  function isSuspended ({ probing, untilMs }: Health): boolean {
    return probing || Date.now() < untilMs
  }

  function suspendedBy ({ trouble, untilMs, sinceMs }: Health): Suspended {
    const nowMs = Date.now()
    return new Suspended(trouble, Math.max(250, untilMs - nowMs), nowMs - sinceMs)
  }

  /** A transaction went through: what was the matter is over, unless it is so fresh that the target is still being left alone. */
  function recovered (target: Target): void {
    const sick = health.get(target)
    if (sick !== undefined && !isSuspended(sick)) health.delete(target)
  }

  function wakeNext (): void {
    waiting.shift()?.go(null)
  }

  async function connect (target: Target): Promise<Session> {
    open++
    const sick = health.get(target)
    if (sick !== undefined) sick.probing = true
    try {
      const session = await openSession(target, hostname, timeouts)
      health.delete(target)
      session.connection.once('end', () => forgetIdle(target, session))
      return session
    } catch (error) {
      closed()
      const trouble = error instanceof HostTrouble ? error : new HostTrouble(asError(error).message, 'connect', null)
      blame(target, trouble)
      throw suspendedBy(health.get(target)!)
    }
  }

  /** Many sessions fail together; the first to say so counts for all. Whoever waits for the target need not wait in line. */
  function blame (target: Target, trouble: HostTrouble): void {
    const nowMs = Date.now()
    const before = health.get(target)
    if (before !== undefined && nowMs < before.untilMs && !before.probing) return
    const failures = (before?.failures ?? 0) + 1
    const untilMs = nowMs + backoffMs(failures, SUSPEND_FIRST_MS, SUSPEND_MAX_MS)
    const sick = { trouble, sinceMs: before?.sinceMs ?? nowMs, failures, untilMs, probing: false }
    health.set(target, sick)
    for (const waiter of waiting.filter(waiter => waiter.target === target)) {
      waiting.splice(waiting.indexOf(waiter), 1)
      waiter.fail(suspendedBy(sick))
    }
  }

  function release (target: Target, session: Session): void {
    if (!session.usable) return closed()
    if (session.messages >= MESSAGES_MAX || stopped) {
      quitSession(session)
      return closed()
    }
    if (!session.dirty) return offer(target, session)
    void resetSession(session, timeouts).then(clean => {
      session.dirty = false
      if (clean) return offer(target, session)
      closeSession(session)
      closed()
    })
  }

  /** To the first who waits for this target; else it is idle, and whoever waits for another may have its place. */
  function offer (target: Target, session: Session): void {
    const index = waiting.findIndex(waiter => waiter.target === target)
    if (index !== -1) return waiting.splice(index, 1)[0]!.go(session)
    idle.set(target, (idle.get(target) ?? new Set()).add(session))
    idleTimers.set(session, setTimeout(() => closeIdle(target, session), IDLE_MS).unref())
    wakeNext()
  }

  function closed (): void {
    open--
    wakeNext()
  }

  function takeIdle (target: Target): Session | null {
    for (const session of idle.get(target) ?? []) {
      unlist(target, session)
      if (session.usable) return session
      closed()
    }
    return null
  }

  function unlist (target: Target, session: Session): boolean {
    clearTimeout(idleTimers.get(session))
    idleTimers.delete(session)
    return idle.get(target)?.delete(session) ?? false
  }

  /** The server ended it while nobody used it. */
  function forgetIdle (target: Target, session: Session): void {
    if (unlist(target, session)) closed()
  }

  function closeIdle (target: Target, session: Session): void {
    if (!unlist(target, session)) return
    quitSession(session)
    closed()
  }

  function closeAnyIdle (): void {
    for (const [target, sessions] of idle) {
      for (const session of sessions) return closeIdle(target, session)
    }
  }

  function stop (): void {
    stopped = true
    for (const waiter of waiting.splice(0)) waiter.fail(new Stopped('the pool is stopped'))
    for (const [target, sessions] of idle) for (const session of sessions) closeIdle(target, session)
  }

  return { use, blame, stop }
}
