import { createHash } from 'node:crypto'

/** What an entry takes beside what it holds: key, places in the map, object heads. */
const ENTRY_SIZE = 200

/** `make`, remembering what it made of which text, since one body goes to many. `sizeOf` tells a result's size in
 *  characters or so; all together take at most `sizeMax`, beside the last text itself; the least lately asked for go
 *  first. `make` must be pure, and its results must not be changed. */
export function remembered<Made> (
  make: (text: string) => Made,
  sizeOf: (made: Made) => number,
  sizeMax: number
): (text: string) => Made {
  const entries = new Map<string, { made: Made, size: number }>()
  let total = 0
  // Most often the next to ask is the next recipient of the same body: to compare is cheaper than to digest.
  let last: { text: string, made: Made } | null = null

  const forgetOldest = (): void => {
    const [key, { size }] = entries.entries().next().value!
    entries.delete(key)
    total -= size
  }

  return text => {
    if (last?.text === text) return last.made
    // A digest, and not the text: it would keep bodies alive, and texts of one length over 16 K share one hash in a
    // Map.
    const key = createHash('sha256').update(text).digest('base64')
    const known = entries.get(key)
    entries.delete(key)
    const entry = known ?? { made: make(text), size: 0 }
    if (known === undefined) total += entry.size = sizeOf(entry.made) + ENTRY_SIZE
    entries.set(key, entry)
    while (total > sizeMax) forgetOldest()
    last = { text, made: entry.made }
    return entry.made
  }
}
