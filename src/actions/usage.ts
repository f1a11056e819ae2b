import { UsageClosed } from '#streams/usage/facts.ts'
import { Conflict } from '#src/nats/errors.ts'
import { stamp, type FactLog } from './fact-log.ts'

/** Closes a month of an account for ever; false = that has been done. Throws LogUnavailable. */
export async function closeMonth (
  { append, clock }: Pick<FactLog, 'append' | 'clock'>,
  account: string,
  closed: UsageClosed['data']
): Promise<boolean> {
  const fact = stamp(UsageClosed, { account, correlation: 'usage', causation: null }, closed, clock.nowMs())
  try {
    await append([{ fact, expectedSeq: 0 }])
    return true
  } catch (error) {
    if (error instanceof Conflict) return false
    throw error
  }
}
