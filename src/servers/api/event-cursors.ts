import { createCipheriv, createDecipheriv, hash } from 'node:crypto'
import type { Tokens } from '#src/content/token.ts'

/** The places of an account's feed as it sees them. */
export interface Cursors {
  /** 22 characters of base64url; the same for the same sequence, always and on every node. */
  cursorOf(seq: number): string
  /** The sequence that a cursor names; null when it is none of this account's. */
  parseCursor(cursor: string): number | null
}

/** No email has this id. */
const NOBODY = { email: `em_${'0'.repeat(26)}`, n: 0, request: 0 }
const BLOCK_BYTES = 16

/** A sequence of EMAILS counts what happens to all accounts, which is none of their business: so it goes out as one
 *  block of AES, in whose other half zeros say that it was ours. The key follows from JETPOST_SECRET, by the MAC (96
 *  bits) of a token that nobody is given, and from the account. */
export function cursorsOf (tokens: Tokens, account: string): Cursors {
  const key = hash('sha256', tokens.clicks(NOBODY)(`cursors of ${account}`), 'buffer')
  const cipher = createCipheriv('aes-256-ecb', key, null).setAutoPadding(false)
  const decipher = createDecipheriv('aes-256-ecb', key, null).setAutoPadding(false)
  return {
    cursorOf (seq) {
      const block = Buffer.alloc(BLOCK_BYTES)
      block.writeBigUInt64BE(BigInt(seq), 8)
      return cipher.update(block).toString('base64url')
    },
    parseCursor (cursor) {
      const bytes = Buffer.from(cursor, 'base64url')
      if (bytes.length !== BLOCK_BYTES || bytes.toString('base64url') !== cursor) return null
      const block = decipher.update(bytes)
      return block.readBigUInt64BE(0) === 0n ? Number(block.readBigUInt64BE(8)) : null
    }
  }
}
