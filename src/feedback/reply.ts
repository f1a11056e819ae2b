import { isGone, type BounceClass } from '#streams/email/classes.ts'
import type { Outcome, SmtpReply, SmtpStage } from '#streams/email/decide.ts'
import { readDiagnostic, type Clues } from './diagnostic.ts'
import { classOfWords } from './order.ts'
import { isTooEarly } from './rules.ts'
import { classOfStatus } from './statuses.ts'

/** What a reply means for the recipient. */
export interface Verdict {
  kind: 'delivered' | 'deferred' | 'bounced'
  /** Why, in one word; `delivered` for a yes. */
  class: BounceClass | 'delivered'
  /** The address itself is gone: no more mail to it. Follows `class` alone. */
  suppress: boolean
  /** The server or our standing with it was the matter, not this message: it speaks for every message on its way there.
   */
  hostTrouble: boolean
}

/** About the session: log in first, encrypt first, wrong order, closing. They would be said to any message. */
const SESSION_CODES = new Set([421, 503, 530, 534, 535, 538])

/** A reply as the lines came, or null when it is none: three digits, the first 2, 4 or 5. Source: RFC 5321 4.2. */
export function parseReply (text: string): SmtpReply | null {
  const match = /^([245]\d\d)(?:[ -](?:([245]\.\d{1,3}\.\d{1,3})(?:\s|$))?|$)/.exec(text)
  if (match === null) return null
  const enhanced = match[2]?.startsWith(match[1]![0]!) === true ? match[2] : null
  return { code: Number(match[1]), enhanced, text: printable(text) }
}

/** What may stand in a fact: no control characters but line ends, no halves of surrogate pairs, 1,000 characters. */
export function printable (text: string): string {
  return text.replaceAll(/[^\P{Cc}\n\t]/gu, '').slice(0, 1000).toWellFormed()
}

/** The meaning of a reply at a stage. The first digit alone says whether to try again; the class, why. */
export function verdictOf (reply: SmtpReply, stage: SmtpStage): Verdict {
  if (reply.code < 300) return { kind: 'delivered', class: 'delivered', suppress: false, hostTrouble: false }
  const early = stage === 'connect' || stage === 'ehlo'
  const hostTrouble = early || SESSION_CODES.has(reply.code)
  // A 5xx banner or a refused login is about us: nobody has said anything about this message yet.
  const final = reply.code >= 500 && !hostTrouble
  const why = classify({ text: reply.text, status: reply.enhanced, code: reply.code, stage })
  return { kind: final ? 'bounced' : 'deferred', class: why, suppress: final && isGone(why), hostTrouble }
}

/** The verdict as what is recorded of it. */
export function outcomeOf (reply: SmtpReply, stage: SmtpStage): Outcome {
  const { kind, class: why, hostTrouble } = verdictOf(reply, stage)
  switch (kind) {
    case 'delivered':
      return { kind, reply }
    case 'bounced':
      return { kind, reply, status: reply.enhanced, error: null, class: why }
    case 'deferred':
      return { kind, reply, error: null, class: why, hostTrouble }
  }
}

/** Why a server, or the one who speaks for it, said no: what it wrote, then the enhanced code, then the basic code at
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

/** `hard` = the address is gone, whatever the reply's first digit: that one says whether to try again. Only a host that
 *  takes no mail may mean for the moment. Source: contract, "jetpost explain". */
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
