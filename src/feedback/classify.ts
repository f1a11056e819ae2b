import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { CLASSES, isGone, type BounceClass } from '#streams/email/classes.ts'
import type { SmtpStage } from '#streams/email/decide.ts'
import { plainLetters, readDiagnostic, type Clues, type Diagnostic } from './diagnostic.ts'
import { patternOf, readSections, type PhraseSection } from './sections.ts'

const CARRIERS = new RegExp(
  `@(?:[\\w-]{1,63}\\.){0,2}(?:${readSections('carriers.txt').map(section => patternOf(section).source).join('|')})` +
    '(?![\\w-]|\\.\\w)',
  'i'
)

/** Whether a carrier that calls a subscriber unknown means that his filter refused the message: it says so after DATA,
 *  which sendmail reports as `5.2.0`. A recipient that is gone it refuses at RCPT. `to` = the address, or a text that
 *  holds it. */
export function isFilterOfCarrier (
  why: BounceClass,
  { to, stage, status }: { to: string, stage: SmtpStage | null, status: string | null }
): boolean {
  if (why !== 'userunknown' || status?.slice(2) === '1.1') return false
  return (stage === 'data' || status === '5.2.0') && CARRIERS.test(to)
}

/** Enhanced status codes without their first digit (subject.detail, or the subject alone) when no text decides. Source:
 *  RFC 3463, 5248, 7293, 7372, 7504, 7505 and the IANA registry; from 7.30 on Google's, from 7.51 on Microsoft's own.
 */
const STATUSES: Record<string, BounceClass> = {
  1.1: 'userunknown',
  1.2: 'hostunknown',
  1.3: 'userunknown',
  1.6: 'hasmoved',
  1.7: 'rejected',
  1.8: 'rejected',
  '1.10': 'notaccept',
  2.1: 'suspend',
  2.2: 'mailboxfull',
  2.3: 'exceedlimit',
  2.4: 'filtered',
  3: 'systemerror',
  3.1: 'systemfull',
  3.2: 'notaccept',
  3.4: 'mesgtoobig',
  4: 'networkerror',
  4.4: 'hostunknown',
  4.5: 'systemerror',
  4.7: 'expired',
  5: 'syntaxerror',
  5.3: 'toomanyconn',
  5.6: 'contenterror',
  6: 'contenterror',
  '6.0': 'contenterror',
  7: 'policyviolation',
  '7.0': 'policyviolation',
  7.2: 'filtered',
  7.4: 'securityerror',
  7.5: 'securityerror',
  7.6: 'securityerror',
  7.7: 'securityerror',
  7.8: 'securityerror',
  7.9: 'securityerror',
  '7.10': 'securityerror',
  7.11: 'securityerror',
  7.12: 'securityerror',
  7.13: 'suspend',
  7.14: 'securityerror',
  7.16: 'mesgtoobig',
  7.17: 'hasmoved',
  7.18: 'hasmoved',
  '7.20': 'authfailure',
  7.21: 'authfailure',
  7.22: 'authfailure',
  7.23: 'authfailure',
  7.24: 'authfailure',
  7.25: 'requireptr',
  7.26: 'authfailure',
  7.27: 'rejected',
  7.28: 'speeding',
  7.29: 'authfailure',
  '7.30': 'authfailure',
  7.31: 'authfailure',
  7.32: 'authfailure',
  '7.40': 'authfailure',
  7.57: 'securityerror',
  7.64: 'norelaying',
  7.124: 'filtered',
  7.129: 'filtered',
  7.133: 'filtered',
  7.134: 'filtered',
  7.135: 'filtered',
  7.136: 'filtered',
  7.501: 'spamdetected',
  7.502: 'spamdetected',
  7.503: 'spamdetected',
  7.504: 'rejected',
  7.505: 'rejected',
  7.506: 'blocked',
  7.508: 'speeding',
  7.509: 'authfailure',
  '7.510': 'norelaying',
  7.511: 'blocked',
  7.512: 'notcompliantrfc',
  7.513: 'blocked',
  7.515: 'authfailure',
  '7.700': 'speeding',
  7.703: 'spamdetected',
  7.705: 'speeding',
  7.708: 'badreputation',
  '7.750': 'rejected'
}

