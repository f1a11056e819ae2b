import { readFanoutCursor, requestDeliveries, deliveryId, type FanoutCursor, type NewDelivery } from '#src/actions/delivery.ts'
import type { LiveDirectory } from '#src/actions/directory.ts'
import type { Ledger } from '#src/actions/ledger.ts'
import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { EVENT_AGE_MS_MAX, eventIn, isFor, type Event } from '#streams/delivery/decide.ts'
import type { Webhook } from '#streams/directory.ts'
import { PARTITIONS, partitionOf } from '#streams/subjects.ts'
import { sleep } from '#src/base/backoff.ts'
import { timestamp } from '#src/base/clock.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import type { Role } from '#src/base/role.ts'
import { follow } from '#src/nats/follow.ts'
import type { Bodies } from './bodies.ts'

export interface FanoutOptions {
  ledger: Ledger
  directory: LiveDirectory
  bodies: Bodies
  log: Log
}

/** Facts looked at in one round. */
const ROUND_MAX = 200
const GATHER_MS = 2
/** Deliveries in one append: with the cursor well below the 1,000 messages an atomic batch may have. One fact is never split. */
const PART_MAX = 500
/** Deliveries held in memory at once: a fact of an account with 1,000 endpoints makes 1,000. */
const HELD_MAX = 2000
/** A partition without deliveries moves its cursor this seldom. What it has not moved over is looked at again after a restart, nothing
 *  more. */
const LAZY_MS = 5000
const LAZY_FACTS = 2000
/** Another process does the same work: this one looks on, so often, and takes over when nothing moves. */
const STANDBY_MS = 500
const CATCH_UP_MS = 2000

/** A fact's deliveries in one partition. */
interface Batch { seq: number, deliveries: NewDelivery[] }

/** Makes one delivery of every event for every endpoint that listens, exactly once: the deliveries of a stretch of facts and the cursor
 *  behind it are one atomic append for each partition, refused when the cursor has moved since. So it may be killed, repeated and run
 *  twice. */
