import { createPrivateKey, type KeyObject } from 'node:crypto'
import type { DomainEntry } from '#streams/directory.ts'
import type { DkimKey } from '#streams/domain/facts.ts'
import { signingKeys } from '#streams/domain/records.ts'
import { Memory } from '#src/base/memory.ts'
import type { Vault } from '#src/base/secret.ts'
import type { DkimSigner } from '#src/content/dkim.ts'

/** Opening and parsing a key takes longer than signing with it; a few kB each. */
const KEYS_MAX = 4096

/** Who signs the mail of a domain now, RSA first. Keys are opened once, and those used last are kept.
 *  Throws when JETPOST_SECRET is not the one that a key was sealed with. */
export function openDkimSigners (vault: Vault, keysMax = KEYS_MAX): (domain: DomainEntry) => DkimSigner[] {
  const opened = new Memory<KeyObject>(keysMax)

  function open ({ sealedKey }: DkimKey, context: string): KeyObject {
    const key = opened.get(sealedKey) ?? createPrivateKey(vault.open(sealedKey, context))
    // Set again, it is the last to be forgotten.
    opened.set(sealedKey, key)
    return key
  }

  return domain =>
    signingKeys(domain).map(key => {
      const { algorithm, selector } = key
      return { domain: domain.name, selector, algorithm, key: open(key, domain.id) }
    })
}
