/** However many ask, `look` is under way once at a time, and all who come meanwhile share the next one: what they ask
 *  about may be later than what this one sees. A look that fails is over, too. */
export function shared (look: () => Promise<unknown>): () => Promise<void> {
  let last = Promise.resolve()
  let next: Promise<void> | null = null

  async function begin (): Promise<void> {
    await last
    next = null
    await look().catch(() => {})
  }

  return () => (next ??= last = begin())
}
