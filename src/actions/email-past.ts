import { askedRow, asOf, firstSchedule, type AskedRow } from '#projections/emails/as-of.ts'
import { requestedIn, type RequestedEmail } from '#projections/emails/requested.ts'
import type { EmailRecord } from '#projections/emails/records.ts'
import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { emailPartitionOf, subjects } from '#streams/subjects.ts'
import type { Bus } from '#src/nats/connect.ts'
import { getFact } from '#src/nats/get.ts'
import { decodeMessage, type StoredFact } from '#src/nats/message.ts'
import { bisect, readFacts, readMessages } from '#src/nats/range.ts'

/** What was known of an email at `atMs` (Unix); null when it was not asked for yet. Throws when NATS does not answer.
 */
export async function emailAsOf (bus: Bus, asked: AskedRow, atMs: number): Promise<EmailRecord | null> {
  return await emailBy(bus, asked, await factsOf(bus, asked), atMs)
}

/** The same by facts that are loaded already; null as well when nobody knows any more how it began. */
export async function emailBy (
  bus: Bus,
  asked: AskedRow,
  facts: readonly StoredFact[],
  atMs: number
): Promise<EmailRecord | null> {
  if (asked.created_at.getTime() > atMs) return null
  const known = firstSchedule(asked)
  const scheduledAt = known === undefined ? (await requestAt(bus, asked.id, asked.request_seq))?.scheduledAt : known
  return scheduledAt === undefined ? null : asOf(asked, scheduledAt, facts, atMs)
}

/** All that the log has about an email, oldest first; `account` may be `*`. Throws when NATS does not answer. */
export async function factsOf (bus: Bus, { account, id }: { account: string, id: string }): Promise<StoredFact[]> {
  return await readFacts(bus, 'EMAILS', subjects.ofEmail(account, id), 'leader')
}

/** What was asked, by the log alone: its facts say where the request lies, so at least one is needed. Null when it is
 *  no longer kept. */
export async function askedInLog (bus: Bus, id: string, facts: readonly StoredFact[]): Promise<AskedRow | null> {
  const places = facts.flatMap((
    { fact: { data } }
  ) => ('request' in data && typeof data.request === 'number' ? [data.request] : []))
  const asked = places.length === 0 ? undefined : await requestAt(bus, id, Math.max(...places))
  return asked === undefined ? null : askedRow(asked)
}

/** By the request, or by its record, which is kept for longer: records stand in the order of their requests, but for
 *  those that an erasure has rewritten. */
async function requestAt (bus: Bus, id: string, request: number): Promise<RequestedEmail | undefined> {
  const place = (fact: AnyFact) => (fact.type === 'email.recorded' ? fact.data.request : 0) - request
  const found = await getFact(bus, 'REQUESTS', { seq: request }) ??
    await bisect(bus, 'EMAILS', subjects.record(emailPartitionOf(id)), place)
  const ours = (each: Recorded<AnyFact>) => requestedIn(each).find(({ email }) => email === id)
  return (found === null ? undefined : ours(found)) ?? await recordedAgain(bus, id, ours)
}

const RECORDS_PAGE = 500

/** The last one, should there be more: an erasure after the other. */
async function recordedAgain<T> (
  bus: Bus,
  id: string,
  ours: (fact: Recorded<AnyFact>) => T | undefined
): Promise<T | undefined> {
  let found: T | undefined
  for (let afterSeq = 0;;) {
    const position = { filter: subjects.recordReplay(emailPartitionOf(id)), afterSeq }
    const { messages } = await readMessages(bus, 'EMAILS', position, { max: RECORDS_PAGE })
    if (messages.length === 0) return found
    for (const message of messages) found = ours(decodeMessage(message)) ?? found
    afterSeq = messages.at(-1)!.seq
  }
}
