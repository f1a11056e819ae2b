import { Memory } from '#src/base/memory.ts'

/** The bound on hosts remembered at one site. */
const HOSTS_MAX = 1000
/** How long hosts that refused one more connection are left with what they took; then one more is tried. */
const HOLD_MS = 5 * 60_000

/** Connections to the hosts of one site, by the hosts' name, and how many of them they bear: known once they have
 *  refused one more while they went on with the others. Times are `nowMs` of one clock. */
export class HostLimits {
  /** Those being opened included. */
  private readonly open = new Map<string, number>()
  private readonly limits = new Memory<{ limit: number, sinceMs: number }>(HOSTS_MAX)

  opened (hosts: string): void {
    this.open.set(hosts, this.openTo(hosts) + 1)
  }

  closed (hosts: string): void {
    const left = this.openTo(hosts) - 1
    if (left > 0) this.open.set(hosts, left)
    else this.open.delete(hosts)
  }

  isFull (hosts: string, nowMs: number): boolean {
    const known = this.limits.get(hosts)
    if (known === undefined) return false
    return this.openTo(hosts) >= known.limit + (nowMs - known.sinceMs < HOLD_MS ? 0 : 1)
  }

  /** A connection stands: with more than the limit of them, there is none any more. */
  connected (hosts: string): void {
    const known = this.limits.get(hosts)
    if (known !== undefined && this.openTo(hosts) > known.limit) this.limits.delete(hosts)
  }

  /** The last that was opened failed. True = it was one more: the others, open or being opened, are the limit from now
   *  on. False = there is no other, so it says nothing about a limit. */
  refused (hosts: string, nowMs: number): boolean {
    const limit = this.openTo(hosts) - 1
    if (limit > 0) this.limits.set(hosts, { limit, sinceMs: nowMs })
    else this.limits.delete(hosts)
    return limit > 0
  }

  private openTo (hosts: string): number {
    return this.open.get(hosts) ?? 0
  }
}
