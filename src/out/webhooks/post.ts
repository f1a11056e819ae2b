import { Pool, type buildConnector, type Dispatcher } from 'undici'
import { asError, errorCode } from '#src/base/errors.ts'
import { createConnector, TargetRefused } from '#src/dns/guard.ts'

/** What came of one request. */
export interface Answer {
  /** null = no answer. */
  status: number | null
  /** Why there is none, in words without anything of ours in it. */
  error: string | null
  /** The body's first 4,096 bytes as text. */
  response: string
  /** What `Retry-After` asks for, or null. */
  retryAfterMs: number | null
  durationMs: number
}

/** Posts to webhook endpoints. */
export interface Poster {
  /** Never throws: whatever happens is an answer. Ends within the poster's `timeoutMs`. */
  post (url: URL, headers: Record<string, string>, body: Uint8Array): Promise<Answer>
  /** Closes every connection, the busy ones too. */
  close (): Promise<void>
}

const RESPONSE_BYTES_MAX = 4096
/** The status decides; a body that dribbles does not hold the lane for long. */
const BODY_MS_MAX = 2000
const HEADER_BYTES_MAX = 16_384
/** Origins whose connections are kept; the one not used for longest is closed first. */
const POOLS_MAX = 512

export interface PosterOptions {
  allowPrivate: boolean
  /** From the first byte of DNS to the last of the answer. */
  timeoutMs: number
}

/** A pool of connections for each origin, so that one that hangs costs the others nothing. Two endpoints of one origin share a pool but no
 *  limit: each endpoint's lane has its own. Redirects are not followed. */
export function createPoster ({ allowPrivate, timeoutMs }: PosterOptions): Poster {
  const connect = createConnector(allowPrivate)
  const pools = new Map<string, Pool>()

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

  async function post (url: URL, headers: Record<string, string>, body: Uint8Array): Promise<Answer> {
    // Checked when the endpoint was made; the operator may have changed the rule since.
    if (!allowPrivate && url.protocol !== 'https:') return { status: null, error: 'target refused: only https is allowed', response: '', retryAfterMs: null, durationMs: 0 }
    const startMs = performance.now()
    const timeUp = new AbortController()
    const timer = setTimeout(() => timeUp.abort(), timeoutMs)
    const spent = () => Math.round(performance.now() - startMs)
    try {
      const path = url.pathname + url.search
      const answer = await poolOf(url.origin).request({ path, method: 'POST', headers, body, signal: timeUp.signal })
      const response = await readStart(answer.body)
      return { status: answer.statusCode, error: null, response, retryAfterMs: retryAfterMs(answer.headers), durationMs: spent() }
    } catch (error) {
      const why = timeUp.signal.aborted ? `no answer within ${timeoutMs / 1000} s` : reasonOf(error)
      return { status: null, error: why, response: '', retryAfterMs: null, durationMs: spent() }
    } finally {
      clearTimeout(timer)
    }
  }

  return {
    post,
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

/** The first bytes of the body as text; the rest is not read. A body that breaks off or dribbles changes nothing: the status is known. */
async function readStart (body: Dispatcher.ResponseData['body']): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  const timer = setTimeout(() => body.destroy(), BODY_MS_MAX)
  try {
    for await (const chunk of body) {
      chunks.push(chunk)
      size += chunk.length
      if (size >= RESPONSE_BYTES_MAX) break
    }
  } catch {
    // What came is what there is.
  } finally {
    clearTimeout(timer)
    body.destroy()
  }
  // PostgreSQL's text holds no NUL.
  return Buffer.concat(chunks).subarray(0, RESPONSE_BYTES_MAX).toString('utf8').replaceAll('\0', '\uFFFD')
}

/** Seconds or an HTTP date; nonsense counts as silence. Source: RFC 9110 10.2.3. */
function retryAfterMs (headers: Dispatcher.ResponseData['headers']): number | null {
  const text = String(headers['retry-after'] ?? '')
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1000
  const untilMs = Date.parse(text)
  return Number.isNaN(untilMs) ? null : Math.max(0, untilMs - Date.now())
}

const REASONS: Record<string, string> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  EPIPE: 'connection reset',
  ENOTFOUND: 'host name not found',
  EAI_AGAIN: 'host name could not be resolved',
  EHOSTUNREACH: 'host unreachable',
  ENETUNREACH: 'network unreachable',
  ETIMEDOUT: 'connection timed out',
  UND_ERR_CONNECT_TIMEOUT: 'connection timed out',
  UND_ERR_SOCKET: 'connection closed before an answer',
  UND_ERR_HEADERS_OVERFLOW: 'headers too large'
}

function reasonOf (thrown: unknown): string {
  const error = asError(thrown)
  if (error instanceof TargetRefused) return `target refused: ${error.message}`
  const inner = error instanceof AggregateError ? asError(error.errors[0]) : error
  const code = errorCode(inner)
  return (REASONS[code] ?? `${code === '' ? inner.name : code}: ${inner.message}`).slice(0, 500)
}
