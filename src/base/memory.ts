/** A map of at most `max` entries: the one that was set longest ago is evicted first. */
export class Memory<T> {
  private readonly entries = new Map<string, T>()
  private readonly max: number

  constructor (max: number) {
    this.max = max
  }

  get (key: string): T | undefined {
    return this.entries.get(key)
  }

  set (key: string, value: T): void {
    this.entries.delete(key)
    this.entries.set(key, value)
    if (this.entries.size > this.max) this.entries.delete(this.entries.keys().next().value!)
  }

  has (key: string): boolean {
    return this.entries.has(key)
  }

  some (holds: (value: T, key: string) => boolean): boolean {
    for (const [key, value] of this.entries) if (holds(value, key)) return true
    return false
  }

  delete (key: string): void {
    this.entries.delete(key)
  }
}
