import { isGone, type BounceClass } from '#streams/email/classes.ts'
import type { Outcome, SmtpReply, SmtpStage } from '#streams/email/decide.ts'
import { classify } from './classify.ts'

/** What a reply means for the recipient. */
export interface Verdict {
  kind: 'delivered' | 'deferred' | 'bounced'
  /** Why, in one word; `delivered` for a yes. */
  class: BounceClass | 'delivered'
  /** The address itself is gone: no more mail to it. Follows `class` alone. */
  suppress: boolean
  /** The reply is about the server or our reputation there, not this message: it holds for every message to that
   *  server. */
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
  // A 5xx banner or a refused login is about us, not about this message.
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
