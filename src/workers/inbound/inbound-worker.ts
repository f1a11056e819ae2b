import { decodeFact } from '#streams/catalog.ts'
import type { InboundReceived, InboundReported } from '#streams/inbound/facts.ts'
import { consumerPlans, type ConsumerPlan } from '#streams/topology.ts'
import type { FactLog } from '#src/actions/fact-log.ts'
import { recipientRefOf } from '#src/actions/recipient.ts'
import type { Log } from '#src/base/log.ts'
import type { Role } from '#src/base/role.ts'
import type { Tokens } from '#src/content/token.ts'
import type { BounceReport } from '#src/feedback/report.ts'
import { work, type Job } from '#src/nats/work.ts'
import { effectOf, namedRecipients, type NamedRecipient } from './effect.ts'
import { recordEffect, type InboundOutcome, type RecordResult } from './record.ts'
import { ReportReader, type ReaderOptions } from './reader.ts'
import { recordStatement } from './statement.ts'

/** `kind` as it was read; `class` = why it bounced, null when it did not. */
export interface InboundReport {
  kind: BounceReport['kind'] | 'unread'
  class: string | null
  outcome: InboundOutcome
}

export interface InboundWorkerOptions {
  factLog: FactLog
  tokens: Pick<Tokens, 'read'>
  /** Recreates the consumer when it is missing on the server. */
  repair: (plan: ConsumerPlan) => Promise<boolean>
  log: Log
  onMail?: (mail: InboundReport) => void
  /** A relay's report. */
  onReport?: (provider: string, report: InboundReport) => void
  reader?: ReaderOptions
  /** Between a mail that cannot be read and its second and last try. */
  rereadMs?: number
}

/** Mails in progress at once; they are read in turn, so this is for the waits on NATS. */
const CONCURRENCY = 8
/** A mail whose recipient is being sent to is retried: after as long as it has waited so far, within these bounds. That
 *  ends with the claim, or when a report counts whatever the outcome is. */
const CLAIM_RETRY_MS = 2000
const CLAIM_RETRY_MS_MAX = 30_000
/** The machine may have been too busy to read a mail the first time. */
const REREAD_MS = 30_000
const UNREAD_MAX = consumerPlans.inbound.max_ack_pending
const HINTS_MAX = 5
const UNREADABLE: InboundReport = { kind: 'unread', class: null, outcome: 'unreadable' }

export function startInboundWorker (options: InboundWorkerOptions): Role {
  return new InboundWorker(options)
}

/** Reads the mail that came in and what relays report, and records what they say of our recipients. Each is
 * acknowledged once its effect is in the log; a redelivery finds it there. */
class InboundWorker implements Role {
  readonly name = 'inbound'
  private readonly options: InboundWorkerOptions
  private readonly reader: ReportReader
  private readonly worker: Role
  /** Sequences of mails that could not be read here: a mail is redelivered for other reasons too. The oldest give way
   *  to new ones, as another worker may have settled them. */
  private readonly unread = new Set<number>()

  constructor (options: InboundWorkerOptions) {
    this.options = options
    this.reader = new ReportReader(options.reader)
    this.worker = work(options.factLog.bus, {
      plan: consumerPlans.inbound,
      name: 'inbound',
      concurrency: CONCURRENCY,
      repair: options.repair,
      handle: job => this.handle(job),
      onError: error => options.log.warn({ err: error }, 'inbound worker interrupted; retrying')
    })
  }

  unhealthyReason (): string | null {
    return this.worker.unhealthyReason()
  }

  async stop (): Promise<void> {
    await this.worker.stop()
    await this.reader.stop()
  }

  private async handle (job: Job): Promise<void> {
    const { type, data, time } = decodeFact(job.bytes) as InboundReceived | InboundReported
    if (type === 'inbound.reported') return await this.handleReport(job, data, time)
    const report = await this.reader.read(asDelivered(data)).catch((error: Error) => error)
    if (report instanceof Error) {
      const isLast = this.retryOnce(job, data, report)
      if (isLast) this.options.onMail?.(UNREADABLE)
      return
    }
    const recipients = namedRecipients(data.to, report.evidence, this.options.tokens)
    if (recipients.length === 0) this.report(data, report, { outcome: 'no_token' }, { hints: hintsIn(report) })
    let isClaimed = false
    for (const recipient of recipients) {
      const result = await this.record(data, report, recipient)
      if (result === null) isClaimed = true
      else this.report(data, report, result, { email: recipient.pointer.email, n: recipient.pointer.n })
    }
    this.settle(job, time, isClaimed)
  }

