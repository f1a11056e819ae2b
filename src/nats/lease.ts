import { headers } from 'nats'
import { subjects } from '#streams/subjects.ts'
import type { Bus } from './connect.ts'
import { getDirectBatch, storedMessage } from './direct.ts'
import { JetStreamError, WRONG_LAST_SEQUENCE, WRONG_LAST_SEQUENCE_UNKNOWN } from './errors.ts'

/** A lease that is not renewed for so long is free. */
const LEASE_MS = 10_000
/** Of a lease: its holder stops relying on it well before others may take it. */
const RELY_SHARE = 0.6
const RENEWALS = 5

export interface LeaseOptions {
  kind: string
  names: readonly string[]
  /** This process, among all that ask for these leases. */
  holder: string
  leaseMs?: number
}

export interface LeaseRound {
  /** Beyond the fair share: to be given back, one a round. */
  surplus: string | null
  /** Ms until the next round is due. */
  nextMs: number
}

interface Held {
  seq: number
  renewedMs: number
}

/** What a lease's subject holds. */
interface Beat {
  seq: number
  storedMs: number
  holder: string
}

const PROCESS = 'process'

/** Leases in the memory stream HEARTBEATS: the process that wrote the last message on a lease's subject holds it, and
 *  each message expects the one before, so that of two takers one fails. Times are the server's. A holder that stands
 *  still wakes up without its leases. When the stream is lost all leases are free, and the first taker gets each. */
export class LeaseTable {
  private readonly bus: Bus
  private readonly options: LeaseOptions
  private readonly leaseMs: number
  /** Where this process says that it is there. */
  private readonly ownName: string
  private readonly held = new Map<string, Held>()

  constructor (bus: Bus, options: LeaseOptions) {
    this.bus = bus
    this.options = options
    this.leaseMs = options.leaseMs ?? LEASE_MS
    this.ownName = `${PROCESS}.${options.holder}`
  }

  /** Until the answer is false nobody else holds it, as long as clocks run alike. */
  isHeld (name: string): boolean {
    const held = this.held.get(name)
    return held !== undefined && performance.now() - held.renewedMs < this.leaseMs * RELY_SHARE
  }

  /** Gives back all at once, and counts no more when shares are made. */
  async leave (): Promise<void> {
    const names = [...this.held.keys()]
    await Promise.all([this.write(this.ownName, ''), ...names.map(name => this.free(name))])
  }

  /** One round: renews what is held, and takes what is free up to a fair share. Throws what `isUnanswered` knows, or
   *  JetStreamError. */
  async round (): Promise<LeaseRound> {
    await this.write(this.ownName, this.options.holder)
    await this.renew()
    const beats = await this.read()
    const nowMs = beats.get(this.ownName)?.storedMs ?? 0
    const isLive = ({ storedMs }: Beat) => nowMs - storedMs < this.leaseMs
    const share = Math.ceil(this.options.names.length / countProcesses(beats, isLive))
    await this.take(share, beats, isLive)
    const surplus = this.held.size > share ? [...this.held.keys()].at(-1)! : null
    return { surplus, nextMs: this.leaseMs / RENEWALS }
  }

  /** Gives one back. The next round of others finds it. */
  async free (name: string): Promise<void> {
    const held = this.held.get(name)
    if (held === undefined) return
    this.held.delete(name)
    await this.write(name, '', held.seq)
  }

  private async renew (): Promise<void> {
    await Promise.all([...this.held].map(async ([name, { seq }]) => {
      const renewedMs = performance.now()
      // Too late when it is not held: somebody else may rely on it by now.
      const renewed = this.isHeld(name) ? await this.write(name, this.options.holder, seq) : null
      if (renewed === null) this.held.delete(name)
      else if (this.held.has(name)) this.held.set(name, { seq: renewed, renewedMs })
    }))
  }

  private async take (share: number, beats: Map<string, Beat>, isLive: (beat: Beat) => boolean): Promise<void> {
    for (const name of this.options.names) {
      if (this.held.size >= share) return
      const beat = beats.get(name)
      if (this.held.has(name) || (beat !== undefined && this.isOthers(beat) && isLive(beat))) continue
      await this.hold(name, beat?.seq ?? 0)
    }
  }

  private isOthers ({ holder }: Beat): boolean {
    return holder !== '' && holder !== this.options.holder
  }

  private async hold (name: string, expectedSeq: number): Promise<void> {
    const renewedMs = performance.now()
    const seq = await this.write(name, this.options.holder, expectedSeq)
    if (seq !== null) this.held.set(name, { seq, renewedMs })
  }

  /** Resolves to the sequence, or to null when another was first. */
  private async write (name: string, holder: string, expectedSeq?: number): Promise<number | null> {
    const head = headers()
    if (expectedSeq !== undefined) head.set('Nats-Expected-Last-Subject-Sequence', String(expectedSeq))
    const subject = subjects.lease(this.options.kind, name)
    const answer = await this.bus.nc.request(subject, holder, { headers: head, timeout: this.leaseMs / RENEWALS })
    const { error, seq } = answer.json<{ error?: { err_code: number, description: string }, seq: number }>()
    if (error === undefined) return seq
    if (error.err_code === WRONG_LAST_SEQUENCE || error.err_code === WRONG_LAST_SEQUENCE_UNKNOWN) return null
    throw new JetStreamError(error.err_code, error.description)
  }

  private async read (): Promise<Map<string, Beat>> {
    const prefix = subjects.lease(this.options.kind, '')
    const { messages } = await getDirectBatch(this.bus, 'HEARTBEATS', { multi_last: [`${prefix}>`] })
    return new Map(messages.map(message => {
      const { seq, subject, storedMs, data } = storedMessage('HEARTBEATS', message)
      return [subject.slice(prefix.length), { seq, storedMs, holder: Buffer.from(data).toString() }]
    }))
  }
}

function countProcesses (beats: Map<string, Beat>, isLive: (beat: Beat) => boolean): number {
  const live = [...beats].filter(([name, beat]) => name.startsWith(`${PROCESS}.`) && beat.holder !== '' && isLive(beat))
  return Math.max(1, live.length)
}
