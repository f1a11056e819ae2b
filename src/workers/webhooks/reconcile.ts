import { sleep } from '#src/base/backoff.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'

/** Reconciles every 5 min, since a schedule may be lost. */
export interface ReconcileLoop {
  unhealthyReason(): string | null
  /** Resolves once `signal` is aborted and the last reconciliation is over. */
  ended: Promise<void>
}

export interface ReconcileLoopOptions {
  /** Goes over all there is. When it throws, the error is logged and it is called again sooner. */
  reconcile(): Promise<void>
  /** What an operator reads when it throws. */
  failure: string
  signal: AbortSignal
  log: Log
}

const EVERY_MS = 300_000
const RETRY_MS = 5000

/** Begins at once. */
export function startReconcileLoop ({ reconcile, failure, signal, log }: ReconcileLoopOptions): ReconcileLoop {
  let unhealthyReason: string | null = null

  async function run (): Promise<void> {
    while (!signal.aborted) {
      unhealthyReason = await reconcile().then(() => null, onError)
      await sleep(unhealthyReason === null ? EVERY_MS : RETRY_MS, signal)
    }
  }

  function onError (thrown: unknown): string | null {
    if (signal.aborted) return null
    const error = asError(thrown)
    log.warn({ err: error }, `${failure}; retrying`)
    return `${failure}: ${error.message}`
  }

  return { unhealthyReason: () => unhealthyReason, ended: run() }
}
