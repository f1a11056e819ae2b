import { createHash, randomFillSync } from 'node:crypto'

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz'
const pool = Buffer.alloc(16 * 256)
let used = pool.length

/** Takes 16 random bytes from a pool, one system call for 256 ids. */
function randomStart (): number {
  if (used >= pool.length) {
    randomFillSync(pool)
    used = 0
  }
  used += 16
  return used - 16
}

function timePart (ms: number): string {
  let text = ''
  for (let rest = ms, i = 0; i < 10; i++, rest = Math.floor(rest / 32)) text = ALPHABET[rest % 32] + text
  return text
}

/** A time-sortable id: `prefix_` and a ULID in lower case (48 bits of time, 80 random), e.g. `em_01k…`. `nowMs` is Unix
 *  time. */
export function newId (prefix: string, nowMs: number): string {
  const start = randomStart()
  let random = ''
  for (let i = start; i < start + 16; i++) random += ALPHABET[pool[i]! & 31]
  return `${prefix}_${timePart(nowMs)}${random}`
}

/** The same id for the same text, wherever and whenever it is made. */
export function idOf (prefix: string, text: string): string {
  const digest = createHash('sha256').update(text).digest('hex')
  return `${prefix}_${BigInt(`0x${digest}`).toString(32).padStart(26, '0').slice(-26)}`
}

/** Not above any id of this kind that was made at `ms` (Unix) or later, and above all that were made before. */
export function floorId (prefix: string, ms: number): string {
  return `${prefix}_${timePart(Math.max(0, ms))}`
}

/** Unix milliseconds that `id` was made at, or null when it is not one of ours. */
export function idTimeMs (id: string): number | null {
  const match = /^[a-z]+_([0-9a-hjkmnp-tv-z]{10})[0-9a-hjkmnp-tv-z]{16}$/.exec(id)
  if (match === null) return null
  let ms = 0
  for (const char of match[1]!) ms = ms * 32 + ALPHABET.indexOf(char)
  return ms
}
