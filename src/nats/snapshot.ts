import { createInbox, type Msg, type Subscription } from 'nats'
import { deadline, Late } from '#src/base/errors.ts'
import { api } from './api.ts'
import type { Bus } from './connect.ts'
import { JetStreamError } from './errors.ts'

/** What a stream is, and how far it has come, as the server says it. */
export interface StreamAbout {
  config: StreamConfig
  state: StreamState
}

export type StreamConfig = Record<string, unknown> & { name: string, metadata?: Record<string, string> }

export interface StreamState {
  messages: number
  bytes: number
  first_seq: number
  last_seq: number
}

/** How long the server may say nothing, in ms; `endMs`: until it says that a stream is whole again. It gives up itself
 *  after 5 s without a word from us. */
export interface SnapshotTimeouts {
  silenceMs: number
  endMs: number
}

const PATIENCE: SnapshotTimeouts = { silenceMs: 30_000, endMs: 600_000 }

/** Within every server's `max_payload`. */
const COPY_PIECE_BYTES = 128 * 1024
/** On their way to us at once: all the memory a copy takes. */
const COPY_WINDOW_BYTES = 8 * 1024 * 1024
/** The server reads nothing else from our line while it stores a piece, pings neither, and may fsync each of thousands
 *  of messages in it: small pieces, and few under way, or we take it for dead, or it us. */
const RESTORE_PIECE_BYTES = 16 * 1024
const RESTORE_PIECES_MAX = 4
const END_MS = 5000
const LOOK_MS = 200

/** Copies a stream's messages as they are at this moment, without its consumers: `keep` is given the server's archive
 *  piece by piece, and the server waits while we keep them. What is appended meanwhile is not in it. Throws
 *  JetStreamError, Late, what `keep` throws, and an Error when a piece is missing. Source: nats-server 2.15,
 *  jsStreamSnapshotRequest and streamSnapshot. */
export async function copyStream (
  bus: Bus,
  stream: string,
  keep: (bytes: Uint8Array) => Promise<void>,
  patience = PATIENCE
): Promise<StreamAbout> {
  const inbox = createInbox()
  // There before the question: the server looks for it, and pieces may overtake the answer.
  const pieces = bus.nc.subscribe(inbox)
  try {
    return await onOneLine(bus, async line => {
      const ask = {
        deliver_subject: inbox,
        no_consumers: true,
        chunk_size: COPY_PIECE_BYTES,
        window_size: COPY_WINDOW_BYTES
      }
      const { config, state } = await line(api<StreamAbout>(bus, `STREAM.SNAPSHOT.${stream}`, ask, patience.silenceMs))
      await keepAll(pieces, piece => line(deadline(piece, patience.silenceMs, 'NATS fell silent')), keep)
      return { config, state }
    })
  } finally {
    pieces.unsubscribe()
  }
}

/** Every full piece asks for an answer, on a subject that ends with its size and its number; then comes a shorter one,
 *  and an empty message that says it was the last, or what went wrong. */
async function keepAll (
  pieces: Subscription,
  next: <T>(piece: Promise<T>) => Promise<T>,
  keep: (bytes: Uint8Array) => Promise<void>
): Promise<void> {
  const iterator = pieces[Symbol.asyncIterator]()
  for (let number = 1;; number++) {
    const { value: piece, done } = await next(iterator.next())
    if (done === true) throw new Late('the connection to NATS broke')
    if (piece.data.length === 0) return refuseUnlessWhole(piece)
    refuseGap(piece, number)
    await keep(piece.data)
    piece.respond()
  }
}

function refuseUnlessWhole ({ headers }: Msg): void {
  const code = headers?.code ?? 0
  if (code !== 0 && code !== 204) throw new Error(`NATS gave up: ${headers!.description} (${code})`)
}

function refuseGap ({ reply, data }: Msg, number: number): void {
  const [, size, place] = /\.(\d+)\.(\d+)$/.exec(reply ?? '') ?? []
  if (place !== undefined && (Number(place) !== number || Number(size) !== data.length)) {
    throw new Error(`piece ${number} is missing`)
  }
}

/** Makes a stream, which must not exist, of what `copyStream` has copied: sequences, times, headers and gaps as they
 *  were; what is too old by now leaves it at once. Resolves to its state then. When it fails, a part of the stream may
 *  be there. Throws as above, and what `archive` throws. Source: nats-server 2.15, processStreamRestore and
 *  RestoreStreamV2. */
export async function restoreStream (
  bus: Bus,
  about: StreamAbout,
  archive: AsyncIterable<Uint8Array>,
  patience = PATIENCE
): Promise<StreamState> {
  return await onOneLine(bus, async line => {
    const { deliver_subject: subject } = await line(
      api<{ deliver_subject: string }>(bus, `STREAM.RESTORE.${about.config.name}`, about, patience.silenceMs)
    )
    try {
      await sendAll(bus, subject, archive, answer => line(deadline(answer, patience.silenceMs, 'NATS fell silent')))
      const { state } = (await line(send(bus, subject, new Uint8Array(), patience.endMs)))!
      return state
    } catch (error) {
      // An end without the rest: else the server would wait for it, and might bring the stream back after it was
      // removed.
      await send(bus, subject, new Uint8Array(), Math.min(END_MS, patience.endMs)).catch(() => {})
      throw error
    }
  })
}

/** The server stores one piece after the other and answers each; `taken` waits for the answer to the oldest. */
async function sendAll (
  bus: Bus,
  subject: string,
  archive: AsyncIterable<Uint8Array>,
  taken: (answer: Promise<unknown>) => Promise<unknown>
): Promise<void> {
  const answers: Array<Promise<unknown>> = []
  for await (const bytes of archive) {
    for (let i = 0; i < bytes.length; i += RESTORE_PIECE_BYTES) {
      // Bounded by `taken`: how long an answer takes depends on how many are before it.
      const answer = send(bus, subject, bytes.subarray(i, i + RESTORE_PIECE_BYTES), PATIENCE.endMs)
      // Those behind a refused one are refused too, and the first is who says why.
      answer.catch(() => {})
      if (answers.push(answer) >= RESTORE_PIECES_MAX) await taken(answers.shift()!)
    }
  }
  for (const answer of answers) await taken(answer)
}

/** Null for a piece that was taken; what is there now for the empty one at the end. */
async function send (
  bus: Bus,
  subject: string,
  bytes: Uint8Array,
  timeoutMs: number
): Promise<{ state: StreamState } | null> {
  const message = await bus.nc.request(subject, bytes, { timeout: timeoutMs })
  if (message.data.length === 0) return null
  const answer = message.json<{ state: StreamState, error?: { err_code: number, description: string } }>()
  if (answer.error !== undefined) throw new JetStreamError(answer.error.err_code, answer.error.description)
  return answer
}

/** A line that breaks may take a piece with it without either side knowing: `line` waits for something as long as the
 *  connection stands. */
async function onOneLine<T> (bus: Bus, act: (line: <R>(promise: Promise<R>) => Promise<R>) => Promise<T>): Promise<T> {
  const sinceMs = bus.upSinceMs()
  const { promise: broken, reject } = Promise.withResolvers<never>()
  broken.catch(() => {})
  const look = () => {
    if (sinceMs === null || bus.upSinceMs() !== sinceMs) reject(new Late('the connection to NATS broke'))
  }
  const timer = setInterval(look, LOOK_MS)
  try {
    const result = await act(promise => Promise.race([promise, broken]))
    look()
    return await Promise.race([broken, Promise.resolve(result)])
  } finally {
    clearInterval(timer)
  }
}
