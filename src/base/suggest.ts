/** The name that was most likely meant by `word`, or null when none is near. */
export function nearest (word: string, names: readonly string[]): string | null {
  const far = Math.min(word.length - 1, Math.max(1, Math.floor(word.length / 3)))
  const near = names.map(name => ({ name, distance: distanceOf(word, name) })).filter(({ distance }) => distance <= far)
  if (near.length > 0) return near.reduce((best, one) => (one.distance < best.distance ? one : best)).name
  const begun = names.filter(name => word.length >= 2 && name.startsWith(word))
  return begun.length === 1 ? begun[0]! : null
}

/** ` Did you mean start?`, or nothing. */
export function didYouMean (word: string, names: readonly string[], shown = (name: string) => name): string {
  const name = nearest(word, names)
  return name === null ? '' : ` Did you mean ${shown(name)}?`
}

/** Letters to insert, delete, replace or swap with the next to come from `a` to `b`: the optimal string alignment
 *  distance. */
function distanceOf (a: string, b: string): number {
  let older: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_none, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1]
      row[j] = Math.min(last[j]! + 1, row[j - 1]! + 1, last[j - 1]! + (same ? 0 : 1))
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      if (swapped) row[j] = Math.min(row[j]!, older[j - 2]! + 1)
    }
    older = last
    last = row
  }
  return last[b.length]!
}
