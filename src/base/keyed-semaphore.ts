export interface SemaphoreOptions {
  /** Holders at once: in all, and of one key. */
  max: number
  maxPerKey: number
  /** How long to wait; and how many may wait, in all and of one key. */
  waitMs: number
  waitingMax: number
  waitingMaxPerKey: number
}

interface Waiter {
  key: string
  resolve: (acquired: boolean) => void
}

/** Bounds what runs at once, in all and by key. A waiter whose key has room goes before those whose key has none. */
export class KeyedSemaphore {
  private readonly options: SemaphoreOptions
  private readonly held = new Map<string, number>()
  private readonly waiting = new Set<Waiter>()
  private total = 0

  constructor (options: SemaphoreOptions) {
    this.options = options
  }

  /** Whether `acquire` would fail at once. */
  isFull (key: string): boolean {
    if (this.hasRoom(key)) return false
    const alike = [...this.waiting].filter(waiter => waiter.key === key).length
    return this.waiting.size >= this.options.waitingMax || alike >= this.options.waitingMaxPerKey
  }

  /** True once there is room, and then `release` must follow; false when there is none in time. */
  async acquire (key: string): Promise<boolean> {
    if (this.hasRoom(key)) return this.hold(key)
    if (this.isFull(key)) return false
    const { promise, resolve } = Promise.withResolvers<boolean>()
    const waiter = { key, resolve }
    this.waiting.add(waiter)
    const timer = setTimeout(() => {
      if (this.waiting.delete(waiter)) resolve(false)
    }, this.options.waitMs).unref()
    return await promise.finally(() => clearTimeout(timer))
  }

  release (key: string): void {
    this.total--
    const left = this.held.get(key)! - 1
    if (left === 0) this.held.delete(key)
    else this.held.set(key, left)
    for (const waiter of this.waiting) {
      if (!this.hasRoom(waiter.key)) continue
      this.waiting.delete(waiter)
      waiter.resolve(this.hold(waiter.key))
      return
    }
  }

  private hasRoom (key: string): boolean {
    return this.total < this.options.max && (this.held.get(key) ?? 0) < this.options.maxPerKey
  }

  private hold (key: string): true {
    this.total++
    this.held.set(key, (this.held.get(key) ?? 0) + 1)
    return true
  }
}