/** The class a status such as `5.1.1` stands for, or null when it leaves the matter open. `x.n.0` means "other":
 *  servers write it when they mean nothing. */
export function classOfStatus (status: string): BounceClass | null {
  const [, subject, detail] = status.split('.') as [string, string, string]
  // Microsoft numbers its lists of bad senders.
  if (subject === '7' && /^6\d\d$/.test(detail)) return 'blocked'
  // A number alone that means "for now" does not say that the address is gone.
  if (status === '4.3.2') return 'systemerror'
  if (/^4\.1\.[1236]$/.test(status)) return 'onhold'
  return STATUSES[`${subject}.${detail}`] ?? (detail === '0' ? null : STATUSES[subject]) ?? null
}

/** A section of `phrases/rules`. A phrase is written in plain lower-case letters and found at the start of a word; `~`
 *  stands for up to 40 characters of the same sentence, the rest is a regular expression. Nothing may repeat without
 *  bound, so matching stays linear. */
interface Rule {
  class: BounceClass
  phrases: readonly string[]
  /** Texts that use the same words for something else. */
  unless?: readonly string[]
  /** Only with this subject.detail of the enhanced code … */
  status?: readonly string[]
  /** … this first digit of the basic one … */
  digit?: 4 | 5
  /** … at this stage. */
  stage?: SmtpStage
  /** The text around the last server's words counts, too. */
  wrapped?: true
}

interface Matcher {
  rule: Rule
  pattern: RegExp
  except: RegExp | null
}

const STAGES: readonly string[] = ['connect', 'ehlo', 'mail', 'rcpt', 'data'] satisfies SmtpStage[]

/** All rules, in the order in which they are tried: that of the files and of the sections in them. */
export const RULES: readonly Rule[] = readRules()

function readRules (): Rule[] {
  const names = new Map<string, string>()
  const files = readdirSync(join(import.meta.dirname, 'phrases/rules')).sort()
  return files.flatMap(file => readSections(`rules/${file}`, names).map(ruleOf))
}

/** `class [status=2.2,1.1] [digit=4] [stage=rcpt] [wrapped]`, then phrases, then what voids them behind `! `. Throws
 *  when the head is not of this form. */
export function ruleOf ({ head: [name, ...options], lines }: PhraseSection): Rule {
  const isException = (line: string) => line.startsWith('! ')
  const rule: Rule = { class: name as BounceClass, phrases: lines.filter(line => !isException(line)) }
  const exceptions = lines.filter(isException).map(line => line.slice(2))
  if (exceptions.length > 0) rule.unless = exceptions
  for (const option of options) {
    const [key, value = ''] = option.split('=')
    if (key === 'status' && /^\d\.\d+(,\d\.\d+)*$/.test(value)) rule.status = value.split(',')
    else if (key === 'digit' && /^[45]$/.test(value)) rule.digit = Number(value) as 4 | 5
    else if (key === 'stage' && STAGES.includes(value)) rule.stage = value as SmtpStage
    else if (option === 'wrapped') rule.wrapped = true
    else throw new Error(`${name}: an option must be status=, digit=, stage= or wrapped, not ${option}`)
  }
  if (!CLASSES.includes(rule.class)) throw new Error(`${name}: must be a class of streams/email/classes.ts`)
  if (rule.phrases.length === 0) throw new Error(`${name}: a rule must have a phrase`)
  return rule
}

export function compile (rule: Rule): Matcher {
  return {
    rule,
    pattern: anyOf(rule.phrases, 'gu'),
    except: rule.unless === undefined ? null : anyOf(rule.unless, 'u')
  }
}

