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

/** A fact of a recipient without anything that tells of the person: what it is, when, and what is counted stays; words
 *  that others said, and whatever is or may hold an address, does not. Redacting it again changes nothing. */
export function redact<F extends RecipientFact | EngagementFact> (fact: F): F {
  return { ...fact, data: redactedData(fact) } as F
}

function redactedData (fact: RecipientFact | EngagementFact): (RecipientFact | EngagementFact)['data'] {
  switch (fact.type) {
    case 'email.attempted':
      return { ...fact.data, to: ERASED, digest: '' }
    case 'email.delivered':
      return { ...spoken(fact.data), reply: { ...fact.data.reply, text: '' } }
    case 'email.deferred':
      return { ...spoken(fact.data), reply: silent(fact.data.reply), error: null }
    case 'email.bounced':
      return { ...spoken(fact.data), reply: silent(fact.data.reply), error: null }
    case 'email.failed':
      return { ...fact.data, to: ERASED, detail: null, event: countedOf(fact.data.event) }
    case 'email.opened':
      return { ...fact.data, to: ERASED, event: countedOf(fact.data.event) }
    case 'email.clicked':
      return { ...fact.data, to: ERASED, url: '', event: countedOf(fact.data.event) }
    case 'email.complained': {
      const { feedback, event } = fact.data
      return {
        ...fact.data,
        to: ERASED,
        feedback: FEEDBACK.test(feedback) ? feedback : 'other',
        event: countedOf(event)
      }
    }
    case 'email.unsubscribed':
      return { ...fact.data, to: ERASED, event: countedOf(fact.data.event) }
    case 'email.in_doubt':
    case 'email.suppressed':
    case 'email.rescheduled':
    case 'email.canceled':
    case 'email.retry_requested':
      return { ...fact.data, to: ERASED } as RecipientFact['data']
  }
}

/** A transaction: which host it was with tells where the person has mail. */
function spoken<D extends { event: string, address?: string }> (
  data: D
): D & { to: string, host: null, event: string } {
  const { address: _address, ...rest } = data
  return { ...rest as D, to: ERASED, host: null, event: countedOf(data.event) }
}

function silent<R extends { text: string }> (reply: R | null): R | null {
  return reply === null ? null : { ...reply, text: '' }
}

/** Of an event's bytes what is counted by, and where it stood in them: nobody is sent such an event. */
function countedOf (event: string): string {
  const { from = '', tags = [] } = (JSON.parse(event).data ?? {}) as { from?: string, tags?: string[] }
  return JSON.stringify({ data: { from, subject: '', tags, metadata: {} } })
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

/** What was asked, with nobody in the place of the recipients `ns`: their number, order and kind stay. When nobody else
 *  is left, all that was said to them goes as well; from whom, with which template and tags stays, since it is counted
 *  by. */
export function requestWithout<D extends EmailRequested['data'] | EmailRecorded['data']> (
  data: D,
  ns: readonly number[]
): D {
  const recipients = data.recipients.map((
    recipient,
    n
  ) => (ns.includes(n) ? { ...recipient, address: ERASED, name: null } : recipient))
  if (recipients.some(({ address }) => !isErased(address))) return { ...data, recipients }
  const content = 'content' in data ? { content: null } : {}
  return { ...data, recipients, subject: '', headers: [], replyTo: [], metadata: {}, attachments: [], ...content }
}
