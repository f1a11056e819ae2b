import { isErased } from '#streams/email/erase.ts'
import type { DeliveryAttempt, DeliveryRecord } from '#projections/deliveries/queries.ts'
import type { EmailRecord, TimelineEntry } from '#projections/emails/records.ts'
import { type CliCommand, misused, readArgs, usageError } from './command.ts'
import { momentMs } from './since.ts'
import { paintState, paintType } from './style.ts'
import { print } from './table.ts'
import { durationText, oneLine, pad, widthOf } from './text.ts'
import { gather, type Traced } from './trace/gather.ts'

export const trace: CliCommand = {
  usage: 'jetpost trace <email id> [--as-of <time>] [--json]',
  details:
    `  Shows what was requested, and under each recipient its facts: sequence in the stream (#), time, and how long
  after the request; under each fact the webhook deliveries of its event, with every request. Facts come from
  NATS; without PostgreSQL only the deliveries are missing.
  --as-of  as it was known then: a time like 2027-01-31T12:00:00Z, or how long ago: 1h. Deliveries are
           shown by their own times`,
  async run (args) {
    const { values: { json, 'as-of': asOf }, positionals: [id, ...more] } = readArgs(args, {
      'as-of': { type: 'string' }
    })
    if (id === undefined || more.length > 0) throw misused(trace)
    const atMs = asOf === undefined ? Infinity : momentMs('as-of', asOf)
    if (asOf !== undefined && atMs > Date.now()) throw usageError('--as-of must be in the past.')
    const traced = await gather(id, atMs)
    if (json) print([answerOf(traced)], true)
    else console.log(linesOf(treeOf(traced)).join('\n'))
  }
}

/** As the API answers, but each recipient with its facts instead of one timeline. */
function answerOf (traced: Traced) {
  const { timeline: _timeline, recipients, ...record } = traced.record
  return {
    ...record,
    recipients: recipients.map(recipient => ({
      ...recipient,
      facts: factsOf(traced, recipient.n).map(({ deliveries, ...fact }) => ({
        ...fact,
        deliveries: deliveries?.map(delivery => deliveryAnswer(delivery, traced)) ?? null
      }))
    })),
    trouble: traced.trouble
  }
}

function deliveryAnswer (delivery: DeliveryRecord, { urlOf }: Traced) {
  const { id, webhook, batch, replay, state, reason, requested_at, next_attempt_at, ended_at, tries } = delivery
  return {
    id,
    webhook,
    url: urlOf(delivery),
    state,
    reason,
    batch,
    replay,
    requested_at,
    next_attempt_at,
    ended_at,
    attempts: tries.map(attemptAnswer)
  }
}

function attemptAnswer ({ at, attempt, replay, status, error, error_kind, duration_ms }: DeliveryAttempt) {
  return { at, attempt, replay, status, error, error_kind, duration_ms }
}

type Recipient = EmailRecord['recipients'][number]

/** The request, then each recipient with its facts, and under each the webhook deliveries it led to. */
function treeOf (traced: Traced): Branch {
  const { record, trouble } = traced
  const wide = Math.max(...record.recipients.map(({ address }) => widthOf(nameOf(address))))
  return {
    text: `${record.id}  ${paintState(record.status)}  ${JSON.stringify(oneLine(record.subject))}`,
    under: [
      requestBranch(record),
      { text: 'recipients', under: record.recipients.map(recipient => recipientBranch(traced, recipient, wide)) },
      ...(trouble === null ? [] : [{ text: `webhook deliveries are unknown: ${oneLine(trouble)}` }])
    ]
  }
}

/** The fields of the request that are set. */
function requestBranch (email: EmailRecord): Branch {
  const { from, to, cc, bcc, reply_to, tags, metadata, template, scheduled_at, attachments, key_id, test } = email
  const rows: Array<[string, string]> = [
    ['from', from],
    ['to', to.map(nameOf).join(', ')],
    ['cc', cc.map(nameOf).join(', ')],
    ['bcc', bcc.map(nameOf).join(', ')],
    ['reply to', reply_to.join(', ')],
    ['template', template === null ? '' : `${template.id} version ${template.version}`],
    ['files', attachments.map(({ filename, size_bytes }) => `${filename} (${size_bytes} bytes)`).join(', ')],
    ['tags', tags.join(', ')],
    ['metadata', Object.entries(metadata).map(([name, value]) => `${name}=${value}`).join(', ')],
    ['scheduled', scheduled_at ?? ''],
    ['key', `${key_id}${test ? ' (test: to the catcher only)' : ''}`]
  ]
  return {
    text: `request  ${email.created_at}`,
    under: rows.filter(([, value]) => value !== '').map(([name, value]) => ({
      text: `${name.padEnd(9)}  ${oneLine(value)}`
    }))
  }
}

function nameOf (address: string): string {
  return isErased(address) ? '(erased)' : oneLine(address)
}

function recipientBranch (traced: Traced, recipient: Recipient, wide: number): Branch {
  const { n, kind, address, status, next_attempt_at: next } = recipient
  const facts = factsOf(traced, n)
  const widths = {
    seq: widest(facts, ({ seq }) => `#${seq}`),
    after: widest(facts, ({ after_ms: ms }) => afterText(ms)),
    type: widest(facts, ({ type }) => type)
  }
  return {
    text: [
      kind.padEnd(3),
      pad(nameOf(address), wide),
      paintState(status),
      ...(next === null ? [] : [`next attempt ${next}`])
    ].join('  '),
    under: facts.map(({ seq, after_ms: ms, deliveries, ...entry }) => ({
      text: [
        `#${seq}`.padEnd(widths.seq),
        entry.time,
        afterText(ms).padEnd(widths.after),
        paintType(entry.type, entry.type.padEnd(widths.type)),
        ...detailsOf(entry)
      ].join('  ').trimEnd(),
      under: deliveries?.map(delivery => deliveryBranch(delivery, traced.urlOf(delivery)))
    }))
  }
}

