import { domainOf } from '#streams/address.ts'
import { SANDBOX_DOMAIN } from '#streams/key/decide.ts'

/** What a test address does with its mail; other addresses, and `delivered@`, accept it. Source: contract, "Test
 *  addresses". */
export type SandboxOutcome = 'bounced' | 'softbounced' | 'complained' | 'indoubt' | 'delivered'

const OUTCOMES: readonly string[] = ['bounced', 'softbounced', 'complained', 'indoubt'] satisfies SandboxOutcome[]

/** Of an envelope's address, with any label: `bounced+7@…`. */
export function outcomeOf (address: string): SandboxOutcome {
  const [name = ''] = address.toLowerCase().split(/[+@]/)
  return domainOf(address).toLowerCase() === SANDBOX_DOMAIN && OUTCOMES.includes(name)
    ? name as SandboxOutcome
    : 'delivered'
}

/** The reply to RCPT, for smtp-server; null = the recipient is accepted. */
export function rejectionOf (manner: SandboxOutcome): { responseCode: number, message: string } | null {
  switch (manner) {
    case 'bounced':
      return { responseCode: 550, message: '5.1.1 No such user here (test address)' }
    case 'softbounced':
      return { responseCode: 452, message: '4.2.2 The mailbox is full (test address)' }
    default:
      return null
  }
}

/** The complaint about a mail, as a feedback loop sends it. Source: RFC 5965. */
export function complaintAbout (mail: { from: string, to: string, raw: Buffer, date: string }): Buffer {
  const boundary = 'jetpost-sandbox-report'
  const head = [
    `From: <fbl@${SANDBOX_DOMAIN}>`,
    `To: <fbl@${SANDBOX_DOMAIN}>`,
    'Subject: Complaint about a mail',
    `Date: ${new Date(mail.date).toUTCString().replace('GMT', '+0000')}`,
    'MIME-Version: 1.0',
    `Content-Type: multipart/report; report-type=feedback-report; boundary="${boundary}"`,
    '',
    `--${boundary}`,
    'Content-Type: text/plain; charset=us-ascii',
    '',
    'This is a complaint about a mail to a test address.',
    '',
    `--${boundary}`,
    'Content-Type: message/feedback-report',
    '',
    'Feedback-Type: abuse',
    'User-Agent: Jetpost-Sandbox/1.0',
    'Version: 1',
    `Original-Mail-From: <${mail.from}>`,
    `Original-Rcpt-To: <${mail.to}>`,
    '',
    `--${boundary}`,
    'Content-Type: message/rfc822',
    '',
    ''
  ]
  return Buffer.concat([Buffer.from(head.join('\r\n')), mail.raw, Buffer.from(`\r\n--${boundary}--\r\n`)])
}
