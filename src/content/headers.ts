import type { Mailbox } from '#streams/address.ts'

/** Longest line of a folded header, without CRLF: RFC 5322 2.1.1 would have 78, but not for one with an encoded-word.
 *  Source: RFC 2047 2. */
const LINE_MAX = 76
/** Longest encoded-word, and what frames its text. Source: RFC 2047 2. */
const WORD_MAX = 75
/** Room for one character of any kind, however long the header's name is. */
const WORD_MIN = 24
/** What a display name may take of the first line, beside the longest of our field names. */
const PHRASE_MAX = 66
const B_FRAME = '=?UTF-8?B?'
const Q_FRAME = '=?UTF-8?Q?'
const FRAME_END = '?='

/** Control characters, among them CR, LF and NUL, end up as one space: no value can start a header of its own. */
export function oneLine (text: string): string {
  return text.replaceAll(/\p{Cc}+/gu, ' ').toWellFormed()
}

/** `Name: value` with unstructured text, folded at spaces or made of encoded-words where it must be. Ends in CRLF. */
export function textHeader (name: string, value: string): string {
  const text = oneLine(value)
  if (text === '') return `${name}: \r\n`
  const module = LINE_MAX - name.length - 2
  // Spaces at the edges and in rows do not survive unfolding, and a word too long for a line could not be folded.
  const plain = /^[\x21-\x7e]+( [\x21-\x7e]+)*$/.test(text) && !text.includes('=?') &&
    text.split(' ').every(word => word.length < module)
  return fold(name, plain ? text.split(' ') : encodedWords(text, Math.max(module, WORD_MIN)))
}

/** `Name: value` as a sender gave it. ASCII stays as it is, for it may hold ids, addresses or encoded-words, and is
 *  only folded; the rest is text. */
export function ownHeader (name: string, value: string): string {
  const text = oneLine(value).trim()
  // Rows of spaces stay together: a line of nothing but spaces would end the headers for some readers.
  return /^\p{ASCII}*$/u.test(text) ? fold(name, text.split(/(?<=[^ ]) /)) : textHeader(name, text)
}

/** `hidden` = named, but not to be written to: an empty group whose name is the address, for readers that take no
 *  address beyond ASCII. Source: RFC 6857 3.1. */
export interface HeaderMailbox extends Mailbox {
  hidden?: boolean
}

/** `Name: mailbox, mailbox`, folded between mailboxes, and within one where it must be. */
export function addressHeader (name: string, mailboxes: HeaderMailbox[]): string {
  const parts = mailboxes.map(mailbox => mailboxTokens(mailbox))
  for (const tokens of parts.slice(0, -1)) tokens.push(`${tokens.pop()!},`)
  return fold(name, parts.flat())
}

function mailboxTokens ({ address, name, hidden }: HeaderMailbox): string[] {
  // The colon stands apart: an encoded-word may be as long as a line.
  if (hidden === true) return [...encodedWords(address, PHRASE_MAX), ':;']
  return name === null ? [address] : [...phrase(oneLine(name)), `<${address}>`]
}

/** A display name: as it is, quoted, or encoded. Source: RFC 5322 3.2.5, RFC 2047 5 (3). */
function phrase (name: string): string[] {
  const string = quoted(name)
  if (string.length > PHRASE_MAX || !isPrintable(name)) return encodedWords(name, PHRASE_MAX)
  return /^[\w!#$%&'*+/=?^`{|}~-]+( [\w!#$%&'*+/=?^`{|}~-]+)*$/.test(name) ? name.split(' ') : [string]
}

/** Whether the text can stand as it is, and is not taken for an encoded-word. */
export function isPrintable (text: string): boolean {
  return /^[\x20-\x7e]*$/.test(text) && !text.includes('=?')
}

/** Source: RFC 5322 3.2.4. */
export function quoted (text: string): string {
  return `"${text.replaceAll(/["\\]/g, '\\$&')}"`
}

/** Joins tokens with spaces, on a new line wherever the present one would grow too long. */
function fold (name: string, tokens: string[]): string {
  let text = `${name}:`
  let column = text.length
  for (const [i, token] of tokens.entries()) {
    // The first stays beside the name: a line with nothing but the name is legal and trips some readers.
    const folds = i > 0 && column + 1 + token.length > LINE_MAX
    text += folds ? `\r\n ${token}` : ` ${token}`
    column = folds ? 1 + token.length : column + 1 + token.length
  }
  return `${text}\r\n`
}

/** The text as encoded-words of at most 75 characters, the first of at most `firstMax`; characters are never split. */
export function encodedWords (text: string, firstMax: number): string[] {
  const inQ = qWidth(text) <= Buffer.byteLength(text) * 4 / 3
  const words: string[] = []
  let chunk = ''
  let width = 0
  let max = Math.min(firstMax, WORD_MAX)
  for (const char of text) {
    const charWidth = inQ ? qWidth(char) : Buffer.byteLength(char)
    if (!fits(inQ, width + charWidth, max)) {
      words.push(encodedWord(inQ, chunk))
      chunk = ''
      width = 0
      max = WORD_MAX
    }
    chunk += char
    width += charWidth
  }
  return [...words, encodedWord(inQ, chunk)]
}

/** Whether so many characters in Q, or bytes in B, make a word of at most `max`. */
function fits (inQ: boolean, width: number, max: number): boolean {
  const module = max - Q_FRAME.length - FRAME_END.length
  return inQ ? width <= module : Math.ceil(width / 3) * 4 <= module
}

function encodedWord (inQ: boolean, text: string): string {
  if (!inQ) return B_FRAME + Buffer.from(text).toString('base64') + FRAME_END
  let word = Q_FRAME
  for (const byte of Buffer.from(text)) {
    word += Q_SAFE[byte] === 1
      ? String.fromCharCode(byte)
      : byte === 0x20
      ? '_'
      : `=${HEX[byte]}`
  }
  return word + FRAME_END
}

/** What RFC 2047 5 (3) lets stand in a phrase: the narrowest set, right everywhere. */
const Q_SAFE = new Uint8Array(256)
for (const char of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!*+-/') Q_SAFE[char.charCodeAt(0)] = 1
const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).toUpperCase().padStart(2, '0'))

function qWidth (text: string): number {
  let width = 0
  for (const byte of Buffer.from(text)) width += Q_SAFE[byte] === 1 || byte === 0x20 ? 1 : 3
  return width
}
