import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { KeyedSemaphore } from '#src/base/keyed-semaphore.ts'
import type { ArrivingBody, BodyBudget } from './body-budget.ts'
import { unavailable, type HttpProblem } from './errors.ts'

/** Reading and storing one above this takes a tenth of a second of the process's time. */
const BYTES_MIN = 1024 * 1024
/** What one of them waits for leaves time for another. Of an account one at a time: each turn of the event loop would
 *  else do a piece of every one of them before it comes to the small requests of others, and accept one connection. */
const TURNS = { max: 2, maxPerKey: 1, waitMs: 10_000, waitingMax: 200, waitingMaxPerKey: 50 }

/** One for the process. */
export const newTurns = () => new KeyedSemaphore(TURNS)

const tooMany = () => unavailable('busy', 'Too many big bodies arrive at once: try again.')

declare module 'fastify' {
  interface FastifyRequest {
    /** Lets the next big body have its turn; null = it has none. */
    endTurn: (() => void) | null
  }
}

type ReadBody = (request: FastifyRequest, body: Buffer, done: (error: Error | null, value?: unknown) => void) => void

/** Wraps what reads bodies: a big one is read once it has its turn, which lasts until its request is answered. It is
 *  refused with 503 when that does not come in time. */
export function turnsOfBigBodies (
  app: Pick<FastifyInstance, 'decorateRequest' | 'addHook'>,
  turns: KeyedSemaphore
): (read: ReadBody) => ReadBody {
  app.decorateRequest('endTurn', null)
  app.addHook('onResponse', async request => request.endTurn?.())

  async function take (request: FastifyRequest): Promise<HttpProblem | null> {
    const { account } = request.principal!
    if (!await turns.acquire(account)) return tooMany()
    let isOver = false
    request.endTurn = () => {
      if (!isOver) turns.release(account)
      isOver = true
    }
    if (!request.raw.socket.destroyed) return null
    // Nobody waits for the answer, whose end is past.
    request.endTurn()
    return tooMany()
  }

  return read => (request, body, done) => {
    if (body.length < BYTES_MIN) return read(request, body, done)
    void take(request).then(refusal => refusal === null ? read(request, body, done) : done(refusal), done)
  }
}

const OVERLAP_BYTES_MAX = 64 * 1024

/** True when a body is announced that is above 64 kB, or of no length known yet. */
export function mayBeBig ({ headers }: FastifyRequest): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > OVERLAP_BYTES_MAX
}

/** Room for a big body, until its answer has gone. Throws 503. */
export async function takeRoom (budget: BodyBudget, request: FastifyRequest, { raw }: FastifyReply) {
  const { headers, principal, routeOptions } = request
  const announced = Number(headers['content-length'] ?? Infinity)
  const giveBack = await budget.take(principal!.account, Math.min(announced, routeOptions.bodyLimit), arriving(request))
  if (giveBack === null) throw tooMany()
  if (raw.closed) giveBack()
  else raw.once('close', giveBack)
}

function arriving ({ raw }: FastifyRequest): ArrivingBody {
  const { socket } = raw
  const before = socket.bytesRead
  return {
    isWhole: () => raw.complete,
    bytesRead: () => socket.bytesRead - before,
    cut: () => void socket.destroy()
  }
}
