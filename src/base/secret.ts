import { createCipheriv, createDecipheriv, createHash, createHmac, hkdfSync, randomBytes } from 'node:crypto'
import { chmod, link, mkdir, readFile, stat, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Ring, ringOf } from './config-values.ts'
import { Complaint } from './errors.ts'

/** Seals and opens what must be recoverable (webhook and DKIM secrets) with keys derived from JETPOST_SECRET, and
 *  makes secrets that follow from it. */
export interface Vault {
  /** Ids of the ring's secrets, newest first: they tell the secrets apart, and nothing of them. */
  readonly keyIds: readonly string[]
  /** AES-256-GCM under the newest secret, `v2.<key id>.<nonce>.<ciphertext+tag>` in base64url. `context` (say, the
   *  endpoint's id) must be the same when opened. */
  seal(plain: string, context: string): string
  /** By whichever secret of the ring it was sealed with. Throws CannotOpen. */
  open(sealed: string, context: string): string
  /** The same under the newest secret; null when it is so already. Throws like `open`. */
  reseal(sealed: string, context: string): string | null
  /** 256 bits in base64url for each secret of the ring, newest first: the same for the same `text` and `context` on
   *  every node; secret to everybody else. */
  derive(text: string, context: string): [newest: string, ...older: string[]]
}

/** What is sealed was changed, or sealed for another context or with a secret that is not in the ring. */
export class CannotOpen extends Error {}

/** Node opens shorter tags, of which one in 2^32 fits anything. Source: NIST SP 800-38D 5.2.1.2, appendix C. */
const GCM = { authTagLength: 16 }
const KEY_ID_BYTES = 6

/** What one secret does. Each use has a key of its own: HKDF with another `info` (RFC 5869 3.2). */
function lockOf (secret: string) {
  const key = Buffer.from(hkdfSync('sha256', secret, 'jetpost', 'seal', 32))
  return {
    id: keyIdOf(secret),
    seal (plain: string, context: string): string {
      const nonce = randomBytes(12)
      const cipher = createCipheriv('aes-256-gcm', key, nonce, GCM).setAAD(Buffer.from(context))
      const sealed = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final(), cipher.getAuthTag()])
      return `${nonce.toString('base64url')}.${sealed.toString('base64url')}`
    },
    /** null = not by this secret. */
    open (nonce: string, body: string, context: string): string | null {
      const bytes = Buffer.from(body, 'base64url')
      try {
        const decipher = createDecipheriv('aes-256-gcm', key, Buffer.from(nonce, 'base64url'), GCM)
          .setAAD(Buffer.from(context))
          .setAuthTag(bytes.subarray(-GCM.authTagLength))
        return decipher.update(bytes.subarray(0, -GCM.authTagLength), undefined, 'utf8') + decipher.final('utf8')
      } catch {
        return null
      }
    },
    derive: (text: string, context: string) =>
      createHmac('sha256', Buffer.from(hkdfSync('sha256', secret, 'jetpost', `derive ${context}`, 32))).update(text)
        .digest('base64url')
  }
}

/** Tells a secret from others. 48 bits that follow from it, and from which nothing follows. */
export function keyIdOf (secret: string): string {
  return Buffer.from(hkdfSync('sha256', secret, 'jetpost', 'key id', KEY_ID_BYTES)).toString('base64url')
}

/** The ring, newest first. */
export function createVault (...[newest, ...older]: Ring): Vault {
  const [first, ...others] = [lockOf(newest), ...older.map(lockOf)] as const
  const locks = [first, ...others]
  const seal = (plain: string, context: string) => `v2.${first.id}.${first.seal(plain, context)}`

  function open (sealed: string, context: string): { plain: string, id: string } {
    for (const { id, open } of locks) {
      const { nonce, body } = partsOf(sealed, id)
      const plain = nonce === null ? null : open(nonce, body, context)
      if (plain !== null) return { plain, id }
    }
    throw new CannotOpen('sealed with a secret that JETPOST_SECRET does not hold, or changed since')
  }

  return {
    keyIds: locks.map(({ id }) => id),
    seal,
    open: (sealed, context) => open(sealed, context).plain,
    reseal (sealed, context) {
      const { plain, id } = open(sealed, context)
      return id === first.id ? null : seal(plain, context)
    },
    derive: (text, context) => [first.derive(text, context), ...others.map(lock => lock.derive(text, context))]
  }
}

/** What a secret with this id can try; `nonce` null = nothing. What the first version sealed names none: each tries. */
function partsOf (sealed: string, id: string): { nonce: string | null, body: string } {
  const [version, ...parts] = sealed.split('.')
  const [nonce, body] = version === 'v1' ? parts : version === 'v2' && parts[0] === id ? parts.slice(1) : []
  return nonce === undefined || body === undefined ? { nonce: null, body: '' } : { nonce, body }
}

/** SHA-256 in lower-case hex. */
export function sha256Hex (text: string | Uint8Array): string {
  return createHash('sha256').update(text).digest('hex')
}

/** A new random secret: `prefix` and 256 bits in base64url. */
export function newSecret (prefix: string): string {
  return prefix + randomBytes(32).toString('base64url')
}

/** Where the secrets of an installation lie when the operator sets none: a line each, newest first. */
export const secretsFile = (dataDir: string): string => join(dataDir, 'secret')

/** The installation's own secrets; the first is made in the data folder (0600) at its first start. Two processes that
 *  start together end up with the same. Throws a Complaint when what is there is not a ring. */
export async function secretsOf (dataDir: string): Promise<Ring> {
  const path = secretsFile(dataDir)
  const known = await readFile(path, 'utf8').catch(() => null)
  if (known !== null) return ringIn(path, known)
  await mkdir(dataDir, { recursive: true, mode: 0o700 })
  // That another may pass through it, who runs PostgreSQL for root, is well.
  if (((await stat(dataDir)).mode & 0o067) !== 0) await chmod(dataDir, 0o700)
  const draft = `${path}.${process.pid}`
  await writeFile(draft, `${newSecret('')}\n`, { mode: 0o600, flush: true })
  await link(draft, path).catch(() => {})
  await unlink(draft)
  return ringIn(path, await readFile(path, 'utf8'))
}

function ringIn (path: string, text: string): Ring {
  const lines = text.split('\n').map(line => line.trim()).filter(line => line !== '')
  try {
    return ringOf(lines)
  } catch (error) {
    throw new Complaint(`${path} holds a secret a line: it, or each of them, ${(error as Error).message}.`)
  }
}
