import type { Bus } from './connect.ts'
import { JetStreamError } from './errors.ts'
import { retryOnDisconnect, withConnection } from './retry-on-disconnect.ts'

const encoder = new TextEncoder()

/** What changes nothing. */
const QUESTION = /^(STREAM\.(INFO|NAMES|LIST|MSG\.GET)|CONSUMER\.(INFO|NAMES|LIST)|INFO)(\.|$)/

/** One request to `$JS.API.<subject>`; throws JetStreamError, or the client's error when nobody answers in time. A
 *  question is asked again where the connection breaks under it. Only for calls the client lacks. */
export async function api<T> (bus: Bus, subject: string, body: unknown, timeoutMs = 5000): Promise<T> {
  const bytes = encoder.encode(body === undefined ? '' : JSON.stringify(body))
  const put = QUESTION.test(subject) ? retryOnDisconnect : withConnection
  const message = await put(
    bus,
    timeoutMs,
    async timeout => await bus.nc.request(`$JS.API.${subject}`, bytes, { timeout })
  )
  const answer = message.json<T & { error?: { err_code: number, description: string } }>()
  if (answer.error !== undefined) throw new JetStreamError(answer.error.err_code, answer.error.description)
  return answer
}
