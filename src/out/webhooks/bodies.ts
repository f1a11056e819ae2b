import type { Bus } from '#src/nats/connect.ts'
import { loadFact } from '#src/nats/load.ts'
import { factAtLeader } from '#src/nats/lookup.ts'
import { eventIn } from '#streams/delivery/decide.ts'
import type { Member, Owed } from '#streams/delivery/facts.ts'

/** The bytes of recent events, so that a delivery right after its fan-out needs no read of the log. Full, it forgets the oldest. */
export interface Bodies {
  put (event: string, body: string): void
  get (event: string): Uint8Array | null
}

/** Not Buffer.from, which cuts small ones out of a slab of 64 kB: a body that is kept would keep what else was cut out of it. */
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
    get: event => bodies.get(event) ?? null
  }
}

/** Reads of the log at once for one delivery. */
const READS_MAX = 16

/** The members of a delivery that the log does not hold (any more). */
export interface Missing { missing: Member[] }

/** The very bytes of a delivery, the same on every try: the event's, or a batch of them. Throws when the log cannot be read. Source: contract,
 *  "Webhooks". */
export async function bodyOf (bus: Bus, bodies: Bodies, owed: Owed): Promise<Uint8Array | Missing> {
  const found = owed.test === undefined ? await membersOf(bus, bodies, owed.events) : [Buffer.from(owed.test)]
  const missing = owed.events.filter((_event, i) => found[i] == null)
  if (missing.length > 0) return { missing }
  return owed.batch ? batchOf(owed.delivery, found as Uint8Array[]) : found[0]!
}

async function membersOf (bus: Bus, bodies: Bodies, events: Member[]): Promise<Array<Uint8Array | null>> {
  const found: Array<Uint8Array | null> = events.map(({ id }) => bodies.get(id))
  const unknown = [...found.keys()].filter(i => found[i] === null)
  const read = async () => {
    for (let i = unknown.shift(); i !== undefined; i = unknown.shift()) found[i] = await bodyInLog(bus, events[i]!)
  }
  await Promise.all(Array.from({ length: Math.min(READS_MAX, unknown.length) }, read))
  return found
}

async function bodyInLog (bus: Bus, { id, seq }: Member): Promise<Uint8Array | null> {
  // A copy of the log that has fallen behind knows nothing of an event that is there: only the leader tells that it is gone.
  const recorded = await loadFact(bus, 'EMAILS', seq) ?? await factAtLeader(bus, 'EMAILS', seq)
  const event = recorded?.fact.id === id ? eventIn(recorded.fact) : null
  return event === null ? null : Buffer.from(event.body)
}

function batchOf (delivery: string, bodies: Uint8Array[]): Uint8Array {
  const parts: Uint8Array[] = [Buffer.from(`{"object":"batch","id":"${delivery}","events":[`)]
  for (const [i, body] of bodies.entries()) parts.push(...(i === 0 ? [] : [COMMA]), body)
  return Buffer.concat([...parts, END])
}

const COMMA = Buffer.from(',')
const END = Buffer.from(']}')
