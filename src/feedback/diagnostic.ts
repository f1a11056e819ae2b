import type { SmtpStage } from '#streams/email/decide.ts'

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

/** Nobody explains a refusal at greater length; what is beyond would only cost time. */
const RAW_MAX = 6000
const WORDS_MAX = 1500

export function readDiagnostic ({ text, status, code, stage }: Clues): Diagnostic {
  const raw = text.slice(0, RAW_MAX).normalize('NFKC').replaceAll(/\r\n?/g, '\n')
  const said = lastSaid(raw)
  return {
    words: plain(said),
    all: said === raw ? '' : plain(raw),
    status: statusIn(said, status),
    code: code ?? codeIn(said),
    stage: stage ?? stageIn(raw)
  }
}

/** Postfix, qmail, Exchange and others wrap what the next server told them; only the innermost says why. */
const SAID = new RegExp(
  [
    '\\bsaid:',
    '\\bresponded with(?! code):?',
    '\\bto talk to me:',
    '\\b(?:remote|other) server returned(?: was)?:?',
    '\\bserver response was:?',
    '\\berror from remote (?:mail )?server after [^:\\n]{3,60}:',
    '\\bdiagnostic-code:(?: {0,3}smtp;)?',
    '\\b(?:reason: {0,3}|smtp; {0,3}|response:? )(?=[45]\\d\\d\\b)'
  ].join('|'),
  'gi'
)

function lastSaid (raw: string): string {
  const transcript = answered(raw)
  if (transcript !== null) return transcript
  const ends = [...raw.matchAll(SAID)].map(match => match.index + match[0].length).filter(end =>
    /[\p{L}\d]/u.test(raw.slice(end, end + 200))
  )
  return ends.length === 0 ? raw : raw.slice(ends.at(-1))
}

/** Of sendmail's transcript the lines behind `<<<`. That DATA then needs a recipient follows from the refusal and
 *  explains nothing. */
function answered (raw: string): string | null {
  const lines = raw.split('<<<').slice(1).map(part => part.split(/\n|>>>/, 1)[0]!.trim()).filter(line => line !== '')
  const telling = lines.filter(line => !/^503|^554[ -](?:5\.\d\.\d )?no valid recipients/i.test(line))
  const last = (telling.length > 0 ? telling : lines).at(-1)
  return last === undefined ? null : lines.filter(line => line.slice(0, 3) === last.slice(0, 3)).join('\n')
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

const STAGES: Array<[SmtpStage, RegExp]> = [
  ['connect', /to talk to me|initial (?:server )?greeting|after initial connection|while connecting/i],
  [
    'data',
    new RegExp(
      [
        /(?:in reply to|after|response to|in) (?:\w{1,12} ){0,4}(?:end of data|data\b|message body|final dot)/,
        /after i sent the message/,
        />>> (?:data|\.)/,
        /after pipelined data/
      ].map(pattern => pattern.source).join('|'),
      'i'
    )
  ],
  ['rcpt', /(?:in reply to|after|response to) (?:pipelined )?rcpt|does not like recipient|>>> rcpt/i],
  ['mail', /(?:in reply to|after|response to) (?:pipelined )?mail|does not like sender|>>> mail/i],
  ['ehlo', /(?:in reply to|after|response to) (?:ehlo|helo|starttls|auth)|>>> (?:ehlo|helo)/i]
]

function stageIn (raw: string): SmtpStage | null {
  return STAGES.find(([, pattern]) => pattern.test(raw))?.[0] ?? null
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
  const bare = text
    .replaceAll(/\(in reply to [^)\n]{0,60}\)/gi, ' ')
    .replaceAll(/\n[245]\d\d[- ](?:[245]\.\d{1,3}\.\d{1,3}[- ]?)?/g, ' ')
    .replaceAll(/\bhttps?:\/\/[^\s<>"]{1,400}/gi, linkWord)
    .replaceAll(/<[^<>\s]{0,320}>/g, tagWord)
    .replaceAll(/[\w.!#$%&*+/=?^`{|}~-]{1,64}@[\w.-]{1,255}/g, ' ')
    .replaceAll(/\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b/g, ' ip ')
    .replaceAll(
      /(?<![\w.-])(?:[\w-]{1,63}\.){1,8}(?:com|net|org|edu|gov|info|biz|cloud|email|[a-z]{2})(?![\w-]|\.\w)/gi,
      hostWord
    )
  return fold(bare).slice(0, WORDS_MAX)
}

/** Of a link only what it leads to, if that is the reason, or the reason Google puts into its query. */
function linkWord (link: string): string {
  if (LISTS.test(link)) return ' dnsbl '
  if (/openspf/i.test(link)) return ' spf '
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
