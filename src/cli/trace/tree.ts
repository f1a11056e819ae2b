import type { DeliveryAttempt, DeliveryRecord } from '#projections/deliveries/queries.ts'
import type { EmailRecord, TimelineEntry } from '#projections/emails/records.ts'
import { isErased } from '#streams/email/erase.ts'
import { paintState, paintType } from '../style.ts'
import { durationText, oneLine, pad, widthOf } from '../text.ts'
import type { Branch } from './branch.ts'
import type { Traced } from './gather.ts'
import { detailsOf } from './details.ts'

type Recipient = EmailRecord['recipients'][number]

/** The request, then each recipient with its facts, and under each the webhook deliveries it led to. */
export function treeOf (traced: Traced): Branch {
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
export type TracedFact = TimelineEntry & {
  seq: number
  stored_at: string
  after_ms: number
  deliveries: DeliveryRecord[] | null
}

export function factsOf ({ record, facts, deliveries }: Traced, n: number): TracedFact[] {
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
  const { id, batch, replay, state, reason, nextAttemptAt: next, tries } = delivery
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

function tryBranch ({ at, attempt, replay, status, error, errorKind, durationMs }: DeliveryAttempt): Branch {
  const what = status === null ? `${errorKind ?? 'no answer'}: ${oneLine(error ?? '')}` : String(status)
  return {
    text: [
      at.toISOString(),
      `attempt ${attempt}${replay === null ? '' : ` of ${replay}`}`,
      what,
      durationText(durationMs)
    ]
      .join('  ')
  }
}
