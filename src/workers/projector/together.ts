/** Several endless sources as one: each turn gives what is ready of all of them, at least one thing. Looks ahead by one
 *  thing a source, no more: a reader that is held up holds the sources up. Ends when all have ended; throws when one
 *  throws. */
export async function* together<T> (sources: Array<AsyncIterator<T>>): AsyncGenerator<T[]> {
  const ready: T[] = []
  const awaited = new Map<AsyncIterator<T>, Promise<void>>()
  for (const source of sources) look(source)

  function look (source: AsyncIterator<T>): void {
    const next = source.next().then(({ done, value }) => {
      awaited.delete(source)
      if (done !== true) {
        ready.push(value)
        idle.push(source)
      }
    })
    // It may fail while nobody looks; the race below hears of it.
    next.catch(() => {})
    awaited.set(source, next)
  }

  const idle: Array<AsyncIterator<T>> = []
  while (awaited.size > 0 || ready.length > 0) {
    if (ready.length === 0) await Promise.race(awaited.values())
    // One turn of the event loop: what became ready at the same time comes along.
    await new Promise(setImmediate)
    if (ready.length === 0) continue
    const taken = ready.splice(0)
    for (const source of idle.splice(0)) look(source)
    yield taken
  }
}
