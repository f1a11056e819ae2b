import { addressesIn, addressOf, isStandIn, sameAddress } from './addresses.ts'
import { FORMS, type Form } from './signs.ts'
import { repliesIn, withoutBoilerplate } from './classify-failure.ts'

/** Addresses that may or may not be the one that failed, lower case left as it came. */
export interface KnownAddresses {
  /** Named by X-Failed-Recipients, or addressed by the returned message. */
  recipients: string[]
  /** Of the sender, the server, the report itself. */
  others: string[]
}

/** One failed address and what the text says of it, from the most to the least particular. */
export interface PlainRecipient extends Said {
  address: string | null
}

/** What is said of one address. */
export interface Said {
  /** From the most to the least particular, without what such reports always say. The last is the whole, or empty. */
  texts: string[]
  /** As it was written: the lines about the address, or all. */
  context: string
}

const LINES_MAX = 400
const RECIPIENTS_MAX = 50
/** An address that opens its line, bare or bracketed. */
const MARGIN = /^[ \t]{0,40}(?:[*•·-][ \t]+|\d{1,3}[.)][ \t]+|>>>[ \t]+)?/
const OPENS = new RegExp(
  `${MARGIN.source}["'<([]{0,2}(?:(?:smtp|mailto|rfc822)[:;][ \\t]?)?[^\\s<>"'()[\\]:;,@]{1,64}@`,
  'i'
)
/** An address behind a label. */
const LABELLED = new RegExp(
  `(?:${
    [
      'recipient',
      'ref',
      'address',
      'mailbox',
      'user',
      'account',
      'rcpt to',
      'deliver(?:ed)?(?: (?:your )?(?:mail|message))?(?: to)?',
      '\\bto',
      '宛先',
      'あて先',
      '受信者',
      '收件人',
      '收信人',
      'Empfänger',
      'destinatai?re',
      'destinatario',
      'получател',
      'адрес'
    ].join('|')
  })[^\\w@]{0,3}[^@\\n]{0,30}[\\s<"'：:([]{1,4}[^\\s@]{1,64}@`,
  'i'
)
/** Who sent, as the command says. */
const SENDER = /\bmail from: ?<([^<>\s]{3,320})>/gi
/** Below a file or a program, the address that led there. */
const ORIGIN = /^[ \t]{1,40}\((?:ultimately )?generated from (?=\S{1,320}\)[ \t]*$)/
/** Lines that name an address for other reasons. */
const ASIDE = new RegExp(
  'message-?id|contact|please|assistance|administrator|from:|sender|mailto:.*subject|reply-to|return-path|support|' +
    'resent|hotline|wenden',
  'i'
)

/** Addresses to write to, rather than recipients. */
const SERVICES = new RegExp(
  '^(?:abuse|help-?services|hostmaster|webmaster|noc|support|listmaster|' +
    '(?:\\S{1,60}-)?(?:owner|request|bounces|admin))@',
  'i'
)

/** The forms whose opening a text shows. */
export function formsOf (head: string): Form[] {
  return FORMS.filter(form => form.opening.test(head))
}

/** The failed addresses, by the text for people: the form's own place first, then the lines that begin with an address,
 *  then any. */
export function readPlain (head: string, forms: Form[], known: KnownAddresses): PlainRecipient[] {
  const named = forms.flatMap(form =>
    form.recipient === undefined
      ? []
      : [...head.matchAll(form.recipient)].map(match => addressOf(match[1]!)).filter(address => address !== null)
  )
  const addresses = unique(named.length > 0 ? named : choose(head, known)).slice(0, RECIPIENTS_MAX)
  const fallback = addresses.length > 0 ? addresses : unique(known.recipients).slice(0, RECIPIENTS_MAX)
  const reason = forms.map(form => form.reason?.exec(head)?.[1]).find(text => text !== undefined)
  if (fallback.length === 0) return [{ address: null, ...saidOf(head, null, [], reason) }]
  return fallback.map(address => ({ address, ...saidOf(head, address, fallback, reason) }))
}

