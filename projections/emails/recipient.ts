import type { Recorded } from '#streams/define.ts'
import { ERASED } from '#streams/address.ts'
import { isErased, isEngagement, pastOf } from '#streams/email/erase.ts'
import type { EmailErased, EngagementFact, RecipientFact } from '#streams/email/facts.ts'
import { attemptIn, type RecipientStatus } from '#streams/email/state.ts'
import { laws, table } from '../table.ts'
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

const { max, min, first, by, blank } = laws<RecipientRowChange>()
const status = by('status_seq')
const schedule = by('scheduled_seq')
const reply = by('reply_seq')
const erasable = blank('erased', reply)

/** What a fact of the recipient, or its request, says of its row. */
export const recipientTable = table<RecipientRowChange>('recipients', ['email', 'n'], {
  email: null,
  n: null,
  account: null,
  address: by('erased'),
  name: blank('erased', first),
  kind: first,
  request_seq: max,
  status,
  status_seq: max,
  attempts: max,
  attempted_at: max,
  delivered_at: max,
  deferred_at: max,
  bounced_at: max,
  failed_at: max,
  in_doubt_at: max,
  suppressed_at: max,
  canceled_at: max,
  opened_at: min,
  clicked_at: min,
  complained_at: min,
  unsubscribed_at: min,
  next_attempt_at: status,
  wake_at: status,
  scheduled_at: schedule,
  scheduled_seq: max,
  reply_seq: max,
  smtp_code: reply,
  enhanced_code: reply,
  response: erasable,
  host: erasable,
  error: erasable,
  erased: max
}, {
  // A record says again what the request has said: nothing to write, and nothing for the server to tidy up.
  where: `excluded.status_seq <> 0 or old.kind is null or excluded.erased and not old.erased
    or excluded.request_seq > old.request_seq
    or coalesce(excluded.opened_at, excluded.clicked_at, excluded.complained_at, excluded.unsubscribed_at) is not null`
})

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
    attempts: attemptIn(fact),
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
  const untried = 'untried' in data ? data.untried : undefined
  return {
    reply_seq: seq,
    smtp_code: reply?.code ?? untried?.code ?? null,
    enhanced_code: reply?.enhanced ?? untried?.enhanced ?? status,
    response: reply?.text ?? null,
    host,
    error: 'error' in data ? data.error : null
  }
}
