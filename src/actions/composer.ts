import { domainOf } from '#streams/address.ts'
import { returnPathHost } from '#streams/domain/records.ts'
import type { Vault } from '#src/base/secret.ts'
import { composeFor, type Composed, type Content, type MessageCopy } from '#src/content/compose.ts'
import type { Tokens } from '#src/content/token.ts'
import { openDkimSigners } from './dkim-signers.ts'
import type { LiveDirectory } from './directory.ts'
import type { RecipientRef } from './recipient.ts'

/** Makes the message a recipient gets: tracked, with its ways back, signed for the domain it is from. */
export type Compose = (ref: RecipientRef, content: Content, copy: MessageCopy) => Composed

export interface ComposerOptions {
  directory: LiveDirectory
  vault: Vault
  tokens: Tokens
  settings: { trackingUrl: string, bounceDomain: string | null }
}

export function openComposer (
  { directory, vault, tokens, settings: { trackingUrl, bounceDomain } }: ComposerOptions
): Compose {
  const signersOf = openDkimSigners(vault)
  return ({ request: { fact, seq }, n }, content, copy) => {
    const found = directory.now.domains.get(domainOf(fact.data.from.address))
    // It may have gone to another account since: whose keys speak for that one alone.
    const domain = found?.account === fact.account ? found : undefined
    const outfit = {
      tokens,
      trackingUrl,
      returnPathHost: domain === undefined ? bounceDomain : returnPathHost(domain, bounceDomain),
      // A rehearsal leaves the app for nobody, and could be carried out of it.
      signers: domain === undefined || fact.data.test ? [] : signersOf(domain)
    }
    return composeFor(fact.data, { email: fact.data.email, n, request: seq }, content, copy, outfit)
  }
}
