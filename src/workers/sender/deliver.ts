import { Refusal } from '#streams/define.ts'
import { domainOf } from '#streams/address.ts'
import { isOperators } from '#streams/email/classes.ts'
import {
  messageIdOf,
  nextStep,
  type RecipientCommand,
  type Outcome,
  type SmtpStage,
  type Transaction
} from '#streams/email/decide.ts'
import { scheduleSend, type RecipientRef, type Recipients, type Seen } from '#src/actions/recipient.ts'
import { sleep } from '#src/base/backoff.ts'
import { timestamp, type Clock } from '#src/base/clock.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import { sha256Hex } from '#src/base/secret.ts'
import type { Composed, Content, Copy } from '#src/content/compose.ts'
import { RENDERER } from '#src/content/mime.ts'
import { Conflict } from '#src/nats/errors.ts'
import type { Bus } from '#src/nats/connect.ts'
import type { Heartbeats } from '#src/nats/heartbeats.ts'
import { Crowded, Suspended, type Pool } from './pool.ts'
import type { NoWay } from './route.ts'
import { HostTrouble, type Session, type SmtpTimeouts } from './session.ts'
import type { Place } from './site.ts'
import type { Relay } from './target.ts'
import { transact, type Ending } from './transact.ts'
import { outcomeOf } from '#src/feedback/reply.ts'

/** What one attempt came to, for logs and metrics; never an address or a word of the message. */
export interface AttemptReport {
  email: string
  n: number
  attempt: number
  domain: string
  host: string | null
  stage: SmtpStage
  result: 'delivered' | 'deferred' | 'bounced' | 'failed' | 'in_doubt'
  class: string
  code: number | null
  durationMs: number
  next: string | null
}

/** Why there is no content: nothing can be sent any more. */
export interface Missing {
  missing: string
}

/** Fetches the content when it is needed: up to 4 MB, which many recipients that only wait for a connection must not
 *  hold. */
export type ContentSource = () => Promise<Content | Missing>

export interface DeliverOptions {
  bus: Bus
  clock: Clock
  recipients: Recipients
  heartbeats: Heartbeats
  worker: string
  pool: Pool
  /** What keeps this recipient from getting mail, as the command that says so, or null. Throws when that cannot be
   *  told: then nothing is sent. */
  obstacleTo: (ref: RecipientRef) => Promise<Extract<RecipientCommand, { name: 'Suppress' | 'Fail' }> | null>
  /** The message as it goes out to this recipient, and the return path it goes under. */
  compose: (ref: RecipientRef, content: Content, copy: Copy) => Composed
  /** Where this recipient's mail goes. Throws Crowded. */
  destinationOf: (ref: RecipientRef) => Promise<Relay | Place | NoWay>
  timeouts: SmtpTimeouts
  leaseMs: number
  /** How long NATS may take for a claim before the line is dropped. */
  claimMs: number
  /** A relay in trouble for less than this keeps its mail waiting in the queue; afterwards it is deferred by schedule.
   *  Hosts that stay away for longer than this are not asked again for a mail that has been deferred already. */
  patienceMs: number
  /** Aborted when the sender is told to stop. */
  stopping: AbortSignal
  log: Log
  onAttempt: (report: AttemptReport) => void
}

/** null = settled: an outcome or a schedule is stored. Else how many ms to wait before looking again. */
export type Waiting = number | null

/** Why a recipient is looked at: its request came for the first time (`new`), or not for the first (`again`), or its
 *  schedule says so. */
export type Occasion = 'new' | 'again' | 'due'

/** `content` = where it comes from, or why there is none. */
export type Deliver = (ref: RecipientRef, content: ContentSource | Missing, occasion: Occasion) => Promise<Waiting>

const WAIT_MAX_MS = 5000
const CONTENT_WAIT_MS = 2000
const UNHEARD_WAIT_MS = 250
/** A schedule fires by NATS's clock and is judged by ours. */
const DUE_SLACK_MS = 2000

