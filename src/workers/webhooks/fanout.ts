import { requestDeliveries, deliveryId, type NewDelivery, type NewMember } from '#src/actions/delivery.ts'
import type { LiveDirectory } from '#src/actions/directory.ts'
import type { Appenders } from '#src/actions/appenders.ts'
import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { wantsBackfill } from '#streams/delivery/backfill.ts'
import { EVENT_AGE_MS_MAX, eventIn, isFor, type Event } from '#streams/delivery/decide.ts'
import type { WebhookEntry } from '#streams/directory.ts'
import { pastOf } from '#streams/email/erase.ts'
import { WEBHOOK_PARTITIONS, webhookPartitionOf } from '#streams/subjects.ts'
import { sleep } from '#src/base/backoff.ts'
import { timestamp } from '#src/base/clock.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import type { Role } from '#src/base/role.ts'
import { follow } from '#src/nats/follow.ts'
import type { Bodies } from './bodies.ts'
import { ALL, createFanoutPlace, TURN_MS } from './fanout-place.ts'

export interface FanoutOptions {
  appenders: Appenders
  directory: LiveDirectory
  bodies: Bodies
  log: Log
}

/** Facts looked at in one round. */
const ROUND_MAX = 200
const GATHER_MS = 2
/** Deliveries in one append: with the cursor well below the 1,000 messages an atomic batch may have. One fact is never
 *  split. */
const PART_MAX = 500
/** Deliveries held in memory at once: a fact of an account with 1,000 endpoints makes 1,000. */
const HELD_MAX = 2000
/** Another process does the same work: this one looks on, so often, and takes over when nothing moves. */
const STANDBY_MS = 500

/** Endpoints that want what happened before they were there are looked for so often, also when nothing happens. */
const OPENING_MS = 1000
/** A fact's deliveries in one partition. */
interface Batch {
  seq: number
  deliveries: Array<NewDelivery | NewMember>
}

/** Facts that are gone over together: those after the place reached so far, up to `through`. */
interface Stretch {
  facts: Recorded<AnyFact>[]
  through: number
}

/** Who listens, by account; facts before `oldest` are none of most. */
interface Listeners {
  webhooks: Map<string, WebhookEntry[]>
  nowMs: number
  oldest: string
}

/** Makes one delivery of every event for every endpoint that listens, exactly once: the deliveries of a stretch of
 *  facts and the cursor behind it are one atomic append for each partition, refused when the cursor has moved since. So
 *  it may be killed, repeated and run twice. An endpoint that wants batches gets a member for its next batch instead of
 *  a delivery. */
