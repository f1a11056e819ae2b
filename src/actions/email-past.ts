import { askedRow, asOf, firstSchedule, type AskedRow } from '#projections/emails/as-of.ts'
import { askedIn, type Asked } from '#projections/emails/asked.ts'
import type { EmailRecord } from '#projections/emails/records.ts'
import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import { emailPartitionOf, subjects } from '#streams/subjects.ts'
import type { Bus } from '#src/nats/connect.ts'
import { loadHistory, seek, type Stored } from '#src/nats/history.ts'
import { loadAfter, loadFact } from '#src/nats/load.ts'

/** What was known of an email at `atMs` (Unix); null when it was not asked for yet. Throws when NATS does not answer.
 */
export async function emailAsOf (bus: Bus, asked: AskedRow, atMs: number): Promise<EmailRecord | null> {
  return await emailBy(bus, asked, await factsOf(bus, asked), atMs)
}

/** The same by facts that are loaded already; null as well when nobody knows any more how it began. */
export async function emailBy (
  bus: Bus,
  asked: AskedRow,
  facts: readonly Stored[],
  atMs: number
): Promise<EmailRecord | null> {
  if (asked.created_at.getTime() > atMs) return null
  const known = firstSchedule(asked)
  const scheduledAt = known === undefined ? (await requestAt(bus, asked.id, asked.request_seq))?.scheduledAt : known
  return scheduledAt === undefined ? null : asOf(asked, scheduledAt, facts, atMs)
}

/** All that the log has about an email, oldest first; `account` may be `*`. Throws when NATS does not answer. */
export async function factsOf (bus: Bus, { account, id }: { account: string, id: string }): Promise<Stored[]> {
  return await loadHistory(bus, 'EMAILS', subjects.ofEmail(account, id))
}

/** What was asked, by the log alone: its facts say where the request lies, so at least one is needed. Null when it is
 *  no longer kept. */
export async function askedInLog (bus: Bus, id: string, facts: readonly Stored[]): Promise<AskedRow | null> {
  const places = facts.flatMap((
    { fact: { data } }
  ) => ('request' in data && typeof data.request === 'number' ? [data.request] : []))
  const asked = places.length === 0 ? undefined : await requestAt(bus, id, Math.max(...places))
  return asked === undefined ? null : askedRow(asked)
}

/** By the request, or by its record, which is kept for longer: records stand in the order of their requests, but for
 *  those that an erasure has rewritten. */
async function requestAt (bus: Bus, id: string, request: number): Promise<Asked | undefined> {
  const place = (fact: AnyFact) => (fact.type === 'email.recorded' ? fact.data.request : 0) - request
  const found = await loadFact(bus, 'REQUESTS', request) ??
    await seek(bus, 'EMAILS', subjects.record(emailPartitionOf(id)), place)
  const ours = (each: Recorded<AnyFact>) => askedIn(each).find(({ email }) => email === id)
  return (found === null ? undefined : ours(found)) ?? await recordedAgain(bus, id, ours)
}

const AGAIN_AT_ONCE = 500

/** The last one, should there be more: an erasure after the other. */
async function recordedAgain<T> (
  bus: Bus,
  id: string,
  ours: (fact: Recorded<AnyFact>) => T | undefined
): Promise<T | undefined> {
  let found: T | undefined
  for (let afterSeq = 0;;) {
    const page = await loadAfter(bus, 'EMAILS', subjects.recordReplay(emailPartitionOf(id)), afterSeq, AGAIN_AT_ONCE)
    if (page.length === 0) return found
    for (const each of page) found = ours(each) ?? found
    afterSeq = page.at(-1)!.seq
  }
}
