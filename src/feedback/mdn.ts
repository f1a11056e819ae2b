import { addressOf } from './addresses.ts'
import { fieldOf, readFields, type HeaderField } from './entity.ts'

/** What became of a message after it had arrived. */
export interface Disposition {
  address: string | null
  /** A filter refused it; otherwise it was shown, or deleted unread. */
  refused: boolean
  fields: HeaderField[]
}

const REFUSED = /\breject|\brefus|denied|abgelehnt|verweigert|rechaz|rejeit|rifiutat|geweigerd|odrzuc|отклон|拒/iu

/** Reads message/disposition-notification, or null when it says nothing; `beside` = the text for people. Sieve refuses
 *  in this form. Source: RFC 8098 3.2, RFC 5429 2.2. */
export function readDisposition (text: string, beside: string): Disposition | null {
  const { fields } = readFields(text.trimStart())
  const disposition = fieldOf(fields, 'disposition')?.toLowerCase() ?? null
  if (disposition === null) return null
  const address = addressOf(fieldOf(fields, 'final-recipient') ?? fieldOf(fields, 'original-recipient') ?? '')
  const unseen = /;\s*(?:deleted|denied|failed|dispatched)/.test(disposition)
  return { address, refused: unseen && disposition.startsWith('automatic-action') && REFUSED.test(beside), fields }
}
