import { ERASED } from '../address.ts'
import { checkFact, upcast } from '../catalog.ts'
import type { Fact, Recorded } from '../define.ts'
import { subjects } from '../subjects.ts'
import type { EmailErased, EmailRecorded, EmailRequested, EngagementFact, RecipientFact } from './facts.ts'

export function isErased (address: string): boolean {
  return address === ERASED
}

/** What a Feedback-Type is when it is one (RFC 5965, 3.1): a reporter may have written anything else there. */
const FEEDBACK = /^[a-z-]{1,40}$/i

/** Takes the address out of a text of the sender's: the placeholder stands where it stood. */
export type Clean = (text: string) => string

/** A fact of a recipient without anything that tells of the person: what it is, when, and what is counted stays; words
 *  that others said, and whatever is or may hold an address, does not. Redacting it again changes nothing. */
export function redact<F extends RecipientFact | EngagementFact> (fact: F, clean: Clean): F {
  return { ...fact, data: redactedData(fact, clean) } as F
}

function redactedData (fact: RecipientFact | EngagementFact, clean: Clean): (RecipientFact | EngagementFact)['data'] {
  switch (fact.type) {
    case 'email.attempted':
      return { ...fact.data, to: ERASED, digest: '' }
    case 'email.delivered':
      return { ...spoken(fact.data, clean), reply: { ...fact.data.reply, text: '' } }
    case 'email.deferred':
      return { ...spoken(fact.data, clean), reply: silent(fact.data.reply), error: null }
    case 'email.bounced':
      return { ...spoken(fact.data, clean), reply: silent(fact.data.reply), error: null }
    case 'email.failed':
      return { ...fact.data, to: ERASED, detail: null, event: countedOf(fact.data.event, clean) }
    case 'email.opened':
      return { ...fact.data, to: ERASED, event: countedOf(fact.data.event, clean) }
    case 'email.clicked':
      return { ...fact.data, to: ERASED, url: '', event: countedOf(fact.data.event, clean) }
    case 'email.complained': {
      const { feedback, event } = fact.data
      return {
        ...fact.data,
        to: ERASED,
        feedback: FEEDBACK.test(feedback) ? feedback : 'other',
        event: countedOf(event, clean)
      }
    }
    case 'email.unsubscribed':
      return { ...fact.data, to: ERASED, event: countedOf(fact.data.event, clean) }
    case 'email.suppressed':
    case 'email.canceled':
      return { ...fact.data, to: ERASED, tags: fact.data.tags.map(clean) }
    case 'email.in_doubt':
    case 'email.rescheduled':
    case 'email.retry_requested':
      return { ...fact.data, to: ERASED } as RecipientFact['data']
  }
}

/** A transaction: which host it was with tells where the person has mail. */
function spoken<D extends { event: string, address?: string }> (
  data: D,
  clean: Clean
): D & { to: string, host: null, event: string } {
  const { address: _address, ...rest } = data
  return { ...rest as D, to: ERASED, host: null, event: countedOf(data.event, clean) }
}

function silent<R extends { text: string }> (reply: R | null): R | null {
  return reply === null ? null : { ...reply, text: '' }
}

/** Of an event's bytes what is counted by, and where it stood in them: nobody is sent such an event. */
function countedOf (event: string, clean: Clean): string {
  const { from = '', tags = [] } = (JSON.parse(event).data ?? {}) as { from?: string, tags?: string[] }
  return JSON.stringify({ data: { from, subject: '', tags: tags.map(clean), metadata: {} } })
}

/** The facts in whose place an `email.erased` stands, where they were, oldest first; of the present version. Throws
 *  like checkFact. */
export function pastOf (
  { account, data: { past } }: EmailErased
): Array<Recorded<RecipientFact | EngagementFact> & { storedAt: string }> {
  return past.map(({ seq, storedAt, fact }) => {
    const read = checkFact(upcast(fact as Fact)) as RecipientFact | EngagementFact
    return { fact: read, seq, subject: subjectIn(account, read), storedAt }
  })
}

function subjectIn (account: string, fact: RecipientFact | EngagementFact): string {
  const { email, n } = fact.data
  return isEngagement(fact) ? subjects.engagement(account, email, n) : subjects.recipient(account, email, n)
}

