import { RetryLater } from './errors.ts'
import type { Dial, Site } from './site.ts'

/** Sites that have never answered a mail hold at most this part of all connections, and one address at most this many
 *  of them: many domains that point to servers which only hold connections keep nobody else's mail waiting. */
const UNPROVEN_PART = 2
const UNPROVEN_PER_ADDRESS = 3
/** A mail that finds no capacity at the address of such a site comes back after this long, and up to twice that: it may
 *  take a while until a connection closes. */
const ADDRESS_WAIT_MS = 5000

/** Counts the connections of sites that are not proven, in all and by address. */
export class UnprovenQuota {
  private readonly max: number
  private readonly random: () => number
  private open = 0
  /** By address, connections whose first transaction has not ended. */
  private readonly atAddress = new Map<string, number>()

  constructor (connections: number, random: () => number) {
    this.max = Math.max(1, Math.floor(connections / UNPROVEN_PART))
    this.random = random
  }

  opened ({ proven }: Site): void {
    if (!proven) this.open++
  }

  closed ({ proven }: Site): void {
    if (!proven) this.open--
  }

  /** The site has answered a mail: its connections no longer count. */
  proved (site: Site): void {
    site.proven = true
    this.open -= site.open
  }

  isUsedUpFor ({ proven }: Site): boolean {
    return !proven && this.open >= this.max
  }

  /** `dial` for opening one connection; `release` ends its counting at its address, and may be called twice. */
  dialTo (site: Site): { dial: Dial, release: () => void } {
    let held: string | null = null
    const release = () => {
      if (held !== null) this.leave(held)
      held = null
    }
    const at = (address: string) => {
      release()
      const count = this.atAddress.get(address) ?? 0
      if (!site.proven && count >= UNPROVEN_PER_ADDRESS) throw new RetryLater(ADDRESS_WAIT_MS * (1 + this.random()))
      site.pace.connectionBegun(Date.now())
      if (site.proven) return
      this.atAddress.set(address, count + 1)
      held = address
    }
    return { dial: { unproven: site.isInHaste(), at }, release }
  }

  private leave (address: string): void {
    const left = this.atAddress.get(address)! - 1
    if (left > 0) this.atAddress.set(address, left)
    else this.atAddress.delete(address)
  }
}