  /** What a relay says of one recipient. */
  private async handleReport (job: Job, data: InboundReported['data'], time: string): Promise<void> {
    const { log, onReport = () => {} } = this.options
    const { inbound, source, provider } = data
    const report = await this.reader.read(data).catch((error: Error) => error)
    if (report instanceof Error) {
      if (this.retryOnce(job, data, report)) onReport(provider, UNREADABLE)
      return
    }
    const result = await recordStatement(this.options, data, report)
    if (result !== null) {
      const { outcome, class: why = null, ref } = result
      const named = ref === null ? { hints: hintsIn(report) } : { email: ref.request.fact.data.email, n: ref.n }
      log.info({ inbound, source, provider, kind: data.kind, outcome, class: why, ...named }, 'relay report')
      onReport(provider, { kind: report.kind, class: why, outcome })
    }
    this.settle(job, time, result === null)
  }

  private settle (job: Job, time: string, isClaimed: boolean): void {
    this.unread.delete(job.seq)
    if (isClaimed) job.retryAfter(this.claimRetryMs(time))
    else job.ack()
  }

  /** null = not now: the outcome of a transaction comes first. */
  private async record (
    { inbound }: InboundReceived['data'],
    report: BounceReport,
    { pointer, unsubscribes }: NamedRecipient
  ): Promise<RecordResult | null> {
    const { factLog } = this.options
    const ref = await recipientRefOf(factLog, pointer, true)
    if (ref === null) return { outcome: 'unknown' }
    const { address } = ref.request.fact.data.recipients[ref.n]!
    return await recordEffect(factLog, ref, effectOf({ inbound, report, unsubscribes, address }))
  }

  private claimRetryMs (receivedAt: string): number {
    const waitedMs = this.options.factLog.clock.nowMs() - Date.parse(receivedAt)
    return Math.min(Math.max(waitedMs, CLAIM_RETRY_MS), CLAIM_RETRY_MS_MAX)
  }

  /** True when it was the last time. */
  private retryOnce (job: Job, { inbound }: { inbound: string }, error: Error): boolean {
    const { log, rereadMs = REREAD_MS } = this.options
    const last = this.unread.delete(job.seq)
    const text = last ? 'inbound mail cannot be read; skipped' : 'inbound mail cannot be read; retrying once'
    log.warn({ err: error, inbound, last }, text)
    if (last) {
      job.ack()
      return true
    }
    if (this.unread.size >= UNREAD_MAX) this.unread.delete(this.unread.values().next().value!)
    this.unread.add(job.seq)
    job.retryAfter(rereadMs)
    return false
  }

  /** Ids of ours only: what others wrote stays in the mail. */
  private report (
    { inbound, remote, sizeBytes }: InboundReceived['data'],
    { kind }: BounceReport,
    { outcome, class: bounceClass = null }: RecordResult,
    more: object
  ): void {
    const { log, onMail = () => {} } = this.options
    log.info({ inbound, remote, sizeBytes, kind, outcome, class: bounceClass, ...more }, 'inbound mail')
    onMail({ kind, class: bounceClass, outcome })
  }
}

/** With the field that final delivery adds (RFC 5321 4.4): a null sender is the surest sign of a bounce, and only the
 *  envelope has it. */
function asDelivered ({ from, raw }: InboundReceived['data']): Buffer {
  const mail = Buffer.from(raw, 'base64')
  // Without a header, a field would make one.
  return /^(\r?\n|>?From )/.test(mail.toString('latin1', 0, 8))
    ? mail
    : Buffer.concat([Buffer.from(`Return-Path: <${from}>\r\n`), mail])
}

/** Emails of ours that a mail without a token names, for the operator. */
function hintsIn ({ evidence }: BounceReport): string[] {
  return evidence.messageIds.slice(0, HINTS_MAX).flatMap(id => /em_[0-9a-z]{26}\.\d{1,2}/.exec(id)?.[0] ?? [])
}
