import { decodeFact } from '#streams/catalog.ts'
import { Refusal } from '#streams/define.ts'
import type { Engagement } from '#streams/email/engagements.ts'
import type { InboundReceived } from '#streams/inbound/facts.ts'
import { consumerPlans, type ConsumerPlan } from '#streams/topology.ts'
import type { Appenders } from '#src/actions/appenders.ts'
import { recipientRefOf, recordEngagement, recordReport } from '#src/actions/recipient.ts'
import type { Log } from '#src/base/log.ts'
import type { Role } from '#src/base/role.ts'
import type { Tokens } from '#src/content/token.ts'
import type { Report } from '#src/feedback/report.ts'
import { work, type Job } from '#src/nats/work.ts'
import { aboutWhom, type About } from './about.ts'
import { whatFollows } from './follows.ts'
import { createReader, type ReaderOptions } from './read.ts'

/** What became of a mail, for one recipient it is about: a fact; `nothing_new` = said before, or of a recipient it
 *  cannot be said of; `nothing` = it leads to nothing by its kind; `no_token` = nobody knows whose; `unknown` = the
 *  recipient is gone from the log. */
export type MailOutcome =
  | 'bounced'
  | 'complained'
  | 'unsubscribed'
  | 'nothing_new'
  | 'nothing'
  | 'no_token'
  | 'unknown'
  | 'unreadable'

/** `kind` as it was read; `class` = why it bounced, null when it did not. */
export interface MailReport {
  kind: Report['kind'] | 'unread'
  class: string | null
  outcome: MailOutcome
}

interface Became {
  outcome: MailOutcome
  class?: string | null
}

export interface InboundWorkerOptions {
  appenders: Appenders
  tokens: Pick<Tokens, 'read'>
  /** Makes the consumer again when it is gone from the server. */
  repair: (plan: ConsumerPlan) => Promise<boolean>
  log: Log
  onMail?: (mail: MailReport) => void
  reader?: ReaderOptions
  /** Between a mail that could not be read and its second and last try. */
  rereadMs?: number
}

/** Mails under way at once; they are read in turn, so this is for the waits on NATS. */
const CONCURRENCY = 8
/** Until a mail whose recipient is being sent to is looked at again: as long as it has waited so far, within these. It
 *  ends with the claim, or when a report counts whatever became of it. */
const CLAIM_LOOK_MS = 2000
const CLAIM_LOOK_MS_MAX = 30_000
/** Between a mail that could not be read and its second and last try: the machine may have been too busy the first
 *  time. */
const REREAD_MS = 30_000
const UNREAD_MAX = consumerPlans.inbound.max_ack_pending
const HINTS_MAX = 5

/** Reads the mail that came in, and records what it says of our recipients, until stopped. A mail is acknowledged once
 *  what it led to is in the log; when it comes again, the log says that already. */
export function startInboundWorker (
  { appenders, tokens, repair, log, onMail = () => {}, reader: readerOptions, rereadMs = REREAD_MS }:
    InboundWorkerOptions
): Role {
  const reader = createReader(readerOptions)
  /** Sequences of mails that could not be read here: a mail comes again for other reasons too. The oldest give way to
   *  new ones, as another worker may have settled them. */
  const unread = new Set<number>()

  async function handle (job: Job): Promise<void> {
    const { data, time } = decodeFact(job.bytes) as InboundReceived
    const report = await reader.read(asDelivered(data)).catch((error: Error) => error)
    if (report instanceof Error) return unreadable(job, data, report)
    const about = aboutWhom(data.to, report.evidence, tokens)
    if (about.length === 0) tell(data, report, { outcome: 'no_token' }, { hints: hintsIn(report) })
    let claimed = false
    for (const one of about) {
      const became = await record(data, report, one)
      if (became === null) claimed = true
      else tell(data, report, became, { email: one.pointer.email, n: one.pointer.n })
    }
    unread.delete(job.seq)
    if (claimed) job.retryAfter(lookAgainMs(time))
    else job.ack()
  }

  /** null = not now: the outcome of a transaction comes first. */
  async function record (
    { inbound }: InboundReceived['data'],
    report: Report,
    { pointer, asked }: About
  ): Promise<Became | null> {
    const ref = await recipientRefOf(appenders, pointer)
    if (ref === null) return { outcome: 'unknown' }
    const { address } = ref.request.fact.data.recipients[ref.n]!
    const follows = whatFollows({ inbound, report, asked, address })
    if (follows === null) return { outcome: 'nothing' }
    if ('engagement' in follows) {
      return {
        outcome: await recordEngagement(appenders, ref, follows.engagement)
          ? engagementOutcome(follows.engagement)
          : 'nothing_new'
      }
    }
    const recorded = await recordReport(appenders, ref, follows.report)
    if (recorded instanceof Refusal) return null
    return recorded.stored ? { outcome: 'bounced', class: follows.report.class } : { outcome: 'nothing_new' }
  }

  function lookAgainMs (keptAt: string): number {
    return Math.min(Math.max(appenders.clock.nowMs() - Date.parse(keptAt), CLAIM_LOOK_MS), CLAIM_LOOK_MS_MAX)
  }

  function unreadable (job: Job, { inbound, sizeBytes }: InboundReceived['data'], error: Error): void {
    const last = unread.delete(job.seq)
    log.warn({ err: error, inbound, sizeBytes, last }, 'inbound mail could not be read')
    if (!last) return readAgain(job)
    onMail({ kind: 'unread', class: null, outcome: 'unreadable' })
    job.ack()
  }

  function readAgain ({ seq, retryAfter }: Job): void {
    if (unread.size >= UNREAD_MAX) unread.delete(unread.values().next().value!)
    unread.add(seq)
    retryAfter(rereadMs)
  }

  /** Ids of ours only: what strangers wrote stays in the mail. */
  function tell (
    { inbound, remote, sizeBytes }: InboundReceived['data'],
    { kind }: Report,
    { outcome, class: why = null }: Became,
    more: object
  ): void {
    log.info({ inbound, remote, sizeBytes, kind, outcome, class: why, ...more }, 'inbound mail')
    onMail({ kind, class: why, outcome })
  }

  const role = work(appenders.bus, {
    plan: consumerPlans.inbound,
    name: 'inbound',
    concurrency: CONCURRENCY,
    repair,
    handle,
    onError: error => log.warn({ err: error }, 'inbound interrupted')
  })
  return {
    name: 'inbound',
    unhealthyReason: () => role.unhealthyReason(),
    async stop () {
      await role.stop()
      await reader.stop()
    }
  }
}

/** With the field that final delivery adds (RFC 5321 4.4): a null sender is the surest sign of a bounce, and only the
 *  envelope knew it. */
function asDelivered ({ from, raw }: InboundReceived['data']): Buffer {
  const mail = Buffer.from(raw, 'base64')
  // Where there is no header to begin with, a field would make one.
  return /^(\r?\n|>?From )/.test(mail.toString('latin1', 0, 8))
    ? mail
    : Buffer.concat([Buffer.from(`Return-Path: <${from}>\r\n`), mail])
}

function engagementOutcome ({ type }: Engagement): MailOutcome {
  return type === 'email.complained' ? 'complained' : 'unsubscribed'
}

/** Emails of ours that a mail without a token names, for an operator to look up. */
function hintsIn ({ evidence }: Report): string[] {
  return evidence.messageIds.slice(0, HINTS_MAX).flatMap(id => /em_[0-9a-z]{26}\.\d{1,2}/.exec(id)?.[0] ?? [])
}
