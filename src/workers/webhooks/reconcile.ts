import { sleep } from '#src/base/backoff.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'

/** What is looked at again and again, for a schedule that would have woken it may be lost. */
export interface Reconciling {
  unhealthyReason(): string | null
  /** Resolves once `signal` is aborted and the last look is over. */
  ended: Promise<void>
}

export interface ReconcilingOptions {
  /** Looks at all there is. What it throws is told, and it is asked again sooner. */
  look(): Promise<void>
  /** What a look that fails means, for an operator. */
  meaning: string
  signal: AbortSignal
  log: Log
}

const EVERY_MS = 300_000
const AGAIN_MS = 5000

/** Looks at once, and every 5 min. */
export function startReconciling ({ look, meaning, signal, log }: ReconcilingOptions): Reconciling {
  let unhealthyReason: string | null = null

  async function run (): Promise<void> {
    while (!signal.aborted) {
      unhealthyReason = await look().then(() => null, tell)
      await sleep(unhealthyReason === null ? EVERY_MS : AGAIN_MS, signal)
    }
  }

  function tell (thrown: unknown): string | null {
    if (signal.aborted) return null
    const error = asError(thrown)
    log.warn({ err: error }, meaning)
    return `${meaning}: ${error.message}`
  }

  return { unhealthyReason: () => unhealthyReason, ended: run() }
}
