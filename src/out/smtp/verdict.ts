import type { Outcome, SmtpReply, SmtpStage } from '#streams/email/decide.ts'

/** What a reply means for the recipient. */
export interface Verdict {
  kind: 'delivered' | 'deferred' | 'bounced'
  /** Why, in one word; `delivered` for a yes. */
  class: string
  /** The address itself is gone: no more mail to it. Follows `class` alone. */
  suppress: boolean
  /** The server or our standing with it was the matter, not this message: it speaks for every message on its way there. */
  hostTrouble: boolean
}

/** Classes that say the address is gone for good. */
const GONE = new Set(['userunknown', 'hostunknown', 'hasmoved', 'notaccept'])

/** About the session: log in first, encrypt first, wrong order, closing. They would be said to any message. */
const SESSION_CODES = new Set([421, 503, 530, 534, 535, 538])

/** What servers write, most telling first: reputation and policy before mailboxes, since blocks like to mention users. Addresses are cut out
 *  before. */
const TEXTS: Array<[RegExp, string]> = [
  [/\b(blocked|block ?list|black ?list|deny ?list|spamhaus|barracuda|rbl|dnsbl)\b/i, 'blocked'],
  [/reputation/i, 'badreputation'],
  [/reverse dns|\bptr\b|rdns/i, 'requireptr'],
  [/\b(spf|dkim|dmarc|unauthenticated|authenticat\w+ (?:check|fail|required by))\b/i, 'authfailure'],
  [/\b(spam|unsolicited|junk|bulk mail)\b/i, 'spamdetected'],
  [/\b(virus|malware|infected)\b/i, 'virusdetected'],
  [/(mailbox|quota|inbox|account).{0,30}(full|exceeded|over)|over ?quota|insufficient (?:system )?storage/i, 'mailboxfull'],
  [/message (?:size|is too (?:big|large))|too large|size limit/i, 'mesgtoobig'],
  [/too many (?:connections|sessions|concurrent)/i, 'toomanyconn'],
  [/rate limit|too (?:fast|frequent|many (?:messages|recipients|emails))|throttl|grey ?list|try again later/i, 'speeding'],
  [/relay(?:ing)? (?:access )?(?:denied|not permitted|not allowed)|unable to relay|not permitted to relay/i, 'norelaying'],
  [/(?:mailbox|account|user|address).{0,30}(?:disabled|suspended|inactive|deactivated)/i, 'suspend'],
  [/(?:user|recipient|mailbox|address|account|person).{0,40}(?:unknown|not found|does ?n[o']t exist|no longer|invalid|unavailable)/i, 'userunknown'],
  [/no such (?:user|mailbox|recipient|address|person)|unknown (?:user|recipient|local part|mailbox)/i, 'userunknown'],
  [/(?:domain|host).{0,30}(?:not found|unknown|does ?n[o']t exist)|unrouteable/i, 'hostunknown'],
  [/has moved|user moved/i, 'hasmoved'],
  [/does not accept (?:mail|email)/i, 'notaccept']
]

/** RFC 3463 and its registry, without the first digit: subject.detail, or subject alone. */
const STATUSES: Record<string, string> = {
  1.1: 'userunknown', 1.3: 'userunknown', 1.2: 'hostunknown', '1.10': 'hostunknown', 1.6: 'hasmoved', 1.7: 'rejected', 1.8: 'rejected',
  2: 'undefined', 2.1: 'suspend', 2.2: 'mailboxfull', 2.3: 'mesgtoobig',
  3: 'systemerror', 3.1: 'systemfull', 3.2: 'notaccept', 3.4: 'mesgtoobig',
  4: 'networkerror', 4.5: 'systemerror', 4.7: 'expired',
  5: 'syntaxerror',
  6: 'contenterror',
  7: 'policyviolation', 7.13: 'suspend', 7.17: 'userunknown', 7.18: 'hostunknown', '7.20': 'authfailure', 7.21: 'authfailure',
  7.22: 'authfailure', 7.23: 'authfailure', 7.24: 'authfailure', 7.25: 'requireptr', 7.26: 'authfailure', 7.28: 'speeding'
}

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
  const why = hostTrouble ? hostClass(reply) : classOf(reply, stage)
  return { kind: final ? 'bounced' : 'deferred', class: why, suppress: final && GONE.has(why), hostTrouble }
}

/** The verdict as what is recorded of it. */
export function outcomeOf (reply: SmtpReply, stage: SmtpStage): Outcome {
  const { kind, class: why, hostTrouble } = verdictOf(reply, stage)
  switch (kind) {
    case 'delivered': return { kind, reply }
    case 'bounced': return { kind, reply, class: why }
    case 'deferred': return { kind, reply, error: null, class: why, hostTrouble }
  }
}

function hostClass (reply: SmtpReply): string {
  return [530, 534, 535, 538].includes(reply.code) ? 'securityerror' : textClass(reply) ?? 'systemerror'
}

function classOf (reply: SmtpReply, stage: SmtpStage): string {
  return textClass(reply) ?? statusClass(reply) ?? codeClass(reply.code, stage)
}

function textClass ({ text }: SmtpReply): string | null {
  const said = text.replaceAll(/<[^>]*>|\S+@\S+/g, ' ').replaceAll('\n', ' ')
  return TEXTS.find(([pattern]) => pattern.test(said))?.[1] ?? null
}

function statusClass ({ enhanced }: SmtpReply): string | null {
  if (enhanced === null) return null
  const [, subject, detail] = enhanced.split('.')
  return STATUSES[`${subject}.${detail}`] ?? STATUSES[subject!] ?? null
}

/** With no other clue: a bare 550 at RCPT is often policy, so it is not taken for a missing user. */
function codeClass (code: number, stage: SmtpStage): string {
  if (code === 552 || code === 452) return stage === 'data' ? 'mesgtoobig' : 'mailboxfull'
  if (code === 521 || code === 556) return 'notaccept'
  return code >= 500 && stage === 'mail' ? 'rejected' : 'undefined'
}
