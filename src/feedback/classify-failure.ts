import { CLASSES, type BounceClass } from '#streams/email/classes.ts'
import type { SmtpStage } from '#streams/email/decide.ts'
import { isFilterOfCarrier, canMean, classify } from './classify.ts'
import { stageIn } from './diagnostic.ts'
import { printable } from './reply.ts'
import { patternOf, readSections } from './sections.ts'

/** What is known of one failure; `status` and `code` as a report states them, or null. */
export interface FailureClues {
  /** From the most to the least particular. The last is the whole text, or empty. */
  texts: string[]
  /** All that is said of this failure, as it was written: it names the stage. */
  context: string
  /** The recipient, or null when nobody says. */
  to: string | null
  status: string | null
  code: number | null
  /** Words for what a machine-readable field says, if one does. */
  category: string | null
}

/** What a failure means. */
export interface FailureVerdict {
  reason: BounceClass
  status: string | null
  code: number | null
  diagnostic: string | null
}

/** What programs that write bounces say themselves, and no server would answer so. Tried before the rules. */
export const GLOSSARY: ReadonlyArray<[RegExp, BounceClass]> = readSections('glossary.txt').map(section => {
  const why = section.head[0] as BounceClass
  if (!CLASSES.includes(why)) throw new Error(`glossary.txt: ${why} must be a class of streams/email/classes.ts`)
  return [patternOf(section, section.head[1]), why]
})

/** Sentences that greet, guess at causes or advise. They would pass for a diagnosis. */
export const BOILERPLATE: readonly RegExp[] = readSections('boilerplate.txt')
  .map(section => patternOf(section, section.head[1]))

