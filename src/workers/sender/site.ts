import type { HostTrouble, Session } from './session.ts'
import { Memory } from '#src/base/memory.ts'
import { Pace } from './pace.ts'
import type { Shape } from './shaping.ts'
import type { Relay } from './target.ts'

/** Where a mail goes: a site, and what this mail asks of its sessions. Mails of many domains go to one site. */
export interface Place {
  via: 'relay' | 'mx'
  /** Names the site. */
  site: string | Relay
  shape: Shape
  /** Names what fails together: within a great provider's site, the hosts of one domain may be down alone. */
  hosts: string
  /** Whose mail it is; '' = that makes no difference. */
  domain: string
  /** Whether the mail may go over this session. */
  takes(session: Session): boolean
  /** Opens a session it may go over; throws HostTrouble, or what `dial` throws. */
  open(dial: Dial): Promise<Session>
}

/** How a session is opened. */
export interface Dial {
  /** Nothing is known of the site yet: its first words may not take as long as others'. */
  stranger: boolean
  /** To be told of each address before it is dialled. Throws Crowded when too many strangers are spoken to there
   *  already. */
  at(address: string): void
}

/** Trouble with hosts, since when, and until when they are left alone. */
export interface Health {
  trouble: HostTrouble
  sinceMs: number
  failures: number
  untilMs: number
  /** One session looks whether it is over. */
  probing: boolean
}

export interface Waiter {
  place: Place
  go: (session: Session) => void
  fail: (error: Error) => void
}

/** Of a great site's many hosts, so many in trouble are remembered. */
const HEALTH_MAX = 1000
/** Of a shared site's many domains, so many are remembered that spoke of our reputation, for so long. */
const HEARSAY_MAX = 100
const HEARSAY_MS = 15 * 60_000
/** A server that is only slow would never be proven: after so many tries it has all the time there is. */
const TRIES_IN_HASTE = 3

/** One site, as this process knows it. */
export class Site {
  readonly via: Place['via']
  readonly shape: Shape
  readonly pace: Pace
  /** By the hosts' name; WHOLE = all of them. */
  readonly health = new Memory<Health>(HEALTH_MAX)
  waiting: Waiter[] = []
  readonly idle = new Set<Session>()
  /** Connections, those being made too. */
  open = 0
  /** What failed so far, to tell what went well meanwhile. */
  failures = 0
  /** It has answered a mail: it is no trap that only holds connections. */
  proven: boolean
  /** Tries that came to nothing before it was proven. */
  tries = 0
  private readonly hearsay = new Memory<number>(HEARSAY_MAX)
  /** Set while the rate alone holds mail back. */
  timer: NodeJS.Timeout | undefined

  constructor ({ via, shape }: Place) {
    this.via = via
    this.shape = shape
    this.proven = via === 'relay'
    this.pace = new Pace(shape, via === 'mx')
  }

  /** What keeps mail from going there now, or null. */
  sickness ({ hosts }: Place, nowMs: number): Health | null {
    for (const name of [WHOLE, hosts]) {
      const health = this.health.get(name)
      if (health !== undefined && isSuspended(health, nowMs)) return health
    }
    return null
  }

  isStranger (): boolean {
    return !this.proven && this.tries < TRIES_IN_HASTE
  }

  /** Notes what one domain's replies say; whether another's have said it of late. */
  confirms (domain: string, nowMs: number): boolean {
    this.hearsay.set(domain, nowMs)
    return this.hearsay.some((saidMs, other) => other !== domain && nowMs - saidMs < HEARSAY_MS)
  }

  isFull (): boolean {
    return this.open >= this.pace.connections()
  }

  /** Nothing is going on. */
  rests (): boolean {
    return this.open === 0 && this.waiting.length === 0
  }

  /** The first in line who may use this session, taken from the line. */
  takeWaiterFor (session: Session): Waiter | null {
    const index = this.waiting.findIndex(({ place }) => place.takes(session))
    return index === -1 ? null : this.takeWaiter(index)
  }

  takeWaiter (index: number): Waiter {
    return index === 0 ? this.waiting.shift()! : this.waiting.splice(index, 1)[0]!
  }

  /** Takes those from the line who wait for these hosts. */
  takeWaitersFor (hosts: string): Waiter[] {
    const leaves = ({ place }: Waiter) => hosts === WHOLE || place.hosts === hosts
    const leaving = this.waiting.filter(leaves)
    this.waiting = this.waiting.filter(waiter => !leaves(waiter))
    return leaving
  }

  idleFor (place: Place): Session | null {
    for (const session of this.idle) if (place.takes(session)) return session
    return null
  }
}

/** The name under which a site's health as a whole is kept. */
export const WHOLE = ''

export function isSuspended ({ probing, untilMs }: Health, nowMs: number): boolean {
  return probing || nowMs < untilMs
}
