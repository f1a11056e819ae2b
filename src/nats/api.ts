import { ErrorCode, NatsError } from 'nats'
import { sleep } from '#src/base/backoff.ts'
import type { Bus } from './connect.ts'
import { JetStreamError, NOT_AVAILABLE } from './errors.ts'
import { retryOnDisconnect, withConnection } from './retry-on-disconnect.ts'

const encoder = new TextEncoder()

/** What changes nothing. */
const QUESTION = /^(STREAM\.(INFO|NAMES|LIST|MSG\.GET)|CONSUMER\.(INFO|NAMES|LIST)|INFO)(\.|$)/
const AGAIN_MS = 100

/** One request to `$JS.API.<subject>`; throws JetStreamError, or the client's error when nobody answers in time. A
 *  question is asked again where the connection breaks under it, and where a server answers that knows of no leader;
 *  in the end that is no answer either. Only for calls the client lacks. */
export async function api<T> (bus: Bus, subject: string, body: unknown, timeoutMs = 5000): Promise<T> {
  const bytes = encoder.encode(body === undefined ? '' : JSON.stringify(body))
  const isQuestion = QUESTION.test(subject)
  const put = isQuestion ? retryOnDisconnect : withConnection
  const endMs = performance.now() + timeoutMs
  for (;;) {
    const message = await put(
      bus,
      Math.max(1, endMs - performance.now()),
      async timeout => await bus.nc.request(`$JS.API.${subject}`, bytes, { timeout })
    )
    const answer = message.json<T & { error?: { err_code: number, description: string } }>()
    if (answer.error === undefined) return answer
    const { err_code: code, description } = answer.error
    if (code !== NOT_AVAILABLE) throw new JetStreamError(code, description)
    if (!isQuestion || performance.now() + AGAIN_MS >= endMs) {
      throw new NatsError(`JetStream has no leader for ${subject} now`, ErrorCode.Timeout)
    }
    await sleep(AGAIN_MS)
  }
}
