import { EmailRequested, type SubjectFact } from '#streams/email/facts.ts'
import { subjects } from '#streams/subjects.ts'
import { timestamp } from '#src/base/clock.ts'
import { newId } from '#src/base/id.ts'
import type { Bus } from '#src/nats/connect.ts'
import { readFacts } from '#src/nats/range.ts'
import { schedule } from '#src/nats/schedule.ts'
import { stamp, type FactLog } from './fact-log.ts'
import type { StoredRequest } from './stored-request.ts'

/** Which recipient a due message is about; `request` = its sequence in REQUESTS. */
export interface DueSend {
  account: string
  email: string
  n: number
  request: number
}

/** Has the recipient come back to a sender at `atMs` (Unix ms; a past time is at once). Safe to repeat: one recipient,
 *  one schedule. Throws when the log does not take it within `timeoutMs`. */
export function scheduleSend (bus: Bus, due: DueSend, atMs: number, timeoutMs = 60_000): Promise<void> {
  const names = [due.account, due.email, due.n] as const
  return schedule(bus, {
    subject: subjects.scheduleSend(...names),
    target: subjects.dueSend(...names),
    atMs,
    payload: due
  }, timeoutMs)
}

/** Long enough that the missing request, and not the end of its budget, is what is said. */
const STAND_IN_MS = 86_400_000

/** In the place of a request that is gone from the log, for a last word about a recipient who still waits: what the
 *  recipient's facts tell of it. What they do not tell is empty: subject and tags before the first event, and the
 *  address of one without any fact; then nothing knows the request's id either. Throws when NATS does not answer. */
export async function standInFor (
  { bus, clock }: FactLog,
  { account, email, n, request }: DueSend
): Promise<StoredRequest> {
  const facts = (await readFacts(bus, 'EMAILS', subjects.recipient(account, email, n))).map(({ fact }) =>
    fact as SubjectFact
  )
  const last = facts.at(-1)
  const id = last?.causation ?? null
  const told = facts.map(eventDataOf).findLast(data => data !== null) ??
    { from: '', subject: '', tags: [], metadata: {} }
  const nowMs = clock.nowMs()
  const cause = { account, correlation: last?.correlation ?? email, causation: null }
  const fact = stamp(
    EmailRequested,
    cause,
    {
      email,
      key: '',
      test: false,
      from: { address: told.from, name: null },
      recipients: Array.from(
        { length: n + 1 },
        () => ({ address: last?.data.to ?? '', name: null, kind: 'to' as const })
      ),
      replyTo: [],
      subject: told.subject,
      headers: [],
      attachments: [],
      content: null,
      template: null,
      track: { opens: false, clicks: false },
      unsubscribe: false,
      tags: told.tags,
      metadata: told.metadata,
      scheduledAt: null,
      expiresAt: timestamp(nowMs + STAND_IN_MS),
      onDoubt: 'retry'
    },
    nowMs,
    id ?? newId('ev', nowMs)
  )
  const place = { seq: request, subject: subjects.request(account, email) }
  return { fact: fact as EmailRequested, ...place, ...(id === null ? { idUnknown: true } : {}) }
}

/** What a fact's webhook event says of the request, or null for a fact without one. */
function eventDataOf (
  { data }: SubjectFact
): Pick<EmailRequested['data'], 'subject' | 'tags' | 'metadata'> & { from: string } | null {
  return 'event' in data ? JSON.parse(data.event).data : null
}
