import { nextStep, type RecipientCommand, type Transaction } from '#streams/email/decide.ts'
import { scheduleSend } from '#src/actions/due-send.ts'
import { type RecipientRef } from '#src/actions/recipient.ts'
import { sleep } from '#src/base/backoff.ts'
import { timestamp } from '#src/base/clock.ts'
import { inSpan } from '#src/base/tracing.ts'
import { outcomeOf } from '#src/feedback/reply.ts'
import type { Bus } from '#src/nats/connect.ts'
import {
  Attempt,
  unanswered,
  type AttemptContext,
  type ContentSource,
  type Departing,
  type DeliverTrigger,
  type MissingContent
} from './attempt.ts'
import { PoolStopped, RetryLater, Suspended, type HostFailure, type HostTrouble } from './errors.ts'
import { OutcomeRecorder, type RecipientProgress, type RecorderOptions } from './recorder.ts'
import type { NoRoute } from './route.ts'
import type { Way } from './ways.ts'

export interface DeliverOptions extends Omit<AttemptContext, 'recorder'>, RecorderOptions {
  bus: Bus
  /** The command that records why this recipient must not get mail, or null. Throws when that is unknown: then nothing
   *  is sent. */
  obstacleTo: (ref: RecipientRef) => Promise<Extract<RecipientCommand, { name: 'Suppress' | 'Fail' }> | null>
  /** Nothing of this account goes out now. */
  isSuspended: (account: string) => boolean
  /** How long mail of a suspended account waits before it is looked at again: so late it may go out after the account
   *  is resumed. Each look costs a message schedule and a read. */
  suspensionMs: number
  /** The ways that this recipient's mail may take, the right one first. Throws RetryLater. */
  waysTo: (ref: RecipientRef) => AsyncIterable<Way>
  /** A relay that has been down for less than this keeps its mail waiting in the queue; afterwards mail is deferred by
   *  schedule. Mail for hosts whose suspension ends within this time of their first failure waits without a fact. */
  patienceMs: number
  /** Aborted when the sender stops. */
  stopping: AbortSignal
}

/** null = settled: an outcome or a schedule is stored. Else in how many ms to try again. */
export type RetryInMs = number | null

const WAIT_MS_MIN = 250
const WAIT_MS_MAX = 5000
/** A schedule fires by NATS's clock and is judged by ours. */
const DUE_SLACK_MS = 2000

/** Brings recipients as far as they can be brought now: facts, obstacle, attempt, outcome (streams/email/README.md). */
export class Deliverer {
  private readonly options: DeliverOptions
  private readonly context: AttemptContext
  private readonly recorder: OutcomeRecorder

  constructor (options: DeliverOptions) {
    this.options = options
    this.recorder = new OutcomeRecorder(options)
    this.context = { ...options, recorder: this.recorder }
  }

  /** `content` = its source, or why there is none. */
  async deliver (
    ref: RecipientRef,
    content: ContentSource | MissingContent,
    trigger: DeliverTrigger
  ): Promise<RetryInMs> {
    const { recipients } = this.options
    const seen = trigger === 'new' ? recipients.unread(ref) : await recipients.load(ref)
    let progress: RecipientProgress = { seen, voidClaim: null }
    for (let slackMs = trigger === 'due' ? DUE_SLACK_MS : 0;; slackMs = 0) {
      const next = await this.step(ref, content, trigger, progress, slackMs)
      if (next === null || typeof next === 'number') return next
      progress = next
    }
  }

  private async step (
    ref: RecipientRef,
    content: ContentSource | MissingContent,
    trigger: DeliverTrigger,
    progress: RecipientProgress,
    slackMs: number
  ): Promise<RecipientProgress | RetryInMs> {
    const nowMs = this.options.clock.nowMs() + slackMs
    const given = { nowMs, request: ref.request.fact.data, voidClaim: progress.voidClaim }
    const step = nextStep(progress.seen.state, given, await this.isClaimantGone(progress))
    switch (step.do) {
      case 'nothing':
        return null
      case 'schedule':
        return await this.schedule(ref, progress, step.atMs)
      case 'wait':
        return Math.min(WAIT_MS_MAX, Math.max(WAIT_MS_MIN, step.untilMs - nowMs))
      case 'doubt':
        return await this.recorder.record(ref, progress, { name: 'Doubt', claim: step.claim, cause: 'sender' })
      case 'fail':
        return await this.recorder.record(ref, progress, { name: 'Fail', reason: 'expired', detail: null })
      case 'send': {
        const obstacle = await this.options.obstacleTo(ref)
        if (obstacle !== null) return await this.recorder.record(ref, progress, obstacle)
        const next = this.options.isSuspended(ref.request.fact.account)
          ? this.options.suspensionMs
          : await this.inSpan(ref, () => this.send(ref, content, trigger, progress))
        return typeof next === 'number' ? await this.postpone(ref, progress, next) : next
      }
    }
  }

