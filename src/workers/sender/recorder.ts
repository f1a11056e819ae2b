import { domainOf } from '#streams/address.ts'
import { isOperators } from '#streams/email/classes.ts'
import type { RecipientCommand, Outcome, SmtpStage, Transaction } from '#streams/email/decide.ts'
import type { RecipientRef, Recipients, Seen } from '#src/actions/recipient.ts'
import type { Log } from '#src/base/log.ts'

/** What one attempt came to, for logs and metrics; never an address or a word of the message. */
export interface AttemptReport {
  email: string
  n: number
  attempt: number
  domain: string
  host: string | null
  /** null = SMTP_URL's. */
  route: string | null
  stage: SmtpStage
  result: 'delivered' | 'deferred' | 'bounced' | 'failed' | 'in_doubt'
  class: string
  code: number | null
  durationMs: number
  next: string | null
}

/** What is known of a recipient while one job works on it. */
export interface RecipientProgress {
  seen: Seen
  /** Id of a claim of ours under which no dot was sent. */
  voidClaim: string | null
}

/** An attempt that ended with an outcome. `claim` = the claim that it was made under, if any. */
export interface AttemptOutcome {
  claim: string | null
  attempt: number
  stage: SmtpStage
  transaction: Transaction
  outcome: Outcome
}

/** What a report says beside the recipient. */
interface AttemptSummary extends Pick<AttemptReport, 'attempt' | 'stage' | 'result' | 'class' | 'code'> {
  transaction: Transaction
}

type RecordCommand = Exclude<RecipientCommand, { name: 'Claim' }>

export interface RecorderOptions {
  recipients: Recipients
  log: Log
  onAttempt: (report: AttemptReport) => void
}

/** Records what became of recipients, however long NATS is away, and reports attempts. */
export class OutcomeRecorder {
  private readonly options: RecorderOptions

  constructor (options: RecorderOptions) {
    this.options = options
  }

  /** Records what follows without an attempt. */
  async record (ref: RecipientRef, progress: RecipientProgress, command: RecordCommand): Promise<RecipientProgress> {
    const { seen } = await this.options.recipients.record(ref, progress.seen, command, progress.voidClaim)
    return { ...progress, seen }
  }

  async recordOutcome (
    ref: RecipientRef,
    progress: RecipientProgress,
    ended: AttemptOutcome
  ): Promise<RecipientProgress> {
    const { attempt, stage, transaction, outcome } = ended
    return await this.recordAttempt(ref, progress, { name: 'RecordOutcome', ...ended }, {
      attempt,
      stage,
      transaction,
      result: outcome.kind,
      class: outcome.kind === 'delivered' ? 'delivered' : outcome.class,
      code: outcome.reply?.code ?? null
    })
  }

  /** The connection broke after the final dot: nobody knows whether the server has the message. */
  async recordDoubt (
    ref: RecipientRef,
    progress: RecipientProgress,
    { claim, attempt, transaction }: { claim: string, attempt: number, transaction: Transaction }
  ): Promise<RecipientProgress> {
    const result = { result: 'in_doubt', class: 'networkerror', code: null } as const
    const summary = { attempt, stage: 'data', transaction, ...result } as const
    return await this.recordAttempt(ref, progress, { name: 'Doubt', claim, cause: 'line' }, summary)
  }

  /** The server can never take this message. */
  async recordUnsendable (
    ref: RecipientRef,
    progress: RecipientProgress,
    { detail, attempt, transaction }: { detail: string, attempt: number, transaction: Transaction }
  ): Promise<RecipientProgress> {
    const result = { result: 'failed', class: 'unsendable', code: null } as const
    const summary = { attempt, stage: 'mail', transaction, ...result } as const
    return await this.recordAttempt(ref, progress, { name: 'Fail', reason: 'unsendable', detail }, summary)
  }

  /** Reports only what is stored: what the log makes void did not happen to the recipient. */
  private async recordAttempt (
    ref: RecipientRef,
    progress: RecipientProgress,
    command: RecordCommand,
    summary: AttemptSummary
  ): Promise<RecipientProgress> {
    const { seen, stored } = await this.options.recipients.record(ref, progress.seen, command, progress.voidClaim)
    if (stored) this.report(ref, seen, summary)
    return { ...progress, seen }
  }

  private report ({ request, n }: RecipientRef, { state }: Seen, summary: AttemptSummary): void {
    const { email, recipients } = request.fact.data
    const { transaction: { host, ms, route = null }, ...rest } = summary
    const domain = domainOf(recipients[n]!.address)
    const entry = { email, n, ...rest, domain, host, route, durationMs: ms, next: state.nextAttemptAt }
    // A refusal that is about us is for the operator to mend, not the recipient's fault.
    if (isOperators(entry.class)) this.options.log.warn(entry, 'smtp attempt: the receiver refuses us')
    else this.options.log.info(entry, 'smtp attempt')
    this.options.onAttempt(entry)
  }
}
