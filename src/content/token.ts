import { hash, hkdfSync, timingSafeEqual } from 'node:crypto'
import type { Ring } from '#src/base/config-values.ts'

/** Which recipient of which email: its id, the place among its recipients, and where the request lies in REQUESTS. */
export interface Pointer {
  email: string
  n: number
  request: number
}

/** What a token lets its holder do; one for one thing is none for another, since a forwarded mail hands on its links.
 */
export type TokenUse = 'return' | 'unsubscribe' | 'open'

/** Makes and reads what stands in the mail we send for whatever comes back: which recipient it was, and that we wrote
 *  it. Only the holder of the secret can make one: the newest of the ring's does, and those of all are read. */
export interface Tokens {
  /** 54 characters, lower-case letters and digits: with a prefix it is a local part (64 octets, RFC 5321 4.5.3.1.1). */
  mint(use: TokenUse, pointer: Pointer): string
  /** In any case of letters, as mail servers may have changed it; null when it is not ours. */
  read(use: TokenUse, text: string): Pointer | null
  /** Makes the tokens of a mail's links. Each carries its target, of at most CLICK_URL_MAX characters: it leads there
   *  for as long as the mail is kept, and nowhere else. Its case counts. */
  clicks(pointer: Pointer): (url: string) => string
  readClick(text: string): { pointer: Pointer, url: string } | null
  /** A key of 256 bits for `purpose` from each secret of the ring, newest first. */
  keysFor(purpose: string): Buffer[]
}

/** No email has this id: nobody is given a token of it. */
const NOBODY = { email: `em_${'0'.repeat(26)}`, n: 0, request: 0 }

/** A longer link would be too long for some once it is wrapped. */
export const CLICK_URL_MAX = 4096

const ID_LENGTH = 26
/** One byte for `n`, six for `request`. */
const PLACE_BYTES = 7
const POINTER_LENGTH = ID_LENGTH + 12
/** 80 bits cannot be guessed over the network; what is forged is refused one by one. */
const MAC_BYTES = 10
const LENGTH = POINTER_LENGTH + 16
/** Twelve bytes in base64url. */
const CLICK_MAC_LENGTH = 16
const REQUEST_MAX = 2 ** 48 - 1
const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz'
const VALUES = new Map([...ALPHABET].map((char, i) => [char, i]))

/** What one secret vouches for. */
function signerOf (secret: string) {
  const mac = createMac(Buffer.from(hkdfSync('sha256', secret, 'jetpost', 'token', 32)))
  return {
    macOf: (use: TokenUse, pointer: string) => base32(mac(`${use} ${pointer}`).subarray(0, MAC_BYTES)),
    clickMacOf: (pointer: string, url: string) =>
      mac(`click ${pointer} ${url}`).toString('base64url').slice(0, CLICK_MAC_LENGTH)
  }
}

/** JETPOST_SECRET, newest first. */
export function createTokens (...[newest, ...older]: Ring): Tokens {
  const signer = signerOf(newest)
  const signers = [signer, ...older.map(signerOf)]
  const clickOf = ({ clickMacOf }: typeof signer, text: string, url: string) =>
    text + clickMacOf(text, url) + Buffer.from(url).toString('base64url')

  return {
    mint (use, pointer) {
      const text = textOf(pointer)
      return text + signer.macOf(use, text)
    },
    read (use, given) {
      const token = given.toLowerCase()
      const text = token.slice(0, POINTER_LENGTH)
      const mac = token.slice(POINTER_LENGTH)
      return token.length === LENGTH && signers.some(({ macOf }) => isEqual(mac, macOf(use, text)))
        ? pointerIn(text)
        : null
    },
    clicks (pointer) {
      const text = textOf(pointer)
      return url => clickOf(signer, text, url)
    },
    readClick (given) {
      const text = given.slice(0, POINTER_LENGTH)
      const mac = given.slice(POINTER_LENGTH, POINTER_LENGTH + CLICK_MAC_LENGTH)
      const url = Buffer.from(given.slice(POINTER_LENGTH + CLICK_MAC_LENGTH), 'base64url').toString()
      if (url.length > CLICK_URL_MAX || !signers.some(({ clickMacOf }) => isEqual(mac, clickMacOf(text, url)))) {
        return null
      }
      const pointer = pointerIn(text)
      return pointer === null ? null : { pointer, url }
    },
    keysFor: purpose => signers.map(one => hash('sha256', clickOf(one, textOf(NOBODY), purpose), 'buffer'))
  }
}

function textOf ({ email, n, request }: Pointer): string {
  const id = email.slice(3)
  if (id.length !== ID_LENGTH || n > 255 || request > REQUEST_MAX) throw new Error(`no token for ${email}`)
  const place = Buffer.alloc(PLACE_BYTES)
  place[0] = n
  place.writeUIntBE(request, 1, 6)
  return id + base32(place)
}

/** Of what a MAC has vouched for. */
function pointerIn (text: string): Pointer | null {
  const place = fromBase32(text.slice(ID_LENGTH), PLACE_BYTES)
  return place === null
    ? null
    : { email: `em_${text.slice(0, ID_LENGTH)}`, n: place[0]!, request: place.readUIntBE(1, 6) }
}

function isEqual (a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)]
  return left.length === right.length && timingSafeEqual(left, right)
}

const BLOCK_BYTES = 64
const HASH_BYTES = 32
const TEXT_BYTES_MAX = 3 * CLICK_URL_MAX + 100

/** HMAC-SHA256 by its definition (RFC 2104 2) over one-shot hashes: a mail with fifty links needs as many, and node's
 *  Hmac objects cost five times as much. */
function createMac (key: Buffer): (text: string) => Buffer {
  const inner = Buffer.alloc(BLOCK_BYTES + TEXT_BYTES_MAX)
  const outer = Buffer.alloc(BLOCK_BYTES + HASH_BYTES)
  for (let i = 0; i < BLOCK_BYTES; i++) {
    inner[i] = (key[i] ?? 0) ^ 0x36
    outer[i] = (key[i] ?? 0) ^ 0x5c
  }
  return text => {
    const end = BLOCK_BYTES + inner.write(text, BLOCK_BYTES)
    hash('sha256', inner.subarray(0, end), 'buffer').copy(outer, BLOCK_BYTES)
    return hash('sha256', outer, 'buffer')
  }
}

function base32 (bytes: Buffer): string {
  let text = ''
  let bits = 0
  let held = 0
  for (const byte of bytes) {
    held = (held << 8) | byte
    for (bits += 8; bits >= 5; bits -= 5) text += ALPHABET[(held >> (bits - 5)) & 31]
    held &= (1 << bits) - 1
  }
  return bits === 0 ? text : text + ALPHABET[(held << (5 - bits)) & 31]
}

/** null when a character is none of ours. */
function fromBase32 (text: string, length: number): Buffer | null {
  const bytes = Buffer.alloc(length)
  let at = 0
  let bits = 0
  let held = 0
  for (const char of text) {
    const value = VALUES.get(char)
    if (value === undefined) return null
    held = (held << 5) | value
    bits += 5
    if (bits < 8) continue
    bits -= 8
    bytes[at++] = held >> bits
    held &= (1 << bits) - 1
  }
  return bytes
}