/** What is known of a recipient while one job is at it. */
interface Progress {
  seen: Seen
  /** Id of a claim of ours under which no dot was sent. */
  voidClaim: string | null
}

/** What a report is made of. */
interface Said extends Pick<AttemptReport, 'attempt' | 'stage' | 'result' | 'class' | 'code'> {
  transaction: Transaction
  seen: Seen
}

/** Brings one recipient as far as it can be brought now: look at the facts, claim before the final dot,
 *  look at the clock, record the reply, doubt what others left behind (streams/email/README.md). */
export function createDeliver (options: DeliverOptions): Deliver {
  const { clock, recipients, heartbeats, worker, pool, timeouts, stopping } = options

  async function deliver (ref: RecipientRef, content: ContentSource | Missing, occasion: Occasion): Promise<Waiting> {
    let progress: Progress = {
      seen: occasion === 'new' ? recipients.unread(ref) : await recipients.load(ref),
      voidClaim: null
    }
    for (let slackMs = occasion === 'due' ? DUE_SLACK_MS : 0;; slackMs = 0) {
      const { seen, voidClaim } = progress
      const given = { nowMs: clock.nowMs() + slackMs, request: ref.request.fact.data, voidClaim }
      const step = nextStep(seen.state, given, await isClaimantGone(progress))
      switch (step.do) {
        case 'nothing':
          return null
        case 'schedule': {
          await remind(ref, step.atMs)
          // Whoever moved it meanwhile may have stored his schedule before ours.
          const moved = seen.state.status === 'scheduled' ? await recipients.load(ref) : seen
          if (moved.seq === seen.seq) return null
          progress = { ...progress, seen: moved }
          break
        }
        case 'wait':
          return Math.min(WAIT_MAX_MS, Math.max(250, step.untilMs - given.nowMs))
        case 'doubt':
          progress = await judge(ref, progress, { name: 'Doubt', claim: step.claim, cause: 'sender' })
          break
        case 'fail':
          progress = await judge(ref, progress, { name: 'Fail', reason: 'expired', detail: null })
          break
        case 'send': {
          const obstacle = await options.obstacleTo(ref)
          if (obstacle !== null) {
            progress = await judge(ref, progress, obstacle)
            break
          }
          const next = await attempt(ref, content, progress, occasion)
          if (typeof next !== 'number') progress = next
          // That a claim of ours is void only we know: given back to the queue, the recipient would come to somebody
          // who takes it for a doubt.
          else if (holdsVoidClaim(progress) && !stopping.aborted) await sleep(Math.min(next, WAIT_MAX_MS), stopping)
          else return await comeBack(ref, seen, next)
        }
      }
    }
  }

  /** Records what follows from the facts alone, without a transaction. */
  async function judge (
    ref: RecipientRef,
    progress: Progress,
    command: Exclude<RecipientCommand, { name: 'Claim' }>
  ): Promise<Progress> {
    const { seen } = await recipients.record(ref, progress.seen, command, progress.voidClaim)
    return { ...progress, seen }
  }

  /** Our own claim without our knowing of it is an earlier life's: nobody is at work under it. */
  async function isClaimantGone ({ seen: { state }, voidClaim }: Progress): Promise<boolean> {
    if (state.status !== 'sending' || state.claim === null || state.claim.id === voidClaim) return false
    return state.claim.worker === worker || await heartbeats.isDead(state.claim.worker)
  }

  /** Soon, by the queue; or later, by a schedule: nothing has happened to the recipient meanwhile. */
  async function comeBack (ref: RecipientRef, { state }: Seen, inMs: number): Promise<Waiting> {
    if (inMs <= WAIT_MAX_MS) return inMs
    const endsMs = Date.parse(state.expiresAt ?? ref.request.fact.data.expiresAt)
    await remind(ref, Math.min(clock.nowMs() + inMs, endsMs))
    return null
  }

  function remind ({ request: { fact, seq }, n }: RecipientRef, atMs: number): Promise<void> {
    return scheduleSend(options.bus, { account: fact.account, email: fact.data.email, n, request: seq }, atMs)
  }

  async function attempt (
    ref: RecipientRef,
    content: ContentSource | Missing,
    progress: Progress,
    occasion: Occasion
  ): Promise<Progress | number> {
    if ('missing' in content) return await unsendable(ref, progress, content)
    // A claim that may not be finished would be void, and the next one too: better none until NATS hears us again.
    if (heartbeats.heardForMs() === 0) return UNHEARD_WAIT_MS
    const startMs = performance.now()
    const place = await options.destinationOf(ref).catch(crowded)
    if (typeof place === 'number') return place
    if ('outcome' in place) return await turnBack(ref, progress, place, Math.round(performance.now() - startMs))
    try {
      return await pool.use(place, session => new Attempt(ref, progress, occasion, place).run(session, content))
    } catch (error) {
      if (!(error instanceof Suspended)) return crowded(error)
      return await waitOrPutOff(ref, progress, place, error)
    }
  }

  async function waitOrPutOff (
    ref: RecipientRef,
    progress: Progress,
    place: Relay | Place,
    error: Suspended
  ): Promise<Progress | number> {
    if (place.via === 'relay' && error.downForMs < options.patienceMs) return Math.min(WAIT_MAX_MS, error.retryInMs)
    // It has been said already that this mail waits.
    if (progress.seen.state.status === 'deferred' && error.retryInMs > options.patienceMs) return error.retryInMs
    return await putOff(ref, progress, place, error.trouble)
  }

  /** Nobody can be asked: DNS itself has settled it, or does not say. */
  async function turnBack (ref: RecipientRef, progress: Progress, { outcome }: NoWay, ms: number): Promise<Progress> {
    const transaction = { host: null, tls: null, via: 'mx' as const, ms }
    const attempt = progress.seen.state.attempts + 1
    const command = { name: 'RecordOutcome', claim: null, attempt, stage: 'connect', transaction, outcome } as const
    return await conclude(ref, progress, command, {
      attempt,
      stage: 'connect',
      transaction,
      result: outcome.kind,
      class: outcome.class,
      code: null
    })
  }

  function unsendable (ref: RecipientRef, progress: Progress, { missing }: Missing): Promise<Progress> {
    return judge(ref, progress, { name: 'Fail', reason: 'unsendable', detail: missing })
  }

  /** The hosts are away: the recipient waits by schedule, not in the queue. Nothing was tried, so there is no attempt
   *  to report. */
  async function putOff (
    ref: RecipientRef,
    progress: Progress,
    place: Relay | Place,
    trouble: HostTrouble
  ): Promise<Progress> {
    const { stage, reply, message } = trouble
    const outcome: Outcome = reply === null ? unanswered(message, true, trouble.class) : outcomeOf(reply, stage)
    const host = 'host' in place ? place.host : trouble.host
    const transaction = { host, tls: null, via: place.via, ms: 0 }
    const attempt = progress.seen.state.attempts + 1
    return await judge(ref, progress, { name: 'RecordOutcome', claim: null, attempt, stage, transaction, outcome })
  }

  /** Records what came of a transaction, and says so. What the log has no room for any more did not happen to the
   *  recipient. */
  async function conclude (
    ref: RecipientRef,
    progress: Progress,
    command: Exclude<RecipientCommand, { name: 'Claim' }>,
    said: Omit<Said, 'seen'>
  ): Promise<Progress> {
    const { seen, stored } = await recipients.record(ref, progress.seen, command, progress.voidClaim)
    if (stored) report(ref, { ...said, seen })
    return { ...progress, seen }
  }

  function report ({ request, n }: RecipientRef, said: Said): void {
    const { email, recipients: all } = request.fact.data
    const { transaction: { host, ms }, seen, ...rest } = said
    const entry = {
      email,
      n,
      ...rest,
      domain: domainOf(all[n]!.address),
      host,
      durationMs: ms,
      next: seen.state.nextAttemptAt
    }
    // What is said against us is for the operator to mend, not the recipient's fault.
    if (isOperators(entry.class)) options.log.warn(entry, 'smtp attempt: the receiver refuses us')
    else options.log.info(entry, 'smtp attempt')
    options.onAttempt(entry)
  }

  /** One transaction on one session, and what it led to. */
  class Attempt {
    private readonly ref: RecipientRef
    private readonly progress: Progress
    private readonly occasion: Occasion
    private readonly place: Relay | Place
    /** The claim once it is stored, and when it was asked for, by the calendar's clock and by the steady one. */
    private claimed: { seen: Seen, id: string, atMs: number, steadyMs: number } | null = null
    /** Nobody knows whether the log has the claim, or somebody else was there first. */
    private lost = false

    constructor (ref: RecipientRef, progress: Progress, occasion: Occasion, place: Relay | Place) {
      this.ref = ref
      this.progress = progress
      this.occasion = occasion
      this.place = place
    }

    async run (session: Session, source: ContentSource): Promise<Progress | number> {
      const content = await source().catch(asError)
      if (content instanceof Error) return this.waitForContent(content)
      if ('missing' in content) return await unsendable(this.ref, this.progress, content)
      return await this.send(session, content)
    }

    private waitForContent (error: Error): number {
      options.log.warn({ err: error, email: this.ref.request.fact.data.email }, 'content cannot be read now')
      return CONTENT_WAIT_MS
    }

    private async send (session: Session, content: Content): Promise<Progress> {
      const { request: { fact: { data: request } }, n } = this.ref
      const messageId = messageIdOf(request, n)
      const date = this.progress.seen.state.date ?? timestamp(clock.nowMs())
      const mail = { ...options.compose(this.ref, content, { messageId, date }), to: request.recipients[n]!.address }
      const gate = { claim: () => this.claim(messageId, date, mail.message), mayFinish: () => this.mayFinish() }
      const worn = session.messages > 0
      const beginMs = performance.now()
      const ending = await transact(session, mail, gate, timeouts)
      const transaction: Transaction = {
        host: session.host,
        tls: session.tls,
        via: this.place.via,
        ms: Math.round(performance.now() - beginMs)
      }
      // The server had closed a kept session, and we found out by using it: that says nothing about this message.
      if (worn && this.claimed === null && !this.lost && isStale(ending)) return this.progress
      return this.settle(ending, transaction)
    }

    private async claim (messageId: string, date: string, message: Buffer): Promise<boolean> {
      const { seen, voidClaim } = this.progress
      const atMs = clock.nowMs()
      const steadyMs = performance.now()
      const leaseUntil = timestamp(atMs + options.leaseMs)
      const command = {
        worker,
        leaseUntil,
        messageId,
        date,
        renderer: RENDERER,
        digest: sha256Hex(message),
        due: this.occasion === 'due'
      }
      try {
        const after = await recipients.claim(this.ref, seen, command, { voidClaim, timeoutMs: options.claimMs })
        if (after instanceof Refusal) return false
        this.claimed = { seen: after, id: after.state.claim!.id, atMs, steadyMs }
        return true
      } catch (error) {
        this.lost = true
        const { email } = this.ref.request.fact.data
        if (!(error instanceof Conflict)) options.log.warn({ err: error, email }, 'no claim, so no dot')
        return false
      }
    }

    /** Not with a claim that grew old on its way, nor when NATS has not heard our heart all the time since: somebody
     *  else may have taken us for dead, and the newest beat does not undo that. */
    private mayFinish (): boolean {
      if (this.claimed === null) return false
      const ageMs = performance.now() - this.claimed.steadyMs
      const young = Math.max(ageMs, clock.nowMs() - this.claimed.atMs) < options.leaseMs / 2
      return young && heartbeats.heardForMs() > ageMs
    }

    private async settle (ending: Ending, transaction: Transaction): Promise<Progress> {
      if (this.lost || ending.kind === 'dropped') return await this.lookAgain()
      const progress = { ...this.progress, seen: this.claimed?.seen ?? this.progress.seen }
      const attempt = progress.seen.state.attempts + (this.claimed === null ? 1 : 0)
      if (ending.kind === 'unsendable') return await this.giveUp(progress, attempt, transaction, ending.detail)
      const { stage } = ending
      if (ending.kind === 'reply') {
        const outcome = outcomeOf(ending.reply, stage)
        if (outcome.kind !== 'delivered') {
          this.tellPool(outcome, new HostTrouble(ending.reply.text, stage, ending.reply, { host: transaction.host }))
        }
        return await this.outcome(progress, attempt, stage, transaction, outcome)
      }
      if (ending.dotSent) return await this.doubt(progress, attempt, transaction)
      return await this.outcome(progress, attempt, stage, transaction, unanswered(ending.error, false))
    }

    private tellPool (outcome: Outcome, trouble: HostTrouble): void {
      if (outcome.kind === 'deferred' && outcome.hostTrouble) pool.blame(this.place, trouble)
      pool.heard(this.place, trouble)
    }

    private async outcome (
      progress: Progress,
      attempt: number,
      stage: SmtpStage,
      transaction: Transaction,
      outcome: Outcome
    ): Promise<Progress> {
      const command = {
        name: 'RecordOutcome',
        claim: this.claimed?.id ?? null,
        attempt,
        stage,
        transaction,
        outcome
      } as const
      const why = outcome.kind === 'delivered' ? 'delivered' : outcome.class
      return await conclude(this.ref, progress, command, {
        attempt,
        stage,
        transaction,
        result: outcome.kind,
        class: why,
        code: outcome.reply?.code ?? null
      })
    }

    private async giveUp (
      progress: Progress,
      attempt: number,
      transaction: Transaction,
      detail: string
    ): Promise<Progress> {
      const said = { attempt, stage: 'mail', transaction, result: 'failed', class: 'unsendable', code: null } as const
      return await conclude(this.ref, progress, { name: 'Fail', reason: 'unsendable', detail }, said)
    }

    private async doubt (progress: Progress, attempt: number, transaction: Transaction): Promise<Progress> {
      const said = {
        attempt,
        stage: 'data',
        transaction,
        result: 'in_doubt',
        class: 'networkerror',
        code: null
      } as const
      return await conclude(this.ref, progress, { name: 'Doubt', claim: this.claimed!.id, cause: 'line' }, said)
    }

    /** No dot was sent. Whatever claim of ours the log holds is void; we alone know that, so the looking goes on until
     *  NATS answers. */
    private async lookAgain (): Promise<Progress> {
      const mine = this.progress.seen.state.attempts + 1
      for (;;) {
        const seen = await recipients.load(this.ref).catch(() => null)
        const claim = seen?.state.claim ?? null
        const isMine = claim?.worker === worker && claim.attempt === mine
        if (seen !== null) return { seen, voidClaim: isMine ? claim.id : this.progress.voidClaim }
        await sleep(500)
      }
    }
  }

  return deliver
}

/** The live claim is ours, and no dot was sent under it. */
function holdsVoidClaim ({ seen: { state }, voidClaim }: Progress): boolean {
  return state.status === 'sending' && voidClaim !== null && state.claim?.id === voidClaim
}

/** Nobody said anything that could be kept as a reply. */
function unanswered (error: string, hostTrouble: boolean, why = 'networkerror'): Outcome {
  return { kind: 'deferred', reply: null, error, class: why, hostTrouble }
}

/** In how many ms a place is booked; whatever else was thrown is thrown on. */
function crowded (error: unknown): number {
  if (error instanceof Crowded) return error.retryInMs
  throw error
}

function isStale (ending: Ending): boolean {
  if (ending.kind === 'broken') return ending.stage === 'mail' && !ending.dotSent
  return ending.kind === 'reply' && ending.reply.code === 421 && ending.stage === 'mail'
}
