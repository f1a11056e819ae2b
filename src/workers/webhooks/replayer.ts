import type { LiveDirectory } from '#src/actions/directory.ts'
import type { Appenders } from '#src/actions/appenders.ts'
import { advanceReplay, endReplay, readPage, type FailedPage } from '#src/actions/replay-page.ts'
import { wakeReplayIn } from '#src/actions/replay-wait.ts'
import type { Recorded } from '#streams/define.ts'
import type { WebhookEntry } from '#streams/directory.ts'
import { pauseMs, replayFactIn, whyEnded } from '#streams/replay/decide.ts'
import type { ReplayFact } from '#streams/replay/facts.ts'
import { lookAgainMs, waitsBefore, type ReplayWake, type WaitReason } from '#streams/replay/wait.ts'
import { consumerPlans } from '#streams/topology.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import { Memory } from '#src/base/memory.ts'
import { api } from '#src/nats/api.ts'
import { lastAtLeader } from '#src/nats/lookup.ts'

/** How many of an endpoint's deliveries that replays have asked for are in the way of more, by the view of deliveries;
 *  what goes beyond `max` need not be counted. Null when it does not answer. */
export type Backlog = (webhook: Pick<WebhookEntry, 'account' | 'id'>, max: number) => Promise<number | null>

export interface ReplayerOptions {
  appenders: Appenders
  directory: LiveDirectory
  log: Log
  /** Without it a replay of what failed waits. */
  failedDeliveries?: FailedPage
  /** Without it only its pace holds a replay back at a slow endpoint. */
  backlog?: Backlog
}

/** Whose turn it is. */
export interface Turn {
  /** Ends with the endpoint's and the replay's id, whichever stream it is of. */
  subject: string
  /** Of the replay's fact that is to be followed by a page; null = its last one, whichever. */
  seq: number | null
  /** From 1: how often its message was handed out. Infinity = there is none that could nap. */
  nth: number
  /** What it was woken with. */
  wake: ReplayWake | null
}

/** Why no page is made, and for how long at least; `seq` is the replay's last fact. */
interface Wait {
  why: WaitReason
  ms: number
  seq: number
}

const CATCH_UP_MS = 2000
const ANSWER_MS = 2000
/** Deliveries that no process has taken yet: with so many, and with so many taken and unfinished, nothing is added. */
const WAITING_MAX = 500
const TAKEN_MAX = 2000
/** With so many in the way the endpoint is behind: more would only grow old, and expire. */
const BACKLOG_MAX = 500
/** How long what was asked is believed. */
const BUSY_KNOWN_MS = 250
const BACKLOG_KNOWN_MS = 2000
const BACKLOGS_MAX = 1000
/** A nap holds one of the consumer's unacknowledged places: so often at most, and for so long. Whatever takes longer
 *  has a schedule. */
const NAPS_MAX = 4
const NAP_MS_MAX = 1000
/** To look again. */
const NAP_MS = 500
const PAUSED_MS = 60_000

/** Makes the pages of replays and backfills. Gives a replay its turn: a page further, or put off; null once that is
 *  durable, also when it was somebody else who has gone on, or in how many ms it is to come again. Throws when it could
 *  be neither. */
