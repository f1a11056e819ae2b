import type { KnownBodies } from '#src/actions/delivery-body.ts'

/** The bytes of recent events, so that a delivery right after its fan-out needs no read of the log. Full, it forgets
 *  the oldest. */
export interface Bodies extends KnownBodies {
  put(event: string, body: string): void
  /** Forgets it: its person is forgotten. */
  drop(event: string): void
}

/** Not Buffer.from, which cuts small ones out of a slab of 64 kB: a body that is kept would keep what else was cut out
 *  of it. */
const encoder = new TextEncoder()

export function createBodies (bytesMax: number): Bodies {
  const bodies = new Map<string, Uint8Array>()
  let bytes = 0
  return {
    put (event, text) {
      if (bodies.has(event)) return
      const body = encoder.encode(text)
      bodies.set(event, body)
      bytes += body.length
      for (const [oldest, its] of bodies) {
        if (bytes <= bytesMax) break
        bodies.delete(oldest)
        bytes -= its.length
      }
    },
    get: event => bodies.get(event) ?? null,
    drop (event) {
      bytes -= bodies.get(event)?.length ?? 0
      bodies.delete(event)
    }
  }
}
