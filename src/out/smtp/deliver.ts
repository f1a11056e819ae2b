import { Refusal } from '#streams/define.ts'
import { domainOf } from '#streams/address.ts'
import { messageIdOf, nextStep, type Command, type Outcome, type SmtpStage, type Transaction } from '#streams/email/decide.ts'
import type { EmailRequested } from '#streams/email/facts.ts'
import { scheduleSend, type Addressee, type Recipients, type Seen } from '#src/actions/recipient.ts'
import { sleep } from '#src/base/backoff.ts'
import { timestamp, type Clock } from '#src/base/clock.ts'
import type { Log } from '#src/base/log.ts'
import { sha256Hex } from '#src/base/secret.ts'
import { composeMessage, RENDERER } from '#src/content/mime.ts'
import { Conflict } from '#src/nats/errors.ts'
import type { Bus } from '#src/nats/connect.ts'
import { DEAD_AFTER_MS, type Heartbeats } from '#src/nats/heartbeats.ts'
import { Suspended, type Pool } from './pool.ts'
import { HostTrouble, type Session, type SmtpTimeouts } from './session.ts'
import type { Target } from './target.ts'
import { transact, type Ending } from './transact.ts'
import { outcomeOf } from './verdict.ts'

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

export type Content = NonNullable<EmailRequested['data']['content']>

export interface DeliverOptions {
  bus: Bus
  clock: Clock
  recipients: Recipients
  heartbeats: Heartbeats
  worker: string
  pool: Pool
  /** Where the mail of this request goes. */
  targetOf: (request: EmailRequested['data']) => Target
  timeouts: SmtpTimeouts
  leaseMs: number
  /** How long NATS may take for a claim before the line is dropped. */
  claimMs: number
  /** A target in trouble for less than this keeps its mail waiting in the queue; afterwards it is deferred by schedule. */
  patienceMs: number
  log: Log
  onAttempt: (report: AttemptReport) => void
}

/** null = settled: an outcome or a schedule is stored. Else how many ms to wait before looking again. */
export type Waiting = number | null

/** Why a recipient is looked at: its request came for the first time (`new`), or not for the first (`again`), or its schedule says so. */
export type Occasion = 'new' | 'again' | 'due'

export type Deliver = (addressee: Addressee, content: Content | null, occasion: Occasion) => Promise<Waiting>

const WAIT_MAX_MS = 5000
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

