import { isBackfillOpen, openBackfills } from '#src/actions/replay-job.ts'
import { readFanoutCursor, type FanoutCursor } from '#src/actions/delivery.ts'
import type { LiveDirectory } from '#src/actions/directory.ts'
import type { FactLog } from '#src/actions/fact-log.ts'
import { wantsBackfill } from '#streams/replay/decide.ts'
import type { WebhookEntry } from '#streams/directory.ts'
import { WEBHOOK_PARTITIONS, webhookPartitionOf } from '#streams/subjects.ts'
import type { Log } from '#src/base/log.ts'

export interface FanoutCursorsOptions {
  factLog: FactLog
  directory: LiveDirectory
  /** Moves the partition's cursor as far as the facts were gone over. Throws when it cannot. */
  beforeOpening(partition: number): Promise<void>
  log: Log
}

export const ALL_PARTITIONS = Array.from({ length: WEBHOOK_PARTITIONS }, (_, partition) => partition)
/** A partition whose deliveries are no facts moves its cursor only so often, and one without any even less. What lies
 *  behind the cursor is read again after a restart, nothing more. */
const DIRECT_MS = 5000
const IDLE_MS = 60_000
const IDLE_FACTS = 2000
const CATCH_UP_MS = 2000
/** Backfills read at once, and opened in one append. */
const BACKFILLS_MAX = 100

/** How far the fan-out of this process has come: the cursor of each partition as last read or moved, and the endpoints
 *  whose backfill is open. One caller at a time. */
export class FanoutCursors {
  private readonly options: FanoutCursorsOptions
  private restart = new AbortController()
  private signal = this.restart.signal
  private partitions: number[] = []
  private cursors: FanoutCursor[] = []
  private movedMs: number[] = []
  private position = 0
  /** Endpoints whose backfill is open: every later fact goes to them as to others. */
  private readonly opened = new Set<string>()

  constructor (options: FanoutCursorsOptions) {
    this.options = options
  }

  /** Reads the cursors of these partitions, which others are left to others. `restart` is aborted when that has to be
   *  done again. Resolves to those whose cursor somebody else has moved since this process last read or moved it. */
  async begin (partitions: number[], restart: AbortController, signal: AbortSignal): Promise<Set<number>> {
    this.restart = restart
    this.signal = signal
    this.partitions = partitions
    const read = await Promise.all(partitions.map(partition => readFanoutCursor(this.options.factLog, partition)))
    const moved = new Set(partitions.filter((partition, i) => this.cursors[partition]?.seq !== read[i]!.seq))
    for (const [i, partition] of partitions.entries()) this.moved(partition, read[i]!)
    this.position = Math.min(...read.map(cursor => cursor.through))
    return moved
  }

  cursor (partition: number): FanoutCursor {
    return this.cursors[partition]!
  }

  /** This process has moved the cursor. */
  moved (partition: number, cursor: FanoutCursor): void {
    this.cursors[partition] = cursor
    this.movedMs[partition] = this.nowMs()
  }

  /** Every fact up to here has its deliveries in every partition, also where the cursor lags behind. */
  get reachedSoFar (): number {
    return this.position
  }

  reached (through: number): void {
    this.position = through
  }

  /** Does the cursor lag so far behind that it must be moved without deliveries? */
  isLate (partition: number, through: number, isDirect: boolean): boolean {
    return through - this.cursor(partition).through >= IDLE_FACTS ||
      this.nowMs() - this.movedMs[partition]! >= (isDirect ? DIRECT_MS : IDLE_MS)
  }

  /** One that another process has moved may have come with an endpoint unknown here: begin again from there. */
  private async reread (partition: number): Promise<void> {
    const { seq } = await readFanoutCursor(this.options.factLog, partition)
    if (seq !== this.cursor(partition).seq) this.restart.abort()
  }

  /** Makes sure that this process knows every endpoint created before the facts were read, and every backfill opened up
   *  to the cursors: facts after an opening are not in the backfill. To be called before an append behind a cursor.
   *  `accounts` null = all. Throws when that cannot be known now. */
  async catchUp (accounts: Set<string> | null): Promise<void> {
    const { partitions } = this
    if (!await this.options.directory.catchUp(CATCH_UP_MS)) throw new Error('the directory is behind')
    const webhooks = this.unopened(accounts)
    if (webhooks.length === 0) return
    await Promise.all(
      partitions.map(partition =>
        this.open(partition, webhooks.filter(({ id }) => webhookPartitionOf(id) === partition))
      )
    )
  }

  /** Does the endpoint get facts after those reached so far? */
  isListening (webhook: WebhookEntry, nowMs: number): boolean {
    return this.opened.has(webhook.id) || !wantsBackfill(webhook, nowMs)
  }

  hasUnopened (): boolean {
    for (const id of this.opened) if (!this.options.directory.now.webhooks.has(id)) this.opened.delete(id)
    return this.unopened(null).length > 0
  }

  private nowMs (): number {
    return this.options.factLog.clock.nowMs()
  }

  private unopened (accounts: Set<string> | null): WebhookEntry[] {
    const nowMs = this.nowMs()
    const found: WebhookEntry[] = []
    for (const webhook of this.options.directory.now.webhooks.values()) {
      if (webhook.disabled !== null || this.isListening(webhook, nowMs)) continue
      if (accounts?.has(webhook.account) === false) continue
      if (this.partitions.includes(webhookPartitionOf(webhook.id))) found.push(webhook)
    }
    return found
  }

  /** Opens backfills at our position: facts up to there are the backfill's, later ones the fan-out's. Of a backfill
   *  that another process has opened we only need to know, and to read the cursor again. */
  private async open (partition: number, webhooks: WebhookEntry[]): Promise<void> {
    const { signal, opened } = this
    for (let i = 0; i < webhooks.length && !signal.aborted; i += BACKFILLS_MAX) {
      const group = webhooks.slice(i, i + BACKFILLS_MAX)
      const open = await Promise.all(group.map(({ id }) => isBackfillOpen(this.options.factLog, id)))
      if (open.includes(true)) await this.reread(partition)
      for (const [j, { id }] of group.entries()) if (open[j]!) opened.add(id)
      const unopened = group.filter((_webhook, j) => !open[j]!)
      if (unopened.length > 0 && !signal.aborted) await this.openNew(partition, unopened)
    }
  }

  private async openNew (partition: number, webhooks: WebhookEntry[]): Promise<void> {
    const { factLog, log, beforeOpening } = this.options
    await beforeOpening(partition)
    const cursor = this.cursor(partition)
    const through = Math.max(this.position, cursor.through)
    const advanced = await openBackfills(factLog, partition, cursor, through, webhooks)
    if (advanced === null) return await this.reread(partition)
    this.moved(partition, advanced)
    for (const { id } of webhooks) this.opened.add(id)
    log.info({ partition, through, webhooks: webhooks.map(({ id }) => id) }, 'webhook backfills opened')
  }
}
