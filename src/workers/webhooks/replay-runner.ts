import type { LiveDirectory } from '#src/actions/directory.ts'
import type { FactLog } from '#src/actions/fact-log.ts'
import { advanceReplay, endReplay, readPage, type FailedPage } from '#src/actions/replay-job.ts'
import { scheduleReplay } from '#src/actions/replay-schedule.ts'
import type { Recorded } from '#streams/define.ts'
import type { WebhookEntry } from '#streams/directory.ts'
import {
  endReasonOf,
  pauseMs,
  replayFactIn,
  nextTurnMs,
  waitsBefore,
  type ReplayWake,
  type WaitReason
} from '#streams/replay/decide.ts'
import type { ReplayFact } from '#streams/replay/facts.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import { Memory } from '#src/base/memory.ts'
import { getFact } from '#src/nats/get.ts'

/** How many of an endpoint's replayed deliveries still wait, by the projection of deliveries; those beyond `max` need
 *  not be counted. Null when it does not answer. */
export type ReplayBacklog = (webhook: Pick<WebhookEntry, 'account' | 'id'>, max: number) => Promise<number | null>

export interface ReplayRunnerOptions {
  factLog: FactLog
  directory: LiveDirectory
  log: Log
  /** Without it a replay of failed deliveries waits. */
  failedDeliveries?: FailedPage
  /** Without it only the pace slows a replay at a slow endpoint. */
  backlog?: ReplayBacklog
}

/** One replay's turn to make a page. */
export interface ReplayTurn {
  /** Ends with the endpoint's and the replay's id, of either stream. */
  subject: string
  /** The sequence of the fact that the page follows; null = whichever is the last. */
  seq: number | null
  /** From 1: how often the message was delivered. Infinity = there is no message to delay. */
  deliveryCount: number
  /** The payload of the schedule that fired. */
  wake: ReplayWake | null
}

/** Why no page is made, and for how long at least; `seq` is the replay's last fact. */
interface ReplayWait {
  why: WaitReason
  ms: number
  seq: number
}

const CATCH_UP_MS = 2000
/** With so many waiting the endpoint is behind: more would only grow old, and expire. */
const BACKLOG_MAX = 500
/** How long an answer is cached. */
const BACKLOG_CACHE_MS = 2000
const BACKLOGS_MAX = 1000
/** A delayed message holds one of the consumer's unacknowledged places: so often at most, and for so long. A longer
 *  wait has a schedule. */
const SHORT_DELAYS_MAX = 4
const SHORT_DELAY_MS_MAX = 1000
const SHORT_DELAY_MS = 500
const PAUSED_MS = 60_000

/** Makes the pages of replays and backfills, one at a time for each turn. */
export class ReplayRunner {
  private readonly options: ReplayRunnerOptions
  private readonly isBehind = cached(BACKLOG_CACHE_MS, BACKLOGS_MAX, id => this.readBehind(id))

  constructor (options: ReplayRunnerOptions) {
    this.options = options
  }

  /** Makes the replay's next page, or delays it. Null once that is durable, also when another process has gone on; else
   *  the ms after which the message is to come again. Throws when neither was possible. */
  async run (turn: ReplayTurn): Promise<number | null> {
    const wait = await this.goOn(turn).catch(thrown => this.afterError(turn, thrown))
    if (wait === null) return null
    if (wait.ms <= SHORT_DELAY_MS_MAX && turn.deliveryCount <= SHORT_DELAYS_MAX) return wait.ms
    await this.schedule(turn, wait)
    return null
  }

  private async goOn ({ subject, seq }: ReplayTurn): Promise<ReplayWait | null> {
    const { factLog } = this.options
    const last = await getFact(factLog.bus, 'WEBHOOKS', { last_by_subj: subject }, 'leader')
    const fact = last === null ? null : replayFactIn(last.fact)
    if (fact === null || fact.type === 'replay.ended' || last!.seq !== (seq ?? last!.seq)) return null
    const recorded = { fact, seq: last!.seq, subject }
    const webhook = await this.endpointOf(fact.data.webhook)
    const reason = endReasonOf(webhook, fact.account)
    if (reason === null) return await this.waitOf(recorded, webhook!) ?? await this.makePage(recorded, webhook!)
    await endReplay(factLog, recorded, reason)
    return null
  }

