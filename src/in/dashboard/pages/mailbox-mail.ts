import type { Email } from 'postal-mime'
import { readHead, subjectOf } from '#src/content/read.ts'
import type { CaughtMail } from '../mailbox.ts'

/** A file of a mail. */
interface MailFile { name: string, type: string, body: Buffer }

const subjects = new WeakMap<CaughtMail, string>()

/** Reads the headers only, and once: the list is drawn again every few seconds. */
export async function subjectIn (mail: CaughtMail): Promise<string> {
  const subject = subjects.get(mail) ?? (subjectOf(await readHead(mail.raw)) || '(no subject)')
  subjects.set(mail, subject)
  return subject
}

export function filesOf ({ attachments }: Email): MailFile[] {
  return attachments.map(({ filename, mimeType, content }, i) => ({ name: filename ?? `file-${i + 1}`, type: mimeType, body: Buffer.from(content as ArrayBuffer) }))
}

/** The id of the email that a Message-ID of ours names; null for any other. */
export function emailIdIn (messageId: string | undefined): string | null {
  return /^<(em_[0-9a-z]{26})\.\d+@/.exec(messageId ?? '')?.[1] ?? null
}