export function startFanout (options: FanoutOptions): Role {
  const { ledger, directory, bodies, log } = options
  const stopping = new AbortController()
  const { signal } = stopping
  let cursors: FanoutCursor[] = []
  let movedMs: number[] = []
  let standby = false
  let trouble: string | null = null

  async function run (): Promise<void> {
    while (!signal.aborted) {
      await followFacts().catch(error => tell(asError(error)))
      await sleep(1000, signal)
    }
  }

  async function followFacts (): Promise<void> {
    cursors = await readCursors()
    movedMs = cursors.map(() => ledger.clock.nowMs())
    const afterSeq = Math.min(...cursors.map(cursor => cursor.through))
    const options = { stream: 'EMAILS', filter: 'email.>', afterSeq, batchMax: ROUND_MAX, gatherMs: GATHER_MS, signal, onTrouble: tell, onFollowing: () => { trouble = null } }
    for await (const batch of follow(ledger.bus, options)) {
      await lookOn(batch.at(-1)!.seq)
      // Every endpoint made before a fact was read is known before that fact is fanned out.
      await untilDone(async () => { if (!await directory.catchUp(CATCH_UP_MS)) throw new Error('the directory is behind') })
      await fanOut(batch)
    }
  }

  /** As long as others move the cursors they are the ones who work. */
  async function lookOn (through: number): Promise<void> {
    while (standby && !signal.aborted && cursors.some(cursor => cursor.through < through)) {
      await sleep(STANDBY_MS, signal)
      await untilDone(async () => {
        const before = cursors
        cursors = await readCursors()
        standby = cursors.some((cursor, partition) => cursor.seq !== before[partition]!.seq)
      })
    }
  }

  async function fanOut (facts: Recorded<AnyFact>[]): Promise<void> {
    const webhooks = webhooksOf(new Set(facts.map(({ fact }) => fact.account)))
    const oldest = timestamp(ledger.clock.nowMs() - EVENT_AGE_MS_MAX)
    let owed = emptyPartitions()
    let held = 0
    for (const recorded of facts) {
      if (signal.aborted) return
      if (recorded.fact.time >= oldest) held += sort(recorded, webhooks.get(recorded.fact.account) ?? [], owed)
      if (held < HELD_MAX) continue
      await append(owed, recorded.seq)
      owed = emptyPartitions()
      held = 0
    }
    await append(owed, facts.at(-1)!.seq)
  }

  function webhooksOf (accounts: Set<string>): Map<string, Webhook[]> {
    const found = new Map<string, Webhook[]>()
    for (const webhook of directory.now.webhooks.values()) {
      if (!accounts.has(webhook.account)) continue
      const its = found.get(webhook.account)
      if (its === undefined) found.set(webhook.account, [webhook])
      else its.push(webhook)
    }
    return found
  }

  /** Adds a fact's deliveries to those of their partitions; says how many. */
  function sort ({ fact, seq }: Recorded<AnyFact>, webhooks: Webhook[], owed: Batch[][]): number {
    const event = eventIn(fact)
    const listening = event === null ? [] : webhooks.filter(webhook => isFor(webhook, fact, event.type))
    if (event === null || listening.length === 0) return 0
    bodies.put(fact.id, event.body)
    for (const webhook of listening) {
      const batches = owed[partitionOf(webhook.id)]!
      if (batches.at(-1)?.seq !== seq) batches.push({ seq, deliveries: [] })
      batches.at(-1)!.deliveries.push(deliveryOf(fact, seq, event, webhook))
    }
    return listening.length
  }

  async function append (owed: Batch[][], through: number): Promise<void> {
    await Promise.all(owed.map(async (batches, partition) => {
      if (batches.length > 0 || isLazyEnough(partition, through)) await untilDone(() => advance(partition, batches, through))
    }))
    if (!signal.aborted) trouble = null
  }

  function isLazyEnough (partition: number, through: number): boolean {
    return !standby && (through - cursors[partition]!.through >= LAZY_FACTS || ledger.clock.nowMs() - movedMs[partition]! >= LAZY_MS)
  }

  /** Moves a partition's cursor to `through` together with the deliveries on the way; what others have done meanwhile is left out. */
  async function advance (partition: number, batches: Batch[], through: number): Promise<void> {
    while (!signal.aborted && cursors[partition]!.through < through) {
      const open = batches.filter(batch => batch.seq > cursors[partition]!.through)
      const part = firstPart(open)
      const upTo = part.length === open.length ? through : part.at(-1)!.seq
      const moved = await requestDeliveries(ledger, partition, cursors[partition]!, upTo, part.flatMap(batch => batch.deliveries))
        // Whether it was stored is not known: the cursor in the log tells.
        .catch(async error => { await reread(partition); throw error })
      if (moved === null) standby = true
      cursors[partition] = moved ?? await readFanoutCursor(ledger, partition)
      movedMs[partition] = ledger.clock.nowMs()
    }
  }

  async function reread (partition: number): Promise<void> {
    cursors[partition] = await readFanoutCursor(ledger, partition)
  }

  /** Again and again until it works or we stop: facts are never skipped. */
  async function untilDone (step: () => Promise<void>): Promise<void> {
    while (!signal.aborted) {
      try {
        return await step()
      } catch (error) {
        tell(asError(error))
        await sleep(250, signal)
      }
    }
  }

  function readCursors (): Promise<FanoutCursor[]> {
    return Promise.all(Array.from({ length: PARTITIONS }, (_, partition) => readFanoutCursor(ledger, partition)))
  }

  function tell (error: Error): void {
    if (signal.aborted) return
    trouble = `events wait for their fan-out: ${error.message}`
    log.warn({ err: error }, 'fan-out interrupted')
  }

  const running = run()
  return {
    name: 'webhook fan-out',
    trouble: () => trouble,
    async stop () {
      stopping.abort()
      await running
    }
  }
}

function emptyPartitions (): Batch[][] {
  return Array.from({ length: PARTITIONS }, () => [])
}

function deliveryOf (fact: AnyFact, seq: number, { type, email }: Event, webhook: Webhook): NewDelivery {
  return { fact, owed: { delivery: deliveryId(fact.id, webhook.id), webhook: webhook.id, event: { id: fact.id, type, seq }, email } }
}

/** The first facts whose deliveries fit one append; at least one fact. */
function firstPart (batches: Batch[]): Batch[] {
  let count = 0
  const end = batches.findIndex((batch, i) => (count += batch.deliveries.length) > PART_MAX && i > 0)
  return end === -1 ? batches : batches.slice(0, end)
}
