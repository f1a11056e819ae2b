import type { KnownBodies } from '#src/actions/delivery-body.ts'

/** Not Buffer.from: it cuts small buffers out of a slab of 64 kB, and one cached body would keep the whole slab. */
const encoder = new TextEncoder()

/** The bytes of recent events, so that a delivery right after its fan-out needs no read of the log. When full it drops
 *  the oldest. */
export class BodyCache implements KnownBodies {
  private readonly bytesMax: number
  private readonly bodies = new Map<string, Uint8Array>()
  private bytes = 0

  constructor (bytesMax: number) {
    this.bytesMax = bytesMax
  }

  put (event: string, text: string): void {
    if (this.bodies.has(event)) return
    const body = encoder.encode(text)
    this.bodies.set(event, body)
    this.bytes += body.length
    for (const [oldest, { length }] of this.bodies) {
      if (this.bytes <= this.bytesMax) break
      this.bodies.delete(oldest)
      this.bytes -= length
    }
  }

  get (event: string): Uint8Array | null {
    return this.bodies.get(event) ?? null
  }

  /** For an event whose recipient was erased. */
  drop (event: string): void {
    this.bytes -= this.bodies.get(event)?.length ?? 0
    this.bodies.delete(event)
  }
}
