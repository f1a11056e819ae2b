import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'undici'

/** One request and what came of it. */
export interface Shot {
  /** Number of the request, from 0. */
  i: number
  /** HTTP status; 0 = no answer: it may have been accepted or not. */
  status: number
  /** The email's id, when it was accepted. */
  id: string | null
  /** Seconds from the Retry-After header. */
  retryAfterS: number | null
  /** From the moment it was meant to leave until its answer was read. */
  ms: number
}

export interface LoadOptions {
  url: string
  key: string
  /** The JSON body of request `i`. */
  body: (i: number) => string
  /** Its Idempotency-Key; left out = none. */
  idempotencyKey?: (i: number) => string
  /** Requests under way at once: exactly so many in a closed loop, at most so many at a fixed rate. */
  inFlight: number
  /** Ends after so many accepted ones … */
  acceptedMax?: number
  /** … and after this time in any case. */
  durationMs: number
  /** Ends sooner. */
  signal?: AbortSignal
  /** Called with each answer; slow ones slow the load. */
  onShot?: (shot: Shot) => void
  /** True = send nothing more for now. Looked at before each request. */
  full?: () => boolean
}

const ANSWER_MS = 15_000
/** After no answer or a refusal: a service that is down is not hammered. */
const PAUSE_MS = 50

/** As fast as answered: each of `inFlight` callers sends its next request when the last one is answered. */
export async function closedLoop (options: LoadOptions): Promise<Shot[]> {
  const load = openLoad(options)
  const caller = async () => {
    while (load.goesOn()) {
      if (options.full?.() === true) await sleep(1)
      else if ((await load.shoot(performance.now())).status !== 202) await sleep(PAUSE_MS)
    }
  }
  await Promise.all(Array.from({ length: options.inFlight }, caller))
  return await load.close()
}

/** The requests of one load, sent one by one, over connections of their own. */
export interface Load {
  /** Sends the next request. `beginMs` = when it was meant to leave, by `performance.now()`. Never rejects. */
  shoot(beginMs: number): Promise<Shot>
  /** False once the load is to end. */
  goesOn(): boolean
  /** Cuts the connections; resolves to all that came of it. */
  close(): Promise<Shot[]>
}

export function openLoad (options: LoadOptions): Load {
  const { acceptedMax = Infinity, durationMs, signal } = options
  const pool = new Pool(options.url, {
    connections: options.inFlight,
    pipelining: 1,
    headersTimeout: ANSWER_MS,
    bodyTimeout: ANSWER_MS,
    connectTimeout: ANSWER_MS
  })
  const headers = { authorization: `Bearer ${options.key}`, 'content-type': 'application/json' }
  const headersOf = (
    i: number
  ) => (options.idempotencyKey === undefined ? headers : { ...headers, 'idempotency-key': options.idempotencyKey(i) })
  const endMs = performance.now() + durationMs
  const shots: Shot[] = []
  let next = 0
  let accepted = 0

  async function shoot (beginMs: number): Promise<Shot> {
    const i = next++
    const answer = await ask(i).catch(() => ({ status: 0, id: null, retryAfterS: null }))
    const shot = { i, ...answer, ms: performance.now() - beginMs }
    if (shot.status === 202) accepted++
    shots.push(shot)
    options.onShot?.(shot)
    return shot
  }

  async function ask (i: number): Promise<Pick<Shot, 'status' | 'id' | 'retryAfterS'>> {
    const { statusCode, headers: answered, body } = await pool.request({
      method: 'POST',
      path: '/api/emails',
      headers: headersOf(i),
      body: options.body(i)
    })
    const text = await body.text()
    const retryAfter = answered['retry-after']
    return {
      status: statusCode,
      id: statusCode === 202 ? JSON.parse(text).id : null,
      retryAfterS: retryAfter === undefined ? null : Number(retryAfter)
    }
  }

  return {
    shoot,
    goesOn: () => accepted < acceptedMax && performance.now() < endMs && signal?.aborted !== true,
    async close () {
      await pool.destroy()
      return shots
    }
  }
}

/** `q` between 0 and 1 of ascending numbers; NaN of none. */
export function quantile (sorted: number[], q: number): number {
  return sorted.length === 0 ? NaN : sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))]!
}
