import { isBackfillOpen, openBackfills } from '#src/actions/backfill.ts'
import { readFanoutCursor, type FanoutCursor } from '#src/actions/delivery.ts'
import type { LiveDirectory } from '#src/actions/directory.ts'
import type { Appenders } from '#src/actions/appenders.ts'
import { wantsBackfill } from '#streams/delivery/backfill.ts'
import type { WebhookEntry } from '#streams/directory.ts'
import { WEBHOOK_PARTITIONS, webhookPartitionOf } from '#streams/subjects.ts'
import { sleep } from '#src/base/backoff.ts'
import type { Log } from '#src/base/log.ts'

export interface FanoutPlaceOptions {
  appenders: Appenders
  directory: LiveDirectory
  log: Log
}

/** How far this process has come: the cursor of each partition as far as it knows, and the endpoints whose backfill is
 *  open there. Cursors are one's at a time: whoever calls sees to it. */
export interface FanoutPlace {
  /** Reads the cursors anew; resolves to the place to go on from. `restart` is aborted when it turns out that this has
   *  to be done again. */
  begin(restart: AbortController, signal: AbortSignal): Promise<number>
  cursor(partition: number): FanoutCursor
  /** We have moved it. */
  moved(partition: number, cursor: FanoutCursor): void
  /** Every fact up to here has been gone over in every partition, also where the cursor lags behind. */
  goneOver(through: number): void
  /** Lags a partition's cursor so far behind that it is to be moved without deliveries? */
  isLate(partition: number, through: number): boolean
  reread(partition: number): Promise<void>
  /** Says whether others have moved any. */
  rereadAll(): Promise<boolean>
  /** Whoever appends behind a cursor must know every endpoint made before the facts were read, and every backfill
   *  opened up to that cursor: what comes after an opening is not in the backfill. `accounts` null = all. Throws when
   *  that cannot be known now. */
  learn(partitions: number[], accounts: Set<string> | null): Promise<void>
  /** May facts go to it that come after those gone over so far? */
  isListening(webhook: WebhookEntry, nowMs: number): boolean
  hasUnopened(): boolean
}

export const ALL = Array.from({ length: WEBHOOK_PARTITIONS }, (_, partition) => partition)
/** Before the log is read again. */
export const TURN_MS = 100
/** A partition without deliveries moves its cursor this seldom. What it has not moved over is looked at again after a
 *  restart, nothing more. */
const LAZY_MS = 5000
const LAZY_FACTS = 2000
const CATCH_UP_MS = 2000
/** Backfills looked up at once, and opened in one append. */
const OPENINGS_MAX = 100

export function createFanoutPlace ({ appenders, directory, log }: FanoutPlaceOptions): FanoutPlace {
  let restart = new AbortController()
  let { signal } = restart
  let cursors: FanoutCursor[] = []
  let movedMs: number[] = []
  /** Partitions whose cursor was read again: it may have moved together with an opening that is not known here. */
  const unsure = new Set<number>()
  let position = 0
  /** Endpoints whose backfill is open: all after it goes to them as to others. */
  const opened = new Set<string>()

  async function begin (restarting: AbortController, until: AbortSignal): Promise<number> {
    restart = restarting
    signal = until
    cursors = await readCursors()
    movedMs = cursors.map(() => appenders.clock.nowMs())
    position = Math.min(...cursors.map(cursor => cursor.through))
    return position
  }

  function readCursors (): Promise<FanoutCursor[]> {
    return Promise.all(ALL.map(partition => readFanoutCursor(appenders, partition)))
  }

  function moved (partition: number, cursor: FanoutCursor): void {
    cursors[partition] = cursor
    movedMs[partition] = appenders.clock.nowMs()
  }

  function isLate (partition: number, through: number): boolean {
    return through - cursors[partition]!.through >= LAZY_FACTS ||
      appenders.clock.nowMs() - movedMs[partition]! >= LAZY_MS
  }

  /** A cursor as the log has it. One that others have moved to a place behind ours may tell of an endpoint that we have
   *  not known: begin again from there. */
  function take (partition: number, cursor: FanoutCursor): void {
    if (cursor.seq !== cursors[partition]!.seq && cursor.through < position) restart.abort()
    cursors[partition] = cursor
    unsure.add(partition)
  }

  async function reread (partition: number): Promise<void> {
    take(partition, await readFanoutCursor(appenders, partition))
  }

  async function rereadAll (): Promise<boolean> {
    const read = await readCursors()
    const others = read.some((cursor, partition) => cursor.seq !== cursors[partition]!.seq)
    for (const [partition, cursor] of read.entries()) take(partition, cursor)
    return others
  }

  async function learn (partitions: number[], accounts: Set<string> | null): Promise<void> {
    do {
      for (const partition of partitions) unsure.delete(partition)
      if (!await directory.catchUp(CATCH_UP_MS)) throw new Error('the directory is behind')
      const webhooks = unopened(partitions, accounts)
      if (webhooks.length > 0) {
        await Promise.all(
          partitions.map(partition =>
            open(partition, webhooks.filter(({ id }) => webhookPartitionOf(id) === partition))
          )
        )
      }
      if (!partitions.some(partition => unsure.has(partition))) return
      await sleep(TURN_MS, signal)
    } while (!signal.aborted)
  }

  function isListening (webhook: WebhookEntry, nowMs: number): boolean {
    return opened.has(webhook.id) || !wantsBackfill(webhook, nowMs)
  }

  function unopened (partitions: number[], accounts: Set<string> | null): WebhookEntry[] {
    const nowMs = appenders.clock.nowMs()
    const found: WebhookEntry[] = []
    for (const webhook of directory.now.webhooks.values()) {
      if (webhook.disabled !== null || isListening(webhook, nowMs) || accounts?.has(webhook.account) === false) continue
      if (partitions.includes(webhookPartitionOf(webhook.id))) found.push(webhook)
    }
    return found
  }

  /** Opens backfills with the cursor where we are: what has been gone over is theirs, the rest is ours. Those that
   *  others have opened need only be known, and where the cursor is since. */
  async function open (partition: number, webhooks: WebhookEntry[]): Promise<void> {
    for (let i = 0; i < webhooks.length && !signal.aborted; i += OPENINGS_MAX) {
      const some = webhooks.slice(i, i + OPENINGS_MAX)
      const known = await Promise.all(some.map(({ id }) => isBackfillOpen(appenders, id)))
      if (known.includes(true)) await reread(partition)
      for (const [j, { id }] of some.entries()) if (known[j]!) opened.add(id)
      const fresh = some.filter((_webhook, j) => !known[j]!)
      if (fresh.length > 0 && !signal.aborted) await openFresh(partition, fresh)
    }
  }

  async function openFresh (partition: number, webhooks: WebhookEntry[]): Promise<void> {
    const through = Math.max(position, cursors[partition]!.through)
    const advanced = await openBackfills(appenders, partition, cursors[partition]!, through, webhooks)
    if (advanced === null) return await reread(partition)
    moved(partition, advanced)
    for (const { id } of webhooks) opened.add(id)
    log.info({ partition, through, webhooks: webhooks.map(({ id }) => id) }, 'webhook backfills opened')
  }

  function hasUnopened (): boolean {
    for (const id of opened) if (!directory.now.webhooks.has(id)) opened.delete(id)
    return unopened(ALL, null).length > 0
  }

  return {
    begin,
    cursor: partition => cursors[partition]!,
    moved,
    goneOver: through => {
      position = through
    },
    isLate,
    reread,
    rereadAll,
    learn,
    isListening,
    hasUnopened
  }
}
