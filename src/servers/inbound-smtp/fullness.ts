import type { Log } from '#src/base/log.ts'
import { api } from '#src/nats/api.ts'
import type { Bus } from '#src/nats/connect.ts'

/** How full INBOUND is. */
export interface Fullness {
  /** 1 = as full as it may be. */
  share(): number
  /** So many bytes were kept since the last look. */
  add(bytes: number): void
  stop(): void
}

export interface FullnessOptions {
  bus: Bus
  bytesMax: number
  /** Between two looks at the server. */
  lookMs: number
  log: Log
}

/** Of what the account may store the rest is for mail that goes out. */
const ACCOUNT_SHARE = 1 / 4
const TIMEOUT_MS = 2000

/** Looks at INBOUND now and again. Where nobody answers, what was seen last holds: without NATS nothing is kept anyway.
 */
export async function watchFullness ({ bus, bytesMax, lookMs, log }: FullnessOptions): Promise<Fullness> {
  let bytes = 0
  let max = bytesMax
  let full = false

  async function look (): Promise<void> {
    const [stream, account] = await Promise.all([
      api<{ state: { bytes: number } }>(bus, 'STREAM.INFO.INBOUND', undefined, TIMEOUT_MS),
      api<{ limits: { max_storage: number } }>(bus, 'INFO', undefined, TIMEOUT_MS)
    ])
    bytes = stream.state.bytes
    // Zero and less stand for no limit.
    max = account.limits.max_storage > 0 ? Math.min(bytesMax, account.limits.max_storage * ACCOUNT_SHARE) : bytesMax
    if (full !== (full = bytes >= max) && full) {
      log.warn(
        { bytes, bytesMax: max },
        'INBOUND is full: mail that comes back is refused until some of it is old enough to go'
      )
    }
  }

  const lookQuietly = () => look().catch(error => log.debug({ err: error }, 'the size of INBOUND is not known'))
  await lookQuietly()
  const timer = setInterval(lookQuietly, lookMs)
  return {
    share: () => bytes / max,
    add: more => {
      bytes += more
    },
    stop: () => clearInterval(timer)
  }
}
