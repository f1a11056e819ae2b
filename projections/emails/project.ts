import { domainOf } from '#streams/address.ts'
import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { isErased, pastOf } from '#streams/email/erase.ts'
import type { EmailErased, EngagementFact, RecipientFact } from '#streams/email/facts.ts'
import { subjects } from '#streams/subjects.ts'
import { floorId } from '#src/base/id.ts'
import { sql, type Projection, type Sql } from '../define.ts'
import { laws, table } from '../table.ts'
import { requestedIn, mailboxText, type RequestedEmail } from './requested.ts'
import { changeOf, erasureOf, recipientTable, unseen } from './recipient.ts'
import { rollUp } from './status.ts'

/** What was asked and what became of it: the rows behind GET /api/emails. Holds no content of mail. */
export const emails: Projection = {
  name: 'emails',
  version: 1,
  streams: [
    {
      stream: 'REQUESTS',
      filter: 'request.>',
      partition: partition => `request.${partition}.>`,
      rerecorded: {
        stream: 'EMAILS',
        subject: subjects.record,
        upTo: fact => (fact.type === 'email.recorded' ? fact.data.request : 0)
      }
    },
    { stream: 'EMAILS', filter: 'email.>', partition: partition => `email.${partition}.>` }
  ],
  aging: {
    stream: 'EMAILS',
    rows: horizonMs => {
      const floor = floorId('em', horizonMs)
      return {
        emails: sql`id < ${floor}`,
        email_states: sql`id < ${floor}`,
        recipients: sql`email < ${floor}`,
        timeline: sql`email < ${floor}`
      }
    }
  },
  project
}

function project (facts: readonly Recorded<AnyFact>[]): Sql[] {
  const requests = facts.flatMap(requestedIn)
  const erased = facts.filter(isErasure)
  const outcomes = [...facts.filter(isOutcome), ...erased.flatMap(({ fact }) => pastOf(fact))]
  if (requests.length + outcomes.length + erased.length === 0) return []
  const touched = new Set([
    ...requests.map(({ email }) => email),
    ...[...outcomes, ...erased].map(({ fact }) => fact.data.email)
  ])
  return [
    ...emailTable.upsert(requests.map(emailRow)),
    ...recipientTable.upsert([...requests.flatMap(unseen), ...outcomes.map(changeOf), ...erased.map(erasureOf)]),
    ...timelineTable.upsert([...outcomes.map(timelineRow), ...erased.map(erasureRow)]),
    upsertStates([...touched].sort())
  ]
}

/** Beside the marks it says only that there will be no more. */
export function isErasure (recorded: Recorded<AnyFact>): recorded is Recorded<EmailErased> {
  return recorded.fact.type === 'email.erased' && !recorded.subject.endsWith('.engagement')
}

export function isOutcome (recorded: Recorded<AnyFact>): recorded is Recorded<RecipientFact | EngagementFact> {
  return 'sequence' in recorded.fact.data && recorded.fact.type !== 'email.erased'
}

export function emailRow (asked: RequestedEmail) {
  const {
    email,
    account,
    key,
    test,
    from,
    recipients,
    replyTo,
    subject,
    headers,
    attachments,
    template,
    track,
    unsubscribe,
    tags,
    metadata,
    at,
    request
  } = asked
  const listOf = (kind: string) => recipients.filter(recipient => recipient.kind === kind).map(mailboxText)
  return {
    id: email,
    account,
    key,
    test,
    from_address: from.address,
    from_name: from.name,
    from_domain: domainOf(from.address),
    to_list: listOf('to'),
    cc_list: listOf('cc'),
    bcc_list: listOf('bcc'),
    reply_to_list: replyTo.map(mailboxText),
    subject,
    headers,
    attachments: attachments.map(({ filename, contentType, contentId, sizeBytes }) => ({
      filename,
      content_type: contentType,
      content_id: contentId,
      size_bytes: sizeBytes
    })),
    template: template?.id ?? null,
    template_version: template?.version ?? null,
    track_opens: track.opens,
    track_clicks: track.clicks,
    unsubscribe,
    tags,
    metadata,
    created_at: at,
    request_seq: request,
    search: [subject, mailboxText(from), ...recipients.map(mailboxText)].join('\n'),
    erased: recipients.filter(({ address }) => isErased(address)).length
  }
}

