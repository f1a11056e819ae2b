import { ErrorCode, NatsError } from 'nats'
import type { Bus } from './connect.ts'

/** What `ask` resolves to on a connection that stands, which is waited for; it is told what is left of the time. When
 *  the connection breaks nobody answers any more, and what is asked while there is none the client throws away:
 *  NatsError Disconnect says so at once, which `isUnanswered` knows. */
export async function withConnection<T> (bus: Bus, timeoutMs: number, ask: (leftMs: number) => Promise<T>): Promise<T> {
  const endMs = performance.now() + timeoutMs
  await bus.whenUp(timeoutMs)
  const { promise: broken, reject } = Promise.withResolvers<never>()
  const forget = bus.onBreak(() => reject(NatsError.errorForCode(ErrorCode.Disconnect)))
  try {
    return await (bus.upSinceMs() === null
      ? broken
      : Promise.race([broken, ask(Math.max(1, endMs - performance.now()))]))
  } finally {
    forget()
  }
}

/** The same, asked again on the next connection as long as there is time: for what changes nothing, or may be done
 *  twice. */
export async function retryOnDisconnect<T> (
  bus: Bus,
  timeoutMs: number,
  ask: (leftMs: number) => Promise<T>
): Promise<T> {
  const endMs = performance.now() + timeoutMs
  for (;;) {
    try {
      return await withConnection(bus, Math.max(1, endMs - performance.now()), ask)
    } catch (error) {
      if (!(error instanceof NatsError) || error.code !== ErrorCode.Disconnect || performance.now() >= endMs) {
        throw error
      }
    }
  }
}
