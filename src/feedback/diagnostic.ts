import type { SmtpStage } from '#streams/email/decide.ts'
import { patternOf, readSections } from './sections.ts'

/** What is known of a refusal. `text` may be a reply, a Diagnostic-Code field, or a sentence from a bounce's body. */
export interface Clues {
  text: string
  status: string | null
  code: number | null
  stage: SmtpStage | null
}

/** A diagnostic made ready for rules: `words` is what the last server in the chain said, `all` everything, both folded
 *  (see `fold`). */
export interface Diagnostic {
  words: string
  all: string
  status: string | null
  code: number | null
  stage: SmtpStage | null
}

/** Nobody explains a refusal at greater length; what is beyond would only cost time. Of long words the end counts, too:
 *  some servers introduce themselves first. */
const RAW_MAX = 6000
const WORDS_MAX = 1500
const TAIL_MAX = 500

export function readDiagnostic ({ text, status, code, stage }: Clues): Diagnostic {
  const raw = rawOf(text)
  const said = lastSaid(raw)
  return {
    words: plain(said.text),
    all: said.text === raw ? '' : plain(raw),
    status: statusIn(said.text, status),
    code: code ?? codeIn(said.text),
    stage: stage ?? stageAt(raw, said.at)
  }
}

/** At which stage of a transaction the refusal came that a text tells of, or null when it does not say. `reply` = the
 *  refusal, when it is known: a transcript says it behind the command that it answers. */
export function stageIn (text: string, reply = ''): SmtpStage | null {
  const raw = rawOf(text)
  const { at } = lastSaid(raw)
  const line = rawOf(reply).split('\n', 1)[0]!.trim()
  return stageAt(raw, at > 0 || line === '' ? at : Math.max(raw.lastIndexOf(line), 0))
}

function rawOf (text: string): string {
  return text.slice(0, RAW_MAX).normalize('NFKC').replaceAll(/\r\n?/g, '\n')
}

/** Postfix, qmail, Exchange and others wrap what the next server told them; only the innermost says why. */
const SAID = new RegExp(
  [
    '\\bsaid:',
    '\\bresponded with(?! code):?',
    '\\bto talk to me:',
    '\\b(?:remote|other) server returned(?: was)?:?',
    '\\bserver response was:?',
    '\\bunknown address error(?= [45]\\d\\d)',
    '\\berror from remote (?:mail )?server after [^:\\n]{3,60}:',
    '\\bdiagnostic-code:(?: {0,3}smtp;)?',
    '\\b(?:reason: {0,3}|smtp; {0,3}|response:? )(?=[45]\\d\\d\\b)'
  ].join('|'),
  'gi'
)

/** What a server said, and where in the whole it begins. */
interface LastWords {
  text: string
  at: number
}

function lastSaid (raw: string): LastWords {
  const transcript = answered(raw)
  if (transcript !== null) return transcript
  const ends = [...raw.matchAll(SAID)].map(match => match.index + match[0].length).filter(end =>
    /[\p{L}\d]/u.test(raw.slice(end, end + 200))
  )
  return { text: raw.slice(ends.at(-1) ?? 0), at: ends.at(-1) ?? 0 }
}

/** Of sendmail's transcript the lines behind `<<<`; some turn both arrows round. That DATA then needs a recipient
 *  follows from the refusal and explains nothing. */
function answered (raw: string): LastWords | null {
  const lines = [...raw.matchAll(/(?:(?<!\bsent )<<<|(?<=\breceived )>>>)([^\n]*?)(?=\n|>>>|<<<|$)/gi)]
    .map(match => ({ text: match[1]!.trim(), at: match.index }))
    .filter(({ text }) => text !== '')
  const telling = lines.filter(({ text }) => !/^503|^554[ -](?:5\.\d\.\d )?no valid recipients/i.test(text))
  const last = (telling.length > 0 ? telling : lines).at(-1)
  if (last === undefined) return null
  const reply = lines.filter(({ text }) => text.slice(0, 3) === last.text.slice(0, 3))
  return { text: reply.map(({ text }) => text).join('\n'), at: last.at }
}

/** A code that says something beats `5.0.0` and its like; one inside the text beats what stands in a Status field. */
function statusIn (said: string, given: string | null): string | null {
  const found = [...said.matchAll(/(?<![\d.])[45]\.\d\.\d{1,3}(?![\d.]*\d)/g)].map(match => match[0])
  return [...found, given].find(status => status !== null && !status.endsWith('.0')) ?? given ?? found[0] ?? null
}

