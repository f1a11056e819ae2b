/** Runs `run` once at a time for however many callers: those who come while it runs share the next run, since what they
 *  ask about may be later than what this one sees. Who asks about what was so at `sinceMs` (`performance.now()`) needs
 *  none where one that gave true began later. Resolves also when a run fails. */
export function coalesce (run: () => Promise<boolean>): (sinceMs?: number) => Promise<void> {
  let last = Promise.resolve()
  let next: Promise<void> | null = null
  let beganMs = -Infinity

  async function begin (): Promise<void> {
    await last
    next = null
    const nowMs = performance.now()
    if (await run().catch(() => false)) beganMs = nowMs
  }

  return async (sinceMs = Infinity) => {
    if (beganMs < sinceMs) await (next ??= last = begin())
  }
}