export function createReplayer (options: ReplayerOptions): (turn: Turn) => Promise<number | null> {
  const { appenders, directory, log } = options
  const { bus, clock } = appenders
  const isCrowded = remembered(BUSY_KNOWN_MS, 1, async () => {
    const { stream, durable_name: name } = consumerPlans.deliveriesReplay
    const info = await api<{ num_pending: number, num_ack_pending: number }>(
      bus,
      `CONSUMER.INFO.${stream}.${name}`,
      undefined,
      ANSWER_MS
    )
    return info.num_pending > WAITING_MAX || info.num_ack_pending > TAKEN_MAX
  })
  const isBehind = remembered(BACKLOG_KNOWN_MS, BACKLOGS_MAX, async (id: string) => {
    const webhook = directory.now.webhooks.get(id)
    return webhook !== undefined && (await options.backlog?.(webhook, BACKLOG_MAX) ?? 0) >= BACKLOG_MAX
  })

  async function goOn ({ subject, seq }: Turn): Promise<Wait | null> {
    const last = await lastAtLeader(bus, 'WEBHOOKS', subject)
    const fact = last === null ? null : replayFactIn(last.fact)
    if (fact === null || fact.type === 'replay.ended' || last!.seq !== (seq ?? last!.seq)) return null
    const recorded = { fact, seq: last!.seq, subject }
    const webhook = await endpointOf(fact.data.webhook)
    const reason = whyEnded(webhook, fact.account)
    if (reason === null) return await waitOf(recorded, webhook!) ?? await makePage(recorded, webhook!)
    await endReplay(appenders, recorded, reason)
    return null
  }

  /** That it is paused must be the latest word: who resumes it wakes what waits by then. */
  async function endpointOf (id: string): Promise<WebhookEntry | undefined> {
    const known = directory.now.webhooks.get(id)
    if (known !== undefined && !known.paused) return known
    if (!await directory.catchUp(CATCH_UP_MS)) throw new Error('the directory is behind')
    return directory.now.webhooks.get(id)
  }

  async function waitOf (
    { fact: { data, time }, seq }: Recorded<ReplayFact>,
    webhook: WebhookEntry
  ): Promise<Wait | null> {
    if (webhook.paused) return { why: 'paused', ms: PAUSED_MS, seq }
    const restMs = pauseMs(data, webhook, Date.parse(time), clock.nowMs())
    if (restMs > 0) return { why: webhook.failingSince === null ? 'pace' : 'failing', ms: restMs, seq }
    if (await isCrowded('')) return { why: 'crowded', ms: NAP_MS, seq }
    return await isBehind(webhook.id) ? { why: 'behind', ms: NAP_MS, seq } : null
  }

  async function makePage (recorded: Recorded<ReplayFact>, webhook: WebhookEntry): Promise<Wait | null> {
    const { data } = recorded.fact
    const page = await readPage(
      appenders,
      webhook,
      data,
      options.failedDeliveries,
      data.place === '' ? recorded.seq : 0
    )
    if (page === null) return { why: 'view', ms: NAP_MS, seq: recorded.seq }
    const made = await advanceReplay(appenders, recorded, page)
    if (made) {
      log.debug({
        replay: data.replay,
        webhook: data.webhook,
        deliveries: page.deliveries.length,
        made: data.made,
        ended: page.ended
      }, 'page of a replay')
    }
    return null
  }

  function troubled ({ subject, seq }: Turn, thrown: unknown): Wait {
    const error = asError(thrown)
    if (seq === null) throw error
    log.warn({ err: error, ...idsIn(subject) }, 'a replay could not go on')
    return { why: 'trouble', ms: NAP_MS, seq }
  }

  async function putOff ({ subject, wake }: Turn, { why, ms, seq }: Wait): Promise<void> {
    const waits = waitsBefore(why, wake)
    const ids = idsIn(subject)
    await wakeReplayIn(appenders, { ...ids, seq, why, waits }, lookAgainMs(why, waits, ms))
    // Once, and not of those that soon go on.
    if (waits === 1) log.info({ ...ids, why }, 'a replay waits')
  }

  return async turn => {
    const wait = await goOn(turn).catch(thrown => troubled(turn, thrown))
    if (wait === null) return null
    if (wait.ms <= NAP_MS_MAX && turn.nth <= NAPS_MAX) return wait.ms
    await putOff(turn, wait)
    return null
  }
}

/** The replay that a subject is about. */
export function idsIn (subject: string): { webhook: string, replay: string } {
  const [webhook, replay] = subject.split('.').slice(-2)
  return { webhook: webhook!, replay: replay! }
}

/** Believes an answer for a while; the oldest of more than `max` is forgotten. */
function remembered (
  knownMs: number,
  max: number,
  ask: (key: string) => Promise<boolean>
): (key: string) => Promise<boolean> {
  const answers = new Memory<{ answer: Promise<boolean>, atMs: number }>(max)
  return key => {
    const nowMs = performance.now()
    const known = answers.get(key)
    if (known !== undefined && nowMs - known.atMs < knownMs) return known.answer
    const answer = ask(key)
    answers.set(key, { answer, atMs: nowMs })
    return answer
  }
}