/** How long after the request. A clock that is behind the one that stamped the request makes it negative. */
function afterText (ms: number): string {
  return ms < 0 ? `-${durationText(-ms)}` : `+${durationText(ms)}`
}

function widest<T> (items: T[], textOf: (item: T) => string): number {
  return Math.max(0, ...items.map(item => textOf(item).length))
}

/** A fact of a recipient: its sequence in EMAILS, when it was stored there, how long after the request it happened, and
 *  its webhook deliveries. */
type TracedFact = TimelineEntry & {
  seq: number
  stored_at: string
  after_ms: number
  deliveries: DeliveryRecord[] | null
}

function factsOf ({ record, facts, deliveries }: Traced, n: number): TracedFact[] {
  const stored = new Map(facts.map(fact => [fact.fact.id, fact]))
  const beginMs = Date.parse(record.created_at)
  return record.timeline.filter(entry => entry.n === n).map(entry => {
    const { seq, storedMs } = stored.get(entry.id!)!
    return {
      ...entry,
      seq,
      stored_at: new Date(storedMs).toISOString(),
      after_ms: Date.parse(entry.time) - beginMs,
      deliveries: deliveries?.filter(({ events }) => events.some(({ id }) => id === entry.id)) ?? null
    }
  })
}

function deliveryBranch (delivery: DeliveryRecord, url: string): Branch {
  const { id, batch, replay, state, reason, next_attempt_at: next, tries } = delivery
  const more = [
    id,
    ...(batch ? [`in a batch of ${delivery.events.length}`] : []),
    ...(replay === null ? [] : [`replayed by ${replay}`]),
    ...(next === null ? [] : [`next ${next.toISOString()}`])
  ]
  return {
    text: [`→ ${oneLine(url)}`, paintState(reason === null ? state : `${state} (${reason})`), ...more].join('  '),
    under: tries.map(tryBranch)
  }
}

function tryBranch ({ at, attempt, replay, status, error, error_kind, duration_ms }: DeliveryAttempt): Branch {
  const what = status === null ? `${error_kind ?? 'no answer'}: ${oneLine(error ?? '')}` : String(status)
  return {
    text: [
      at.toISOString(),
      `attempt ${attempt}${replay === null ? '' : ` of ${replay}`}`,
      what,
      durationText(duration_ms)
    ]
      .join('  ')
  }
}

/** What a fact says beyond its type, in few words. */
function detailsOf (entry: TimelineEntry): string[] {
  const {
    attempt,
    response,
    error,
    class: kind,
    reason,
    detail,
    cause,
    held,
    url,
    machine,
    feedback,
    by,
    scheduled_at,
    next_attempt_at: next
  } = entry
  return [
    attempt === undefined ? null : `attempt ${attempt}`,
    replyText(entry) ?? response ?? error ?? null,
    kind ?? reason ?? feedback ?? by ?? null,
    detail ?? null,
    url ?? null,
    machine === true ? 'by a machine' : null,
    cause === undefined ? null : `the ${cause} was lost${held === true ? ', held' : ''}`,
    ...transaction(entry),
    scheduled_at === undefined ? null : `for ${scheduled_at}`,
    next == null ? null : `next attempt ${next}`
  ].filter(text => text !== null && text !== '').map(text => oneLine(text!))
}

/** A server's reply begins with its code, as a rule; after an erasure only the code is left. */
function replyText ({ smtp_code: code, enhanced_code: enhanced, response }: TimelineEntry): string | null {
  if (code == null || response?.startsWith(String(code)) === true) return null
  return [code, enhanced, response].filter(part => part != null && part !== '').join(' ')
}

/** With whom, over what and how long. Nothing where no server was asked; a bounce message does not know. */
function transaction (entry: TimelineEntry): Array<string | null> {
  const { type, report, response, host, address, stage, tls, plain, ms, route, source } = entry
  if (type === 'email.bounced' && report != null) {
    return [host == null ? 'by a report' : `by a report of ${host}`]
  }
  if (entry.untried === true || (response == null && host == null)) return []
  // Before EHLO there is no TLS to speak of.
  const isUnknown = tls === undefined || (tls === null && stage === 'connect')
  return [
    host == null ? null : [
      host,
      ...(address === undefined ? [] : [`[${address}]`]),
      ...(stage === undefined ? [] : [`at ${stage}`])
    ].join(' '),
    route === undefined ? null : `by route ${route}`,
    source === undefined ? null : `from ${source}`,
    isUnknown ? null : tls === null ? noTls(plain) : `${tls.version}${tls.verified ? '' : ', not verified'}`,
    ms === undefined ? null : durationText(ms)
  ]
}

/** A line of a tree, and what hangs on it. */
interface Branch {
  text: string
  under?: Branch[]
}

/** The tree as lines of text. */
function linesOf ({ text, under = [] }: Branch): string[] {
  return [
    text,
    ...under.flatMap((branch, i) => {
      const last = i === under.length - 1
      const [first, ...rest] = linesOf(branch)
      return [`${last ? '└─' : '├─'} ${first}`, ...rest.map(line => `${last ? '  ' : '│ '} ${line}`)]
    })
  ]
}

const PLAIN: Record<string, string> = {
  not_offered: 'not offered',
  refused: 'refused',
  broken: 'failed',
  policy: 'off'
}

function noTls (plain: string | undefined): string {
  const why = PLAIN[plain ?? '']
  return why === undefined ? 'no TLS' : `no TLS (${why})`
}
