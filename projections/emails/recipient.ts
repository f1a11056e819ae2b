import type { Recorded } from '#streams/define.ts'
import { ERASED } from '#streams/address.ts'
import { isErased, isEngagement, pastOf } from '#streams/email/erase.ts'
import type { EmailErased, EngagementFact, RecipientFact } from '#streams/email/facts.ts'
import type { RecipientStatus } from '#streams/email/state.ts'
import { fold, pick } from '../fold.ts'
import type { RequestedEmail } from './requested.ts'

/** What one fact, or several of one recipient, say about its row. Times RFC 3339; sequences are of EMAILS, 0 = none
 *  yet. */
export interface RecipientRowChange {
  email: string
  n: number
  account: string
  address: string
  request_seq: number
  status: RecipientStatus
  status_seq: number
  attempts: number
  reply_seq: number
  scheduled_seq: number
  /** The person is forgotten: no address, no name, no words of servers. */
  erased: boolean
  scheduled_at?: string | null
  name?: string | null
  kind?: string
  attempted_at?: string
  delivered_at?: string
  deferred_at?: string
  bounced_at?: string
  failed_at?: string
  in_doubt_at?: string
  suppressed_at?: string
  canceled_at?: string
  opened_at?: string
  clicked_at?: string
  complained_at?: string
  unsubscribed_at?: string
  next_attempt_at?: string | null
  wake_at?: string | null
  smtp_code?: number | null
  enhanced_code?: string | null
  response?: string | null
  host?: string | null
  error?: string | null
}

/** The columns that follow the fact with the highest sequence together, the last one that set a time, and the last
 *  answer of a server. */
const WITH_STATUS = ['status_seq', 'status', 'next_attempt_at', 'wake_at'] as const
const WITH_SCHEDULE = ['scheduled_seq', 'scheduled_at'] as const
const WITH_REPLY = ['reply_seq', 'smtp_code', 'enhanced_code', 'response', 'host', 'error'] as const

/** The recipients of a request, nothing done yet. */
export function unseen ({ email, account, recipients, scheduledAt, request }: RequestedEmail): RecipientRowChange[] {
  return recipients.map(({ address, name, kind }, n) => ({
    email,
    n,
    account,
    address,
    name,
    kind,
    request_seq: request,
    status: scheduledAt === null ? 'queued' : 'scheduled',
    ...dueAt(scheduledAt),
    scheduled_at: scheduledAt,
    scheduled_seq: 0,
    status_seq: 0,
    attempts: 0,
    reply_seq: 0,
    erased: isErased(address)
  }))
}

const ENGAGED_AT = {
  'email.opened': 'opened_at',
  'email.clicked': 'clicked_at',
  'email.complained': 'complained_at',
  'email.unsubscribed': 'unsubscribed_at'
} as const

/** What a fact of EMAILS changes. */
export function changeOf (recorded: Recorded<RecipientFact | EngagementFact>): RecipientRowChange {
  const { fact, seq } = recorded
  const { email, n, to, request } = fact.data
  const common = {
    email,
    n,
    account: fact.account,
    address: to,
    request_seq: request,
    status_seq: seq,
    attempts: 'attempt' in fact.data ? fact.data.attempt : 0,
    reply_seq: 0,
    scheduled_seq: -1,
    erased: isErased(to)
  }
  if (!isEngagement(fact)) return { ...common, ...outcomeOf(fact, seq) }
  // An engagement is no status: whatever else is known of the recipient goes before it.
  return { ...common, status: 'queued', status_seq: -1, [ENGAGED_AT[fact.type]]: fact.time }
}

function outcomeOf (
  fact: RecipientFact,
  seq: number
): Pick<RecipientRowChange, 'status'> & Partial<RecipientRowChange> {
  const { time } = fact
  switch (fact.type) {
    case 'email.attempted':
      // REQUESTS redelivers its own job until it is settled. One that came by schedule may be lost with its worker:
      // then the end of the lease is when somebody must look.
      return { status: 'sending', attempted_at: time, wake_at: fact.data.due ? fact.data.leaseUntil : null }
    case 'email.delivered':
      return { status: 'delivered', delivered_at: time, ...replyOf(fact.data, seq) }
    case 'email.deferred':
      return { status: 'deferred', deferred_at: time, ...dueAt(fact.data.nextAttemptAt), ...replyOf(fact.data, seq) }
    case 'email.bounced':
      return { status: 'bounced', bounced_at: time, ...replyOf(fact.data, seq) }
    case 'email.failed':
      return { status: 'failed', failed_at: time }
    case 'email.in_doubt':
      return { status: 'in_doubt', in_doubt_at: time, ...dueAt(fact.data.nextAttemptAt) }
    case 'email.suppressed':
      return { status: 'suppressed', suppressed_at: time }
    case 'email.rescheduled':
      return {
        status: 'scheduled',
        ...dueAt(fact.data.scheduledAt),
        scheduled_at: fact.data.scheduledAt,
        scheduled_seq: seq
      }
    case 'email.canceled':
      return { status: 'canceled', canceled_at: time }
    case 'email.retry_requested':
      return { status: 'queued', wake_at: time }
  }
}

