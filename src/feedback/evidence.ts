import { addressesIn } from './addresses.ts'
import { fieldsOf, type HeaderField } from './entity.ts'

/** What points to a mail of ours, as strings: whether they are ours, and genuine, is for others to say. */
export interface Evidence {
  /** With their brackets off. */
  messageIds: string[]
  returnPaths: string[]
  envelopeIds: string[]
  unsubscribeUrls: string[]
  feedbackIds: string[]
  /** Whom the report itself was sent to, by its trace fields. */
  deliveredTo: string[]
}

/** Where envelope senders are noted down. */
const SENDERS = [
  'return-path',
  'original-mail-from',
  'x-original-mail-from',
  'x-postfix-sender',
  'envelope-from',
  'x-envelope-from',
  'x-env-sender',
  'x-sender'
]
const EACH_MAX = 10
const LENGTH_MAX = 998

/** `top` = the report's own header, `status` = the fields of its machine-readable parts, `returned` = the header it
 *  gives back. Source: RFC 3464 2.2.1, RFC 5965 3.2, RFC 9477. */
export function readEvidence (top: HeaderField[], status: HeaderField[], returned: HeaderField[]): Evidence {
  const stated = [...status, ...returned]
  return {
    messageIds: few([
      ...fieldsOf(returned, 'message-id', 'x-original-message-id', 'x-ms-exchange-parent-message-id').flatMap(idsIn),
      ...fieldsOf(status, 'x-original-message-id', 'original-message-id', 'message-id').flatMap(idsIn),
      ...fieldsOf(top, 'in-reply-to', 'references', 'x-original-message-id', 'x-ms-exchange-parent-message-id').flatMap(
        idsIn
      )
    ]),
    returnPaths: few(fieldsOf(stated, ...SENDERS).flatMap(value => addressesIn(value, 3))),
    envelopeIds: few(fieldsOf(stated, 'original-envelope-id', 'x-original-envelope-id').map(value => unxtext(value))),
    unsubscribeUrls: few(
      fieldsOf(returned, 'list-unsubscribe').flatMap(value =>
        [...value.matchAll(/<([^<>\s]{1,998})>/g)].map(match => match[1]!)
      )
    ),
    feedbackIds: few(fieldsOf(stated, 'feedback-id', 'x-feedback-id', 'cfbl-feedback-id')),
    deliveredTo: few(
      fieldsOf(top, 'x-original-to', 'delivered-to', 'envelope-to', 'x-envelope-to', 'x-rcpt-to', 'to').flatMap(value =>
        addressesIn(value, 5)
      )
    )
  }
}

function idsIn (value: string): string[] {
  const bracketed = [...value.matchAll(/<([^<>\s]{3,998})>/g)].map(match => match[1]!)
  return bracketed.length > 0 ? bracketed : value.split(/\s+/, 5).filter(word => word.includes('@'))
}

/** Source: RFC 3461 4: `+XX` is an octet. */
function unxtext (value: string): string {
  return value.trim().replaceAll(/\+([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
}

function few (values: string[]): string[] {
  return [...new Set(values.map(value => value.trim()).filter(isClean))].slice(0, EACH_MAX)
}

function isClean (value: string): boolean {
  return value !== '' && value.length <= LENGTH_MAX && value.isWellFormed() && !/\p{Cc}/u.test(value)
}
