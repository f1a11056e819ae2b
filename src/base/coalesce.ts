/** Runs `run` once at a time for however many callers: those who come while it runs share the next run, since what they
 *  ask about may be later than what this one sees. Resolves also when a run fails. */
export function coalesce (run: () => Promise<unknown>): () => Promise<void> {
  let last = Promise.resolve()
  let next: Promise<void> | null = null

  async function begin (): Promise<void> {
    await last
    next = null
    await run().catch(() => {})
  }

  return () => (next ??= last = begin())
}
