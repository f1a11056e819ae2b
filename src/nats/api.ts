import type { Bus } from './connect.ts'
import { JetStreamError } from './errors.ts'

const encoder = new TextEncoder()

/** One request to `$JS.API.<subject>`; throws JetStreamError, or the client's error when nobody answers in time. Only for calls the client lacks. */
export async function api<T> (bus: Bus, subject: string, body: unknown, timeoutMs = 5000): Promise<T> {
  const message = await bus.nc.request(`$JS.API.${subject}`, encoder.encode(body === undefined ? '' : JSON.stringify(body)), { timeout: timeoutMs })
  const answer = message.json<T & { error?: { err_code: number, description: string } }>()
  if (answer.error !== undefined) throw new JetStreamError(answer.error.err_code, answer.error.description)
  return answer
}