/** Brings one recipient as far as it can be brought now: the five steps of design.md, "Sending to one recipient". */
export function createDeliver (options: DeliverOptions): Deliver {
  const { clock, recipients, heartbeats, worker, pool, timeouts } = options

  async function deliver (addressee: Addressee, content: Content | null, occasion: Occasion): Promise<Waiting> {
    let progress: Progress = { seen: occasion === 'new' ? recipients.unread() : await recipients.load(addressee), voidClaim: null }
    for (let slackMs = occasion === 'due' ? DUE_SLACK_MS : 0; ; slackMs = 0) {
      const { seen, voidClaim } = progress
      const given = { nowMs: clock.nowMs() + slackMs, request: addressee.request.fact.data, voidClaim }
      const step = nextStep(seen.state, given, await isClaimantGone(progress))
      switch (step.do) {
        case 'nothing':
          return null
        case 'schedule':
          await remind(addressee, step.atMs)
          return null
        case 'wait':
          return Math.min(WAIT_MAX_MS, Math.max(250, step.untilMs - given.nowMs))
        case 'doubt':
          progress = await note(addressee, progress, { name: 'Doubt', attempt: step.attempt, cause: 'sender' })
          break
        case 'fail':
          progress = await note(addressee, progress, { name: 'Fail', reason: 'expired', detail: null })
          break
        case 'send': {
          const next = await attempt(addressee, content, progress)
          if (typeof next === 'number') return next
          progress = next
        }
      }
    }
  }

  async function note (addressee: Addressee, progress: Progress, command: Exclude<Command, { name: 'Claim' }>): Promise<Progress> {
    return { ...progress, seen: await recipients.record(addressee, progress.seen, command, progress.voidClaim) }
  }

  /** Our own claim without our knowing of it is an earlier life's: nobody is at work under it. */
  async function isClaimantGone ({ seen: { state }, voidClaim }: Progress): Promise<boolean> {
    if (state.status !== 'sending' || state.claim === null || state.claim.id === voidClaim) return false
    return state.claim.worker === worker || await heartbeats.isDead(state.claim.worker)
  }

  function remind ({ request: { fact, seq }, n }: Addressee, atMs: number): Promise<void> {
    return scheduleSend(options.bus, { account: fact.account, email: fact.data.email, n, request: seq }, atMs)
  }

  async function attempt (addressee: Addressee, content: Content | null, progress: Progress): Promise<Progress | number> {
    if (content === null) return await note(addressee, progress, { name: 'Fail', reason: 'unsendable', detail: 'the content is gone' })
    // A claim that may not be finished would be void, and the next one too: better none until NATS hears us again.
    if (!isHeard(heartbeats)) return UNHEARD_WAIT_MS
    const target = options.targetOf(addressee.request.fact.data)
    try {
      return await pool.use(target, session => new Attempt(addressee, progress).run(target, session, content))
    } catch (error) {
      if (!(error instanceof Suspended)) throw error
      if (error.downForMs < options.patienceMs) return Math.min(WAIT_MAX_MS, error.retryInMs)
      return await putOff(addressee, progress, target, error.trouble)
    }
  }

  /** The target has been away for long: the recipient waits by schedule, not in the queue. */
  async function putOff (addressee: Addressee, progress: Progress, target: Target, { stage, reply, message }: HostTrouble): Promise<Progress> {
    const outcome: Outcome = reply === null ? unanswered(message, true) : outcomeOf(reply, stage)
    const transaction = { host: target.host, tls: null, via: 'relay' as const, ms: 0 }
    return await conclude(addressee, progress, { name: 'RecordOutcome', attempt: progress.seen.state.attempts + 1, stage, transaction, outcome })
  }

  /** Records what came of a transaction, and says so. */
  async function conclude (addressee: Addressee, progress: Progress, command: Extract<Command, { name: 'RecordOutcome' }>): Promise<Progress> {
    const after = await note(addressee, progress, command)
    const { attempt, stage, transaction, outcome } = command
    const why = outcome.kind === 'delivered' ? 'delivered' : outcome.class
    report(addressee, { attempt, stage, transaction, result: outcome.kind, class: why, code: outcome.reply?.code ?? null, seen: after.seen })
    return after
  }

  function report ({ request, n }: Addressee, said: Said): void {
    const { email, recipients: all } = request.fact.data
    const { transaction: { host, ms }, seen, ...rest } = said
    const entry = { email, n, ...rest, domain: domainOf(all[n]!.address), host, durationMs: ms, next: seen.state.nextAttemptAt }
    options.log.info(entry, 'smtp attempt')
    options.onAttempt(entry)
  }

  /** One transaction on one session, and what it led to. */
  class Attempt {
    private readonly addressee: Addressee
    private readonly progress: Progress
    /** The claim once it is stored, and when it was asked for. */
    private claimed: { seen: Seen, atMs: number } | null = null
    /** Nobody knows whether the log has the claim, or somebody else was there first. */
    private lost = false

    constructor (addressee: Addressee, progress: Progress) {
      this.addressee = addressee
      this.progress = progress
    }

    async run (target: Target, session: Session, content: Content): Promise<Progress> {
      const { request: { fact: { data: request } }, n } = this.addressee
      const messageId = messageIdOf(request, n)
      const date = this.progress.seen.state.date ?? timestamp(clock.nowMs())
      const { from, recipients: all, subject } = request
      const message = composeMessage({ ...content, messageId, date, from, recipients: all, subject })
      const mail = { from: from.address, to: all[n]!.address, message, utf8: hasRawUtf8(request, n) }
      const gate = { claim: () => this.claim(messageId, date, message), mayFinish: () => this.mayFinish() }
      const worn = session.messages > 0
      const beginMs = performance.now()
      const ending = await transact(session, mail, gate, timeouts)
      const transaction: Transaction = { host: session.host, tls: session.tls, via: 'relay', ms: Math.round(performance.now() - beginMs) }
      // The server had closed a kept session, and we found out by using it: that says nothing about this message.
      if (worn && this.claimed === null && !this.lost && isStale(ending)) return this.progress
      return this.settle(ending, target, transaction)
    }

    private async claim (messageId: string, date: string, message: Buffer): Promise<boolean> {
      const { seen, voidClaim } = this.progress
      const atMs = clock.nowMs()
      const leaseUntil = timestamp(atMs + options.leaseMs)
      const command = { worker, leaseUntil, messageId, date, renderer: RENDERER, digest: sha256Hex(message) }
      try {
        const after = await recipients.claim(this.addressee, seen, command, { voidClaim, timeoutMs: options.claimMs })
        if (after instanceof Refusal) return false
        this.claimed = { seen: after, atMs }
        return true
      } catch (error) {
        this.lost = true
        const { email } = this.addressee.request.fact.data
        if (!(error instanceof Conflict)) options.log.warn({ err: error, email }, 'no claim, so no dot')
        return false
      }
    }

    /** A claim that grew old on its way, or a heart that NATS has not heard: somebody else may be about to take over. */
    private mayFinish (): boolean {
      return this.claimed !== null && clock.nowMs() - this.claimed.atMs < options.leaseMs / 2 && isHeard(heartbeats)
    }

    private async settle (ending: Ending, target: Target, transaction: Transaction): Promise<Progress> {
      if (this.lost || ending.kind === 'dropped') return await this.lookAgain()
      const progress = { ...this.progress, seen: this.claimed?.seen ?? this.progress.seen }
      const attempt = progress.seen.state.attempts + (this.claimed === null ? 1 : 0)
      if (ending.kind === 'unsendable') return await this.giveUp(progress, attempt, transaction, ending.detail)
      const { stage } = ending
      if (ending.kind === 'reply') {
        const outcome = outcomeOf(ending.reply, stage)
        if (outcome.kind === 'deferred' && outcome.hostTrouble) pool.blame(target, new HostTrouble(ending.reply.text, stage, ending.reply))
        return await conclude(this.addressee, progress, { name: 'RecordOutcome', attempt, stage, transaction, outcome })
      }
      if (ending.dotSent) return await this.doubt(progress, attempt, transaction)
      return await conclude(this.addressee, progress, { name: 'RecordOutcome', attempt, stage, transaction, outcome: unanswered(ending.error, false) })
    }

    private async giveUp (progress: Progress, attempt: number, transaction: Transaction, detail: string): Promise<Progress> {
      const after = await note(this.addressee, progress, { name: 'Fail', reason: 'unsendable', detail })
      report(this.addressee, { attempt, stage: 'mail', transaction, result: 'failed', class: 'unsendable', code: null, seen: after.seen })
      return after
    }

    private async doubt (progress: Progress, attempt: number, transaction: Transaction): Promise<Progress> {
      const after = await note(this.addressee, progress, { name: 'Doubt', attempt, cause: 'line' })
      report(this.addressee, { attempt, stage: 'data', transaction, result: 'in_doubt', class: 'networkerror', code: null, seen: after.seen })
      return after
    }

    /** No dot was sent. Whatever claim of ours the log holds is void; we alone know that, so the looking goes on until NATS answers. */
    private async lookAgain (): Promise<Progress> {
      const mine = this.progress.seen.state.attempts + 1
      for (;;) {
        const seen = await recipients.load(this.addressee).catch(() => null)
        const claim = seen?.state.claim ?? null
        const isMine = claim?.worker === worker && claim.attempt === mine
        if (seen !== null) return { seen, voidClaim: isMine ? claim.id : this.progress.voidClaim }
        await sleep(500)
      }
    }
  }

  return deliver
}

/** NATS has heard our heartbeat lately: nobody will take us for dead. */
export function isHeard (heartbeats: Heartbeats): boolean {
  return Date.now() - heartbeats.lastBeatMs() < DEAD_AFTER_MS / 2
}

const NON_ASCII = /\P{ASCII}/u

/** Domains are A-labels, so only local parts can have it: the envelope's two, and those that the headers name. */
function hasRawUtf8 ({ from, recipients }: EmailRequested['data'], n: number): boolean {
  return NON_ASCII.test(from.address) || recipients.some(({ address, kind }, i) => (i === n || kind !== 'bcc') && NON_ASCII.test(address))
}

/** Nobody said anything that could be kept as a reply. */
function unanswered (error: string, hostTrouble: boolean): Outcome {
  return { kind: 'deferred', reply: null, error, class: 'networkerror', hostTrouble }
}

function isStale (ending: Ending): boolean {
  if (ending.kind === 'broken') return ending.stage === 'mail' && !ending.dotSent
  return ending.kind === 'reply' && ending.reply.code === 421 && ending.stage === 'mail'
}
