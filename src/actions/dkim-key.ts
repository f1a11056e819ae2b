import { generateKeyPair, randomBytes } from 'node:crypto'
import { promisify } from 'node:util'
import type { DkimKey } from '#streams/domain/facts.ts'
import { timestamp } from '#src/base/clock.ts'
import type { Vault } from '#src/base/secret.ts'

const generate = promisify(generateKeyPair)

/** A new key for a domain, `domain` being its id: 2048 bits, which RFC 8301 asks for and every receiver reads. Its selector tells the day, and a random
 *  part keeps it from ever coming again: a receiver may still know an old key by its name. */
export async function newDkimKey (vault: Vault, domain: string, nowMs: number): Promise<DkimKey> {
  const { publicKey, privateKey } = await generate('rsa', {
    modulusLength: 2048,
    publicKeyEncoding: { type: 'spki', format: 'der' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' }
  })
  const day = timestamp(nowMs).slice(0, 10).replaceAll('-', '')
  return { selector: `jp${day}${randomBytes(3).toString('hex')}`, publicKey: publicKey.toString('base64'), sealedKey: vault.seal(privateKey, domain) }
}
