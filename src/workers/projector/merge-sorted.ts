interface Head<T> {
  source: AsyncGenerator<T[]>
  items: T[]
  at: number
}

/** Merges sources that are each sorted by `keyOf` into one that is, in arrays. Ends them all when it ends. */
export async function* mergeSorted<T> (
  sources: Array<AsyncGenerator<T[]>>,
  keyOf: (item: T) => number
): AsyncGenerator<T[]> {
  if (sources.length === 1) return yield* sources[0]!
  const heads: Array<Head<T>> = sources.map(source => ({ source, items: [], at: 0 }))
  try {
    await Promise.all(heads.map(refill))
    for (;;) {
      const open = heads.filter(({ items }) => items.length > 0)
      if (open.length === 0) return
      const { taken, used } = takeUntilUsedUp(open, keyOf)
      yield taken
      await refill(used)
    }
  } finally {
    await Promise.all(sources.map(source => source.return(undefined)))
  }
}

async function refill<T> (head: Head<T>): Promise<void> {
  const { done, value } = await head.source.next()
  head.items = done === true ? [] : value
  head.at = 0
}

/** Up to the last item of any of them: what its source gives next is not known yet. */
function takeUntilUsedUp<T> (heads: Array<Head<T>>, keyOf: (item: T) => number): { taken: T[], used: Head<T> } {
  const taken: T[] = []
  for (;;) {
    let first = heads[0]!
    for (const head of heads) if (keyOf(head.items[head.at]!) < keyOf(first.items[first.at]!)) first = head
    taken.push(first.items[first.at++]!)
    if (first.at === first.items.length) return { taken, used: first }
  }
}
