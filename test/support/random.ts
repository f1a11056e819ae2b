/** Chance that can be had again: the seed is said, and `JETPOST_TEST_SEED` repeats it. */
export interface Chance {
  /** In [0, 1). */
  next(): number
  /** A whole number from `from` to `to`, both included. */
  int(from: number, to: number): number
  of<T>(choices: readonly T[]): T
}

export function openChance (t: { comment(text: string): void }): Chance {
  const seed = Number(process.env.JETPOST_TEST_SEED ?? Date.now() % 1_000_000)
  t.comment(`JETPOST_TEST_SEED=${seed}`)
  return chanceOf(seed)
}

/** mulberry32: small, and the same everywhere. */
export function chanceOf (seed: number): Chance {
  let state = seed
  const next = () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
  const int = (from: number, to: number) => from + Math.floor(next() * (to - from + 1))
  return { next, int, of: choices => choices[int(0, choices.length - 1)]! }
}
