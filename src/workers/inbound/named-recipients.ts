import type { Pointer, Tokens, TokenUse } from '#src/content/token.ts'
import type { BounceReport } from '#src/feedback/report.ts'

/** A recipient that a mail is about. `unsubscribes` = the mail came to the address for unsubscribing. */
export interface NamedRecipient {
  pointer: Pointer
  unsubscribes: boolean
}

/** The bound on strings of each kind that are read: a returned message has one or two. */
const TEXTS_MAX = 20
const TOKEN = '([0-9a-z]{54})(?![0-9a-z])'
const RETURN_PATH = new RegExp(`(?:^|[^0-9a-z])b\\+${TOKEN}`, 'i')
const UNSUBSCRIBE = new RegExp(`(?:/u/|(?:^|[^0-9a-z])u(?:\\+|%2B))${TOKEN}`, 'i')
const BARE = new RegExp(`(?:^|[^0-9a-z])${TOKEN}`, 'i')

type TokenReader = Pick<Tokens, 'read'>

/** The recipients a mail is about, by our tokens alone, since anybody can write a Message-ID or an address into a
 *  report. Its envelope's recipients count before anything in it: they name the message it answers. It returns one
 *  message, so the first token found in it is the only one. */
export function namedRecipients (
  to: readonly string[],
  evidence: BounceReport['evidence'],
  tokens: TokenReader
): NamedRecipient[] {
  const named = to.flatMap(address => namedBy(address, tokens) ?? [])
  if (named.length > 0) {
    const keyOf = ({ pointer: { email, n }, unsubscribes }: NamedRecipient) => `${email}.${n}.${unsubscribes}`
    return [...new Map(named.map(one => [keyOf(one), one])).values()]
  }
  const { returnPaths, feedbackIds, envelopeIds, unsubscribeUrls } = evidence
  const pointer = firstPointer(tokens, 'return', RETURN_PATH, returnPaths) ??
    firstPointer(tokens, 'return', BARE, feedbackIds) ??
    firstPointer(tokens, 'return', BARE, envelopeIds) ??
    firstPointer(tokens, 'unsubscribe', UNSUBSCRIBE, unsubscribeUrls)
  return pointer === null ? [] : [{ pointer, unsubscribes: false }]
}

function namedBy (address: string, tokens: TokenReader): NamedRecipient | null {
  const match = /^([bu])\+([^@]*)@/i.exec(address)
  if (match === null) return null
  const unsubscribes = match[1]!.toLowerCase() === 'u'
  const pointer = tokens.read(unsubscribes ? 'unsubscribe' : 'return', match[2]!)
  return pointer === null ? null : { pointer, unsubscribes }
}

function firstPointer (tokens: TokenReader, use: TokenUse, pattern: RegExp, texts: readonly string[]): Pointer | null {
  for (const text of texts.slice(0, TEXTS_MAX)) {
    const token = pattern.exec(text)?.[1]
    const pointer = token === undefined ? null : tokens.read(use, token)
    if (pointer !== null) return pointer
  }
  return null
}