/** What a text says of one address: the servers' replies near it, the lines from it to the next, the whole. */
export function saidOf (head: string, address: string | null, addresses: string[], reason?: string): Said {
  const section = address === null ? '' : sectionOf(head, address, addresses)
  const particular = [reason ?? '', ...repliesIn(section), withoutBoilerplate(section)]
  // What is said of one is not said of the others: the whole text answers only for one alone.
  const whole = addresses.length <= 1 ? repliesIn(head) : []
  const texts = [...particular, ...whole].filter(text => text.trim() !== '')
  return { texts: [...texts, withoutBoilerplate(head)], context: addresses.length <= 1 ? head : section }
}

/** The lines in which it is spoken of this address: from one that names it to one that names another. */
function sectionOf (head: string, address: string, addresses: string[]): string {
  const otherAddresses = addresses.filter(other => !sameAddress(other, address)).map(other => other.toLowerCase())
  const own = address.toLowerCase()
  const kept: string[] = []
  let inside = false
  for (const line of head.split('\n', LINES_MAX)) {
    const lower = line.toLowerCase()
    if (lower.includes(own)) inside = true
    else if (otherAddresses.some(other => lower.includes(other))) inside = false
    if (inside) kept.push(line)
  }
  return kept.join('\n')
}

/** An address with the place where it was found: 0 = opens its line, 1 = behind a label, 2 = anywhere. */
interface Candidate {
  address: string
  rank: number
  shape: string
}

function choose (head: string, known: KnownAddresses): string[] {
  const all = candidatesIn(head, known.recipients)
  const others = [...known.others, ...[...head.matchAll(SENDER)].map(match => match[1]!)]
  const isOne = (list: string[], { address }: Candidate): boolean => isAmong(list, address)
  const foreign = all.filter(one => !isOne(others, one))
  const sure = all.filter(one => isOne(known.recipients, one))
  if (sure.length > 0) {
    // An address listed just as a known recipient is one too.
    const shapes = sure.filter(({ rank }) => rank === 0).map(({ shape }) => shape)
    return all.filter(one =>
      sure.includes(one) || (one.rank === 0 && shapes.includes(one.shape) && foreign.includes(one))
    ).map(({ address }) => address)
  }
  const best = [0, 1, 2].find(rank =>
    foreign.some(one => one.rank === rank) && (rank < 2 || known.recipients.length === 0)
  )
  if (best !== undefined) return foreign.filter(({ rank }) => rank === best).map(({ address }) => address)
  return known.recipients.length === 0 ? all.filter(({ rank }) => rank === 0).map(({ address }) => address) : []
}

function isAmong (list: string[], address: string): boolean {
  return list.some(other => sameAddress(other, address))
}

function candidatesIn (head: string, expected: string[]): Candidate[] {
  const lines = head.split('\n', LINES_MAX)
  return lines.flatMap((line, n) => {
    const found = line.includes('@') ? addressesIn(line.slice(0, 1000), 20).filter(address => !isStandIn(address)) : []
    if (found.length === 0) return []
    const leads = ORIGIN.test(line) && lines[n - 1]?.includes('@') === false
    const opens = leads || (OPENS.test(line) && !isWrapped(lines, n))
    const rank = opens ? 0 : ASIDE.test(line) ? 2 : LABELLED.test(line.slice(0, 400)) ? 1 : 2
    const shape = line.slice(0, Math.max(line.indexOf('@'), 0)).replace(/[^\s<>"'()[\]:;,@]{1,64}$/, '')
    // A line that opens with an address may name more in its explanation, among them the one that led there.
    const one = found.find(address => isAmong(expected, address)) ?? found[0]!
    return (opens ? [one] : found).map(address => ({ address, rank: SERVICES.test(address) ? 2 : rank, shape }))
  })
}

/** The line before ends amid a sentence, or the line is set in below one that speaks of an address. */
function isWrapped (lines: string[], n: number): boolean {
  const margin = marginOf(lines[n]!)
  const before = lines[n - 1]?.trimEnd() ?? ''
  if (before.length > 45 && /[\p{L}\d,]$/u.test(before) && marginOf(before) === margin && !before.includes('@')) {
    return true
  }
  let above = n - 1
  while (above >= 0 && lines[above]!.trim() !== '' && marginOf(lines[above]!) >= margin) above--
  return above >= 0 && marginOf(lines[above]!) < margin && OPENS.test(lines[above]!)
}

function marginOf (line: string): number {
  return /^\s*/.exec(line)![0].length
}

function unique (addresses: string[]): string[] {
  return addresses.filter((address, n) => addresses.findIndex(other => sameAddress(other, address)) === n)
}
