import { createInbox, ErrorCode, NatsError, type Msg } from 'nats'
import type { Bus } from './connect.ts'
import { retryOnDisconnect } from './retry-on-disconnect.ts'

export const ANSWER_MS = 2000

interface Asking<T> {
  question: object
  /** Makes what takes the messages of one answer as they come: null until it is whole, or an error once it cannot
   *  become so. */
  reader(): (message: Msg) => T | Error | null
  /** What is thrown when the answer is not whole in time. */
  silence: Error
  /** 2 s unless told. */
  timeoutMs?: number
}

/** A question that any replica of a stream may answer, with more than one message; asked again where the connection
 *  breaks under it. Throws what a reader gives, `silence`, and what the line throws. Source: nats-server ADR-31. */
export async function askDirect<T> (bus: Bus, stream: string, asking: Asking<T>): Promise<T> {
  return await retryOnDisconnect(
    bus,
    asking.timeoutMs ?? ANSWER_MS,
    async leftMs => await askOnce(bus, stream, asking, leftMs)
  )
}

async function askOnce<T> (
  bus: Bus,
  stream: string,
  { question, reader, silence }: Asking<T>,
  timeoutMs: number
): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  const read = reader()
  const timer = setTimeout(() => reject(silence), timeoutMs)
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
    bus.nc.publish(`$JS.API.DIRECT.GET.${stream}`, JSON.stringify(question), { reply: inbox })
    return await promise
  } finally {
    clearTimeout(timer)
    subscription?.unsubscribe()
  }
}

/** Messages of one answer, in their order. */
export interface Part {
  messages: Msg[]
  /** The replica that answered has no more. */
  ended: boolean
}

/** Reads the answer to a question for the next messages (`batch`). Each says which sequence went before it in this
 *  answer (0 = none), and so does the 204 at the end; a 404 alone says that there is nothing. Gives an error that
 *  `isUnanswered` knows for a refusal and for an answer with a gap: the line may drop any part of it. Source:
 *  nats-server ADR-31. */
export function createPartReader (stream: string): (message: Msg) => Part | Error | null {
  const messages: Msg[] = []
  let before = '0'
  return message => {
    const { headers } = message
    const header = (name: string): string => headers?.get(name) ?? ''
    const code = headers?.code ?? 0
    if (code === 404 && messages.length === 0) return { messages, ended: true }
    if (code !== 0 && code !== 204) return unread(stream, headers!.status)
    if (header('Nats-Last-Sequence') !== before) return unread(stream, 'a part of the answer is lost')
    if (code === 204) return { messages, ended: header('Nats-Num-Pending') === '0' }
    before = header('Nats-Sequence')
    messages.push(message)
    return null
  }
}

/** `isUnanswered` knows it. */
export function unread (stream: string, why: string): NatsError {
  return new NatsError(`${stream} cannot be read: ${why}`, ErrorCode.Timeout)
}
