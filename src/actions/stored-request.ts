import type { AnyFact } from '#streams/catalog.ts'
import type { Recorded } from '#streams/define.ts'
import type { EmailRequested } from '#streams/email/facts.ts'
import { subjects } from '#streams/subjects.ts'
import { certainly, factAt } from '#src/nats/certain.ts'
import type { Bus } from '#src/nats/connect.ts'
import { getFact } from '#src/nats/get.ts'

/** An email's request as it lies in REQUESTS. */
export interface StoredRequest extends Recorded<EmailRequested> {
  /** It stands in the place of one that is gone, and nothing tells its id: no fact may name it as the cause. */
  idUnknown?: true
}

/** The request of an email that lies at a place in REQUESTS, or has been moved from there; null when it is gone, and
 *  with it all that could still be sent. With `patient` that is certain also while the servers of a cluster disagree,
 *  and may take half a minute: for who ends something by it. Throws when NATS does not answer, or cannot tell now. */
export async function loadRequest (
  bus: Bus,
  seq: number,
  email: string,
  patient = false
): Promise<StoredRequest | null> {
  return await requestAt(bus, seq, email, patient) ?? await movedRequest(bus, email, patient)
}

async function requestAt (bus: Bus, seq: number, email: string, patient: boolean): Promise<StoredRequest | null> {
  const found = await factAt(bus, 'REQUESTS', seq, patient)
  return found?.fact.type === 'email.requested' && found.fact.data.email === email ? found as StoredRequest : null
}

/** An erasure takes a recipient out of a request: the others' lies elsewhere from then on. */
async function movedRequest (bus: Bus, email: string, patient: boolean): Promise<StoredRequest | null> {
  const moved = await lastOn(bus, subjects.movedOfAny(email), patient)
  return moved?.fact.type === 'email.moved' ? await requestAt(bus, moved.fact.data.request, email, patient) : null
}

/** The last fact on a subject of EMAILS. */
export async function lastOn (bus: Bus, subject: string, patient: boolean): Promise<Recorded<AnyFact> | null> {
  const look = async () => await getFact(bus, 'EMAILS', { last_by_subj: subject }, 'leader')
  return patient ? await certainly(bus, 'EMAILS', look) : await look()
}
