import type { IncomingHttpHeaders } from 'node:http'
import { errors, Pool, type buildConnector, type Dispatcher } from 'undici'
import type { ErrorKind } from '#streams/delivery/facts.ts'
import { asError, errorCode } from '#src/base/errors.ts'
import { createConnector, TargetRefused, type Resolve } from '#src/dns/guard.ts'

/** The result of one request. */
export interface PostResult {
  /** null = no response. */
  status: number | null
  /** Why there is no response, as the endpoint's owner may read it. */
  error: string | null
  errorKind: ErrorKind | null
  /** The body's first 4,096 bytes as text. */
  response: string
  /** The `Retry-After` header, or null. */
  retryAfter: string | null
  durationMs: number
}

/** The process stops: whether the endpoint took the request is not known. */
export class PostCut extends Error {}

/** Posts to webhook endpoints. */
export interface Poster {
  /** An error is a result; throws PostCut alone. Ends within the poster's `timeoutMs`. */
  post(url: URL, headers: Record<string, string>, body: Uint8Array): Promise<PostResult>
  /** Ends all requests under way, and those to come, with PostCut. */
  cut(): void
  /** Closes every connection, also busy ones. */
  close(): Promise<void>
}

const RESPONSE_BYTES_MAX = 4096
/** The status decides: a slow body must not hold the endpoint's queue for long. */
const BODY_MS_MAX = 2000
const HEADER_BYTES_MAX = 16_384
/** Origins with open connections; the one not used for longest is closed first. */
const POOLS_MAX = 4096

export interface PosterOptions {
  allowPrivate: boolean
  /** From DNS to the end of the response. */
  timeoutMs: number
  /** How host names are resolved; by default by DNS and the system. */
  resolve?: Resolve
}

/** A pool of connections for each origin, so that one that hangs costs the others nothing. Two endpoints of one origin
 *  share a pool but no limit: each endpoint's queue has its own. Redirects are not followed. */
export function createPoster ({ allowPrivate, timeoutMs, resolve }: PosterOptions): Poster {
  const connect = createConnector(allowPrivate, { resolve })
  const pools = new Map<string, Pool>()
  const underWay = new Set<Exchange>()
  let isCut = false

  function poolOf (origin: string): Pool {
    const pool = pools.get(origin) ?? openPool(origin, connect, timeoutMs)
    pools.delete(origin)
    pools.set(origin, pool)
    if (pools.size > POOLS_MAX) dropOldest()
    return pool
  }

  function dropOldest (): void {
    const [origin, pool] = pools.entries().next().value!
    pools.delete(origin)
    // Requests under way finish first.
    void pool.close().catch(() => {})
  }

  async function post (url: URL, headers: Record<string, string>, body: Uint8Array): Promise<PostResult> {
    // Checked when the endpoint was created; the operator may have changed the setting since.
    if (!allowPrivate && url.protocol !== 'https:') {
      return unanswered({ error: 'target refused: only https is allowed', errorKind: 'refused' }, 0)
    }
    if (isCut) throw new PostCut('the process stops')
    const request = { path: url.pathname + url.search, method: 'POST', headers, body } as const
    const exchange = new Exchange(timeoutMs)
    underWay.add(exchange)
    try {
      poolOf(url.origin).dispatch(request, exchange)
      return await exchange.result
    } finally {
      underWay.delete(exchange)
    }
  }

  return {
    post,
    cut () {
      isCut = true
      for (const exchange of underWay) exchange.cut()
    },
    close: async () => {
      await Promise.all([...pools.values()].map(pool => pool.destroy()))
      pools.clear()
    }
  }
}

function openPool (origin: string, connect: buildConnector.connector, timeoutMs: number): Pool {
  return new Pool(origin, {
    connect,
    pipelining: 1,
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    maxHeaderSize: HEADER_BYTES_MAX,
    keepAliveTimeout: 4000,
    keepAliveMaxTimeout: 60_000
  })
}

/** One request and the start of its response; the rest is not read. Once the status is known, a body that is cut off or
 *  slow changes nothing. On undici's bare handler: a stream for each response costs half as much again as the request.
 */
class Exchange implements Dispatcher.DispatchHandler {
  readonly result: Promise<PostResult>
  private readonly timeoutMs: number
  private readonly startMs = performance.now()
  private readonly chunks: Buffer[] = []
  private size = 0
  private head: { status: number, retryAfter: string | null } | null = null
  private running: Dispatcher.DispatchController | null = null
  private over = false
  private timer: NodeJS.Timeout
  private readonly settled = Promise.withResolvers<PostResult>()

  constructor (timeoutMs: number) {
    this.timeoutMs = timeoutMs
    this.result = this.settled.promise
    this.timer = setTimeout(() => this.expire(), timeoutMs)
  }