/** The columns of `emails`, by a request or its record; `created_at` RFC 3339. */
export type EmailChange = ReturnType<typeof emailRow>

/** Of two words about an email the one that knows of more erased recipients holds, and of those the one with the later
 *  request; else they say the same. */
const latest = laws<EmailChange>().by('erased', 'request_seq')

export const emailTable = table<EmailChange>('emails', ['id'], {
  id: null,
  account: null,
  key: null,
  test: null,
  from_address: null,
  from_name: latest,
  from_domain: null,
  to_list: latest,
  cc_list: latest,
  bcc_list: latest,
  reply_to_list: latest,
  subject: latest,
  headers: latest,
  attachments: latest,
  template: null,
  template_version: null,
  track_opens: null,
  track_clicks: null,
  unsubscribe: null,
  tags: latest,
  metadata: latest,
  created_at: null,
  request_seq: latest,
  search: latest,
  erased: latest
}, { where: '(excluded.erased, excluded.request_seq) > (old.erased, old.request_seq)', areNew: true })

export function timelineRow ({ fact, seq }: Recorded<RecipientFact | EngagementFact>) {
  // What has a column of its own stays out of `data`, and so do the event's bytes: they lie in the log.
  const data = { ...fact.data, email: undefined, n: undefined, event: undefined }
  return {
    email: fact.data.email,
    seq,
    n: fact.data.n,
    id: fact.id,
    type: fact.type,
    time: fact.time,
    data,
    erased: isErased(fact.data.to)
  }
}

type TimelineRow = ReturnType<typeof timelineRow> | ReturnType<typeof erasureRow>

/** That the person was forgotten, and by which erasure: its own entry. */
export function erasureRow ({ fact, seq }: Recorded<EmailErased>) {
  const { email, n, to, request, sequence, erasure } = fact.data
  return {
    email,
    seq,
    n,
    id: fact.id,
    type: fact.type,
    time: fact.time,
    data: { to, request, sequence, erasure },
    erased: true
  }
}

const { by, max } = laws<TimelineRow>()

export const timelineTable = table<TimelineRow>('timeline', ['email', 'seq'], {
  email: null,
  seq: null,
  n: null,
  id: null,
  type: null,
  time: null,
  data: by('erased'),
  erased: max
}, { where: 'excluded.erased and not old.erased', areNew: true })

/** Only emails whose request is seen have a state: facts that came before it are counted when it comes. */
function upsertStates (touched: string[]): Sql {
  return sql`
    insert into email_states as old (id, account, created_at, status, events, scheduled_at)
    select emails.id, emails.account, emails.created_at, state.status, state.events, state.scheduled_at
    from emails join (
      select email, ${rollUp} as status, array_remove(array[
        case when bool_or(delivered_at is not null) then 'email.delivered' end,
        case when bool_or(coalesce(bounced_at, deferred_at, failed_at) is not null) then 'email.bounced' end,
        case when bool_or(opened_at is not null) then 'email.opened' end,
        case when bool_or(clicked_at is not null) then 'email.clicked' end,
        case when bool_or(complained_at is not null) then 'email.complained' end,
        case when bool_or(unsubscribed_at is not null) then 'email.unsubscribed' end], null) as events,
        (array_agg(scheduled_at order by scheduled_seq desc))[1] as scheduled_at
      from recipients where email = any(${touched}::text[]) group by email
    ) state on state.email = emails.id
    where emails.id = any(${touched}::text[])
    order by emails.id
    on conflict (id) do update set status = excluded.status, events = excluded.events,
      scheduled_at = excluded.scheduled_at
    where (old.status, old.events, old.scheduled_at) is distinct from
      (excluded.status, excluded.events, excluded.scheduled_at)`
}
