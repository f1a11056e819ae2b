interface Head<T> {
  source: AsyncGenerator<T[]>
  items: T[]
  at: number
}

/** Sources that are in order, as one in order: by `placeOf`, in arrays. Ends them all when it ends. */
export async function* merge<T> (
  sources: Array<AsyncGenerator<T[]>>,
  placeOf: (item: T) => number
): AsyncGenerator<T[]> {
  if (sources.length === 1) return yield* sources[0]!
  const heads: Array<Head<T>> = sources.map(source => ({ source, items: [], at: 0 }))
  try {
    await Promise.all(heads.map(refill))
    for (;;) {
      const open = heads.filter(({ items }) => items.length > 0)
      if (open.length === 0) return
      const { taken, used } = takeUntilUsedUp(open, placeOf)
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

/** What comes before the end of any: nobody knows what lies behind it. */
function takeUntilUsedUp<T> (heads: Array<Head<T>>, placeOf: (item: T) => number): { taken: T[], used: Head<T> } {
  const taken: T[] = []
  for (;;) {
    let first = heads[0]!
    for (const head of heads) if (placeOf(head.items[head.at]!) < placeOf(first.items[first.at]!)) first = head
    taken.push(first.items[first.at++]!)
    if (first.at === first.items.length) return { taken, used: first }
  }
}
