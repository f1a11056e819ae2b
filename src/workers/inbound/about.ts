import type { Pointer, Tokens, TokenUse } from '#src/content/token.ts'
import type { Report } from '#src/feedback/report.ts'

/** Whom a mail is about. `asked` = it came to the address for unsubscribing. */
export interface About {
  pointer: Pointer
  asked: boolean
}

/** Strings of each kind that are looked at: a returned message has one or two. */
const LOOKED_AT_MAX = 20
const TOKEN = '([0-9a-z]{54})(?![0-9a-z])'
const RETURN_PATH = new RegExp(`(?:^|[^0-9a-z])b\\+${TOKEN}`, 'i')
const UNSUBSCRIBE = new RegExp(`(?:/u/|(?:^|[^0-9a-z])u(?:\\+|%2B))${TOKEN}`, 'i')
const BARE = new RegExp(`(?:^|[^0-9a-z])${TOKEN}`, 'i')

/** Whom a mail is about, by our tokens alone, since anybody can write a Message-ID or an address into a report. Those
 *  it was addressed to count before anything in it: they name the message it answers. What it holds is one returned
 *  message, so the first token found there is all of it. */
export function aboutWhom (to: readonly string[], evidence: Report['evidence'], tokens: Pick<Tokens, 'read'>): About[] {
  const addressed = to.flatMap(address => ref(address, tokens) ?? [])
  if (addressed.length > 0) {
    return [
      ...new Map(addressed.map(about => [`${about.pointer.email}.${about.pointer.n}.${about.asked}`, about])).values()
    ]
  }
  const pointer = find('return', RETURN_PATH, evidence.returnPaths) ?? find('return', BARE, evidence.feedbackIds) ??
    find('return', BARE, evidence.envelopeIds) ??
    find('unsubscribe', UNSUBSCRIBE, evidence.unsubscribeUrls)
  return pointer === null ? [] : [{ pointer, asked: false }]

  function find (use: TokenUse, pattern: RegExp, texts: readonly string[]): Pointer | null {
    for (const text of texts.slice(0, LOOKED_AT_MAX)) {
      const token = pattern.exec(text)?.[1]
      const pointer = token === undefined ? null : tokens.read(use, token)
      if (pointer !== null) return pointer
    }
    return null
  }
}

function ref (address: string, tokens: Pick<Tokens, 'read'>): About | null {
  const match = /^([bu])\+([^@]*)@/i.exec(address)
  if (match === null) return null
  const asked = match[1]!.toLowerCase() === 'u'
  const pointer = tokens.read(asked ? 'unsubscribe' : 'return', match[2]!)
  return pointer === null ? null : { pointer, asked }
}