function codeIn (said: string): number | null {
  const match = /(?:^|[\s;:'"(<#=])([45]\d\d)(?=[\s\-#:,)]|$)/.exec(said)
  return match === null ? null : Number(match[1])
}

/** Postfix names the stage behind what the server said, all others before it. */
const IN_REPLY_TO = /\(in\s{1,20}reply\s{1,20}to\s{1,20}([^)]{2,60})\)/gi

/** What names a stage. */
const STAGES: ReadonlyArray<[SmtpStage, RegExp]> = readSections('stages.txt', new Map())
  .map(section => [section.head[0] as SmtpStage, patternOf(section, section.head[1])])

/** The stage that is named nearest to the words that begin at this place. */
function stageAt (raw: string, at: number): SmtpStage | null {
  const behind = raw.slice(at).matchAll(IN_REPLY_TO).next().value?.[1]
  const text = behind === undefined ? raw : `in reply to ${behind.replaceAll(/\s+/g, ' ')}`
  const named = STAGES.flatMap(([stage, pattern]) => [...text.matchAll(pattern)].map(({ index }) => ({ stage, index })))
    .sort((a, b) => a.index - b.index)
  return (named.findLast(({ index }) => index < at) ?? named[0])?.stage ?? null
}

/** Names of block lists: in a reply they are the reason, wherever they stand. */
const LISTS = new RegExp(
  'spamhaus|spamcop|sorbs\\.|barracudacentral|uceprotect|abuseat|abusix|psbl\\.|surriel|njabl|invaluement|mailspike|' +
    'manitu|dnsbl|(?<!su)rbl\\.|blacklist|blocklist|spamrats|backscatterer|gbudb|hostkarma|junkemailfilter|lashback|' +
    'nixspam|spameatingmonkey|s5h\\.|spfbl|0spam|mail-abuse|csi\\.cloudmark',
  'i'
)

/** Words that names of hosts and pages must not lend to the matching: addresses, links, hosts, ids, codes and the marks
 *  around them. */
function plain (text: string): string {
  const bare = joined(text.replaceAll(IN_REPLY_TO, ' '))
    .replaceAll(/\bhttps?:\/\/[^\s<>"]{1,400}/gi, linkWord)
    .replaceAll(/<[^<>\s]{0,320}>/g, tagWord)
    .replaceAll(/[\w.!#$%&*+/=?^`{|}~-]{1,64}@[\w.-]{1,255}/g, ' ')
    .replaceAll(/\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b/g, ' ip ')
    .replaceAll(
      /(?<![\w.-])(?:[\w-]{1,63}\.){1,8}(?:com|net|org|edu|gov|info|biz|cloud|email|[a-z]{2})(?![\w-]|\.\w)/gi,
      hostWord
    )
  const words = fold(bare)
  return words.length <= WORDS_MAX ? words : `${words.slice(0, WORDS_MAX - TAIL_MAX)} ${words.slice(-TAIL_MAX)}`
}

/** The lines of a reply as one sentence: some reports join them with their codes in between. */
function joined (text: string): string {
  const lines = text.replaceAll(/\n[ \t]{0,20}[245]\d\d[- ](?:[245]\.\d{1,3}\.\d{1,3}[- ]?)?/g, ' ')
  const code = /(?<!\S)([245]\d\d)-/.exec(lines)?.[1]
  return code === undefined
    ? lines
    : lines.replaceAll(new RegExp(`(?<=\\s)${code}[- ](?:[245]\\.\\d{1,3}\\.\\d{1,3}[- ]?)?`, 'g'), ' ')
}

/** Of a link only what it leads to, if that is the reason, or the reason Google puts into its query. */
function linkWord (link: string): string {
  if (LISTS.test(link)) return ' dnsbl '
  if (/open-?spf/i.test(link)) return ' spf '
  if (/smtplf/i.test(link)) return ' bare lf '
  if (/surbl|uribl/i.test(link)) return ' uribl '
  return ` ${/[?&]p=\w{1,40}/.exec(link)?.[0].slice(1) ?? ''} `
}

function tagWord (tag: string): string {
  return LISTS.test(tag) && !tag.includes('@') ? ' dnsbl ' : ' '
}

/** A sentence that begins right behind a full stop looks like a host, too: what ends in an English word stays. */
function hostWord (host: string): string {
  if (LISTS.test(host)) return ' dnsbl '
  if (/surbl|uribl/i.test(host)) return ' uribl '
  return /\.(?:if|in|it|to|no|is|so|we|me|my|or|as|at|be)$/i.test(host) && !/[\d-]|\..*\./.test(host)
    ? host.replace('.', '. ')
    : ' '
}

const LETTERS: Record<string, string> = { ß: 'ss', ø: 'o', æ: 'ae', œ: 'oe', ł: 'l', đ: 'd', ı: 'i' }

/** Lower case without accents: senders and their machines lose them on the way. */
export function plainLetters (text: string): string {
  return text.toLowerCase().normalize('NFKD').replaceAll(/\p{Mn}/gu, '').normalize('NFC').replaceAll(
    /[ßøæœłđı]/g,
    letter => LETTERS[letter]!
  )
}

/** One spelling for all: plain letters, no quotes and brackets, `n't` as `not`, words joined by hyphens or underscores
 *  apart. */
function fold (text: string): string {
  return plainLetters(text)
    .replaceAll(/[’‘`´]/g, "'")
    .replaceAll(/\bcan't\b|\bcannot\b/g, 'can not').replaceAll(/\bwon't\b/g, 'will not').replaceAll(/n't\b/g, ' not')
    .replaceAll(/\b(do|does|is)nt\b/g, '$1 not')
    .replaceAll(/(?<=\p{L})[-_]+(?=\p{L})|_/gu, ' ')
    .replaceAll(/["'()[\]{}<>«»“”„「」『』【】*|]/g, ' ')
    .replaceAll(/\.{2,}/g, ' ')
    .replaceAll(/\be ?mails?\b/g, 'email')
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/ (?=[.:,;])/g, '')
    .trim()
}
