import { eventIn } from '#streams/delivery/decide.ts'
import type { Member, Owed } from '#streams/delivery/facts.ts'
import { pastOf } from '#streams/email/erase.ts'
import { subjects } from '#streams/subjects.ts'
import type { Bus } from '#src/nats/connect.ts'
import { loadHistory } from '#src/nats/history.ts'
import { loadFact } from '#src/nats/load.ts'
import { factAtLeader } from '#src/nats/lookup.ts'

/** The bytes of recent events, so that a delivery right after its fan-out needs no read of the log. Full, it forgets the oldest. */
export interface Bodies {
  put (event: string, body: string): void
  get (event: string): Uint8Array | null
  /** Forgets it: its person is forgotten. */
  drop (event: string): void
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
    get: event => bodies.get(event) ?? null,
    drop (event) {
      bytes -= bodies.get(event)?.length ?? 0
      bodies.delete(event)
    }
  }
}

/** Reads of the log at once for one delivery. */
const READS_MAX = 16

/** The members of a delivery that the log does not hold (any more). */
export interface Missing { missing: Member[] }

/** The very bytes of a delivery, the same on every try: the event's, or a batch of them, without the events of people who are forgotten since. Throws when the log
 *  cannot be read. Source: contract, "Webhooks". */
export async function bodyOf (bus: Bus, bodies: Pick<Bodies, 'get'>, owed: Owed): Promise<Uint8Array | Missing> {
  const found: Array<Uint8Array | null> = owed.test === undefined ? await membersOf(bus, bodies, owed.events) : [Buffer.from(owed.test)]
  const missing = owed.events.filter((_event, i) => found[i] == null)
  const there = found.filter(body => body !== null)
  const whole = missing.length === 0 || (there.length > 0 && await areErased(bus, missing))
  if (!whole) return { missing }
  return owed.batch ? batchOf(owed.delivery, there) : there[0]!
}

/** Nothing is remembered: all is read in the log. */
export const NO_BODIES: Pick<Bodies, 'get'> = { get: () => null }

/** Whether it is because their people are forgotten that these events are gone. */
async function areErased (bus: Bus, events: readonly Member[]): Promise<boolean> {
  for (const { id, email } of events) {
    const facts = await loadHistory(bus, 'EMAILS', subjects.ofEmail('*', email))
    if (!facts.some(({ fact }) => fact.type === 'email.erased' && pastOf(fact).some(past => past.fact.id === id))) return false
  }
  return true
}

async function membersOf (bus: Bus, bodies: Pick<Bodies, 'get'>, events: Member[]): Promise<Array<Uint8Array | null>> {
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
