/** The fields by which relays hand back a word of ours with each report, since they replace our Message-ID or need not
 *  tell it. Source: Postmark, "Custom metadata"; Twilio SendGrid, "Unique arguments"; Brevo, "Send with SMTP". */
const FIELDS: ReadonlyArray<[host: RegExp, fieldOf: (name: string) => string]> = [
  [/(^|\.)postmarkapp\.com$/i, name => `X-PM-Metadata-jetpost: ${name}`],
  [/(^|\.)sendgrid\.net$/i, name => `X-SMTPAPI: ${JSON.stringify({ unique_args: { jetpost: name } })}`],
  [/(^|\.)(brevo|sendinblue)\.com$/i, name => `X-Mailin-custom: ${name}`]
]

/** A message as it goes to the relay at `host`: with a field before its others where that relay hands it back. No
 *  signature of ours covers it. `messageId` is ours: it begins with `<em_….<n>@`. */
export function withRelayField (message: Buffer, host: string, messageId: string): Buffer {
  const fieldOf = FIELDS.find(([pattern]) => pattern.test(host))?.[1]
  if (fieldOf === undefined) return message
  const name = messageId.slice(1, messageId.indexOf('@'))
  return Buffer.concat([Buffer.from(`${fieldOf(name)}\r\n`), message])
}
