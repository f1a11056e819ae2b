import { Refusal } from '#streams/define.ts'
import { messageIdOf, type Outcome, type Transaction } from '#streams/email/decide.ts'
import type { RecipientRef, Recipients, Seen } from '#src/actions/recipient.ts'
import { sleep } from '#src/base/backoff.ts'
import { timestamp, type Clock } from '#src/base/clock.ts'
import { asError } from '#src/base/errors.ts'
import type { Log } from '#src/base/log.ts'
import { sha256Hex } from '#src/base/secret.ts'
import type { Composed, Content, MessageCopy } from '#src/content/compose.ts'
import { withRelayField } from '#src/content/relay-field.ts'
import { RENDERER } from '#src/content/mime.ts'
import { outcomeOf } from '#src/feedback/reply.ts'
import { Conflict } from '#src/nats/errors.ts'
import type { Heartbeats } from '#src/nats/heartbeats.ts'
import { HostFailure } from './errors.ts'
import type { OutcomeRecorder, RecipientProgress } from './recorder.ts'
import type { SessionPool } from './session-pool.ts'
import type { SmtpSession, SmtpTimeouts } from './session.ts'
import type { NextHop } from './site.ts'
import type { Relay } from './target.ts'
import { SmtpTransaction, type OutgoingMail, type TransactionResult } from './transaction.ts'
import type { Way } from './ways.ts'

/** Why there is no content: nothing can be sent any more. */
export interface MissingContent {
  missing: string
}

/** Fetches the content when it is needed: up to 4 MB, which many recipients that only wait for a connection must not
 *  hold. */
export type ContentSource = () => Promise<Content | MissingContent>

/** Why a recipient is processed: its request came for the first time (`new`), or not for the first (`redelivered`), or
 *  its schedule fired. */
export type DeliverTrigger = 'new' | 'redelivered' | 'due'

/** Where a mail goes, and by which route. */
export interface Departing extends Pick<Way, 'route'> {
  to: Relay | NextHop
}

/** What all attempts share. */
export interface AttemptContext {
  clock: Clock
  recipients: Recipients
  recorder: OutcomeRecorder
  heartbeats: Heartbeats
  worker: string
  pool: SessionPool
  /** The message as it goes out to this recipient, and its return path. */
  compose: (ref: RecipientRef, content: Content, copy: MessageCopy) => Promise<Composed>
  timeouts: SmtpTimeouts
  leaseMs: number
  /** How long NATS may take for a claim before the connection is dropped. */
  claimMs: number
  log: Log
}

/** A claim in the log, and when it was requested, by the wall clock and by the monotonic one. */
interface StoredClaim {
  seen: Seen
  id: string
  atMs: number
  steadyMs: number
}

/** `refused` = the rules forbid it; `unknown` = it may or may not be in the log, or another sender was first. */
type ClaimResult = StoredClaim | 'refused' | 'unknown'

const CONTENT_RETRY_MS = 2000
const RELOAD_RETRY_MS = 500

/** One try to send to one recipient over one session: transaction, claim before the final dot, outcome. */
export class Attempt {
  private readonly context: AttemptContext
  private readonly ref: RecipientRef
  private readonly progress: RecipientProgress
  private readonly trigger: DeliverTrigger
  private readonly to: Relay | NextHop
  private readonly by: Pick<Transaction, 'route'>

  constructor (
    context: AttemptContext,
    ref: RecipientRef,
    progress: RecipientProgress,
    trigger: DeliverTrigger,
    { to, route }: Departing
  ) {
    this.context = context
    this.ref = ref
    this.progress = progress
    this.trigger = trigger
    this.to = to
    this.by = route === null ? {} : { route }
  }

  /** The recipient as it is afterwards, or in how many ms to try again, since nothing was sent. */
  async run (session: SmtpSession, source: ContentSource): Promise<RecipientProgress | number> {
    const content = await source().catch(asError)
    if (content instanceof Error) {
      const { email } = this.ref.request.fact.data
      this.context.log.warn({ err: content, email, retryInMs: CONTENT_RETRY_MS }, 'content cannot be read; retrying')
      return CONTENT_RETRY_MS
    }
    if ('missing' in content) {
      const command = { name: 'Fail', reason: 'unsendable', detail: content.missing } as const
      return await this.context.recorder.record(this.ref, this.progress, command)
    }
    return await this.send(session, content)
  }

  private async send (session: SmtpSession, content: Content): Promise<RecipientProgress> {
    const { clock, compose, timeouts } = this.context
    const { request: { fact: { data: request } }, n } = this.ref
    const copy = {
      messageId: messageIdOf(request, n),
      date: this.progress.seen.state.date ?? timestamp(clock.nowMs())
    }
    const mail = { ...await compose(this.ref, content, copy), to: request.recipients[n]!.address }
    const isReused = session.messages > 0
    const beginMs = performance.now()
    const outgoing = { ...mail, message: this.asRelayed(mail.message, copy) }
    const { claim, result } = await this.transact(new SmtpTransaction(session, outgoing, timeouts), copy, mail)
    const { host, tls, facts } = session
    const transaction = {
      host,
      tls,
      ...facts,
      via: this.to.via,
      ms: Math.round(performance.now() - beginMs),
      ...this.by
    }
    // The server had closed an idle session, and we noticed by using it: that says nothing about this message.
    if (isReused && claim === null && isStale(result)) return this.progress
    return await this.record(claim, result, transaction)
  }