function anyOf (phrases: readonly string[], flags: 'u' | 'gu'): RegExp {
  const sources = phrases.map(phrase =>
    plainLetters(phrase).replaceAll('~', '(?:[^.;!]|[.](?! )){0,40}?').replaceAll('\\w', '[\\p{L}\\d]')
  )
  // `\b` knows ASCII letters only: other scripts have no word boundary here.
  return new RegExp(
    sources.map(source => /^[([]*[a-z\d]/.test(source) ? `\\b(?:${source})` : `(?:${source})`).join('|'),
    flags
  )
}

/** Before RCPT no recipient was named: "host not found" answers EHLO, "user unknown" our own address. Only that
 *  there is no such host is said at connecting. */
const LATER: Partial<Record<SmtpStage, readonly BounceClass[]>> = {
  connect: ['userunknown', 'hasmoved', 'suspend', 'mailboxfull', 'filtered'],
  ehlo: ['userunknown', 'hostunknown', 'hasmoved', 'suspend', 'mailboxfull', 'filtered'],
  mail: ['userunknown', 'hostunknown', 'hasmoved', 'notaccept']
}

/** Does the rule speak about this diagnostic? */
function applies (matcher: Matcher, diagnostic: Diagnostic): boolean {
  const { rule } = matcher
  if (!holds(rule, diagnostic) || !canMean(rule.class, diagnostic.stage)) return false
  const texts = rule.wrapped === true ? [diagnostic.words, diagnostic.all] : [diagnostic.words]
  return texts.some(text => isSaid(matcher, text))
}

/** Is one of the phrases in the text, and nothing near it that voids it? */
function isSaid ({ pattern, except }: Matcher, text: string): boolean {
  const first = text.search(pattern)
  if (first === -1 || except === null) return first !== -1
  for (const { 0: phrase, index } of text.matchAll(pattern)) {
    if (!except.test(text.slice(Math.max(index - NEAR, 0), index + phrase.length + NEAR))) return true
  }
  return false
}

/** How far from a phrase that counts there may be another that voids it: long replies speak of more than one thing. */
const NEAR = 160

function holds ({ status, digit, stage }: Rule, diagnostic: Diagnostic): boolean {
  if (stage !== undefined && stage !== diagnostic.stage) return false
  if (digit !== undefined && digit !== firstDigit(diagnostic)) return false
  return status === undefined || (diagnostic.status !== null && status.includes(diagnostic.status.slice(2)))
}

/** Can a refusal at this stage mean the class? */
export function canMean (why: BounceClass, stage: SmtpStage | null): boolean {
  return stage === null || LATER[stage]?.includes(why) !== true
}

function firstDigit ({ code, status }: Diagnostic): number | null {
  if (code !== null) return Math.trunc(code / 100)
  return status === null ? null : Number(status[0])
}

/** Compiled with the first reply: many processes read none. */
let matchers: readonly Matcher[] | undefined

/** Why a server, or a report for it, refused: what it wrote, then the enhanced code, then the basic code at its stage.
 *  `text` = a reply, a Diagnostic-Code or a sentence from a bounce, of any length; what is not known is null. Throws
 *  nothing. See README.md. */
export function classify (input: Clues): BounceClass {
  const diagnostic = readDiagnostic(input)
  const { status, stage } = diagnostic
  const why = classOf(diagnostic)
  return isFilterOfCarrier(why, { to: input.text, stage, status }) ? 'filtered' : why
}

function classOf (diagnostic: Diagnostic): BounceClass {
  const { status } = diagnostic
  const words = classOfWords(diagnostic)
  // "Later" alone gives no reason; a code may, unless it is about policy or the address in general.
  if (words !== null && (words !== 'onhold' || status === null || /^.\.[17]\./.test(status))) return words
  const coded = status === null ? null : classOfStatus(status)
  return (coded === null || !canMean(coded, diagnostic.stage) ? null : coded) ?? words ?? classOfCode(diagnostic)
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
