import type { Email } from 'postal-mime'
import { readHead, subjectOf } from '#src/content/read.ts'
import type { CaughtMail } from '#src/operations/caught-mail.ts'

/** An attachment. */
interface MailFile {
  name: string
  type: string
  body: Buffer
}

/** A mail in a list. `author` = of the From header: the envelope has the return path, an address for bounces. */
export interface MailHead {
  subject: string
  author: string
}

const heads = new WeakMap<CaughtMail, MailHead>()

/** Reads the headers only, and once: the list refreshes every few seconds. */
export async function headIn (mail: CaughtMail): Promise<MailHead> {
  const known = heads.get(mail)
  if (known !== undefined) return known
  const read = await readHead(mail.raw)
  const head = { subject: subjectOf(read) || '(no subject)', author: read.from?.address || mail.from || '<>' }
  heads.set(mail, head)
  return head
}

export function filesOf ({ attachments }: Email): MailFile[] {
  return attachments.map(({ filename, mimeType, content }, i) => ({
    name: filename ?? `file-${i + 1}`,
    type: mimeType,
    body: Buffer.from(content as ArrayBuffer)
  }))
}

/** The email's id in a Message-ID of ours; null for any other. */
export function emailIdIn (messageId: string | undefined): string | null {
  return /^<(em_[0-9a-z]{26})\.\d+@/.exec(messageId ?? '')?.[1] ?? null
}