  /** Tells what became of the recipient. */
  private async inSpan (
    { request: { fact }, n }: RecipientRef,
    work: () => Promise<RecipientProgress | number>
  ): Promise<RecipientProgress | number> {
    const attributes = { 'jetpost.email': fact.data.email, 'jetpost.recipient': n }
    return await inSpan({ name: 'SMTP', kind: 'client', parent: fact.trace, attributes }, async span => {
      const next = await work()
      if (typeof next !== 'number') {
        const { status, attempts } = next.seen.state
        span?.setAttributes({ 'jetpost.status': status, 'jetpost.attempt': attempts })
      }
      return next
    })
  }

  /** A claim of this worker that this job did not make is from an earlier process: nobody works under it. */
  private async isClaimantGone ({ seen: { state }, voidClaim }: RecipientProgress): Promise<boolean> {
    if (state.status !== 'sending' || state.claim === null || state.claim.id === voidClaim) return false
    return state.claim.worker === this.options.worker || await this.options.heartbeats.isDead(state.claim.worker)
  }

  private async schedule (
    ref: RecipientRef,
    progress: RecipientProgress,
    atMs: number
  ): Promise<RecipientProgress | null> {
    const { seen } = progress
    await this.scheduleAt(ref, atMs)
    // A concurrent reschedule may have stored its schedule before ours.
    const moved = seen.state.status === 'scheduled' ? await this.options.recipients.load(ref) : seen
    return moved.seq === seen.seq ? null : { ...progress, seen: moved }
  }

  /** Nothing was sent: the recipient comes back by the queue, or later by a schedule. */
  private async postpone (
    ref: RecipientRef,
    progress: RecipientProgress,
    inMs: number
  ): Promise<RecipientProgress | RetryInMs> {
    // Only we know that our claim is void: by the queue the recipient would come to a sender that takes it for a doubt.
    if (holdsVoidClaim(progress) && !this.options.stopping.aborted) {
      await sleep(Math.min(inMs, WAIT_MS_MAX), this.options.stopping)
      return progress
    }
    if (inMs <= WAIT_MS_MAX) return inMs
    const endsMs = Date.parse(progress.seen.state.expiresAt ?? ref.request.fact.data.expiresAt)
    await this.scheduleAt(ref, Math.min(this.options.clock.nowMs() + inMs, endsMs))
    return null
  }

  private scheduleAt ({ request: { fact, seq }, n }: RecipientRef, atMs: number): Promise<void> {
    const due = { account: fact.account, email: fact.data.email, n, request: seq }
    return scheduleSend(this.options.bus, due, atMs)
  }

  private async send (
    ref: RecipientRef,
    content: ContentSource | MissingContent,
    trigger: DeliverTrigger,
    progress: RecipientProgress
  ): Promise<RecipientProgress | number> {
    if ('missing' in content) {
      const command = { name: 'Fail', reason: 'unsendable', detail: content.missing } as const
      return await this.recorder.record(ref, progress, command)
    }
    // A claim that may not be used would be void, and the next one too: better none until NATS hears our heartbeat.
    if (this.options.heartbeats.heardForMs() === 0) return WAIT_MS_MIN
    const startMs = performance.now()
    let down: Down | null = null
    try {
      for await (const way of this.options.waysTo(ref)) {
        const result = 'outcome' in way.to
          ? await this.recordNoRoute(ref, progress, way, way.to, startMs)
          : await this.sendBy(ref, content, trigger, progress, way, way.to)
        if (!isDown(result)) return result
        down = result
      }
    } catch (error) {
      const inMs = retryInMs(error)
      if (down === null) return inMs
      // It waits for a way that is up, and is back when the one that is down may be too.
      if (down.error.failure === null) return Math.min(inMs, Math.max(down.error.retryInMs, WAIT_MS_MAX))
    }
    return down === null ? WAIT_MS_MAX : await this.waitOrDefer(ref, progress, down.way, down.error)
  }

