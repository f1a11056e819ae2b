import type { KeyEntry } from '#streams/directory.ts'
import { subjects } from '#streams/subjects.ts'
import { Memory } from '#src/base/memory.ts'
import type { Bus } from './connect.ts'
import { lastMessagesOf } from './lookup.ts'
import { publishUnacknowledged } from './publish.ts'

/** A use is stored when the one before was stored so long ago: keys may be used a thousand times a second. */
export const USE_EVERY_MS = 5 * 60_000
const NOTED_MAX = 100_000

type Key = Pick<KeyEntry, 'id' | 'account'>

/** When keys were last used, in the stream USES, which says so with five minutes' accuracy and promises nothing. */
export class KeyUses {
  private readonly bus: Bus
  /** When a use was last stored by this process, Unix ms; by the key's id. */
  private readonly noted = new Memory<number>(NOTED_MAX)

  constructor (bus: Bus) {
    this.bus = bus
  }

  /** Never waits, and never throws. */
  note ({ id, account }: Key, nowMs: number): void {
    if (nowMs < (this.noted.get(id) ?? 0) + USE_EVERY_MS) return
    this.noted.set(id, nowMs)
    publishUnacknowledged(this.bus, subjects.use(account, id), String(nowMs))
  }

  /** Unix ms by the key's id, for those that were used within 400 days. Deadline 2 s for each 512 keys. Throws what
   *  `isUnanswered` knows. */
  async lastOf (keys: readonly Key[]): Promise<Map<string, number>> {
    const found = await lastMessagesOf(this.bus, 'USES', keys.map(({ account, id }) => subjects.use(account, id)))
    return new Map(keys.flatMap(({ id, account }): Array<[string, number]> => {
      const stored = found.get(subjects.use(account, id))
      const storedMs = stored === undefined ? 0 : Number(Buffer.from(stored.data).toString())
      const ms = Math.max(storedMs, this.noted.get(id) ?? 0)
      return ms > 0 ? [[id, ms]] : []
    }))
  }
}
