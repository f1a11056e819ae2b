import type { EmailRequested } from '#streams/email/facts.ts'
import { messageIdOf } from '#streams/email/decide.ts'
import type { Content } from '#src/content/compose.ts'
import type { Blobs } from '#src/nats/blobs.ts'
import type { Services } from './services.ts'
import { loadRecipient, type RecipientRef } from './recipient.ts'

/** Bodies and files ride in the request, or lie in the object store; null = they are gone. Throws when NATS does not
 *  answer. */
export async function readContent (blobs: Blobs, { email, content }: EmailRequested['data']): Promise<Content | null> {
  if (content !== null) return content
  const bytes = await blobs.get(email)
  return bytes === null ? null : JSON.parse(new TextDecoder().decode(bytes)) as Content
}

/** The message that a recipient got, or will get if it went out at the request's time. Throws when NATS does not
 *  answer. */
export async function readMessage (
  { factLog, compose }: Pick<Services, 'factLog' | 'compose'>,
  ref: RecipientRef,
  content: Content
): Promise<Buffer> {
  const { request: { fact }, n } = ref
  const { state } = await loadRecipient(factLog.bus, ref)
  return compose(ref, content, { messageId: messageIdOf(fact.data, n), date: state.date ?? fact.time }).message
}
