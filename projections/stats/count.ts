import { domainOf } from '#streams/address.ts'
import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { isErased, pastOf } from '#streams/email/erase.ts'
import type { EmailRecorded, EngagementFact, RecipientFact } from '#streams/email/facts.ts'
import { SANDBOX_DOMAIN } from '#streams/key/decide.ts'
import type { Counted } from '../counts.ts'

/** One recipient counted once: what for, when, and where it belongs. */
export interface Count {
  account: string
  email: string
  n: number
  /** The beginning of the hour, RFC 3339. */
  hour: string
  /** Of the fact, in EMAILS; 0 = that it was accepted, which several records may tell, and which is counted once. */
  seq: number
  counted: Counted
  /** The sender's; '' = not told. */
  domain: string
  /** Each of them once. */
  tags: string[]
  /** The recipient's domain; '' when the person is forgotten. */
  destination: string
}

/** False for a test address: what becomes of its mail is made up. */
export function countsForSender ({ destination }: Pick<Count, 'destination'>): boolean {
  return destination !== SANDBOX_DOMAIN
}

/** What a fact of EMAILS counts; one that stands in the place of others counts what they did. */
export function countsIn (recorded: Recorded<AnyFact>): Count[] {
  const { fact } = recorded
  if (fact.type === 'email.recorded') return acceptedIn(fact)
  if (fact.type === 'email.erased') return pastOf(fact).flatMap(happenedIn)
  return 'sequence' in fact.data ? happenedIn(recorded as Recorded<RecipientFact | EngagementFact>) : []
}

function acceptedIn ({ account, data }: EmailRecorded): Count[] {
  const { email, from, tags, recipients, requestedAt } = data
  const shared = {
    account,
    email,
    hour: hourOf(requestedAt),
    seq: 0,
    counted: 'accepted' as const,
    domain: domainOf(from.address),
    tags: namesOf(tags)
  }
  return recipients.map(({ address }, n) => ({ ...shared, n, destination: destinationOf(address) }))
}

function happenedIn ({ fact, seq }: Recorded<RecipientFact | EngagementFact>): Count[] {
  const counted = countedAs(fact)
  if (counted === null) return []
  const { email, n, to } = fact.data
  const { from, tags } = senderOf(fact)
  return [{
    account: fact.account,
    email,
    n,
    hour: hourOf(fact.time),
    seq,
    counted,
    domain: domainOf(from),
    tags: namesOf(tags),
    destination: destinationOf(to)
  }]
}

/** Opens and clicks count once a recipient and by people only, deferrals once a recipient. */
function countedAs (fact: RecipientFact | EngagementFact): Counted | null {
  switch (fact.type) {
    case 'email.delivered':
      return 'delivered'
    case 'email.deferred':
      return fact.data.first ? 'deferred' : null
    case 'email.bounced':
      return 'bounced'
    case 'email.failed':
      return 'failed'
    case 'email.suppressed':
      return 'suppressed'
    case 'email.canceled':
      return 'canceled'
    case 'email.opened':
      return fact.data.first ? 'opened' : null
    case 'email.clicked':
      return fact.data.first ? 'clicked' : null
    case 'email.complained':
      return 'complained'
    case 'email.unsubscribed':
      return 'unsubscribed'
    case 'email.attempted':
    case 'email.in_doubt':
    case 'email.rescheduled':
    case 'email.retry_requested':
      return null
  }
}

/** Who sent it, and how it was tagged: in the event's bytes, where there is one. */
function senderOf ({ data }: RecipientFact | EngagementFact): { from: string, tags: string[] } {
  const told = 'event' in data ? (JSON.parse(data.event) as { data?: { from: string, tags: string[] } }).data : data
  return told !== undefined && 'from' in told ? told : { from: '', tags: [] }
}

function destinationOf (address: string): string {
  return isErased(address) ? '' : domainOf(address)
}

function hourOf (time: string): string {
  return `${time.slice(0, 13)}:00:00Z`
}

/** What may be somebody's address, also in a URL. */
const ADDRESS = /\S(@|%40)\S+\.\S/i

/** As the table can hold them, each once; one without letters would pass for all mail. One that holds an address is
 *  not counted by: no erasure could find it among sums. */
function namesOf (tags: string[]): string[] {
  const names = new Set(tags.map(tag => tag.toWellFormed().replaceAll('\0', '\uFFFD')))
  return [...names].filter(tag => tag !== '' && !ADDRESS.test(tag))
}
