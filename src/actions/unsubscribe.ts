import { isErased } from '#streams/email/erase.ts'
import type { Desk } from './desk.ts'
import { causedBy } from './ledger.ts'
import { recordMark, type Addressee } from './recipient.ts'
import { suppress } from './suppression.ts'

/** Somebody asks for no more mail like this one; durable when it resolves. The first time is an event, and what follows from it is the reactions' business. Who
 *  asks again may have been let in again since: then it holds at once, and is no further event. Throws LogUnavailable or Conflict. */
export async function unsubscribe ({ ledger }: Pick<Desk, 'ledger'>, addressee: Addressee, by: 'one-click' | 'page'): Promise<void> {
  if (await recordMark(ledger, addressee, { type: 'email.unsubscribed', data: { by, report: null } })) return
  const { request: { fact }, n } = addressee
  const { address } = fact.data.recipients[n]!
  // Whose mail it was is forgotten: there is nobody left to suppress.
  if (fact.data.test || isErased(address)) return
  await suppress({ ledger }, causedBy(fact), { address, reason: 'unsubscribe', email: fact.data.email })
}
