import { deadline } from '#src/base/errors.ts'
import { API_KEY } from './app.ts'

/** One message of a stream of server-sent events; comments are under `comment`. */
export interface Message {
  id: string
  event: string
  data: string
  comment: string
}

/** Somebody who reads a stream, with nothing of ours. */
export interface EventReader {
  status: number
  headers: Headers
  messages: Message[]
  /** Those with data. */
  events(): Message[]
  /** Resolves once `enough`; rejects when that takes over 15 s. */
  until(enough: (events: Message[], all: Message[]) => boolean): Promise<Message[]>
  /** Resolves when the service ends it. */
  ended: Promise<void>
  cut(): void
}

interface Wishes {
  key?: string
  query?: string
  lastEventId?: string
  accept?: string
}

export async function readEvents (
  url: string,
  { key = API_KEY, query = '', lastEventId, accept = 'text/event-stream' }: Wishes = {}
): Promise<EventReader> {
  const line = new AbortController()
  const headers = {
    authorization: `Bearer ${key}`,
    accept,
    ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId })
  }
  const response = await fetch(`${url}/api/events${query}`, { headers, signal: line.signal })
  const messages: Message[] = []
  const watchers = new Set<() => void>()
  const events = () => messages.filter(({ data }) => data !== '')
  const ended = read(response, message => {
    messages.push(message)
    for (const watcher of watchers) watcher()
  })
  return {
    status: response.status,
    headers: response.headers,
    messages,
    events,
    ended,
    cut: () => line.abort(),
    async until (enough) {
      const { promise, resolve } = Promise.withResolvers<void>()
      const watcher = () => {
        if (enough(events(), messages)) resolve()
      }
      watchers.add(watcher)
      watcher()
      await deadline(promise, 15_000, 'the stream does not say enough').catch(error => {
        throw new Error(`${error.message}: ${events().length} events came`)
      })
      watchers.delete(watcher)
      return events()
    }
  }
}

async function read (response: Response, take: (message: Message) => void): Promise<void> {
  let text = ''
  try {
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
      text += chunk
      for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
        take(messageIn(text.slice(0, end)))
        text = text.slice(end + 2)
      }
    }
  } catch {
    // Cut by the test, or by the other side.
  }
}

function messageIn (block: string): Message {
  const fields = block.split('\n').map(line => {
    const at = line.indexOf(': ')
    return [line.slice(0, at) || 'comment', line.slice(at + 2)]
  })
  return { id: '', event: '', data: '', comment: '', ...Object.fromEntries(fields) }
}
