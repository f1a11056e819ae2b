/** Of a request that may bring attachments, or a file. */
export const BIG_BODY_BYTES_MAX = 20 * 1024 * 1024
/** Body bytes of this process under way at once: what is parsed takes several times as much. */
const BYTES_MAX = 128 * 1024 * 1024
/** An account may hold this share of them, so that some are left for the others. */
const ACCOUNT_BYTES_MAX = BYTES_MAX / 2

/** A body on its way. */
export interface ArrivingBody {
  /** All of it is here: what it waits for is ours. */
  isWhole(): boolean
  bytesRead(): number
  /** Ends its connection. */
  cut(): void
}

export interface BudgetTimes {
  waitMs: number
  /** Who has waited so long takes the room of slower ones. */
  patienceMs: number
  /** They have had so long to arrive. */
  graceMs: number
}

const TIMES: BudgetTimes = { waitMs: 10_000, patienceMs: 2000, graceMs: 5000 }

type GiveBack = () => void

interface Wish {
  account: string
  bytes: number
  body: ArrivingBody
}

type Waiting = Wish & { begin(giveBack: GiveBack): void }
type Held = Wish & { sinceMs: number }

/** Room for big bodies: a request waits until there is some, and its body meanwhile stays where it comes from. The
 *  account that holds least is served first, and takes the room of those that hold more and let theirs trickle: else
 *  two accounts could keep all of it by sending nothing. */
export class BodyBudget {
  private free = BYTES_MAX
  private readonly held = new Set<Held>()
  /** In their order. */
  private readonly waiting = new Set<Waiting>()
  private readonly times: BudgetTimes

  constructor (times: Partial<BudgetTimes> = {}) {
    this.times = { ...TIMES, ...times }
  }

  /** Takes `bytes`, and resolves to what gives them back; null when there was no room in time, by default 10 s. */
  async take (account: string, bytes: number, body: ArrivingBody): Promise<GiveBack | null> {
    const wish = { account, bytes, body }
    if (this.fits(wish)) return this.hold(wish)
    const { waitMs, patienceMs } = this.times
    const { promise, resolve } = Promise.withResolvers<GiveBack | null>()
    const waiting = { ...wish, begin: resolve }
    this.waiting.add(waiting)
    const ending = setTimeout(() => resolve(null), waitMs)
    const hurrying = setInterval(() => this.makeRoom(waiting), patienceMs)
    return await promise.finally(() => {
      for (const timer of [ending, hurrying]) clearTimeout(timer)
      this.waiting.delete(waiting)
    })
  }

  private hold (wish: Wish): GiveBack {
    const held = { ...wish, sinceMs: performance.now() }
    this.held.add(held)
    this.free -= wish.bytes
    return () => {
      this.held.delete(held)
      this.free += wish.bytes
      this.beginNext()
    }
  }

  /** Cuts the slowest bodies of accounts that would still hold as much as who waits. */
  private makeRoom ({ account, bytes }: Wish): void {
    const nowMs = performance.now()
    const rate = ({ body, sinceMs }: Held) => body.bytesRead() / (nowMs - sinceMs)
    const wanted = this.heldBy(account) + bytes
    const slow = [...this.held]
      .filter(one => !one.body.isWhole() && nowMs - one.sinceMs >= this.times.graceMs)
      .filter(one => this.heldBy(one.account) >= wanted)
      .sort((a, b) => this.heldBy(b.account) - this.heldBy(a.account) || rate(a) - rate(b))
    let missing = bytes - this.free
    for (const one of slow) {
      if (missing <= 0) return
      missing -= one.bytes
      one.body.cut()
    }
  }

  private beginNext (): void {
    const poorestFirst = [...this.waiting].sort((a, b) => this.heldBy(a.account) - this.heldBy(b.account))
    for (const waiting of poorestFirst) {
      if (!this.fits(waiting)) continue
      this.waiting.delete(waiting)
      waiting.begin(this.hold(waiting))
    }
  }

  private fits ({ account, bytes }: Wish): boolean {
    return bytes <= this.free && this.heldBy(account) + bytes <= ACCOUNT_BYTES_MAX
  }

  private heldBy (account: string): number {
    let bytes = 0
    for (const held of this.held) if (held.account === account) bytes += held.bytes
    return bytes
  }
}
