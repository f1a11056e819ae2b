import PostalMime, { type Email } from 'postal-mime'

/** What is left of a mail that cannot be read. */
export const UNREADABLE: Email = { headers: [], headerLines: [], attachments: [] }

/** A mail that anybody may have written: UNREADABLE where its headers are too long for a reader, or its parts too deep
 *  in one another. */
export async function readMail (raw: Uint8Array): Promise<Email> {
  return await PostalMime.parse(raw).catch(() => UNREADABLE)
}

/** Its headers alone. */
export async function readHead (raw: Buffer): Promise<Email> {
  const end = raw.indexOf('\r\n\r\n')
  return await readMail(end === -1 ? raw : raw.subarray(0, end + 4))
}

/** As a list shows it; '' = it has none. */
export function subjectOf (mail: Email): string {
  return mail === UNREADABLE ? '(unreadable)' : mail.subject ?? ''
}
