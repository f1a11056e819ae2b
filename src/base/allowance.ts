interface ReceiveSlotsOptions {
  max: number
  /** For one network while at least half of the slots are free. */
  maxPerNetwork: number
  /** For one network when fewer are free: a sender finds a slot even while some networks let their mail trickle. */
  maxPerNetworkBusy: number
  /** How long one mail may take. */
  timeoutMs: number
  nowMs: () => number
}

interface Slot {
  network: string
  endMs: number
}

/** Slots for mails on their way in, by session; no network gets all of them. */
export class ReceiveSlots {
  private readonly options: ReceiveSlotsOptions
  private readonly slots = new Map<string, Slot>()

  constructor (options: ReceiveSlotsOptions) {
    this.options = options
  }

  /** `busy` = no slot is free; `network_busy` = the network has too many. */
  acquire (session: string, network: string): 'acquired' | 'busy' | 'network_busy' {
    const { max, maxPerNetwork, maxPerNetworkBusy, timeoutMs, nowMs } = this.options
    if (this.slots.size >= max) return 'busy'
    const ofNetwork = [...this.slots.values()].filter(slot => slot.network === network).length
    if (ofNetwork >= (this.slots.size < max / 2 ? maxPerNetwork : maxPerNetworkBusy)) return 'network_busy'
    this.slots.set(session, { network, endMs: nowMs() + timeoutMs })
    return 'acquired'
  }

  /** The whole mail is in: what is left to do is ours, so it cannot be late any more. */
  received (session: string): void {
    const slot = this.slots.get(session)
    if (slot !== undefined) slot.endMs = Infinity
  }

  release (session: string): void {
    this.slots.delete(session)
  }

  has (session: string): boolean {
    return this.slots.has(session)
  }

  /** Its mail has taken too long. */
  isLate (session: string): boolean {
    return this.options.nowMs() > (this.slots.get(session)?.endMs ?? Infinity)
  }
}

/** At most `max` in a window for each name, for a bounded number of names. */
export interface Allowance {
  /** True when one more is within the allowance. */
  has(name: string): boolean
  /** True when one more is within the allowance; then it counts. */
  take(name: string): boolean
}

export interface AllowanceOptions {
  max: number
  windowMs: number
  /** Names remembered at once; when there are more, the one whose window began first is forgotten. */
  namesMax: number
  nowMs: () => number
}

/** A window begins with a name's first take, so the table is in the order of their beginning. */
export function createAllowance ({ max, windowMs, namesMax, nowMs }: AllowanceOptions): Allowance {
  const windows = new Map<string, { endMs: number, count: number }>()

  function begin (name: string): boolean {
    windows.delete(name)
    if (windows.size >= namesMax) windows.delete(windows.keys().next().value!)
    windows.set(name, { endMs: nowMs() + windowMs, count: 1 })
    return max > 0
  }

  /** Null when it has not begun or is over. */
  function windowOf (name: string): { count: number } | null {
    const window = windows.get(name)
    return window === undefined || window.endMs <= nowMs() ? null : window
  }

  return {
    has: name => (windowOf(name)?.count ?? 0) < max,
    take (name) {
      const window = windowOf(name)
      if (window === null) return begin(name)
      if (window.count >= max) return false
      window.count++
      return true
    }
  }
}
