/** Which parked deliveries others have to wait for: the events of one email reach an endpoint in their order as long as nothing fails. */
export interface Order {
  /** Unix ms until which an earlier event of the same place is parked, or null when none is. `seq` is the event's place in the log. */
  waitsUntil (place: string, seq: number, nowMs: number): number | null
  parked (place: string, seq: number, untilMs: number): void
  settled (place: string, seq: number): void
}

/** Bounded: beyond `max` places the oldest is forgotten, and order there is no longer kept. */
export function createOrder (max: number): Order {
  const places = new Map<string, Map<number, number>>()
  return {
    waitsUntil (place, seq, nowMs) {
      let latestMs = nowMs
      for (const [other, untilMs] of places.get(place) ?? []) if (other < seq && untilMs > latestMs) latestMs = untilMs
      return latestMs > nowMs ? latestMs : null
    },
    parked (place, seq, untilMs) {
      const waiting = places.get(place) ?? new Map<number, number>()
      waiting.set(seq, untilMs)
      places.set(place, waiting)
      if (places.size > max) places.delete(places.keys().next().value!)
    },
    settled (place, seq) {
      const waiting = places.get(place)
      waiting?.delete(seq)
      if (waiting?.size === 0) places.delete(place)
    }
  }
}
