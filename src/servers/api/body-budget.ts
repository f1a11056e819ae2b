/** Of a request that may bring attachments, or a file. */
export const BIG_BODY_BYTES_MAX = 20 * 1024 * 1024
/** Body bytes of this process under way at once: what is parsed takes several times as much. */
const BYTES_MAX = 128 * 1024 * 1024
/** An account may hold this share of them, so that some are left for the others. */
const ACCOUNT_BYTES_MAX = BYTES_MAX / 2
const WAIT_MS = 10_000

interface Waiting {
  account: string
  bytes: number
  begin(): void
}

/** Room for big bodies: a request waits until there is some, and its body meanwhile stays where it comes from. */
export class BodyBudget {
  private free = BYTES_MAX
  private readonly held = new Map<string, number>()
  /** In their order. */
  private readonly waiting = new Set<Waiting>()
  private readonly waitMs: number

  constructor (waitMs = WAIT_MS) {
    this.waitMs = waitMs
  }

  /** Takes `bytes`, and resolves to what gives them back; null when there was no room in time, by default 10 s. */
  async take (account: string, bytes: number): Promise<(() => void) | null> {
    if (!await this.hasRoom(account, bytes)) return null
    return () => {
      this.add(account, -bytes)
      this.beginNext()
    }
  }

  private hasRoom (account: string, bytes: number): Promise<boolean> {
    if (this.fits({ account, bytes })) {
      this.add(account, bytes)
      return Promise.resolve(true)
    }
    return new Promise(resolve => {
      const waiting: Waiting = {
        account,
        bytes,
        begin: () => {
          clearTimeout(timer)
          resolve(true)
        }
      }
      const timer = setTimeout(() => {
        this.waiting.delete(waiting)
        resolve(false)
      }, this.waitMs)
      this.waiting.add(waiting)
    })
  }

  private beginNext (): void {
    for (const waiting of this.waiting) {
      if (!this.fits(waiting)) continue
      this.waiting.delete(waiting)
      this.add(waiting.account, waiting.bytes)
      waiting.begin()
    }
  }

  private fits ({ account, bytes }: Pick<Waiting, 'account' | 'bytes'>): boolean {
    return bytes <= this.free && (this.held.get(account) ?? 0) + bytes <= ACCOUNT_BYTES_MAX
  }

  private add (account: string, bytes: number): void {
    const held = (this.held.get(account) ?? 0) + bytes
    this.free -= bytes
    if (held === 0) this.held.delete(account)
    else this.held.set(account, held)
  }
}
