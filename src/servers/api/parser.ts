import { STATUS_CODES, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { systemClock } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import type { Limiter } from '#src/actions/limiter.ts'
import { limitHeaders } from './limits.ts'

interface Refused {
  status: number
  error: string
  code?: string
  headers?: Record<string, string>
}

/** Node makes no request of the method CONNECT: under this name it is refused like what has a code of Node's. */
const CONNECT = 'CONNECT'

/** A client has so long to take its refusal: an end at once would cut it off. Source: RFC 9112 9.6. */
const LINGER_MS = 1000

/** By Node's code. Node reads 16 kB of headers; http.ts has the times. */
const REFUSALS: Record<string, Refused> = {
  [CONNECT]: {
    status: 405,
    error: 'The method must be DELETE, GET, HEAD, PATCH or POST: Jetpost is no proxy.',
    code: 'method_not_allowed',
    headers: { allow: 'DELETE, GET, HEAD, PATCH, POST' }
  },
  HPE_HEADER_OVERFLOW: { status: 431, error: 'The URL and the headers must be at most 16 kB in all.' },
  ERR_HTTP_REQUEST_TIMEOUT: {
    status: 408,
    error: 'The headers must arrive within 15 seconds, the whole request within 60.'
  }
}
const MALFORMED: Refused = { status: 400, error: 'The request must be valid HTTP/1.1.' }

/** Answers what the HTTP parser refuses. */
export interface ParserRefusals {
  /** Called with each request. */
  expect(request: IncomingMessage, response: ServerResponse): void
  /** What the HTTP parser refuses never becomes a request; its answer gets the same headers. */
  refuse(error: Pick<NodeJS.ErrnoException, 'code'>, socket: Socket): void
  /** Refuses to be a proxy. */
  refuseConnect(socket: Socket): void
}

/** `limiter` says whose headers an answer has; null while there are none. */
export function parserRefusals (limiter: () => Limiter | null): ParserRefusals {
  const answers = new WeakMap<Socket, ServerResponse[]>()
  const closing = new WeakSet<Socket>()

  function open (socket: Socket): ServerResponse[] {
    return (answers.get(socket) ?? []).filter(({ writableFinished, req }) => !writableFinished || !req.complete)
  }

  function refuse ({ code }: Pick<NodeJS.ErrnoException, 'code'>, socket: Socket): void {
    if (closing.has(socket)) return
    if (code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
    closing.add(socket)
    // Answers come in the order of their requests: ours would be taken for that of an earlier one, so the line only
    // ends after it.
    const owed = open(socket).findLast(({ req, headersSent }) => req.complete || headersSent)
    if (owed === undefined) endWith(socket, refusal(REFUSALS[code ?? ''] ?? MALFORMED, socket, limiter()))
    else if (owed.writableFinished) endWith(socket)
    else owed.once('close', () => endWith(socket))
  }

  return {
    expect (request, response) {
      answers.set(request.socket, [...open(request.socket), response])
    },
    refuse,
    refuseConnect (socket) {
      // Node has let go of the socket: its errors and what it still brings are nobody's.
      socket.on('error', () => {}).resume()
      refuse({ code: CONNECT }, socket)
    }
  }
}

/** A client that keeps its half open holds nothing for long. */
function endWith (socket: Socket, text = ''): void {
  socket.end(text)
  const timer = setTimeout(() => socket.destroy(), LINGER_MS)
  socket.once('close', () => clearTimeout(timer))
}

function refusal (
  { status, error, code = 'malformed_request', headers: more = {} }: Refused,
  socket: Socket,
  limiter: Limiter | null
): string {
  const body = JSON.stringify({ error, code })
  const headers = {
    ...more,
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
    'x-request-id': newId('req', systemClock.nowMs()),
    ...(limiter === null ? {} : limitHeaders(limiter.countUnauthenticated(socket.remoteAddress ?? '', 'other')))
  }
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`).join('')
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${head}\r\n${body}`
}
