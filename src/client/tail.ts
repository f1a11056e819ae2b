import { sleep, waitAfter } from './caller.ts'
import { JetpostError } from './error.ts'
import type { WebhookEvent } from './types.ts'

/** An event and its place: pass `cursor` as `after`, and what comes is what came after it. */
export interface TailedEvent {
  cursor: string
  event: WebhookEvent
}

/** Asks for the stream: at first from where the caller said, with null; then after the last cursor that came. `signal`
 *  ends it. */
export type OpenStream = (cursor: string | null, signal: AbortSignal) => Promise<Response | JetpostError>

/** The service says something every 15 s: a line that is silent for longer is dead, whatever TCP thinks. */
const SILENCE_MS = 45_000
/** Longer than any event. */
const LINE_CHARS_MAX = 4 * 1024 * 1024

/** Events as they happen, for ever: a stream that breaks off is taken up where it was. Ends quietly with `signal`, and
 *  throws JetpostError where trying again does not help: a key that is no longer good, a cursor that is none. */
export async function* tail (
  open: OpenStream,
  signal: AbortSignal | undefined
): AsyncGenerator<TailedEvent, void, void> {
  let cursor: string | null = null
  let fails = 0
  while (signal?.aborted !== true) {
    const line = new AbortController()
    const stop = () => line.abort()
    signal?.addEventListener('abort', stop, { once: true })
    try {
      const answer = await open(cursor, line.signal)
      if (answer instanceof JetpostError) {
        if (!mayHeal(answer)) throw answer
        await sleep(waitAfter(++fails, answer), line.signal)
        continue
      }
      for await (const { id, data } of messages(answer, stop)) {
        fails = 0
        cursor = id
        if (data !== '') yield { cursor, event: JSON.parse(data) as WebhookEvent }
      }
      await sleep(waitAfter(++fails, { retryAfterS: null }), line.signal)
    } catch (error) {
      if (error instanceof JetpostError || !line.signal.aborted) throw error
    } finally {
      line.abort()
      signal?.removeEventListener('abort', stop)
    }
  }
}

/** Where nobody answered, too many ask, or the service is not well. */
function mayHeal ({ status }: JetpostError): boolean {
  return status === null || status === 429 || status >= 500
}

/** What the stream says, until it ends or breaks off: `id` is the last one that was said. Source:
 *  https://html.spec.whatwg.org/multipage/server-sent-events.html */
async function* messages (response: Response, hangUp: () => void): AsyncGenerator<{ id: string, data: string }> {
  let id = ''
  let data: string[] = []
  for await (const line of lines(response, hangUp)) {
    const [, name = '', value = ''] = /^([^:]*):? ?(.*)$/.exec(line) ?? []
    if (name === 'id') id = value
    if (name === 'data') data.push(value)
    if (line !== '') continue
    yield { id, data: data.join('\n') }
    data = []
  }
}

async function* lines ({ body }: Response, hangUp: () => void): AsyncGenerator<string> {
  const reader = body!.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (;;) {
    const { done, value = '' } = await readWithin(reader, hangUp)
    if (done) return
    const parts = (rest + value).split(/\r\n|\n|\r/)
    rest = parts.pop()!
    if (rest.length > LINE_CHARS_MAX) return hangUp()
    yield* parts
  }
}

/** A line that was cut is one that has ended. */
async function readWithin (
  reader: ReadableStreamDefaultReader<string>,
  hangUp: () => void
): Promise<{ done: boolean, value?: string }> {
  const timer = setTimeout(hangUp, SILENCE_MS)
  try {
    return await reader.read()
  } catch {
    return { done: true }
  } finally {
    clearTimeout(timer)
  }
}
