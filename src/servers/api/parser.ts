import { STATUS_CODES, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { systemClock } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import { limitHeaders, type Limiter } from './limits.ts'

/** Node's code → status and text. Node reads 16 kB of headers, and `requestTimeout` in http.ts is 60 s. */
const REFUSALS: Record<string, [number, string]> = {
  HPE_HEADER_OVERFLOW: [431, 'The headers must be at most 16 kB in all.'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'The request must arrive within 60 seconds.']
}
const MALFORMED: [number, string] = [400, 'The request must be valid HTTP/1.1.']

/** Answers what the HTTP parser refuses. */
export interface ParserRefusals {
  /** Called with each request. */
  expect(request: IncomingMessage, response: ServerResponse): void
  /** What the HTTP parser refuses never becomes a request; its answer gets the same headers. */
  refuse(error: NodeJS.ErrnoException, socket: Socket): void
}

/** `limiter` says whose headers an answer has; null while there are none. */
export function parserRefusals (limiter: () => Limiter | null): ParserRefusals {
  const answers = new WeakMap<Socket, ServerResponse[]>()
  const closing = new WeakSet<Socket>()

  function open (socket: Socket): ServerResponse[] {
    return (answers.get(socket) ?? []).filter(({ writableFinished, req }) => !writableFinished || !req.complete)
  }

  return {
    expect (request, response) {
      answers.set(request.socket, [...open(request.socket), response])
    },
    refuse (error, socket) {
      if (closing.has(socket)) return
      if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
      closing.add(socket)
      // Answers come in the order of their requests: ours would be taken for that of an earlier one, so the line only
      // ends after it.
      const owed = open(socket).findLast(({ req, headersSent }) => req.complete || headersSent)
      if (owed === undefined) socket.end(refusal(error, socket, limiter()))
      else if (owed.writableFinished) socket.destroySoon()
      else owed.once('close', () => socket.destroySoon())
    }
  }
}

function refusal ({ code = '' }: NodeJS.ErrnoException, socket: Socket, limiter: Limiter | null): string {
  const [status, error] = REFUSALS[code] ?? MALFORMED
  const body = JSON.stringify({ error, code: 'malformed_request' })
  const headers = {
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
    'x-request-id': newId('req', systemClock.nowMs()),
    ...(limiter === null ? {} : limitHeaders(limiter.countUnauthenticated(socket.remoteAddress ?? '', 'other')))
  }
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`).join('')
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${head}\r\n${body}`
}
