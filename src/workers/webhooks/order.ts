/** Which deferred deliveries others have to wait for: the events of one email reach an endpoint in their order as long
 *  as nothing fails. */
export interface Order {
  /** Unix ms until which an earlier event of the same place is deferred, or null when none is. `seq` is the event's
   *  place in the log. */
  waitsUntil(place: string, seq: number, nowMs: number): number | null
  deferred(place: string, seq: number, untilMs: number): void
  /** It is over, however it ended: nobody waits for it any more. */
  settled(place: string, seq: number): void
}

/** Deferred in one place and remembered. An email has few events; of batches, which all share a place, very many may be
 *  deferred. */
const ENTRIES_MAX = 64

/** Bounded: in one place the soonest are forgotten first, for they are back first; beyond `max` entries in all, the
 *  places that nothing was deferred in for the longest time. What is forgotten is not waited for. */
export function createOrder (max: number): Order {
  const places = new Map<string, Map<number, number>>()
  let count = 0

  function forget (place: string, seq: number): void {
    const waiting = places.get(place)
    if (waiting?.delete(seq) === true) count--
    if (waiting?.size === 0) places.delete(place)
  }

  function forgetOldest (): void {
    const [oldest, waiting] = places.entries().next().value!
    places.delete(oldest)
    count -= waiting.size
  }

  return {
    waitsUntil (place, seq, nowMs) {
      let latestMs: number | null = null
      for (const [other, untilMs] of places.get(place) ?? []) {
        if (untilMs <= nowMs) forget(place, other)
        else if (other < seq && untilMs > (latestMs ?? 0)) latestMs = untilMs
      }
      return latestMs
    },
    deferred (place, seq, untilMs) {
      const waiting = places.get(place) ?? new Map<number, number>()
      if (!waiting.has(seq)) count++
      waiting.set(seq, untilMs)
      places.delete(place)
      places.set(place, waiting)
      if (waiting.size > ENTRIES_MAX) forget(place, soonestOf(waiting))
      while (count > max) forgetOldest()
    },
    settled: forget
  }
}

function soonestOf (waiting: Map<number, number>): number {
  let [soonest, soonestMs] = [0, Infinity]
  for (const [seq, untilMs] of waiting) if (untilMs < soonestMs) [soonest, soonestMs] = [seq, untilMs]
  return soonest
}