  /** The claim's digest is of the message without what only this relay reads. */
  private asRelayed (message: Buffer, { messageId }: MessageCopy): Buffer {
    return 'host' in this.to ? withRelayField(message, this.to.host, messageId) : message
  }

  /** The final dot goes out only under a claim that is in the log (streams/email/README.md). The result comes after the
   *  claim's, even when the connection breaks meanwhile. `claim` null = the transaction ended before one was needed. */
  private async transact (
    transaction: SmtpTransaction,
    copy: MessageCopy,
    { message }: OutgoingMail
  ): Promise<{ claim: ClaimResult | null, result: TransactionResult }> {
    const claim = await transaction.sendBody() ? await this.claim(copy, message) : null
    if (isStored(claim) && await transaction.drain() && this.isValid(claim)) transaction.finish()
    else transaction.drop()
    return { claim, result: await transaction.result() }
  }

  private async claim ({ messageId, date }: MessageCopy, message: Buffer): Promise<ClaimResult> {
    const { clock, recipients, worker, leaseMs, claimMs, log } = this.context
    const { seen, voidClaim } = this.progress
    const atMs = clock.nowMs()
    const steadyMs = performance.now()
    const command = {
      worker,
      leaseUntil: timestamp(atMs + leaseMs),
      messageId,
      date,
      renderer: RENDERER,
      digest: sha256Hex(message),
      due: this.trigger === 'due',
      ...this.by
    }
    try {
      const after = await recipients.claim(this.ref, seen, command, { voidClaim, timeoutMs: claimMs })
      return after instanceof Refusal ? 'refused' : { seen: after, id: after.state.claim!.id, atMs, steadyMs }
    } catch (error) {
      const { email } = this.ref.request.fact.data
      if (!(error instanceof Conflict)) log.warn({ err: error, email }, 'claim not stored; connection dropped')
      return 'unknown'
    }
  }

  /** Not when the claim took too long to store, nor when NATS has missed a heartbeat since: another sender may have
   *  taken us for dead, and the newest heartbeat does not undo that. */
  private isValid ({ atMs, steadyMs }: StoredClaim): boolean {
    const { clock, heartbeats, leaseMs } = this.context
    const ageMs = performance.now() - steadyMs
    return Math.max(ageMs, clock.nowMs() - atMs) < leaseMs / 2 && heartbeats.heardForMs() > ageMs
  }

  private async record (
    claim: ClaimResult | null,
    result: TransactionResult,
    transaction: Transaction
  ): Promise<RecipientProgress> {
    if (claim === 'unknown' || result.kind === 'dropped') return await this.reload()
    const { recorder } = this.context
    const stored = isStored(claim) ? claim : null
    const progress = { ...this.progress, seen: stored?.seen ?? this.progress.seen }
    const attempt = progress.seen.state.attempts + (stored === null ? 1 : 0)
    if (result.kind === 'unsendable') {
      return await recorder.recordUnsendable(this.ref, progress, { detail: result.detail, attempt, transaction })
    }
    if (result.kind === 'broken' && result.dotSent) {
      return await recorder.recordDoubt(this.ref, progress, { claim: stored!.id, attempt, transaction })
    }
    const { stage } = result
    const outcome = result.kind === 'reply' ? outcomeOf(result.reply, stage) : unanswered(result.error, false)
    if (result.kind === 'reply' && outcome.kind !== 'delivered') {
      this.informPool(outcome, new HostFailure(result.reply.text, stage, result.reply, { host: transaction.host }))
    }
    const ended = { claim: stored?.id ?? null, attempt, stage, transaction, outcome }
    return await recorder.recordOutcome(this.ref, progress, ended)
  }

  private informPool (outcome: Outcome, failure: HostFailure): void {
    const { pool } = this.context
    if (outcome.kind === 'deferred' && outcome.hostTrouble) pool.hostFailed(this.to, failure)
    pool.refused(this.to, failure)
  }

  /** No dot was sent. A claim of ours in the log is void; only we know that, so this retries until NATS answers. */
  private async reload (): Promise<RecipientProgress> {
    const { recipients, worker } = this.context
    const attempt = this.progress.seen.state.attempts + 1
    for (;;) {
      const seen = await recipients.load(this.ref).catch(() => null)
      const claim = seen?.state.claim ?? null
      const isOurs = claim?.worker === worker && claim.attempt === attempt
      if (seen !== null) return { seen, voidClaim: isOurs ? claim.id : this.progress.voidClaim }
      await sleep(RELOAD_RETRY_MS)
    }
  }
}

/** A deferral without a reply. */
export function unanswered (
  error: string,
  hostTrouble: boolean,
  bounceClass = 'networkerror'
): Extract<Outcome, { kind: 'deferred' }> {
  return { kind: 'deferred', reply: null, error, class: bounceClass, hostTrouble }
}

function isStored (claim: ClaimResult | null): claim is StoredClaim {
  return claim !== null && typeof claim === 'object'
}

function isStale (result: TransactionResult): boolean {
  if (result.kind === 'broken') return result.stage === 'mail' && !result.dotSent
  return result.kind === 'reply' && result.reply.code === 421 && result.stage === 'mail'
}