  /** Down = nothing was sent by it: the next way may be tried. Throws RetryLater and PoolStopped. */
  private async sendBy (
    ref: RecipientRef,
    content: ContentSource,
    trigger: DeliverTrigger,
    progress: RecipientProgress,
    { route, isLast, giveBack }: Way,
    to: Departing['to']
  ): Promise<RecipientProgress | number | Down> {
    const { pool, log } = this.options
    const way = { route, to }
    const away = isLast ? null : pool.whyAway(to)
    if (away !== null) {
      giveBack()
      return { way, error: away }
    }
    try {
      const attempt = new Attempt(this.context, ref, progress, trigger, way)
      const next = await pool.use(to, session => attempt.run(session, content))
      // Not even MAIL was answered: a session had ended, or there was no content to be had.
      if (typeof next === 'number' || next === progress) giveBack()
      return next
    } catch (error) {
      const isUntried = error instanceof Suspended || error instanceof RetryLater || error instanceof PoolStopped
      if (isUntried) giveBack()
      if (!(error instanceof Suspended)) throw error
      const { failure, trouble: { host }, retryInMs } = error
      if (!isLast && failure !== null) log.warn({ route, host, retryInMs }, 'route down; its mail takes the next one')
      return { way, error }
    }
  }

  /** There is nobody to connect to: DNS has settled it, or does not answer. */
  private async recordNoRoute (
    ref: RecipientRef,
    progress: RecipientProgress,
    { route, giveBack }: Way,
    { outcome }: NoRoute,
    startMs: number
  ): Promise<RecipientProgress> {
    giveBack()
    const ms = Math.round(performance.now() - startMs)
    const transaction = { host: null, tls: null, via: 'mx' as const, ms, ...named(route) }
    const attempt = progress.seen.state.attempts + 1
    const ended = { claim: null, attempt, stage: 'connect', transaction, outcome } as const
    return await this.recorder.recordOutcome(ref, progress, ended)
  }

  private async waitOrDefer (
    ref: RecipientRef,
    progress: RecipientProgress,
    way: Departing,
    { trouble, failure, downForMs, retryInMs }: Suspended
  ): Promise<RecipientProgress | number> {
    const { patienceMs } = this.options
    if (way.to.via === 'relay' && downForMs < patienceMs) return Math.min(WAIT_MS_MAX, retryInMs)
    if (failure !== null) return await this.recorder.record(ref, progress, unreached(progress, way, failure))
    // The trouble is short so far, or the log says already that this mail waits.
    const isSaid = progress.seen.state.status === 'deferred'
    if (isSaid || downForMs + retryInMs <= patienceMs) return retryInMs
    const untilMs = this.options.clock.nowMs() + retryInMs
    return await this.recorder.record(ref, progress, putOff(progress, way, trouble, untilMs))
  }
}

type RecordOutcome = Extract<RecipientCommand, { name: 'RecordOutcome' }>

/** There was no connection for it: an attempt, but no transaction to report. */
function unreached (progress: RecipientProgress, way: Departing, failure: HostFailure): RecordOutcome {
  const { stage, reply, message } = failure
  const outcome = reply === null ? unanswered(message, true, failure.class) : outcomeOf(reply, stage)
  const attempt = progress.seen.state.attempts + 1
  return { name: 'RecordOutcome', claim: null, attempt, stage, transaction: transactionWith(way, failure), outcome }
}

/** The hosts are left alone: the mail waits for as long. */
function putOff (
  progress: RecipientProgress,
  way: Departing,
  trouble: HostTrouble,
  untilMs: number
): RecordOutcome {
  const { stage, code, enhanced, class: why, sentence } = trouble
  const untried = { code, enhanced, until: timestamp(untilMs) }
  const outcome = { ...unanswered(sentence, true, why), untried }
  const attempt = progress.seen.state.attempts + 1
  return { name: 'RecordOutcome', claim: null, attempt, stage, transaction: transactionWith(way, trouble), outcome }
}

function transactionWith ({ to, route }: Departing, { host }: Pick<HostTrouble, 'host'>): Transaction {
  return { host: 'host' in to ? to.host : host, tls: null, via: to.via, ms: 0, ...named(route) }
}

function named (route: string | null): Pick<Transaction, 'route'> {
  return route === null ? {} : { route }
}

/** A way that takes nothing now, and why. */
interface Down {
  way: Departing
  error: Suspended
}

function isDown (result: RecipientProgress | number | Down): result is Down {
  return typeof result === 'object' && 'error' in result
}

/** The live claim is ours, and no dot was sent under it. */
function holdsVoidClaim ({ seen: { state }, voidClaim }: RecipientProgress): boolean {
  return state.status === 'sending' && voidClaim !== null && state.claim?.id === voidClaim
}

/** Rethrows everything but RetryLater. */
function retryInMs (error: unknown): number {
  if (error instanceof RetryLater) return error.retryInMs
  throw error
}