const MARKS: ReadonlySet<string> = new Set<EngagementFact['type']>([
  'email.opened',
  'email.clicked',
  'email.complained',
  'email.unsubscribed'
])

/** What the recipient did, rather than what became of sending to it. */
export function isEngagement (fact: RecipientFact | EngagementFact): fact is EngagementFact {
  return MARKS.has(fact.type)
}

/** What was asked, with nobody in the place of the recipients `ns`: their number, order and kind stay. Of what else was
 *  said, the address is taken out. When nobody else is left, all that was said to them goes as well; from whom, with
 *  which template and tags stays, since it is counted by. */
export function requestWithout<D extends EmailRequested['data'] | EmailRecorded['data']> (
  data: D,
  ns: readonly number[],
  clean: Clean
): D {
  const recipients = data.recipients.map((recipient, n) =>
    ns.includes(n)
      ? { ...recipient, address: ERASED, name: null }
      : { ...recipient, name: cleanName(recipient.name, clean) }
  )
  const kept = {
    ...data,
    recipients,
    from: { ...data.from, name: cleanName(data.from.name, clean) },
    tags: data.tags.map(clean)
  }
  const head = 'head' in data && data.head !== undefined ? data.head : null
  if (recipients.some(({ address }) => !isErased(address))) {
    return { ...kept, ...saidWithout(data, clean), ...(head === null ? {} : { head: headWithout(head, clean) }) }
  }
  const content = 'content' in data ? { content: null } : {}
  const none = { subject: '', headers: [], replyTo: [], metadata: {}, attachments: [] }
  return { ...kept, ...none, ...content, ...(head === null ? {} : { head: '' }) }
}

/** What is said to the others of a mail. */
function saidWithout (
  { subject, headers, replyTo, metadata, attachments }: EmailRequested['data'] | EmailRecorded['data'],
  clean: Clean
): Pick<EmailRequested['data'], 'subject' | 'headers' | 'replyTo' | 'metadata' | 'attachments'> {
  return {
    subject: clean(subject),
    headers: headers.map(({ name, value }) => ({ name, value: clean(value) })),
    // Who has no address any more gets no answers.
    replyTo: replyTo.filter(({ address }) => clean(address) === address).map(({ address, name }) => ({
      address,
      name: cleanName(name, clean)
    })),
    metadata: Object.fromEntries(
      Object.entries(metadata).map(([key, value]) => [clean(key), typeof value === 'string' ? clean(value) : value])
    ),
    attachments: attachments.map(attachment => ({ ...attachment, filename: clean(attachment.filename) }))
  }
}

function cleanName (name: string | null, clean: Clean): string | null {
  return name === null ? null : clean(name)
}

/** Fields that name people one beside the other. */
const MAILBOXES = /^(to|cc|reply-to)[ \t]*:/i

/** Of a message that came whole: nobody is shown that there was one more. */
function headWithout (head: string, clean: Clean): string {
  const fields = clean(head).split(/\r\n(?![ \t])/)
  return fields.map(field => (MAILBOXES.test(field) && field.includes(ERASED) ? withoutErased(field) : field))
    .filter(field => field !== null).join('\r\n')
}

/** null = nobody is left to answer to. */
function withoutErased (field: string): string | null {
  const at = field.indexOf(':') + 1
  const name = field.slice(0, at)
  const left = splitMailboxes(field.slice(at)).filter(mailbox => !mailbox.includes(ERASED))
  if (left.length > 0) return `${name} ${left.map(mailbox => mailbox.trim()).join(',\r\n ')}`
  return /^to/i.test(name) ? `${name} undisclosed-recipients:;` : null
}

/** At commas that no quotation marks hold. */
function splitMailboxes (value: string): string[] {
  const parts = ['']
  let quoted = false
  for (let i = 0; i < value.length; i++) {
    const char = value[i]!
    if (char === '"') quoted = !quoted
    if (char === ',' && !quoted) {
      parts.push('')
      continue
    }
    parts[parts.length - 1] += char === '\\' && quoted ? char + (value[++i] ?? '') : char
  }
  return parts
}
