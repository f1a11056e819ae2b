import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Shot } from '#src/cli/bench/load.ts'
import type { Chance } from './random.ts'
import { TREE_KEY } from './tree.ts'

const EVERY_MS = 60
/** Longer than an accept is tried. */
const ANSWER_MS = 20_000
const AGAIN_MS = 500
const TRIES_MAX = 200
const LARGE_BYTES = 700_000

/** What the client remembers of a mail: its last answer, and every id that it was given. */
interface Sent {
  shot: Shot
  /** With an Idempotency-Key it is asked for until it is accepted, and once more. */
  key: string | null
  ids: Set<string>
}

/** A client as they should be: it writes down each answer, and repeats what has a key. */
export class ChaosClient {
  readonly sent: Sent[] = []
  private readonly urls: string[]
  private readonly chance: Chance
  private readonly stopping = new AbortController()
  private readonly asking = new Set<Promise<void>>()
  private isGone = false
  private running: Promise<void> = Promise.resolve()

  /** `urls`: of the nodes, asked in turn. */
  constructor (urls: string[], chance: Chance) {
    this.urls = urls
    this.chance = chance
  }

  start (): void {
    this.running = this.run()
  }

  /** Resolves once every mail has its answer. Throws when one with a key is not accepted. */
  async stop (): Promise<void> {
    this.stopping.abort()
    await this.running
    await Promise.all(this.asking)
  }

  /** Asks no more, whatever is left: for a test that fails. */
  leave (): void {
    this.isGone = true
    this.stopping.abort()
  }

  /** What was accepted, each email once. */
  accepted (): Shot[] {
    return this.sent.map(({ shot }) => shot).filter(({ id }) => id !== null)
  }

  /** Keys that were answered with more than one email. */
  doubled (): string[] {
    return this.sent.flatMap(({ key, ids }) => (key !== null && ids.size > 1 ? [`${key}: ${[...ids].join()}`] : []))
  }

  /** Answers that neither accept, nor say that and when to come again. */
  odd (): string[] {
    return this.sent.flatMap(({ shot: { i, status, retryAfterS } }) =>
      status === 0 || status === 202 || (status === 503 && retryAfterS !== null) ? [] : [`mail ${i}: ${status}`]
    )
  }

  private async run (): Promise<void> {
    for (let i = 0; !this.stopping.signal.aborted; i++) {
      const asked = this.ask(i).finally(() => this.asking.delete(asked))
      this.asking.add(asked)
      await sleep(EVERY_MS)
    }
  }

  private async ask (i: number): Promise<void> {
    const key = this.chance.next() < 0.3 ? randomUUID() : null
    const body = this.mail(i)
    const sent: Sent = { shot: { i, status: 0, id: null, retryAfterS: null, ms: 0 }, key, ids: new Set() }
    this.sent.push(sent)
    await this.post(sent, body, i)
    if (key === null) return
    for (let tries = 1; sent.shot.id === null && !this.isGone; tries++) {
      if (tries > TRIES_MAX) throw new Error(`mail ${i} was not accepted: ${sent.shot.status}`)
      await sleep(AGAIN_MS)
      await this.post(sent, body, i + tries)
    }
    await this.post(sent, body, i + 1)
  }

  private mail (i: number): string {
    const chance = this.chance.next()
    const scheduled = chance < 0.1
      ? { scheduled_at: new Date(Date.now() + this.chance.int(500, 5000)).toISOString() }
      : {}
    return JSON.stringify({
      from: 'hello@sandbox.jetpost.test',
      to: `user${i}@example.com`,
      subject: `mail ${i}`,
      text: chance > 0.97 ? 'x'.repeat(LARGE_BYTES) : 'Hello',
      ...scheduled
    })
  }

  private async post ({ shot, key, ids }: Sent, body: string, turn: number): Promise<void> {
    const beginMs = performance.now()
    const headers = {
      authorization: `Bearer ${TREE_KEY}`,
      'content-type': 'application/json',
      ...(key === null ? {} : { 'idempotency-key': key })
    }
    try {
      const url = `${this.urls[turn % this.urls.length]}/api/emails`
      const response = await fetch(url, { method: 'POST', headers, body, signal: AbortSignal.timeout(ANSWER_MS) })
      const answer = await response.json() as { id?: string }
      const after = response.headers.get('retry-after')
      Object.assign(shot, { status: response.status, retryAfterS: after === null ? null : Number(after) })
      if (response.status !== 202) return
      shot.id = answer.id!
      ids.add(answer.id!)
    } catch {
      // Killed meanwhile, or frozen: it may have been accepted or not.
      shot.status = shot.id === null ? 0 : 202
    }
    shot.ms = performance.now() - beginMs
  }
}
