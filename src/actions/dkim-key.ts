import { generateKeyPair, randomBytes, type KeyObject } from 'node:crypto'
import { promisify } from 'node:util'
import type { DkimKey } from '#streams/domain/facts.ts'
import { timestamp } from '#src/base/clock.ts'
import type { Vault } from '#src/base/secret.ts'

const generate = promisify(generateKeyPair)

/** New keys for a domain, `domain` being its id: RSA of 2048 bits, which RFC 8301 asks for and every receiver reads,
 *  and Ed25519 (RFC 8463) for those that read it. Their selectors tell the day, and a random part keeps them from ever
 *  coming again: a receiver may still know an old key by its name. */
export async function newDkimKeys (vault: Vault, domain: string, nowMs: number): Promise<DkimKey[]> {
  const [rsa, ed25519] = await Promise.all([generate('rsa', { modulusLength: 2048 }), generate('ed25519')])
  const name = `jp${timestamp(nowMs).slice(0, 10).replaceAll('-', '')}${randomBytes(3).toString('hex')}`
  const sealed = (key: KeyObject) => vault.seal(key.export({ type: 'pkcs8', format: 'pem' }) as string, domain)
  return [
    {
      algorithm: 'rsa-sha256',
      selector: `${name}-rsa`,
      publicKey: spki(rsa.publicKey).toString('base64'),
      sealedKey: sealed(rsa.privateKey)
    },
    {
      algorithm: 'ed25519-sha256',
      selector: `${name}-ed25519`,
      publicKey: rawOf(ed25519.publicKey),
      sealedKey: sealed(ed25519.privateKey)
    }
  ]
}

const spki = (key: KeyObject): Buffer => key.export({ type: 'spki', format: 'der' })

/** The 32 bytes alone, which end its DER. Source: RFC 8463 4. */
const rawOf = (key: KeyObject): string => spki(key).subarray(-32).toString('base64')
