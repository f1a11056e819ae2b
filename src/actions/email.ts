import { domainOf, type Mailbox } from '#streams/address.ts'
import { Refusal } from '#streams/define.ts'
import type { Key } from '#streams/directory.ts'
import { EmailRequested } from '#streams/email/facts.ts'
import { maySendFrom } from '#streams/key/decide.ts'
import { subjects } from '#streams/subjects.ts'
import { timestamp } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import type { Desk } from './desk.ts'
import { stamp } from './ledger.ts'

/** A send request that has passed validation. */
export interface Draft {
  from: Mailbox
  recipients: Array<Mailbox & { kind: 'to' | 'cc' | 'bcc' }>
  subject: string
  html: string | null
  text: string | null
  tags: string[]
  metadata: Record<string, string | number | boolean | null>
}

export interface Accepted {
  email: string
  createdAt: string
}

/** How long servers may take to give a final verdict. RFC 5321 4.5.4.1 allows 4–5 days; after three nobody waits for a mail any more. */
const BUDGET_MS = 72 * 3_600_000
/** The accepting append is given up after so long: the client hears 503 and may try again. */
const ACCEPT_TIMEOUT_MS = 5000

/** Accepts an email: resolves once the log has it durably. Refuses `from` on a domain that is not the key's; throws LogUnavailable. */
export async function requestEmail (desk: Desk, key: Key, correlation: string, draft: Draft): Promise<Accepted | Refusal> {
  const domain = domainOf(draft.from.address)
  if (!maySendFrom(key, domain, desk.directory.now.domains.get(domain)?.account)) {
    return new Refusal('domain_not_linked', 'The sending domain is not linked to this key.')
  }
  const { html, text, ...rest } = draft
  const nowMs = desk.ledger.clock.nowMs()
  const email = newId('em', nowMs)
  const fact = stamp(EmailRequested, { account: key.account, correlation, causation: null }, {
    email,
    key: key.id,
    test: key.test,
    ...rest,
    content: await stow(desk, email, { html, text }),
    expiresAt: timestamp(nowMs + BUDGET_MS),
    onDoubt: 'retry'
  }, nowMs)
  await desk.ledger.requests.append([{ subject: subjects.request(key.account, email), fact }], ACCEPT_TIMEOUT_MS)
  return { email, createdAt: fact.time }
}

/** Content above this is not kept in the fact: who follows REQUESTS holds up to a thousand of them in memory, and a commit carries many. */
const CONTENT_BYTES_MAX = 256 * 1024

type Content = { html: string | null, text: string | null }

/** Content small enough stays in the fact; bigger goes to the object store first, so that an accepted email never lacks it. */
async function stow (desk: Desk, email: string, content: Content): Promise<Content | null> {
  const sizeMax = Math.min(CONTENT_BYTES_MAX, (desk.ledger.bus.nc.info?.max_payload ?? 1_048_576) / 2)
  // UTF-8 and JSON escapes make at most six bytes of a character: most mail is decided without encoding it twice.
  const length = (content.html?.length ?? 0) + (content.text?.length ?? 0)
  if (length * 6 <= sizeMax) return content
  const bytes = Buffer.from(JSON.stringify(content))
  if (bytes.length <= sizeMax) return content
  await desk.blobs.put(email, bytes)
  return null
}
