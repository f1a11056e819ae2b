import { Refusal } from './define.ts'

/** What text must do so that every view and every mail can hold it; see `isPlain`. */
export const MUST_BE_PLAIN = 'not contain NUL or unpaired surrogates'

/** Deeper than this nothing is meant to be read by people, and who walks it may do so by recursion. */
const DEPTH_MAX = 32

/** True when objects and lists stand more than `max` deep in each other. */
export function isDeeperThan (value: unknown, max: number): boolean {
  let level = [value].filter(isBranch)
  for (let depth = 1; level.length > 0; depth++) {
    if (depth > max) return true
    level = level.flatMap(branch => Object.values(branch)).filter(isBranch)
  }
  return false
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
/** The signs that values stand behind: `,` `:` `[` `{`. */
const [COMMA, COLON, LIST, OBJECT] = [0x2c, 0x3a, 0x5b, 0x7b]

/** True when JSON, not yet parsed, has more than `max` values and names of members: a few bytes of it become many in
 *  memory. */
export function hasMoreValuesThan (json: Uint8Array, max: number): boolean {
  if (json.length <= max) return false
  let count = 1
  for (let i = 0; i < json.length; i++) {
    const byte = json[i]!
    if (byte === QUOTE) i = endOfText(json, i + 1)
    else if (isBetween(byte) && ++count > max) return true
  }
  return false
}

/** So far byte by byte: what is short, or full of escapes, would take longer any other way. */
const NEAR = 1024

/** Where the text that begins at `from` has its closing quote; at the end where it has none. A file of 14 MB is one
 *  text: looked through byte by byte it would take as long as parsing it. */
export function endOfText (json: Uint8Array, from: number): number {
  for (let i = from;;) {
    for (const near = i + NEAR; i < near; i++) {
      if (json[i] === QUOTE || i >= json.length) return i
      if (json[i] === BACKSLASH) i++
    }
    const quote = json.indexOf(QUOTE, i)
    if (quote === -1) return json.length
    if (!isEscaped(json, i, quote)) return quote
    i = quote + 1
  }
}

/** Behind an odd number of backslashes. */
function isEscaped (json: Uint8Array, from: number, at: number): boolean {
  let first = at
  while (first > from && json[first - 1] === BACKSLASH) first--
  return (at - first) % 2 === 1
}

function isBetween (byte: number): boolean {
  return byte === COMMA || byte === COLON || byte === LIST || byte === OBJECT
}

/** Why a value of any shape is not kept, or null. `name` = what to call it. JSON may hold NUL, half surrogate pairs and
 *  numbers beyond all bounds; no view and no mail can. */
export function jsonFault (name: string, value: unknown): Refusal | null {
  if (isDeeperThan(value, DEPTH_MAX)) {
    return new Refusal('too_deep', `${name} must be nested at most ${DEPTH_MAX} levels deep.`)
  }
  for (let level = [value]; level.length > 0; level = level.filter(isBranch).flatMap(branch => Object.values(branch))) {
    const texts = level.flatMap(
      inner => (isBranch(inner) && !Array.isArray(inner) ? Object.keys(inner) : typeof inner === 'string' ? inner : [])
    )
    if (!texts.every(isPlain)) return new Refusal('invalid_characters', `${name} must ${MUST_BE_PLAIN}.`)
    if (level.some(inner => typeof inner === 'number' && !Number.isFinite(inner))) {
      return new Refusal('invalid_value', `${name} must not contain a number that is too large to store.`)
    }
  }
  return null
}

/** Text that every view and every mail can hold. */
export function isPlain (text: string): boolean {
  return text.isWellFormed() && !text.includes('\0')
}

function isBranch (value: unknown): value is object {
  return typeof value === 'object' && value !== null
}