/** The person is forgotten: the status stays what its facts came to, and nothing is waited for any more. */
export function erasureOf ({ fact, seq }: Recorded<EmailErased>): RecipientRowChange {
  const { email, n, request } = fact.data
  const last = pastOf(fact).findLast(({ fact }) => !isEngagement(fact))
  const status = last === undefined ? 'canceled' : changeOf(last).status
  return {
    email,
    n,
    account: fact.account,
    address: ERASED,
    request_seq: request,
    status,
    status_seq: seq,
    attempts: 0,
    reply_seq: 0,
    scheduled_seq: -1,
    erased: true
  }
}

function dueAt (time: string | null): Partial<RecipientRowChange> {
  return { next_attempt_at: time, wake_at: time }
}

type Answered = Extract<RecipientFact, { data: { reply: unknown } }>['data']

function replyOf (data: Answered, seq: number): Partial<RecipientRowChange> {
  const { reply, host } = data
  const status = 'status' in data ? data.status : null
  return {
    reply_seq: seq,
    smtp_code: reply?.code ?? null,
    enhanced_code: reply?.enhanced ?? status,
    response: reply?.text ?? null,
    host,
    error: 'error' in data ? data.error : null
  }
}

/** One change a recipient. */
export function foldChanges (changes: RecipientRowChange[]): RecipientRowChange[] {
  return fold(changes, change => `${change.email}.${change.n}`, merge)
}

/** The same law as the upsert's, so that it does not matter how facts were batched. */
function merge (a: RecipientRowChange, b: RecipientRowChange): RecipientRowChange {
  const erased = a.erased || b.erased
  const merged = mergeTold(a, b)
  return erased ? { ...merged, erased, address: (a.erased ? a : b).address, ...NOTHING_PERSONAL } : merged
}

const NOTHING_PERSONAL = { name: null, response: null, host: null, error: null }

function mergeTold (a: RecipientRowChange, b: RecipientRowChange): RecipientRowChange {
  return {
    ...a,
    ...pick(b.status_seq > a.status_seq ? b : a, WITH_STATUS),
    ...pick(b.reply_seq > a.reply_seq ? b : a, WITH_REPLY),
    ...pick(b.scheduled_seq > a.scheduled_seq ? b : a, WITH_SCHEDULE),
    name: a.name ?? b.name,
    kind: a.kind ?? b.kind,
    request_seq: Math.max(a.request_seq, b.request_seq),
    attempts: Math.max(a.attempts, b.attempts),
    attempted_at: later(a.attempted_at, b.attempted_at),
    delivered_at: later(a.delivered_at, b.delivered_at),
    deferred_at: later(a.deferred_at, b.deferred_at),
    bounced_at: later(a.bounced_at, b.bounced_at),
    failed_at: later(a.failed_at, b.failed_at),
    in_doubt_at: later(a.in_doubt_at, b.in_doubt_at),
    suppressed_at: later(a.suppressed_at, b.suppressed_at),
    canceled_at: later(a.canceled_at, b.canceled_at),
    opened_at: earlier(a.opened_at, b.opened_at),
    clicked_at: earlier(a.clicked_at, b.clicked_at),
    complained_at: earlier(a.complained_at, b.complained_at),
    unsubscribed_at: earlier(a.unsubscribed_at, b.unsubscribed_at)
  }
}

/** Of two times in the facts' one form, the later. */
function later (a: string | undefined, b: string | undefined): string | undefined {
  if (a === undefined || b === undefined) return a ?? b
  return a > b ? a : b
}

/** Engagements tell when it happened first. */
function earlier (a: string | undefined, b: string | undefined): string | undefined {
  if (a === undefined || b === undefined) return a ?? b
  return a < b ? a : b
}
