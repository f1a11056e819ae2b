import { createInbox, type Msg } from 'nats'
import { decodeFact, type AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { deadline } from '#src/base/errors.ts'
import { api } from './api.ts'
import type { Bus } from './connect.ts'
import { JetStreamError, NO_MESSAGE } from './errors.ts'

const TIMEOUT_MS = 2000
/** A subject holds one entity: far fewer facts than this, or something is wrong. */
const FACTS_MAX = 1000

type Get = { seq: number } | { last_by_subj: string } | { seq: number, next_by_subj: string }

/** One stored message by sequence, by subject's last, or the first on a subject from a sequence on; null when there is none. */
async function get (bus: Bus, stream: string, query: Get): Promise<Msg | null> {
  const message = await bus.nc.request(`$JS.API.DIRECT.GET.${stream}`, JSON.stringify(query), { timeout: TIMEOUT_MS })
  const code = message.headers?.code ?? 0
  if (code === 404) return null
  if (code >= 400) throw new Error(`JetStream could not read ${stream}: ${message.headers?.description}`)
  return message
}

/** A message as a recorded fact; throws when it does not fit its schema. */
function recorded (message: Msg): Recorded<AnyFact> {
  return {
    fact: decodeFact(message.data),
    seq: Number(message.headers?.get('Nats-Sequence')),
    subject: message.headers?.get('Nats-Subject') ?? message.subject
  }
}

/** The fact at a sequence, or null when it is gone. Deadline 2 s. */
export async function loadFact (bus: Bus, stream: string, seq: number): Promise<Recorded<AnyFact> | null> {
  const message = await get(bus, stream, { seq })
  return message === null ? null : recorded(message)
}

/** The last fact on a subject (wildcards allowed), or null. */
export async function loadLast (bus: Bus, stream: string, subject: string): Promise<Recorded<AnyFact> | null> {
  const message = await get(bus, stream, { last_by_subj: subject })
  return message === null ? null : recorded(message)
}

/** `Nats-Msg-Id` and sequence of the first message on `subject` after `seq`, or null: who won the race for that place. */
export async function winnerAfter (bus: Bus, stream: string, subject: string, seq: number): Promise<{ id: string, seq: number } | null> {
  const message = await get(bus, stream, { seq: seq + 1, next_by_subj: subject })
  return message === null ? null : { id: message.headers?.get('Nats-Msg-Id') ?? '', seq: Number(message.headers?.get('Nats-Sequence')) }
}

/** All facts of one subject, oldest first. Deadline 2 s. */
export async function loadSubject (bus: Bus, stream: string, subject: string): Promise<Recorded<AnyFact>[]> {
  return (await loadMessages(bus, stream, subject, FACTS_MAX)).map(recorded)
}

/** The first messages on a subject (wildcards allowed), at most `max`: one request, many answers, ended by a 204. Deadline 2 s. */
export async function loadMessages (bus: Bus, stream: string, subject: string, max: number): Promise<Msg[]> {
  const inbox = createInbox()
  const messages: Msg[] = []
  const subscription = bus.nc.subscribe(inbox)
  const read = (async () => {
    for await (const message of subscription) {
      const code = message.headers?.code ?? 0
      if (code === 204 || code === 404) return
      if (code >= 400) throw new Error(`JetStream could not read ${stream}: ${message.headers?.description}`)
      if (code === 0 && message.data.length === 0 && message.headers === undefined) throw new Error('JetStream is not there')
      messages.push(message)
    }
  })()
  try {
    bus.nc.publish(`$JS.API.DIRECT.GET.${stream}`, JSON.stringify({ seq: 1, next_by_subj: subject, batch: max }), { reply: inbox })
    await deadline(read, TIMEOUT_MS, `JetStream did not answer for ${stream} within ${TIMEOUT_MS} ms`)
    return messages
  } finally {
    subscription.unsubscribe()
  }
}

/** The stream's last sequence now; 0 when it is empty. */
export async function lastSequence (bus: Bus, stream: string): Promise<number> {
  const info = await api<{ state: { last_seq: number } }>(bus, `STREAM.INFO.${stream}`, undefined, TIMEOUT_MS)
  return info.state.last_seq
}

/** Sequence of the last message under a subject filter, as the stream's leader knows it; 0 when there is none.
 *  The server sends the message itself along: ask only when the stream's last sequence does not do. */
export async function lastSequenceUnder (bus: Bus, stream: string, filter: string): Promise<number> {
  try {
    const { message } = await api<{ message: { seq: number } }>(bus, `STREAM.MSG.GET.${stream}`, { last_by_subj: filter }, TIMEOUT_MS)
    return message.seq
  } catch (error) {
    if (error instanceof JetStreamError && error.code === NO_MESSAGE) return 0
    throw error
  }
}
