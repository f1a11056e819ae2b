import { sleep } from '#src/base/backoff.ts'
import { asError } from '#src/base/errors.ts'
import type { Bus } from './connect.ts'
import { lastSequence } from './get.ts'
import type { EncodedFact } from './message.ts'
import { openOrdered } from './ordered.ts'
import { TailReader, type TailListener } from './tail-reader.ts'

/** Kept for those who have read nearly as far by themselves. */
const KEPT_MAX = 2000
const KEPT_BYTES_MAX = 8 * 1024 * 1024
const REOPEN_MS = 100

const tails = new WeakMap<Bus, Map<string, Tail>>()

/** The end of a stream as all readers of this connection share it: each message comes from the server once, and is
 *  decoded once. Left when `signal` is aborted. */
export function joinTail (bus: Bus, stream: string, signal: AbortSignal): Tail {
  const ofBus = tails.get(bus) ?? new Map<string, Tail>()
  tails.set(bus, ofBus)
  const tail = ofBus.get(stream) ?? new Tail(bus, stream, () => ofBus.delete(stream))
  ofBus.set(stream, tail)
  tail.join(signal)
  return tail
}

export class Tail {
  /** Resolves when it follows for the first time, or cannot yet. */
  readonly begun: Promise<void>
  private readonly bus: Bus
  private readonly stream: string
  private readonly onEnd: () => void
  private readonly ending = new AbortController()
  private readonly begin: () => void
  private readonly readers = new Set<TailReader>()
  private kept: EncodedFact[] = []
  private keptBytes = 0
  /** All messages after this sequence, up to the position, are kept. */
  private keptAfter = Infinity
  private position = 0
  private isFollowing = false
  private users = 0

  constructor (bus: Bus, stream: string, onEnd: () => void) {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.begun = promise
    this.begin = resolve
    this.bus = bus
    this.stream = stream
    this.onEnd = onEnd
    void this.run()
  }

  /** With its last user it ends. */
  join (signal: AbortSignal): void {
    this.users++
    const leave = () => {
      if (--this.users > 0) return
      this.onEnd()
      this.ending.abort()
    }
    if (signal.aborted) leave()
    else signal.addEventListener('abort', leave, { once: true })
  }

  /** Does it have everything after this sequence? */
  covers (seq: number): boolean {
    return seq >= this.keptAfter
  }

  /** What follows a sequence that it covers, until `signal` is aborted. */
  read (listener: TailListener, signal: AbortSignal): TailReader {
    const close = () => reader.close()
    const reader = new TailReader(listener, () => {
      this.readers.delete(reader)
      signal.removeEventListener('abort', close)
    })
    signal.addEventListener('abort', close, { once: true })
    for (const message of this.kept) reader.offer(message)
    this.readers.add(reader)
    if (this.isFollowing) listener.onFollowing()
    return reader
  }

  private async run (): Promise<void> {
    const { signal } = this.ending
    while (!signal.aborted) {
      await this.follow().catch(error => this.interrupted(asError(error)))
      this.isFollowing = false
      this.begin()
      await sleep(REOPEN_MS, signal)
    }
    for (const reader of this.readers) reader.close()
  }

  private async follow (): Promise<void> {
    const last = await lastSequence(this.bus, this.stream)
    if (this.keptAfter === Infinity || last < this.position) this.startAt(last)
    const { stream, position: afterSeq } = this
    const messages = await openOrdered(this.bus, { stream, afterSeq }, 2 * KEPT_MAX, this.ending.signal)
    this.isFollowing = true
    this.begin()
    for (const { listener } of this.readers) listener.onFollowing()
    try {
      for (;;) {
        const message = await messages.next()
        if (message === null) break
        const { seq, subject, data } = message
        this.take({ seq, subject, data })
      }
    } finally {
      messages.stop()
    }
    if (!this.ending.signal.aborted) this.interrupted(messages.fault() ?? new Error('the consumer has ended'))
  }

  /** At first; and when the stream turns out to be another one, whose readers must see for themselves. */
  private startAt (seq: number): void {
    this.position = this.keptAfter = seq
    this.kept = []
    this.keptBytes = 0
    for (const reader of this.readers) reader.close()
  }

  private take (message: EncodedFact): void {
    this.position = message.seq
    this.kept.push(message)
    this.keptBytes += message.data.length
    while (this.kept.length > KEPT_MAX || this.keptBytes > KEPT_BYTES_MAX) this.forget()
    for (const reader of this.readers) reader.offer(message)
  }

  private forget (): void {
    const oldest = this.kept.shift()!
    this.keptBytes -= oldest.data.length
    this.keptAfter = oldest.seq
  }

  private interrupted (error: Error): void {
    for (const { listener } of this.readers) listener.onError(error)
  }
}
