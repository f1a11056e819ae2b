import { createInbox, type Msg } from 'nats'
import type { Bus } from './connect.ts'
import { unreadable } from './errors.ts'
import type { StoredMessage } from './message.ts'
import { retryOnDisconnect } from './retry-on-disconnect.ts'

export const ANSWER_MS = 2000

/** The messages of one answer, in order. */
export interface DirectBatch {
  messages: Msg[]
  /** How many more match, as the replica that answered knows: another may know of newer ones. */
  pending: number
  /** The last sequence that the replica had when it answered, where the answer tells; else 0. */
  upToSeq: number
  /** The description of the 404 that was the whole answer; '' = the answer ended with a 204. */
  notFound: string
}

/** Asks any replica of a stream for several messages, and asks again when the connection breaks. Throws errors that
 *  `isUnanswered` knows: for silence, for a refusal, and for an answer with a gap, since the connection may drop any
 *  part of it. An empty 204 is no error here: it is for the caller to judge. Source: nats-server ADR-31. */
export async function getDirectBatch (
  bus: Bus,
  stream: string,
  request: object,
  timeoutMs = ANSWER_MS
): Promise<DirectBatch> {
  const ask = async (leftMs: number) => await requestOnce(bus, stream, request, leftMs)
  return await retryOnDisconnect(bus, timeoutMs, ask, 'replicas')
}

async function requestOnce (bus: Bus, stream: string, request: object, timeoutMs: number): Promise<DirectBatch> {
  const { promise, resolve, reject } = Promise.withResolvers<DirectBatch>()
  const read = createReader(stream)
  const timer = setTimeout(() => reject(unreadable(stream, `no answer within ${ANSWER_MS} ms`)), timeoutMs)
  const inbox = createInbox()
  let subscription
  try {
    subscription = bus.nc.subscribe(inbox, {
      callback: (error, message) => {
        const answer = error ?? read(message)
        if (answer instanceof Error) reject(answer)
        else if (answer !== null) resolve(answer)
      }
    })
    bus.nc.publish(`$JS.API.DIRECT.GET.${stream}`, JSON.stringify(request), { reply: inbox })
    return await promise
  } finally {
    clearTimeout(timer)
    subscription?.unsubscribe()
  }
}

/** Takes the messages of one answer as they come: null until it is whole, an error once it cannot become so. Each names
 *  the sequence before it in this answer (0 = none), and so does the 204 at the end; a 404 alone means nothing was
 *  found. */
function createReader (stream: string): (message: Msg) => DirectBatch | Error | null {
  const messages: Msg[] = []
  let before = '0'
  return message => {
    const { headers } = message
    const header = (name: string): string => headers?.get(name) ?? ''
    const code = headers?.code ?? 0
    if (code === 404 && messages.length === 0) {
      return { messages, pending: 0, upToSeq: 0, notFound: headers!.description }
    }
    if (code !== 0 && code !== 204) return unreadable(stream, headers!.status)
    if (header('Nats-Last-Sequence') !== before) return unreadable(stream, 'a part of the answer is lost')
    if (code === 204) {
      const [pending, upToSeq] = [Number(header('Nats-Num-Pending')), Number(header('Nats-UpTo-Sequence'))]
      return { messages, pending, upToSeq, notFound: '' }
    }
    before = header('Nats-Sequence')
    messages.push(message)
    return null
  }
}

export function storedMessage (stream: string, { headers, data }: Msg): StoredMessage {
  const header = (name: string): string => headers?.get(name) ?? ''
  return {
    stream,
    seq: Number(header('Nats-Sequence')),
    subject: header('Nats-Subject'),
    storedMs: Date.parse(header('Nats-Time-Stamp')),
    data,
    header
  }
}
