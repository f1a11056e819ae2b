import type { Pending } from '#streams/delivery/state.ts'

/** Deferrals remembered under one key. An email has few events; of batches, which share one key, very many may be
 *  deferred. */
const PER_KEY_MAX = 64

/** Which deferred deliveries later ones must wait for: the events of one email reach an endpoint in their order as long
 *  as nothing fails. `seq` is a delivery's place in the log. Bounded: of one key the soonest is forgotten first, since
 *  it is back first; beyond `max` in all, the key that has had no deferral for the longest time. A forgotten one is not
 *  waited for. */
export class Deferrals {
  private readonly max: number
  private readonly keys = new Map<string, Map<number, number>>()
  private count = 0

  constructor (max: number) {
    this.max = max
  }

  /** Unix ms until which an earlier delivery of the same key is deferred, or null when none is. */
  waitsUntil (key: string, seq: number, nowMs: number): number | null {
    let latestMs: number | null = null
    for (const [other, untilMs] of this.keys.get(key) ?? []) {
      if (untilMs <= nowMs) this.settled(key, other)
      else if (other < seq && untilMs > (latestMs ?? 0)) latestMs = untilMs
    }
    return latestMs
  }

  deferred (key: string, seq: number, untilMs: number): void {
    const deferrals = this.keys.get(key) ?? new Map<number, number>()
    if (!deferrals.has(seq)) this.count++
    deferrals.set(seq, untilMs)
    this.keys.delete(key)
    this.keys.set(key, deferrals)
    if (deferrals.size > PER_KEY_MAX) this.settled(key, soonestOf(deferrals))
    while (this.count > this.max) this.forgetOldestKey()
  }

  /** The delivery has ended, however: nothing waits for it. */
  settled (key: string, seq: number): void {
    const deferrals = this.keys.get(key)
    if (deferrals?.delete(seq) === true) this.count--
    if (deferrals?.size === 0) this.keys.delete(key)
  }

  private forgetOldestKey (): void {
    const [oldest, deferrals] = this.keys.entries().next().value!
    this.keys.delete(oldest)
    this.count -= deferrals.size
  }
}

function soonestOf (deferrals: Map<number, number>): number {
  let [soonest, soonestMs] = [0, Infinity]
  for (const [seq, untilMs] of deferrals) if (untilMs < soonestMs) [soonest, soonestMs] = [seq, untilMs]
  return soonest
}

export function isReplay ({ owed }: Pending): boolean {
  return owed.replay !== null
}

export function seqOf ({ owed }: Pending): number {
  return owed.events[0]!.seq
}

/** Whose order an endpoint gets: an email's; batches hold events of many, and go one after the other. Replays have an
 *  order of their own: a new event never waits for one. */
export function orderingKeyAt (pending: Pending): string {
  const { batch, events } = pending.owed
  return `${isReplay(pending) ? 'replay ' : ''}${batch ? 'batch' : events[0]!.email}`
}

export function orderingKeyOf (pending: Pending): string {
  return `${pending.owed.webhook} ${orderingKeyAt(pending)}`
}
