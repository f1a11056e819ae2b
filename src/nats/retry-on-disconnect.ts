import { ErrorCode, NatsError } from 'nats'
import { sleep } from '#src/base/backoff.ts'
import type { Bus } from './connect.ts'
import { isUnanswered, LogUnavailable } from './errors.ts'

/** What `ask` resolves to on a connection that stands, which is waited for; it is told what is left of the time. When
 *  the connection breaks nobody answers any more, and what is asked while there is none the client throws away:
 *  NatsError Disconnect says so at once, which `isUnanswered` knows. */
export async function withConnection<T> (bus: Bus, timeoutMs: number, ask: (leftMs: number) => Promise<T>): Promise<T> {
  const endMs = performance.now() + timeoutMs
  await bus.whenUp(timeoutMs)
  const sinceMs = bus.upSinceMs()
  const { promise: broken, reject } = Promise.withResolvers<never>()
  const forget = bus.onBreak(() => reject(NatsError.errorForCode(ErrorCode.Disconnect)))
  try {
    return await (sinceMs === null ? broken : Promise.race([broken, ask(Math.max(1, endMs - performance.now()))]))
  } catch (error) {
    // The client gives up all requests as it closes, and calls that a timeout.
    if (isUnanswered(error) && bus.upSinceMs() !== sinceMs) throw NatsError.errorForCode(ErrorCode.Disconnect)
    throw error
  } finally {
    forget()
  }
}

const PAUSE_MS = 100
/** An election takes 4 to 9 s. */
const PATIENCE_MS = 10_000

/** What `ask` resolves to, asked again for a while where nobody answers: for what must not fail while a leader is
 *  elected. It must be something that can be done twice. */
export async function untilAnswered<T> (ask: () => Promise<T>, patienceMs = PATIENCE_MS): Promise<T> {
  for (const endMs = performance.now() + patienceMs;; await sleep(PAUSE_MS)) {
    try {
      return await ask()
    } catch (error) {
      const isSilent = isUnanswered(error) || error instanceof LogUnavailable
      if (!isSilent || performance.now() >= endMs) throw error
    }
  }
}

const SILENT_MS = 500

/** On a cluster, what any replica answers is asked again of another, as NATS draws it, after each half second of
 *  silence: until its peers notice that one hangs, it is drawn all the same. The first word counts. */
async function askReplicas<T> (bus: Bus, timeoutMs: number, ask: (leftMs: number) => Promise<T>): Promise<T> {
  if (bus.nc.info?.cluster === undefined) return await ask(timeoutMs)
  const endMs = performance.now() + timeoutMs
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  const put = () => void ask(Math.max(1, endMs - performance.now())).then(resolve, reject)
  const again = setInterval(put, SILENT_MS)
  put()
  return await promise.finally(() => clearInterval(again))
}

/** The same, asked again on the next connection as long as there is time: for what changes nothing, or may be done
 *  twice. */
export async function retryOnDisconnect<T> (
  bus: Bus,
  timeoutMs: number,
  ask: (leftMs: number) => Promise<T>,
  from: 'replicas' | 'leader' = 'leader'
): Promise<T> {
  const endMs = performance.now() + timeoutMs
  const put = from === 'leader' ? ask : async (leftMs: number) => await askReplicas(bus, leftMs, ask)
  for (;;) {
    try {
      return await withConnection(bus, Math.max(1, endMs - performance.now()), put)
    } catch (error) {
      if (!(error instanceof NatsError) || error.code !== ErrorCode.Disconnect || performance.now() >= endMs) {
        throw error
      }
    }
  }
}
