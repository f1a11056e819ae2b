import { createCipheriv, createDecipheriv, createHash, createHmac, hkdfSync, randomBytes } from 'node:crypto'
import { chmod, link, mkdir, readFile, stat, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** Seals and opens what must be recoverable (webhook and DKIM secrets) with a key derived from JETPOST_SECRET, and
 *  makes secrets that follow from it. */
export interface Vault {
  /** AES-256-GCM, `v1.<nonce>.<ciphertext+tag>` in base64url. `context` (say, the endpoint's id) must be the same when
   *  opened. */
  seal(plain: string, context: string): string
  /** Throws when the text was changed, sealed for another context or with another JETPOST_SECRET. */
  open(sealed: string, context: string): string
  /** 256 bits in base64url, the same for the same `text` and `context` on every node; secret to everybody else. */
  derive(text: string, context: string): string
}

/** Node opens shorter tags, of which one in 2^32 fits anything. Source: NIST SP 800-38D 5.2.1.2, appendix C. */
const GCM = { authTagLength: 16 }

export function createVault (secret: string): Vault {
  const key = Buffer.from(hkdfSync('sha256', secret, 'jetpost', 'seal', 32))
  return {
    seal (plain, context) {
      const nonce = randomBytes(12)
      const cipher = createCipheriv('aes-256-gcm', key, nonce, GCM).setAAD(Buffer.from(context))
      const sealed = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final(), cipher.getAuthTag()])
      return `v1.${nonce.toString('base64url')}.${sealed.toString('base64url')}`
    },
    open (sealed, context) {
      const [version, nonce, body] = sealed.split('.')
      if (version !== 'v1' || nonce === undefined || body === undefined) throw new Error('not a sealed secret')
      const bytes = Buffer.from(body, 'base64url')
      const decipher = createDecipheriv('aes-256-gcm', key, Buffer.from(nonce, 'base64url'), GCM)
        .setAAD(Buffer.from(context))
        .setAuthTag(bytes.subarray(-GCM.authTagLength))
      return Buffer.concat([decipher.update(bytes.subarray(0, -GCM.authTagLength)), decipher.final()]).toString('utf8')
    },
    derive: (text, context) =>
      createHmac('sha256', Buffer.from(hkdfSync('sha256', secret, 'jetpost', `derive ${context}`, 32))).update(text)
        .digest('base64url')
  }
}

/** SHA-256 in lower-case hex. */
export function sha256Hex (text: string | Uint8Array): string {
  return createHash('sha256').update(text).digest('hex')
}

/** A new random secret: `prefix` and 256 bits in base64url. */
export function newSecret (prefix: string): string {
  return prefix + randomBytes(32).toString('base64url')
}

/** The installation's own secret, made once in the data folder (0600) when the operator sets none. Two
 *  processes that start together end up with the same. */
export async function secretOf (dataDir: string): Promise<string> {
  const path = join(dataDir, 'secret')
  const known = await readFile(path, 'utf8').catch(() => null)
  if (known !== null) return known.trim()
  await mkdir(dataDir, { recursive: true, mode: 0o700 })
  // That another may pass through it, who runs PostgreSQL for root, is well.
  if (((await stat(dataDir)).mode & 0o067) !== 0) await chmod(dataDir, 0o700)
  const draft = `${path}.${process.pid}`
  await writeFile(draft, `${newSecret('')}\n`, { mode: 0o600, flush: true })
  await link(draft, path).catch(() => {})
  await unlink(draft)
  return (await readFile(path, 'utf8')).trim()
}
