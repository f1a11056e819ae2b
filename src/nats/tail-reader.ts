import type { EncodedFact } from './message.ts'

const PARTS: Record<string, string> = { '.': '\\.', '*': '[^.]+', '>': '.+' }

/** Whether a subject matches a filter: `*` is one token, `>` at the end is one or more. Source: NATS, "Subject-Based
 *  Messaging". */
export function subjectTest (filter: string): (subject: string) => boolean {
  const prefix = filter.slice(0, -1)
  if (filter.endsWith('>') && !prefix.includes('*')) {
    return subject => subject.length > prefix.length && subject.startsWith(prefix)
  }
  if (!filter.includes('*')) return subject => subject === filter
  const pattern = filter.replaceAll(/[.*>]|[^.*>\w-]/g, part => PARTS[part] ?? `\\${part}`)
  const expression = new RegExp(`^${pattern}$`)
  return subject => expression.test(subject)
}

/** What one reader may leave lying. */
const QUEUE_MAX = 2000
const QUEUE_BYTES_MAX = 8 * 1024 * 1024

export interface TailListener {
  /** Subject filter, wildcards allowed. */
  filter: string
  /** Messages after this sequence; the tail may not have come so far. */
  afterSeq: number
  /** Told of each interruption; the tail goes on by itself. */
  onError(error: Error): void
  /** Told when it goes on. */
  onFollowing(): void
}

/** One reader's messages of a tail. It is closed when too many lie here: the reader then goes on by itself. */
export class TailReader {
  readonly listener: TailListener
  private readonly matches: (subject: string) => boolean
  private readonly onClose: () => void
  private queue: EncodedFact[] = []
  private bytes = 0
  private closed = false
  private waiting: { count: number, resolve: () => void } | null = null

  constructor (listener: TailListener, onClose: () => void) {
    this.listener = listener
    this.matches = subjectTest(listener.filter)
    this.onClose = onClose
  }

  offer (message: EncodedFact): void {
    if (message.seq <= this.listener.afterSeq || !this.matches(message.subject)) return
    if (this.queue.length >= QUEUE_MAX || this.bytes > QUEUE_BYTES_MAX) return this.close()
    this.queue.push(message)
    this.bytes += message.data.length
    if (this.waiting !== null && this.queue.length >= this.waiting.count) this.waiting.resolve()
  }

  /** Nothing more comes; what lies here can still be taken. */
  close (): void {
    if (this.closed) return
    this.closed = true
    this.onClose()
    this.waiting?.resolve()
  }

  /** The next messages, one at least; none = it is closed. */
  async batch ({ batchMax, gather }: { batchMax: number, gather(): Promise<void> }): Promise<EncodedFact[]> {
    await this.until(1)
    if (this.queue.length > 0) await Promise.race([gather(), this.until(batchMax)])
    const taken = this.queue.splice(0, batchMax)
    for (const { data } of taken) this.bytes -= data.length
    return taken
  }

  private async until (count: number): Promise<void> {
    if (this.closed || this.queue.length >= count) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.waiting = { count, resolve }
    await promise
    this.waiting = null
  }
}