  /** That it is paused must be the latest state: resuming wakes only the replays that wait by then. */
  private async endpointOf (id: string): Promise<WebhookEntry | undefined> {
    const { directory } = this.options
    const known = directory.now.webhooks.get(id)
    if (known !== undefined && !known.paused) return known
    if (!await directory.catchUp(CATCH_UP_MS)) throw new Error('the directory is behind')
    return directory.now.webhooks.get(id)
  }

  private async waitOf (
    { fact: { data, time }, seq }: Recorded<ReplayFact>,
    webhook: WebhookEntry
  ): Promise<ReplayWait | null> {
    if (webhook.paused) return { why: 'paused', ms: PAUSED_MS, seq }
    const restMs = pauseMs(data, webhook, Date.parse(time), this.options.factLog.clock.nowMs())
    if (restMs > 0) return { why: webhook.failingSince === null ? 'pace' : 'failing', ms: restMs, seq }
    return await this.isBehind(webhook.id) ? { why: 'behind', ms: SHORT_DELAY_MS, seq } : null
  }

  private async readBehind (id: string): Promise<boolean> {
    const webhook = this.options.directory.now.webhooks.get(id)
    return webhook !== undefined && (await this.options.backlog?.(webhook, BACKLOG_MAX) ?? 0) >= BACKLOG_MAX
  }

  private async makePage (recorded: Recorded<ReplayFact>, webhook: WebhookEntry): Promise<ReplayWait | null> {
    const { factLog, failedDeliveries, log } = this.options
    const { fact: { data }, seq } = recorded
    const page = await readPage(factLog, webhook, data, failedDeliveries, data.cursor === '' ? seq : 0)
    if (page === null) return { why: 'projection', ms: SHORT_DELAY_MS, seq }
    if (await advanceReplay(factLog, recorded, page)) {
      const { replay, made } = data
      const deliveries = page.deliveries.length
      log.debug({ replay, webhook: webhook.id, deliveries, made, ended: page.ended }, 'replay page made')
    }
    return null
  }

  private afterError ({ subject, seq }: ReplayTurn, thrown: unknown): ReplayWait {
    const error = asError(thrown)
    if (seq === null) throw error
    this.options.log.warn({ err: error, ...idsIn(subject) }, 'replay interrupted; retrying')
    return { why: 'error', ms: SHORT_DELAY_MS, seq }
  }

  private async schedule ({ subject, wake }: ReplayTurn, { why, ms, seq }: ReplayWait): Promise<void> {
    const waits = waitsBefore(why, wake)
    const ids = idsIn(subject)
    await scheduleReplay(this.options.factLog, { ...ids, seq, why, waits }, nextTurnMs(why, waits, ms))
    // Once for each wait, and not for those that are soon over.
    if (waits === 1) this.options.log.info({ ...ids, why }, 'replay waits')
  }
}

/** The replay of a subject. */
export function idsIn (subject: string): { webhook: string, replay: string } {
  const [webhook, replay] = subject.split('.').slice(-2)
  return { webhook: webhook!, replay: replay! }
}

/** Caches an answer for `cacheMs`; beyond `max` keys the oldest is dropped. */
function cached (
  cacheMs: number,
  max: number,
  read: (key: string) => Promise<boolean>
): (key: string) => Promise<boolean> {
  const answers = new Memory<{ answer: Promise<boolean>, atMs: number }>(max)
  return key => {
    const nowMs = performance.now()
    const known = answers.get(key)
    if (known !== undefined && nowMs - known.atMs < cacheMs) return known.answer
    const answer = read(key)
    answers.set(key, { answer, atMs: nowMs })
    return answer
  }
}
