import { eventIn } from '#streams/delivery/decide.ts'
import type { Member, Owed } from '#streams/delivery/facts.ts'
import { pastOf } from '#streams/email/erase.ts'
import { owedIn } from '#streams/replay/decide.ts'
import { subjects } from '#streams/subjects.ts'
import { factAt } from '#src/nats/certain.ts'
import type { Bus } from '#src/nats/connect.ts'
import { readFacts } from '#src/nats/range.ts'
import { resendEventOf } from './resend-event.ts'
import { owedFact } from './replay-job.ts'

/** Bytes of events that need not be read in the log. */
export interface KnownBodies {
  get(event: string): Uint8Array | null
}

/** Reads of the log at once for one delivery. */
const READS_MAX = 16

/** The members of a delivery that the log does not hold (any more). */
export interface MissingBody {
  missing: Member[]
}

/** The very bytes of a delivery, the same on every try: the event's, or a batch of them, without the events of people
 *  who are forgotten since. Throws when the log cannot be read. Source: contract, "Webhooks". */
export async function bodyOf (bus: Bus, bodies: KnownBodies, owed: Owed): Promise<Uint8Array | MissingBody> {
  const found: Array<Uint8Array | null> = owed.test === undefined
    ? await membersOf(bus, bodies, owed.events)
    : [Buffer.from(owed.test)]
  const missing = owed.events.filter((_event, i) => found[i] == null)
  const there = found.filter(body => body !== null)
  const whole = missing.length === 0 || (there.length > 0 && await areErased(bus, missing))
  if (!whole) return { missing }
  return owed.batch ? batchOf(owed.delivery, there) : wordedAs(owed.format, there[0]!)
}

/** By the stored bytes and the delivery's format alone, so that each try has the same. */
function wordedAs (format: Owed['format'], body: Uint8Array): Uint8Array {
  return format === undefined ? body : Buffer.from(resendEventOf(Buffer.from(body).toString('utf8')))
}

/** Nothing is remembered: all is read in the log. */
export const NO_BODIES: KnownBodies = { get: () => null }

/** Whether it is because their people are forgotten that these events are gone. */
async function areErased (bus: Bus, events: readonly Member[]): Promise<boolean> {
  for (const { id, email } of events) {
    const facts = await readFacts(bus, 'EMAILS', subjects.ofEmail('*', email), 'leader')
    if (!facts.some(({ fact }) => fact.type === 'email.erased' && pastOf(fact).some(past => past.fact.id === id))) {
      return false
    }
  }
  return true
}

async function membersOf (bus: Bus, bodies: KnownBodies, events: Member[]): Promise<Array<Uint8Array | null>> {
  const found: Array<Uint8Array | null> = events.map(({ id }) => bodies.get(id))
  const unknown = [...found.keys()].filter(i => found[i] === null)
  const read = async () => {
    for (let i = unknown.shift(); i !== undefined; i = unknown.shift()) found[i] = await bodyInLog(bus, events[i]!)
  }
  await Promise.all(Array.from({ length: Math.min(READS_MAX, unknown.length) }, read))
  return found
}

async function bodyInLog (bus: Bus, { id, seq }: Member): Promise<Uint8Array | null> {
  const recorded = await factAt(bus, 'EMAILS', seq)
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

/** What goes out for a delivery one of whose facts lies at `seq` of WEBHOOKS, as text; null when the log no longer
 *  holds it. Throws like `bodyOf`. */
export async function readBody (bus: Bus, seq: number): Promise<string | null> {
  const recorded = await owedFact(bus, seq)
  const owed = recorded === null ? null : owedIn(recorded.fact)
  const body = owed === null ? null : await bodyOf(bus, NO_BODIES, owed)
  return body === null || 'missing' in body ? null : Buffer.from(body).toString('utf8')
}