export function startFanout (options: FanoutOptions): Role {
  const { appenders, directory, bodies, log } = options
  const stopping = new AbortController()
  /** Ends one following of the facts, so that the next begins from the cursors. */
  let restart = new AbortController()
  let { signal } = stopping
  const place = createFanoutPlace(options)
  let turn: Promise<void> = Promise.resolve()
  let standby = false
  let unhealthyReason: string | null = null

  async function run (): Promise<void> {
    while (!stopping.signal.aborted) {
      const failed = await followFacts().then(() => false, error => {
        tell(asError(error))
        return true
      })
      if (failed) await sleep(1000, stopping.signal)
    }
  }

  async function followFacts (): Promise<void> {
    restart = new AbortController()
    signal = AbortSignal.any([stopping.signal, restart.signal])
    const afterSeq = await place.begin(restart, signal)
    const options = { stream: 'EMAILS', filter: 'email.>', afterSeq, batchMax: ROUND_MAX, gatherMs: GATHER_MS, signal }
    const facts = follow(appenders.bus, {
      ...options,
      onError: tell,
      onFollowing: () => {
        unhealthyReason = null
      }
    })
    const openings = openAll()
    try {
      for await (const batch of facts) {
        await inTurn(async () => {
          await lookOn(batch.at(-1)!.seq)
          await fanOut(batch)
        })
      }
    } finally {
      restart.abort()
      await openings
    }
  }

  /** Cursors are one's at a time. */
  function inTurn (step: () => Promise<void>): Promise<void> {
    const mine = turn.then(step)
    turn = mine.catch(() => {})
    return mine
  }

  /** Opening a backfill does not wait for the next event. */
  async function openAll (): Promise<void> {
    while (!signal.aborted) {
      if (place.hasUnopened()) await inTurn(() => untilDone(() => place.learn(ALL, null)))
      await sleep(OPENING_MS, signal)
    }
  }

  /** As long as others move the cursors they are the ones who work. */
  async function lookOn (through: number): Promise<void> {
    while (standby && !signal.aborted && ALL.some(partition => place.cursor(partition).through < through)) {
      await sleep(STANDBY_MS, signal)
      await untilDone(async () => {
        standby = await place.rereadAll()
      })
    }
  }

  async function fanOut (facts: Recorded<AnyFact>[]): Promise<void> {
    const accounts = accountsOf(facts)
    await untilDone(() => place.learn(ALL, accounts))
    let listeners = listenersOf(accounts)
    let owed = emptyPartitions()
    let [held, from] = [0, 0]
    for (const [i, recorded] of facts.entries()) {
      if (signal.aborted) return
      held += sort(recorded, listeners, owed)
      if (held < HELD_MAX && i < facts.length - 1) continue
      await append({ facts: facts.slice(from, i + 1), through: recorded.seq }, owed)
      // An append that was refused may have opened a backfill: the rest of the round is that endpoint's, too.
      listeners = listenersOf(accounts)
      owed = emptyPartitions()
      ;[held, from] = [0, i + 1]
    }
  }

  function listenersOf (accounts: Set<string>): Listeners {
    const nowMs = appenders.clock.nowMs()
    const found: Listeners['webhooks'] = new Map()
    for (const webhook of directory.now.webhooks.values()) {
      // One that was made while we learned is opened the next time.
      if (!accounts.has(webhook.account) || !place.isListening(webhook, nowMs)) continue
      const its = found.get(webhook.account)
      if (its === undefined) found.set(webhook.account, [webhook])
      else its.push(webhook)
    }
    return { webhooks: found, nowMs, oldest: timestamp(nowMs - EVENT_AGE_MS_MAX) }
  }

  /** Adds a fact's deliveries to those of their partitions; says how many. */
  function sort ({ fact, seq }: Recorded<AnyFact>, { webhooks, nowMs, oldest }: Listeners, owed: Batch[][]): number {
    if (fact.type === 'email.erased') { for (const past of pastOf(fact)) bodies.drop(past.fact.id) }
    const event = eventIn(fact)
    if (event === null) return 0
    let listening = (webhooks.get(fact.account) ?? []).filter(webhook => isFor(webhook, fact, event))
    // The cursor that an opening has moved is still in the log: what it left to us may be as old as it likes.
    if (fact.time < oldest) listening = listening.filter(webhook => wantsBackfill(webhook, nowMs))
    if (listening.length === 0) return 0
    bodies.put(fact.id, event.body)
    for (const webhook of listening) {
      const batches = owed[webhookPartitionOf(webhook.id)]!
      if (batches.at(-1)?.seq !== seq) batches.push({ seq, deliveries: [] })
      batches.at(-1)!.deliveries.push(deliveryOf(fact, seq, event, webhook))
    }
    return listening.length
  }

  async function append (stretch: Stretch, owed: Batch[][]): Promise<void> {
    await Promise.all(owed.map(async (batches, partition) => {
      if (batches.length > 0 || (!standby && place.isLate(partition, stretch.through))) {
        await advance(partition, stretch, batches)
      }
    }))
    if (signal.aborted) return
    place.goneOver(stretch.through)
    unhealthyReason = null
  }

  /** Moves a partition's cursor over a stretch together with the deliveries on the way. What others have done meanwhile
   *  is left out, and the rest sorted again: they may have opened a backfill there. */
  async function advance (partition: number, stretch: Stretch, sorted: Batch[]): Promise<void> {
    let batches: Batch[] | null = sorted
    await untilDone(async () => {
      while (!signal.aborted && place.cursor(partition).through < stretch.through) {
        if (batches === null) {
          batches = await sortAgain(partition, stretch)
          continue
        }
        const known = batches
        // Until it is answered: whether it was stored, or somebody else's, only the log tells.
        batches = null
        const moved = await step(partition, known, stretch.through)
        if (moved) batches = known
        else await beaten()
      }
    })
  }

  /** Another was quicker, and the copy of the log that we read may not have heard of it yet. */
  async function beaten (): Promise<void> {
    standby = true
    await sleep(TURN_MS, signal)
  }

  /** One append; false when the cursor is no longer where it was. */
  async function step (partition: number, batches: Batch[], through: number): Promise<boolean> {
    const cursor = place.cursor(partition)
    const open = batches.filter(batch => batch.seq > cursor.through)
    const part = firstPart(open)
    const upTo = part.length === open.length ? through : part.at(-1)!.seq
    const moved = await requestDeliveries(appenders, partition, cursor, upTo, part.flatMap(batch => batch.deliveries))
    if (moved === null) return false
    place.moved(partition, moved)
    return true
  }

  async function sortAgain (partition: number, { facts }: Stretch): Promise<Batch[]> {
    const accounts = accountsOf(facts)
    await place.reread(partition)
    await place.learn([partition], accounts)
    const listeners = listenersOf(accounts)
    const owed = emptyPartitions()
    for (const recorded of facts) sort(recorded, listeners, owed)
    return owed[partition]!
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

  function tell (error: Error): void {
    if (stopping.signal.aborted) return
    unhealthyReason = `events wait for their fan-out: ${error.message}`
    log.warn({ err: error }, 'fan-out interrupted')
  }

  const running = run()
  return {
    name: 'webhook fan-out',
    unhealthyReason: () => unhealthyReason,
    async stop () {
      stopping.abort()
      await running
    }
  }
}

function accountsOf (facts: Recorded<AnyFact>[]): Set<string> {
  return new Set(facts.map(({ fact }) => fact.account))
}

function emptyPartitions (): Batch[][] {
  return Array.from({ length: WEBHOOK_PARTITIONS }, () => [])
}

function deliveryOf (
  fact: AnyFact,
  seq: number,
  { type, email }: Event,
  webhook: WebhookEntry
): NewDelivery | NewMember {
  const event = { id: fact.id, type, seq, email }
  if (webhook.batch !== null) return { fact, member: { webhook: webhook.id, event } }
  const events = [event]
  return {
    fact,
    owed: { delivery: deliveryId(events, webhook.id), webhook: webhook.id, replay: null, events, batch: false }
  }
}

/** The first facts whose deliveries fit one append; at least one fact. */
function firstPart (batches: Batch[]): Batch[] {
  let count = 0
  const end = batches.findIndex((batch, i) => (count += batch.deliveries.length) > PART_MAX && i > 0)
  return end === -1 ? batches : batches.slice(0, end)
}