/** A subject is 0 to 7 (RFC 3463); what follows a program's name is its version. */
const PROGRAMS = 'version|ver\\.?|release|build|exim|imail|pro|mdaemon|pmdf|sendmail|postfix|\\bv'
const STATUS = new RegExp(`(?<![\\d.])(?<!(?:${PROGRAMS}) ?/?)([245]\\.[0-7]\\.\\d{1,3})(?!\\.?\\d)`, 'gi')
const CODE = /(?<![\w.@-])([45][0-57]\d)(?=[\s\-;:,#<(\])]|$)/
const CLUE_LENGTH_MAX = 4000

/** The reason of a failure. What a text says goes before what a number says: Exim reports 5.0.0 for everything,
 *  gateways repeat a number with other words. A general text is asked only when neither the particular ones nor the
 *  numbers know, and `something went wrong` only when no text says what. */
export function classifyFailure ({ texts, context, to, status, code, category }: FailureClues): FailureVerdict {
  const clues = texts.map(text => text.slice(0, CLUE_LENGTH_MAX).trim())
  const said = clues.filter(text => text !== '')
  const best = bestStatus(said, status)
  const named = stageIn(said[0] ?? '') ?? stageIn(context, said[0])
  // Who sends commands in one go has said DATA before the answer to RCPT comes.
  const stage = named === 'data' && best?.endsWith('.1.1') === true ? 'rcpt' : named
  const digits = code ?? codeIn(said)
  const opinions = said.map(text => reasonIn(text, stage))
  // What is said around a reply that blames the server does not say more.
  const blamed = opinions.findIndex((one, n) => one === 'systemerror' && /^[45]\d\d[ -]/.test(said[n]!))
  const general = clues.at(-1) === '' ? 0 : 1
  const particular = opinions.slice(0, blamed === -1 ? opinions.length - general : blamed)
  const isPutOff = opinions[0] === 'systemerror' || opinions[0] === 'onhold'
  const numbered = isPutOff && /^.\.[17]\./.test(best ?? '')
    ? 'undefined'
    : classify({ text: '', status: best, code: null, stage })
  const categorized = category === null ? 'undefined' : reasonIn(category, stage)
  const bare = classify({ text: '', status: best, code: digits, stage })
  const first = [...particular, categorized, numbered].find(isTelling) ??
    opinions.slice(0, blamed === -1 ? opinions.length : blamed + 1).find(one => isTelling(one)) ??
    [...opinions, numbered, bare].find(one => one !== 'undefined') ?? 'undefined'
  const diagnostic = printable(said[opinions.indexOf(first)] ?? said[0] ?? '').trim()
  const reason = isFilterOfCarrier(first, { to: to ?? '', stage, status: best }) ? 'filtered' : first
  return { reason, status: best, code: digits, diagnostic: diagnostic === '' ? null : diagnostic }
}

/** Texts without the sentences that every such report carries. */
export function withoutBoilerplate (text: string): string {
  return BOILERPLATE.reduce((rest, sentence) => rest.replaceAll(sentence, ''), text.slice(0, 16_000))
}

const WRAPS = new RegExp(
  '\\bsaid:|responded:?|gave this error:|returned was:|was:|server replied:|did not like .{1,60}:|Error message:|' +
    'error from remote (?:mail )?server after .{1,120}:(?:\\s{1,20}host \\S{1,255} \\[\\S{1,60}\\]:)?'
)
/** A line may begin with the time. */
const QUOTED = new RegExp(
  '^[ \\t]{0,12}(?:[A-Z\\d][\\w:,/. -]{6,30}:[ \\t])?' +
    '(?:<<<|<--|Received (?:<<<|>>>)|S:|Out:|Response:|Remote server replied:|\\(reason:)[ \\t]*(.{3,600})',
  'gim'
)
const WRAPPED = new RegExp(`(?:${WRAPS.source})\\s*([45]\\d\\d[^]{3,800})`, 'i')

/** What other servers answered, as transcripts and wrapped replies quote it; the last word first. */
export function repliesIn (text: string): string[] {
  const replies: string[] = []
  for (const [, line] of text.matchAll(QUOTED)) {
    const reply = line!.trimEnd()
    // The lines of one reply belong together.
    const isNext = /^[45]\d\d-/.test(replies.at(-1)?.split('\n').at(-1) ?? '') &&
      reply.slice(0, 3) === replies.at(-1)!.slice(0, 3)
    if (isNext) replies[replies.length - 1] += `\n${reply}`
    else replies.push(reply)
  }
  const wrapped = WRAPPED.exec(text)?.[1]
  const all = [
    ...replies.filter(reply => /^['"]?[45]\d\d/.test(reply)).reverse(),
    ...(wrapped === undefined ? [] : [wrapped])
  ]
  // What a server says to the rest of a transaction that it has refused already.
  return all.filter(reply => !/^50[0-4]\b.{0,20}(?:need|no valid|valid|bad sequence|must)/i.test(reply)).slice(0, 4)
}

/** What a text means by itself, in a program's own words or a server's. */
function reasonIn (text: string, stage: SmtpStage | null): BounceClass {
  const line = text.replaceAll(/\s+/g, ' ')
  const own = GLOSSARY.find(([phrase, why]) => canMean(why, stage) && phrase.test(line))?.[1]
  return own ?? classify({ text, status: null, code: null, stage })
}

/** Greetings and afterthoughts amount to these, too. */
export function isTelling (reason: string): boolean {
  return reason !== 'undefined' && reason !== 'onhold' && reason !== 'systemerror'
}

/** `5.0.0` does not count while there is another status. */
function bestStatus (said: string[], status: string | null): string | null {
  const found = said.flatMap(text => [...text.matchAll(STATUS)].map(match => match[1]!)).filter(one =>
    !one.startsWith('2')
  )
  const stated = status !== null && /^[245]\.\d{1,3}\.\d{1,3}$/.test(status) ? status : null
  const all = stated === null || stated.endsWith('.0.0')
    ? [...found, stated]
    : [found.find(one => !one.endsWith('.0.0') && said[0]!.includes(one)), stated]
  return all.find(one => one?.endsWith('.0.0') === false) ?? all.find(one => one != null) ?? null
}

function codeIn (said: string[]): number | null {
  for (const text of said) {
    const code = CODE.exec(text)?.[1]
    if (code !== undefined) return Number(code)
  }
  return null
}
