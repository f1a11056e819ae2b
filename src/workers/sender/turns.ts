export interface TurnsOptions {
  /** At once: in all, and of one kind. */
  max: number
  eachMax: number
  /** Nobody waits for longer; nobody waits at all when so many do already, in all or of the same kind. */
  waitMs: number
  waitingMax: number
  waitingEachMax: number
}

interface Waiter {
  kind: string
  go: (mayGo: boolean) => void
}

/** Lets in so many at once, and so many of one kind: who comes then waits, and whose kind has room goes before those
 *  whose kind has none. */
export class Turns {
  private readonly options: TurnsOptions
  private readonly inside = new Map<string, number>()
  private readonly waiting = new Set<Waiter>()
  private total = 0

  constructor (options: TurnsOptions) {
    this.options = options
  }

  /** Whether there is neither room nor a place in the line. */
  isFull (kind: string): boolean {
    if (this.hasRoom(kind)) return false
    const alike = [...this.waiting].filter(waiter => waiter.kind === kind).length
    return this.waiting.size >= this.options.waitingMax || alike >= this.options.waitingEachMax
  }

  /** True once it is one's turn, and then `leave` must follow; false when it did not come in time. */
  async enter (kind: string): Promise<boolean> {
    if (this.hasRoom(kind)) return this.admit(kind)
    if (this.isFull(kind)) return false
    const { promise, resolve } = Promise.withResolvers<boolean>()
    const waiter = { kind, go: resolve }
    this.waiting.add(waiter)
    const timer = setTimeout(() => {
      if (this.waiting.delete(waiter)) resolve(false)
    }, this.options.waitMs).unref()
    return await promise.finally(() => clearTimeout(timer))
  }

  leave (kind: string): void {
    this.total--
    const left = this.inside.get(kind)! - 1
    if (left === 0) this.inside.delete(kind)
    else this.inside.set(kind, left)
    for (const waiter of this.waiting) {
      if (!this.hasRoom(waiter.kind)) continue
      this.waiting.delete(waiter)
      waiter.go(this.admit(waiter.kind))
      return
    }
  }

  private hasRoom (kind: string): boolean {
    return this.total < this.options.max && (this.inside.get(kind) ?? 0) < this.options.eachMax
  }

  private admit (kind: string): true {
    this.total++
    this.inside.set(kind, (this.inside.get(kind) ?? 0) + 1)
    return true
  }
}
