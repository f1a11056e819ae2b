import PostalMime, { type Email } from 'postal-mime'
import type { CaughtMail } from '../mailbox.ts'

/** A mail as it is read. */
export type ReadMail = Email

/** A file of a mail. */
interface MailFile { name: string, type: string, body: Buffer }

const subjects = new WeakMap<CaughtMail, string>()

/** Reads the headers only, and once: the list is drawn again every few seconds. */
export async function subjectOf (mail: CaughtMail): Promise<string> {
  const known = subjects.get(mail)
  if (known !== undefined) return known
  const end = mail.raw.indexOf('\r\n\r\n')
  const { subject = '' } = await PostalMime.parse(end === -1 ? mail.raw : mail.raw.subarray(0, end + 4))
  subjects.set(mail, subject)
  return subject
}

export async function readMail ({ raw }: CaughtMail): Promise<ReadMail> {
  return await PostalMime.parse(raw)
}

export function filesOf ({ attachments }: ReadMail): MailFile[] {
  return attachments.map(({ filename, mimeType, content }, i) => ({ name: filename ?? `file-${i + 1}`, type: mimeType, body: Buffer.from(content as ArrayBuffer) }))
}

/** The id of the email that a Message-ID of ours names; null for any other. */
export function emailIdIn (messageId: string | undefined): string | null {
  return /^<(em_[0-9a-z]{26})\.\d+@/.exec(messageId ?? '')?.[1] ?? null
}
