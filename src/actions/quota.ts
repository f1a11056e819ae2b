import type { KeyEntry } from '#streams/directory.ts'
import type { Clock } from '#src/base/clock.ts'
import type { Quotas } from '#src/nats/counters.ts'
import type { LiveDirectory } from './directory.ts'
import type { PreparedEmail } from './email.ts'

const DAY_MS = 86_400_000

/** An account's mail of the day has as many recipients as its operator allows. */
export class QuotaExceeded extends Error {
  override name = 'QuotaExceeded'
  readonly recipientsPerDay: number
  /** Until the next day begins. */
  readonly retryAfterS: number
  constructor (recipientsPerDay: number, retryAfterS: number) {
    super(`The account must not send to more than ${recipientsPerDay} recipients a day (UTC).`)
    this.recipientsPerDay = recipientsPerDay
    this.retryAfterS = retryAfterS
  }
}

/** How many recipients an account's mail may have on a day (UTC), where its operator has set that. */
export class DailyQuota {
  private readonly quotas: Quotas
  private readonly directory: Pick<LiveDirectory, 'now'>
  private readonly clock: Clock

  constructor (quotas: Quotas, directory: Pick<LiveDirectory, 'now'>, clock: Clock) {
    this.quotas = quotas
    this.directory = directory
    this.clock = clock
  }

  /** Takes room for the recipients of emails, and resolves to what gives it back. A test key's reach nobody and take
   *  none. Throws QuotaExceeded. */
  async take ({ account, test }: Pick<KeyEntry, 'account' | 'test'>, emails: PreparedEmail[]): Promise<() => void> {
    const limit = this.limitOf(account)
    const count = emails.reduce((sum, { recipients }) => sum + recipients, 0)
    if (limit === null || test || count === 0) return () => {}
    const nowMs = this.clock.nowMs()
    const day = Math.floor(nowMs / DAY_MS)
    if (!await this.quotas.take(account, day, count, limit)) {
      throw new QuotaExceeded(limit, Math.ceil(((day + 1) * DAY_MS - nowMs) / 1000))
    }
    return () => this.quotas.giveBack(account, day, count)
  }

  /** What is taken today; null where there is no quota. Throws what `isUnanswered` knows. */
  async takenToday (account: string): Promise<number | null> {
    if (this.limitOf(account) === null) return null
    return await this.quotas.taken(account, Math.floor(this.clock.nowMs() / DAY_MS))
  }

  private limitOf (account: string): number | null {
    return this.directory.now.accounts.get(account)?.recipientsPerDay ?? null
  }
}
