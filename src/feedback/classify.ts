import { isGone, type BounceClass } from '#streams/email/classes.ts'
import { readDiagnostic, type Clues, type Diagnostic } from './diagnostic.ts'
import { applies, compile, isTooEarly, RULES, type Matcher } from './rules.ts'
import { classOfStatus } from './statuses.ts'

/** Compiled with the first reply: many processes read none. */
let matchers: readonly Matcher[] | undefined

/** Why a server, or a report for it, refused: what it wrote, then the enhanced code, then the basic code at
 *  its stage. `text` = a reply, a Diagnostic-Code or a sentence from a bounce, of any length; what is not known is
 *  null. Throws nothing. See README.md. */
export function classify (input: Clues): BounceClass {
  const diagnostic = readDiagnostic(input)
  const { status } = diagnostic
  const words = classOfWords(diagnostic)
  // "Later" alone gives no reason; a code may, unless it is about policy or the address in general.
  if (words !== null && (words !== 'onhold' || status === null || /^.\.[17]\./.test(status))) return words
  const coded = status === null ? null : classOfStatus(status)
  return (coded === null || isTooEarly(coded, diagnostic.stage) ? null : coded) ?? words ?? classOfCode(diagnostic)
}

/** What the words say, or null when they say nothing. */
function classOfWords (diagnostic: Diagnostic): BounceClass | null {
  matchers ??= RULES.map(compile)
  return matchers.find(matcher => applies(matcher, diagnostic))?.rule.class ?? null
}

/** `hard` = the address is gone, whatever the reply's first digit: that one says whether to try again. Only `notaccept`
 *  may be temporary. Source: contract, "jetpost explain". */
export function verdictOnAddress (
  why: BounceClass,
  { code, status }: { code: number | null, status: string | null }
): 'hard' | 'soft' {
  const passing = code === null ? status?.startsWith('4.') === true : code < 500
  return isGone(why) && !(why === 'notaccept' && passing) ? 'hard' : 'soft'
}

/** With no other clue: a bare 550 at RCPT is often policy, so it is not taken for a missing user. */
function classOfCode ({ code, stage }: Pick<Clues, 'code' | 'stage'>): BounceClass {
  const known = code === null ? undefined : CODES[code]
  if (known !== undefined) return known
  if (code === 552 || code === 452) return stage === 'data' ? 'mesgtoobig' : 'mailboxfull'
  if (stage === 'connect' || stage === 'ehlo') return code !== null && code >= 500 ? 'blocked' : 'systemerror'
  return code !== null && code >= 500 && stage === 'mail' ? 'rejected' : 'undefined'
}

/** Basic codes that mean one thing. Source: RFC 5321 4.2.3, 4954, 3207, 7504. */
const CODES: Record<number, BounceClass> = {
  421: 'systemerror',
  432: 'securityerror',
  451: 'systemerror',
  454: 'securityerror',
  500: 'syntaxerror',
  501: 'syntaxerror',
  502: 'syntaxerror',
  503: 'syntaxerror',
  504: 'syntaxerror',
  521: 'notaccept',
  556: 'notaccept',
  523: 'securityerror',
  530: 'securityerror',
  534: 'securityerror',
  535: 'securityerror',
  538: 'securityerror'
}
