import { setTimeout as sleep } from 'node:timers/promises'
import { openLoad, type LoadOptions, type Shot } from '#src/cli/bench/load.ts'

/** So many a second whatever the answers take; latency counts from the moment a request was due. What is due while
 *  `inFlight` are under way waits. */
export async function fixedRate (options: LoadOptions & { perS: number }): Promise<Shot[]> {
  const load = openLoad(options)
  const beginMs = performance.now()
  const flying = new Set<Promise<unknown>>()
  for (let i = 0; load.goesOn(); i++) {
    const dueMs = beginMs + i * 1000 / options.perS
    if (dueMs > performance.now()) await sleep(dueMs - performance.now())
    if (flying.size >= options.inFlight) await Promise.race(flying)
    const shot = load.shoot(dueMs).finally(() => flying.delete(shot))
    flying.add(shot)
  }
  await Promise.all(flying)
  return await load.close()
}
