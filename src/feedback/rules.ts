import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { CLASSES, type BounceClass } from '#streams/email/classes.ts'
import type { SmtpStage } from '#streams/email/decide.ts'
import { plainLetters, type Diagnostic } from './diagnostic.ts'
import { readSections, type PhraseSection } from './sections.ts'

/** A section of `phrases/rules`. A phrase is written in plain lower-case letters and found at the start of a word; `~`
 *  stands for up to 40 characters of the same sentence, the rest is a regular expression. Nothing may repeat without
 *  bound, so matching stays linear. */
export interface Rule {
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

export interface Matcher {
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
  return { rule, pattern: anyOf(rule.phrases), except: rule.unless === undefined ? null : anyOf(rule.unless) }
}

function anyOf (phrases: readonly string[]): RegExp {
  const sources = phrases.map(phrase =>
    plainLetters(phrase).replaceAll('~', '(?:[^.;!]|[.](?! )){0,40}?').replaceAll('\\w', '[\\p{L}\\d]')
  )
  // `\b` knows ASCII letters only: other scripts have no word boundary here.
  return new RegExp(
    sources.map(source => /^[([]*[a-z\d]/.test(source) ? `\\b(?:${source})` : `(?:${source})`).join('|'),
    'u'
  )
}

/** Before RCPT no recipient was named: "host not found" answers EHLO, "user unknown" our own address. Only that
 *  there is no such host is said at connecting. */
const LATER: Partial<Record<SmtpStage, readonly BounceClass[]>> = {
  connect: ['userunknown', 'hasmoved', 'suspend', 'mailboxfull', 'filtered'],
  ehlo: ['userunknown', 'hostunknown', 'hasmoved', 'suspend', 'mailboxfull', 'filtered'],
  mail: ['userunknown', 'hostunknown', 'hasmoved']
}

/** Does the rule speak about this diagnostic? */
export function applies ({ rule, pattern, except }: Matcher, diagnostic: Diagnostic): boolean {
  if (!holds(rule, diagnostic) || isTooEarly(rule.class, diagnostic.stage)) return false
  const texts = rule.wrapped === true ? [diagnostic.words, diagnostic.all] : [diagnostic.words]
  return texts.some(text => pattern.test(text) && except?.test(text) !== true)
}

function holds ({ status, digit, stage }: Rule, diagnostic: Diagnostic): boolean {
  if (stage !== undefined && stage !== diagnostic.stage) return false
  if (digit !== undefined && digit !== firstDigit(diagnostic)) return false
  return status === undefined || (diagnostic.status !== null && status.includes(diagnostic.status.slice(2)))
}

/** Can a reply at this stage not mean the class? */
export function isTooEarly (why: BounceClass, stage: SmtpStage | null): boolean {
  return stage !== null && LATER[stage]?.includes(why) === true
}

function firstDigit ({ code, status }: Diagnostic): number | null {
  if (code !== null) return Math.trunc(code / 100)
  return status === null ? null : Number(status[0])
}
