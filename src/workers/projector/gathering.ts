import { sleep } from '#src/base/backoff.ts'
import type { Bus } from '#src/nats/connect.ts'

/** Asked for by those who wait for a projection, in any process. No stream keeps it: lost, it costs the reader a
 *  round. */
const HURRY = 'projections.hurry'

/** From the first fact on, while nobody waits for it: a transaction costs PostgreSQL about the same however few facts
 *  it brings. */
const PATIENT_MS = 250
/** While somebody waits: from the first fact, and from the end of the round before. */
const HURRIED_MS = 2
const APART_MS = 20
/** A fact may come so long after it was asked for. */
const HURRY_MS = 200

/** Those of this process, by connection: NATS does not tell a connection what came from it. */
const gatherings = new WeakMap<Bus, Set<Gathering>>()

/** Asks the projectors, those of other processes too, to write at once what they have. */
export function hurryProjectors (bus: Bus): void {
  for (const gathering of gatherings.get(bus) ?? []) gathering.hurry()
  if (bus.upSinceMs() !== null) bus.nc.publish(HURRY)
}

/** The rounds in which the projectors of a process gather facts: all end together, so that one transaction can write
 *  what they have. */
export class Gathering {
  private round: { over: Promise<void>, end: AbortController } | null = null
  private endedMs = 0
  private hurriedMs = -Infinity
  private readonly stopHearing: () => void
  /** Of the same connection. */
  private readonly siblings: Set<Gathering>

  private readonly patientMs: number
  private members: number

  /** `members`: the projectors. */
  constructor ({ bus, members, patientMs = PATIENT_MS }: { bus: Bus, members: number, patientMs?: number }) {
    this.patientMs = patientMs
    this.members = members
    this.stopHearing = bus.hear(HURRY, () => this.hurry())
    this.siblings = gatherings.get(bus) ?? new Set()
    gatherings.set(bus, this.siblings.add(this))
  }

  /** Resolves when the round is over; to be called when a projector has a first fact. */
  wait (): Promise<void> {
    this.round ??= this.begin()
    return this.round.over
  }

  /** A projector ends: it writes what it has, and the last one listens no more. */
  leave (): void {
    this.round?.end.abort()
    if (--this.members > 0) return
    this.stopHearing()
    this.siblings.delete(this)
  }

  hurry (): void {
    this.hurriedMs = performance.now()
    this.round?.end.abort()
  }

  private begin () {
    const end = new AbortController()
    return { over: this.last(end.signal), end }
  }

  private async last (hurried: AbortSignal): Promise<void> {
    if (performance.now() - this.hurriedMs > HURRY_MS) await sleep(this.patientMs, hurried)
    await sleep(Math.max(HURRIED_MS, this.endedMs + APART_MS - performance.now()))
    this.endedMs = performance.now()
    this.round = null
  }
}
