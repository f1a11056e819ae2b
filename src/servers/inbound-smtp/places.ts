/** Places for mails on their way in. */
export interface Places {
  /** Takes one for a session; else whose fault it is that there is none. */
  take(session: string, network: string): 'taken' | 'all taken' | 'too many of yours'
  /** The mail is in: what is left to do is ours, and it cannot be late any more. */
  received(session: string): void
  leave(session: string): void
  has(session: string): boolean
  /** It has been on its way for longer than one may be. */
  isLate(session: string): boolean
}

export interface PlacesOptions {
  max: number
  /** For one network while half are free. */
  ofNetworkMax: number
  /** For one network when fewer are: those who send now and then find one even while some networks let theirs trickle.
   */
  ofNetworkCrowdedMax: number
  /** For one mail. */
  ms: number
  nowMs: () => number
}

/** A bounded number of places, of which no network gets all. */
export function createPlaces ({ max, ofNetworkMax, ofNetworkCrowdedMax, ms, nowMs }: PlacesOptions): Places {
  const taken = new Map<string, { network: string, endMs: number }>()

  return {
    take (session, network) {
      if (taken.size >= max) return 'all taken'
      const ofNetwork = [...taken.values()].filter(place => place.network === network).length
      if (ofNetwork >= (taken.size < max / 2 ? ofNetworkMax : ofNetworkCrowdedMax)) return 'too many of yours'
      taken.set(session, { network, endMs: nowMs() + ms })
      return 'taken'
    },
    received (session) {
      const place = taken.get(session)
      if (place !== undefined) place.endMs = Infinity
    },
    leave: session => void taken.delete(session),
    has: session => taken.has(session),
    isLate: session => nowMs() > (taken.get(session)?.endMs ?? Infinity)
  }
}
