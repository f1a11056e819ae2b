import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import type { EmailRequested } from '#streams/email/facts.ts'

/** What was asked, whichever fact tells it. */
export interface RequestedEmail extends Omit<EmailRequested['data'], 'content'> {
  account: string
  /** When, and where the request lies in REQUESTS. */
  at: string
  request: number
}

export function requestedIn ({ fact, seq }: Recorded<AnyFact>): RequestedEmail[] {
  switch (fact.type) {
    case 'email.requested':
      return [{ ...fact.data, account: fact.account, at: fact.time, request: seq }]
    case 'email.recorded':
      return [{ ...fact.data, account: fact.account, at: fact.data.requestedAt }]
    default:
      return []
  }
}
