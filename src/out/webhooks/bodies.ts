/** The bytes of recent events, so that a delivery right after its fan-out needs no read of the log. Full, it forgets the oldest. */
export interface Bodies {
  put (event: string, body: string): void
  get (event: string): Uint8Array | null
}

export function createBodies (bytesMax: number): Bodies {
  const bodies = new Map<string, Uint8Array>()
  let bytes = 0
  return {
    put (event, text) {
      if (bodies.has(event)) return
      const body = Buffer.from(text)
      bodies.set(event, body)
      bytes += body.length
      for (const [oldest, its] of bodies) {
        if (bytes <= bytesMax) break
        bodies.delete(oldest)
        bytes -= its.length
      }
    },
    get: event => bodies.get(event) ?? null
  }
}
