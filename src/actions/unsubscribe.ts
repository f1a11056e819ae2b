import { isErased } from '#streams/email/erase.ts'
import type { Services } from './services.ts'
import { causedBy } from './fact-log.ts'
import { recordEngagement, type RecipientRef } from './recipient.ts'
import { suppress } from './suppression.ts'

/** Somebody asks for no more mail like this one; durable when it resolves. The first time is an event, and what follows
 *  from it is the reactions' business. Who asks again may have been let in again since: then it holds at once, and is
 *  no further event. Throws LogUnavailable or Conflict. */
export async function unsubscribe (
  { factLog }: Pick<Services, 'factLog'>,
  ref: RecipientRef,
  by: 'one-click' | 'page'
): Promise<void> {
  if (await recordEngagement(factLog, ref, { type: 'email.unsubscribed', data: { by, report: null } })) return
  const { request: { fact }, n } = ref
  const { address } = fact.data.recipients[n]!
  // Whose mail it was is forgotten: there is nobody left to suppress.
  if (fact.data.test || isErased(address)) return
  await suppress({ factLog }, causedBy(fact), { address, reason: 'unsubscribe', email: fact.data.email })
}
