import { createPrivateKey, type KeyObject } from 'node:crypto'
import { domainOf } from '#streams/address.ts'
import { domainKey, type DomainEntry } from '#streams/directory.ts'
import type { DkimKey } from '#streams/domain/facts.ts'
import { returnPathHost, signingKeys } from '#streams/domain/records.ts'
import { isSandbox } from '#streams/suppression/decide.ts'
import { linkUrlOf } from '#src/base/mail-links.ts'
import { Memory } from '#src/base/memory.ts'
import type { Vault } from '#src/base/secret.ts'
import { type Composed, composeFor, type Content, type MessageCopy } from '#src/content/compose.ts'
import type { DkimSigner } from '#src/content/dkim.ts'
import type { Tokens } from '#src/content/token.ts'
import type { LiveDirectory } from './directory.ts'
import type { RecipientRef } from './recipient.ts'

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

/** Makes the message a recipient gets: tracked, with its ways back, signed for the domain it is from. */
export type Compose = (ref: RecipientRef, content: Content, copy: MessageCopy) => Promise<Composed>

export interface ComposerOptions {
  directory: LiveDirectory
  vault: Vault
  tokens: Tokens
  settings: { smtpUrl: string | null, trackingUrl: string, bounceDomain: string | null }
}

export function openComposer (
  { directory, vault, tokens, settings }: ComposerOptions
): Compose {
  const { trackingUrl, bounceDomain } = settings
  const linkUrl = linkUrlOf(settings)
  const signersOf = openDkimSigners(vault)
  return async ({ request: { fact, seq }, n }, content, copy) => {
    // The keys of another account that claims the name, too, speak for that one alone.
    const domain = directory.now.domains.get(domainKey(fact.account, domainOf(fact.data.from.address)))
    // What the mail catcher gets leaves nowhere: its links are followed on this machine.
    const stays = fact.data.test || isSandbox(fact.data.recipients[n]!.address)
    const outfit = {
      tokens,
      trackingUrl: stays ? trackingUrl : linkUrl,
      returnPathHost: domain === undefined ? bounceDomain : returnPathHost(domain, bounceDomain),
      // A rehearsal leaves the app for nobody, and could be carried out of it.
      signers: domain === undefined || fact.data.test ? [] : signersOf(domain)
    }
    return await composeFor(fact.data, { email: fact.data.email, n, request: seq }, content, copy, outfit)
  }
}
