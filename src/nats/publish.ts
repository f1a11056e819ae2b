import { NatsError, type MsgHdrs } from 'nats'
import { randomUUID } from 'node:crypto'
import type { Bus } from './connect.ts'
import { isUnanswered } from './errors.ts'
import { withConnection } from './retry-on-disconnect.ts'

/** A message as it is published. */
export interface OutgoingMessage {
  subject: string
  id: string
  bytes: Uint8Array
  expectedSeq: number | undefined
  ttlMs: number | undefined
}

/** The server's answer; of a batch, `seq` is its last message's. */
export interface PublishAck {
  seq: number
  error?: { err_code: number, description: string }
}

const ANSWER_MS = 2000

/** Publishes to JetStream, one message or an atomic batch. Deadline 2 s. Source: nats-server ADR-50. */
export class Publisher {
  private readonly bus: Bus
  private readonly batchPrefix = randomUUID().slice(0, 8)
  private batches = 0

  constructor (bus: Bus) {
    this.bus = bus
  }

  async publish (message: OutgoingMessage): Promise<PublishAck> {
    const answer = await withConnection(
      this.bus,
      ANSWER_MS,
      async timeout =>
        await this.bus.nc.request(message.subject, message.bytes, { timeout, headers: headersOf(message) })
    )
    return answer.json<PublishAck>()
  }

  /** All of them or none. */
  async publishBatch (messages: OutgoingMessage[]): Promise<PublishAck> {
    return await withConnection(this.bus, ANSWER_MS, async timeout => await this.sendBatch(messages, timeout))
  }

  private async sendBatch (messages: OutgoingMessage[], timeout: number): Promise<PublishAck> {
    const id = `${this.batchPrefix}-${this.batches++}`
    for (const [i, message] of messages.entries()) {
      const head = `Nats-Batch-Id: ${id}\r\nNats-Batch-Sequence: ${i + 1}\r\n`
      if (i < messages.length - 1) {
        this.bus.nc.publish(message.subject, message.bytes, { headers: headersOf(message, head) })
        continue
      }
      const last = headersOf(message, `${head}Nats-Batch-Commit: 1\r\n`)
      const answer = await this.bus.nc.request(message.subject, message.bytes, { timeout, headers: last })
      return answer.json<PublishAck>()
    }
    throw new Error('an empty batch')
  }
}

/** What the client needs of its MsgHdrs is their bytes; made by itself, name by name, they cost it as much as the rest
 *  of the publish. No value here comes from outside: ids and numbers. */
function headersOf (message: OutgoingMessage, more = ''): MsgHdrs {
  const ttl = message.ttlMs === undefined ? '' : `Nats-TTL: ${Math.ceil(message.ttlMs / 1000)}s\r\n`
  const expected = message.expectedSeq === undefined
    ? ''
    : `Nats-Expected-Last-Subject-Sequence: ${message.expectedSeq}\r\n`
  const text = `NATS/1.0\r\nNats-Msg-Id: ${message.id}\r\n${ttl}${expected}${more}\r\n`
  return { encode: () => Buffer.from(text) } as unknown as MsgHdrs
}

/** For what may be lost: nobody waits for it, and it never throws. */
export function publishUnacknowledged (bus: Bus, subject: string, text: string): void {
  try {
    bus.nc.publish(subject, text)
  } catch {
    // The connection is away.
  }
}

/** Silence is no answer: null. What the client itself refuses to send is a refusal like the server's. Anything else is
 *  a fault of ours and is thrown. */
export function ackOf (error: unknown): PublishAck | null {
  if (isUnanswered(error)) return null
  if (error instanceof NatsError) return { seq: 0, error: { err_code: 0, description: error.message } }
  throw error
}
