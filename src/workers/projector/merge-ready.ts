/** Merges several endless sources: each turn yields what is ready of all of them, at least one item. It reads one item
 *  ahead per source, no more: a slow reader holds the sources up. Ends when all have ended; throws when one throws. */
export async function* mergeReady<T> (sources: Array<AsyncIterator<T>>): AsyncGenerator<T[]> {
  const ready: T[] = []
  const idle: Array<AsyncIterator<T>> = []
  const awaited = new Map<AsyncIterator<T>, Promise<void>>()

  function readNext (source: AsyncIterator<T>): void {
    const next = source.next().then(({ done, value }) => {
      awaited.delete(source)
      if (done === true) return
      ready.push(value)
      idle.push(source)
    })
    // It may fail while nobody waits for it; the race below hears of it.
    next.catch(() => {})
    awaited.set(source, next)
  }

  for (const source of sources) readNext(source)
  while (awaited.size > 0 || ready.length > 0) {
    if (ready.length === 0) await Promise.race(awaited.values())
    // One turn of the event loop: what became ready at the same time comes along.
    await new Promise(setImmediate)
    if (ready.length === 0) continue
    const taken = ready.splice(0)
    for (const source of idle.splice(0)) readNext(source)
    yield taken
  }
}