  cut (): void {
    if (this.isFirstEnd()) this.settled.reject(new PostCut('the process stops'))
    this.running?.abort(new Error('the process stops'))
  }

  onRequestStart (controller: Dispatcher.DispatchController): void {
    this.running = controller
    if (this.over) controller.abort(new Error('timed out'))
  }

  onResponseStart (_controller: unknown, status: number, headers: IncomingHttpHeaders): void {
    if (status < 200) return
    const retryAfter = headers['retry-after']
    this.head = { status, retryAfter: retryAfter === undefined ? null : String(retryAfter) }
    clearTimeout(this.timer)
    const leftMs = this.startMs + this.timeoutMs - performance.now()
    this.timer = setTimeout(() => this.expire(), Math.max(1, Math.min(BODY_MS_MAX, leftMs)))
  }

  onResponseData (_controller: unknown, chunk: Buffer): void {
    this.chunks.push(chunk)
    this.size += chunk.length
    if (this.size >= RESPONSE_BYTES_MAX) this.expire()
  }

  onResponseEnd (): void {
    this.end({ error: 'a response without a status', errorKind: 'protocol' })
  }

  onResponseError (_controller: unknown, error: Error): void {
    this.end(reasonOf(error))
  }

  private expire (): void {
    this.end({ error: `no answer within ${this.timeoutMs / 1000} s`, errorKind: 'timeout' })
    this.running?.abort(new Error('response cut off'))
  }

  private end (reason: Reason): void {
    if (!this.isFirstEnd()) return
    const durationMs = Math.round(performance.now() - this.startMs)
    this.settled.resolve(
      this.head === null
        ? unanswered(reason, durationMs)
        : { ...this.head, error: null, errorKind: null, response: textOf(this.chunks), durationMs }
    )
  }

  private isFirstEnd (): boolean {
    if (this.over) return false
    this.over = true
    clearTimeout(this.timer)
    return true
  }
}

function textOf (chunks: Buffer[]): string {
  // PostgreSQL's text must not contain NUL.
  return Buffer.concat(chunks).subarray(0, RESPONSE_BYTES_MAX).toString('utf8').replaceAll('\0', '\uFFFD')
}

type Reason = Pick<PostResult, 'error' | 'errorKind'>

function unanswered (reason: Reason, durationMs: number): PostResult {
  return { status: null, ...reason, response: '', retryAfter: null, durationMs }
}

/** Error codes, and the text that the endpoint's owner reads. */
const REASONS: Record<string, [ErrorKind, string]> = {
  ECONNREFUSED: ['connect', 'connection refused'],
  EHOSTUNREACH: ['connect', 'host unreachable'],
  ENETUNREACH: ['connect', 'network unreachable'],
  ECONNRESET: ['reset', 'connection reset'],
  EPIPE: ['reset', 'connection reset'],
  ENOTFOUND: ['dns', 'host name not found'],
  EAI_AGAIN: ['dns', 'host name could not be resolved'],
  ETIMEDOUT: ['timeout', 'connection timed out'],
  UND_ERR_CONNECT_TIMEOUT: ['timeout', 'connection timed out'],
  UND_ERR_HEADERS_OVERFLOW: ['protocol', 'headers too large']
}

/** Families of error codes, shown with the error's own text. */
const FAMILIES: Array<[RegExp, ErrorKind]> = [
  [/^(ERR_TLS_|ERR_SSL_|EPROTO$|CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|INVALID_CA$|HOSTNAME_MISMATCH$)/, 'tls'],
  [/^EAI_/, 'dns']
]

function reasonOf (thrown: unknown): Reason {
  const error = asError(thrown)
  if (error instanceof TargetRefused) {
    return { error: `target refused: ${error.message}`.slice(0, 500), errorKind: 'refused' }
  }
  const inner = error instanceof AggregateError ? asError(error.errors[0]) : error
  const code = errorCode(inner)
  if (inner instanceof errors.HTTPParserError) {
    return { error: `not an HTTP response: ${inner.message}`.slice(0, 500), errorKind: 'protocol' }
  }
  if (code === 'UND_ERR_SOCKET') return socketReason(inner)
  const [errorKind, words] = REASONS[code] ?? [familyOf(code), `${code === '' ? inner.name : code}: ${inner.message}`]
  // PostgreSQL's text must not contain NUL, and a certificate may contain anything.
  return { error: words.replaceAll('\0', '\uFFFD').slice(0, 500), errorKind }
}

function familyOf (code: string): ErrorKind {
  return FAMILIES.find(([family]) => family.test(code))?.[1] ?? 'other'
}

/** One code for a connection that ended and for a response that a POST must not get (100 unasked, 101). */
function socketReason ({ message }: Error): Reason {
  return message.startsWith('bad ')
    ? { error: `not a response to a request: ${message}`, errorKind: 'protocol' }
    : { error: 'connection closed before an answer', errorKind: 'reset' }
}
