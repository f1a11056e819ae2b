import { domainOf } from '#streams/address.ts'
import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { isErased, pastOf } from '#streams/email/erase.ts'
import type { EmailErased, EngagementFact, RecipientFact } from '#streams/email/facts.ts'
import { subjects } from '#streams/subjects.ts'
import { floorId } from '#src/base/id.ts'
import { given, givenNew, sql, type Projection, type Sql } from '../define.ts'
import { fold } from '../fold.ts'
import { requestedIn, type RequestedEmail } from './requested.ts'
import { mailboxText } from './mailbox.ts'
import { changeOf, erasureOf, foldChanges, unseen, type RecipientRowChange } from './recipient.ts'
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
    ...(requests.length === 0 ? [] : [insertEmails(requests)]),
    upsertRecipients(foldChanges([...requests.flatMap(unseen), ...outcomes.map(changeOf), ...erased.map(erasureOf)])),
    ...(outcomes.length + erased.length === 0
      ? []
      : [insertTimeline([...outcomes.map(timelineRow), ...erased.map(erasureRow)])]),
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

/** Of two words about an email the one that knows of more erased recipients holds, and of those the one with the later
 *  request; else they say the same. */
function insertEmails (requests: RequestedEmail[]): Sql {
  return sql`
    insert into emails as old (id, account, key, test, from_address, from_name, from_domain, to_list, cc_list,
      bcc_list, reply_to_list, subject, headers, attachments, template, template_version, track_opens,
      track_clicks, unsubscribe, tags, metadata, created_at, request_seq, search, erased)
    select id, account, key, test, from_address, from_name, from_domain, to_list, cc_list, bcc_list, reply_to_list,
      subject, headers, attachments, template, template_version, track_opens, track_clicks, unsubscribe,
      tags, metadata, created_at, request_seq, search, erased
    from ${givenNew('emails', fold(requests.map(emailRow), ({ id }) => id, latest))}
    order by id
    on conflict (id) do update set to_list = excluded.to_list, cc_list = excluded.cc_list,
      bcc_list = excluded.bcc_list, reply_to_list = excluded.reply_to_list,
      subject = excluded.subject, headers = excluded.headers, attachments = excluded.attachments,
      metadata = excluded.metadata, request_seq = excluded.request_seq,
      search = excluded.search, erased = excluded.erased
    where (excluded.erased, excluded.request_seq) > (old.erased, old.request_seq)`
}

function latest<Row extends { erased: number, request_seq: number }> (a: Row, b: Row): Row {
  return b.erased > a.erased || (b.erased === a.erased && b.request_seq > a.request_seq) ? b : a
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

/** Columns follow the highest sequence or the latest time, whichever order the facts come in. */
function upsertRecipients (changes: RecipientRowChange[]): Sql {
  return sql`
    insert into recipients as old (email, n, account, address, name, kind, request_seq, status, status_seq, attempts,
      attempted_at, delivered_at, deferred_at, bounced_at, failed_at, in_doubt_at, suppressed_at, canceled_at,
      opened_at, clicked_at, complained_at, unsubscribed_at, next_attempt_at, wake_at, scheduled_at, scheduled_seq,
      reply_seq, smtp_code, enhanced_code, response, host, error, erased)
    select email, n, account, address, name, kind, request_seq, status, status_seq, attempts,
      attempted_at, delivered_at, deferred_at, bounced_at, failed_at, in_doubt_at, suppressed_at, canceled_at,
      opened_at, clicked_at, complained_at, unsubscribed_at, next_attempt_at, wake_at, scheduled_at, scheduled_seq,
      reply_seq, smtp_code, enhanced_code, response, host, error, erased
    from ${given('recipients', changes)}
    order by email, n
    on conflict (email, n) do update set
      address = case when excluded.erased then excluded.address else old.address end,
      name = case when old.erased or excluded.erased then null else coalesce(old.name, excluded.name) end,
      kind = coalesce(old.kind, excluded.kind),
      request_seq = greatest(old.request_seq, excluded.request_seq),
      attempts = greatest(old.attempts, excluded.attempts),
      attempted_at = greatest(old.attempted_at, excluded.attempted_at),
      delivered_at = greatest(old.delivered_at, excluded.delivered_at),
      deferred_at = greatest(old.deferred_at, excluded.deferred_at),
      bounced_at = greatest(old.bounced_at, excluded.bounced_at),
      failed_at = greatest(old.failed_at, excluded.failed_at),
      in_doubt_at = greatest(old.in_doubt_at, excluded.in_doubt_at),
      suppressed_at = greatest(old.suppressed_at, excluded.suppressed_at),
      canceled_at = greatest(old.canceled_at, excluded.canceled_at),
      opened_at = least(old.opened_at, excluded.opened_at),
      clicked_at = least(old.clicked_at, excluded.clicked_at),
      complained_at = least(old.complained_at, excluded.complained_at),
      unsubscribed_at = least(old.unsubscribed_at, excluded.unsubscribed_at),
      status = case when excluded.status_seq > old.status_seq then excluded.status else old.status end,
      next_attempt_at = case when excluded.status_seq > old.status_seq then excluded.next_attempt_at
        else old.next_attempt_at end,
      wake_at = case when excluded.status_seq > old.status_seq then excluded.wake_at else old.wake_at end,
      status_seq = greatest(old.status_seq, excluded.status_seq),
      scheduled_at = case when excluded.scheduled_seq > old.scheduled_seq then excluded.scheduled_at
        else old.scheduled_at end,
      scheduled_seq = greatest(old.scheduled_seq, excluded.scheduled_seq),
      smtp_code = case when excluded.reply_seq > old.reply_seq then excluded.smtp_code else old.smtp_code end,
      enhanced_code = case when excluded.reply_seq > old.reply_seq then excluded.enhanced_code
        else old.enhanced_code end,
      response = case when old.erased or excluded.erased then null
        when excluded.reply_seq > old.reply_seq then excluded.response else old.response end,
      host = case when old.erased or excluded.erased then null
        when excluded.reply_seq > old.reply_seq then excluded.host else old.host end,
      error = case when old.erased or excluded.erased then null
        when excluded.reply_seq > old.reply_seq then excluded.error else old.error end,
      reply_seq = greatest(old.reply_seq, excluded.reply_seq),
      erased = old.erased or excluded.erased
    -- A record says again what the request has said: nothing to write, and nothing for the server to tidy up.
    where excluded.status_seq <> 0 or old.kind is null or excluded.erased and not old.erased
      or excluded.request_seq > old.request_seq
      or coalesce(excluded.opened_at, excluded.clicked_at, excluded.complained_at,
        excluded.unsubscribed_at) is not null`
}

function insertTimeline (rows: TimelineRow[]): Sql {
  return sql`
    insert into timeline as old (email, seq, n, id, type, time, data, erased)
    select email, seq, n, id, type, time, data, erased
    from ${givenNew('timeline', fold(rows, ({ email, seq }) => `${email}.${seq}`, (a, b) => (b.erased ? b : a)))}
    order by email, seq
    on conflict (email, seq) do update set data = excluded.data, erased = true where excluded.erased and not old.erased`
}

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
